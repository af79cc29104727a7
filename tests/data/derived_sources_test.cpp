#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/text.h>

#include "tests/support/expect_error.h"

// Sources that have the rows of others, and bins of features.

using namespace lockstep;
using data::RowKey;

namespace {

/// Rows first, first + 1, ... of one number "n", with a draw beside it.
data::SourcePtr rows_from(std::int64_t rows, std::int32_t first = 0) {
  return data::generated(rows, [first](std::int64_t i, const RowKey& key) {
    return data::Row{{"n", data::host_table(std::vector<std::int32_t>{first + static_cast<std::int32_t>(i)}, Shape{})},
                     {"draw", data::host_table(std::vector<double>{key.uniform()}, Shape{})}};
  });
}

std::int32_t number(const data::SourcePtr& source, std::int64_t i) {
  return data::elements<std::int32_t>(source->row(i, RowKey(1, 0, i)).at("n"))[0];
}
std::vector<std::int32_t> numbers_of(const data::SourcePtr& source) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < source->rows(); ++i) all.push_back(number(source, i));
  return all;
}
double draw(const data::SourcePtr& source, std::int64_t i, std::uint64_t epoch = 0) {
  return data::elements<double>(source->row(i, RowKey(1, epoch, i)).at("draw"))[0];
}

using Numbers = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("rows are sliced, repeated and interleaved") {
  CHECK(numbers_of(data::slice_rows(rows_from(7), 1, 7, 2)) == Numbers{1, 3, 5});
  CHECK(numbers_of(data::slice_rows(rows_from(7), 2, 4)) == Numbers{2, 3});
  const data::SourcePtr twice = data::repeat_rows(rows_from(3), 2);
  CHECK(numbers_of(twice) == Numbers{0, 1, 2, 0, 1, 2});
  CHECK(draw(twice, 0) != draw(twice, 3));
  CHECK(numbers_of(data::interleave_rows({rows_from(3), rows_from(1, 10), rows_from(2, 20)})) ==
        Numbers{0, 10, 20, 1, 21, 2});
  tests::expect_error<DataError>([&] { twice->row(6, RowKey(0, 0, 0)); }, "[repeat_rows] row 6 of a source of 6 rows");
  tests::expect_error<ValueError>([] { data::slice_rows(rows_from(3), 2, 5); },
                                  "rows 2 to 5 by 1 of 3; give 0 <= first < last <= rows");
  tests::expect_error<ValueError>([] { data::repeat_rows(rows_from(3), 0); }, "3 rows 0 times; give at least 1");
  tests::expect_error<DataError>([] { data::interleave_rows({}); }, "no source is given");
}

TEST_CASE("kept rows are read once, with one draw for good") {
  int reads = 0;
  const data::SourcePtr kept = data::keep_rows(data::map_rows(rows_from(2), [&](data::Row row, const RowKey&) {
    ++reads;
    return row;
  }));
  const double first = draw(kept, 1);
  CHECK(draw(kept, 1, 5) == first);
  CHECK(numbers_of(kept) == Numbers{0, 1});
  CHECK(reads == 2);
}

TEST_CASE("a row becomes several, or none") {
  const auto make = [](data::Row row, std::int64_t nth, const RowKey& key) {
    data::elements<std::int32_t>(row.at("n"))[0] += static_cast<std::int32_t>(100 * nth);
    data::elements<double>(row.at("draw"))[0] = key.uniform();
    return row;
  };
  const data::SourcePtr several = data::flat_map_rows(
      rows_from(4), [](std::int64_t i) { return i % 3; }, make);
  CHECK(numbers_of(several) == Numbers{1, 2, 102});
  CHECK(draw(several, 1) != draw(several, 2));
  tests::expect_error<ValueError>(
      [&] {
        data::flat_map_rows(
            rows_from(2), [](std::int64_t) { return -1; }, make);
      },
      "row 0 makes -1 rows; give 0 or more");
  tests::expect_error<DataError>(
      [&] {
        data::flat_map_rows(
            rows_from(2), [](std::int64_t) { return 0; }, make);
      },
      "none of 2 rows makes a row; make at least one");
}

TEST_CASE("batches become rows, and batches of another size") {
  const auto batches = [](std::int64_t last) {
    return data::generated(3, [last](std::int64_t i, const RowKey&) {
      std::vector<std::int32_t> values;
      for (std::int64_t k = 0; k < (i == 2 ? last : 4); ++k) values.push_back(static_cast<std::int32_t>(4 * i + k));
      return data::Row{{"n", data::host_table(values, {std::ssize(values)})}};
    });
  };
  const data::SourcePtr rows = data::unbatch_rows(batches(2), 4);
  CHECK(numbers_of(rows) == Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(rows->row(9, RowKey(0, 0, 9)).at("n").type == ArrayType{int32, {}, {}});
  data::SourceLoader loader(rows, {.batch = 5, .shuffle = false});
  CHECK(loader.next().at("n").array().to_vector<std::int32_t>() == Numbers{0, 1, 2, 3, 4});
  tests::expect_error<ValueError>([&] { data::unbatch_rows(batches(2), 0); }, "size is 0; give at least 1");
  tests::expect_error<DataError>([&] { data::unbatch_rows(batches(4), 3); }, "the last batch has 4 rows; expected 3");
  tests::expect_error<DataError>([&] { data::unbatch_rows(batches(2), 5)->row(4, RowKey(0, 0, 4)); },
                                 "a batch has 4 rows; expected 5");
  tests::expect_error<DataError>([&] { data::unbatch_rows(rows_from(2), 1); },
                                 "'draw' is f64[]; expected at least one row");
}

TEST_CASE("bins of words are those of Keras") {
  // What the pages of keras.layers.Hashing and HashedCrossing show.
  const auto bins = [](const data::HashOptions& options) {
    std::vector<std::int64_t> all;
    for (const char* word : {"A", "B", "C", "D", "E"}) all.push_back(data::hash_bin(word, options));
    return all;
  };
  using Bins = std::vector<std::int64_t>;
  CHECK(bins({.bins = 3}) == Bins{1, 0, 1, 1, 2});
  CHECK(bins({.bins = 3, .salt = std::pair(133, 137)}) == Bins{1, 2, 1, 0, 2});
  CHECK(bins({.bins = 3, .salt = std::pair(133, 133)}) == Bins{0, 0, 2, 1, 0});
  Bins crossed;
  const std::pair<const char*, std::int64_t> pairs[] = {{"A", 101}, {"B", 101}, {"A", 101}, {"B", 102}, {"A", 102}};
  for (const auto& [word, value] : pairs) {
    crossed.push_back(data::hash_crossing({data::HashedFeature(std::string(word)), data::HashedFeature(value)}, 5));
  }
  CHECK(crossed == Bins{1, 4, 1, 1, 3});
}

TEST_CASE("bins of masks, numbers and tables") {
  const data::HashOptions masked{.bins = 3, .mask = ""};
  CHECK(data::hash_bin("", masked) == 0);
  for (const char* word : {"A", "B", "C", "D"}) CHECK(data::hash_bin(word, masked) > 0);
  CHECK(data::hash_bin(-17, {.bins = 1000}) == data::hash_bin("-17", {.bins = 1000}));
  const data::HostTable table =
      data::hash_bins(data::host_table(std::vector<std::int64_t>{5, -17}, {2}), {.bins = 1000});
  CHECK(table.type == ArrayType{int32, {2}, {}});
  CHECK(data::elements<std::int32_t>(table)[1] == data::hash_bin("-17", {.bins = 1000}));
  // Every length has its own way through the words; each letter counts.
  for (std::size_t size = 1; size < 200; ++size) {
    const std::string text(size, 'a');
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      std::string other = text;
      other[at] = 'b';
      CHECK(data::hash_bin(text, {.bins = INT64_MAX}) != data::hash_bin(other, {.bins = INT64_MAX}));
    }
  }
  tests::expect_error<ValueError>([] { data::hash_bin("a", {}); }, "[hash_bin] bins is 0; give at least 1");
  tests::expect_error<ValueError>([] { data::hash_crossing({}, 3); }, "no feature is given");
  tests::expect_error<DtypeError>([] { data::hash_bins(data::host_table(std::vector<float>{1}, {1}), {.bins = 2}); },
                                  "the table is f32[1]; give one of int32, int64 or uint8");
}
