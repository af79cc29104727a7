#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/text.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using data::Row;
using data::RowKey;
using data::SourcePtr;

namespace {

SourcePtr numbered(std::int64_t rows, float first = 0) {
  return data::generated(rows, [first](std::int64_t i, const RowKey&) {
    return Row{{"x", data::host_table(std::vector<float>{first + static_cast<float>(i)}, Shape{})}};
  });
}

SourcePtr documents(const std::vector<std::vector<std::int32_t>>& texts) {
  return data::generated(std::ssize(texts), [texts](std::int64_t i, const RowKey&) {
    const auto& text = texts[static_cast<std::size_t>(i)];
    return Row{{"tokens", data::host_table(text, Shape{std::ssize(text)})}};
  });
}

Row row_of(const SourcePtr& source, std::int64_t i) { return source->row(i, RowKey(1, 2, i)); }
float x_of(const SourcePtr& source, std::int64_t i) { return data::elements<float>(row_of(source, i).at("x"))[0]; }
std::vector<std::int32_t> ints(const Row& row, const std::string& field) {
  const auto values = data::elements<std::int32_t>(row.at(field));
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a row's key depends on seed, epoch and row, and gives other numbers for each use") {
  CHECK(RowKey(1, 2, 3) == RowKey(1, 2, 3));
  std::set<std::uint64_t> seen;
  for (const RowKey& key :
       {RowKey(1, 2, 3), RowKey(2, 2, 3), RowKey(1, 3, 3), RowKey(1, 2, 4), RowKey(1, 2, 3).fold_in(0),
        RowKey(1, 2, 3).fold_in(1), RowKey(1, 2, std::int64_t{3} + (std::int64_t{1} << 32)),
        RowKey(1 + (std::uint64_t{1} << 32), 2, 3)}) {
    for (const std::uint64_t counter : {0, 1, 2}) seen.insert(key.bits(counter));
  }
  CHECK(seen.size() == 24);
  double sum = 0;
  std::vector<int> counts(10, 0);
  for (std::int64_t i = 0; i < 10000; ++i) {
    const double u = RowKey(7, 0, i).uniform();
    REQUIRE((u >= 0 && u < 1));
    sum += u;
    ++counts[static_cast<std::size_t>(RowKey(7, 1, i).below(10))];
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.02));
  for (const int count : counts) CHECK(count == doctest::Approx(1000).epsilon(0.12));
  tests::expect_error<ValueError>([] { static_cast<void>(RowKey(0, 0, 0).below(0)); }, "n is 0");
}

TEST_CASE("keys of several rows are those of each, and rows that are expected stay what they are") {
  std::vector<std::int64_t> rows(77);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i * i * 0x1000'0001);
  const std::vector<RowKey> keys = RowKey::of_rows(0x1'2345'6789, 7, rows);
  REQUIRE(keys.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(keys[i] == RowKey(0x1'2345'6789, 7, rows[i]));
  CHECK(RowKey::of_rows(1, 2, {}).empty());

  const SourcePtr memory =
      data::in_memory(data::Dataset{data::host_table(std::vector<float>{1, 2, 3}, Shape{3}),
                                    data::host_table(std::vector<std::int32_t>{4, 5, 6}, Shape{3})});
  const SourcePtr changed =
      data::slice_rows(data::filter_rows(data::map_rows(memory, [](Row row, const RowKey&) { return row; }),
                                         [](const Row& row) { return data::elements<float>(row.at("x"))[0] > 1; }),
                       1, 2);
  for (const SourcePtr& source : {memory, changed}) {
    for (const std::int64_t i : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, std::int64_t{3}, INT64_MAX}) {
      source->expect(i);
    }
  }
  CHECK(data::elements<float>(changed->row(0, RowKey(0, 0, 0)).at("x"))[0] == 3);
}

namespace {

/// Notes which row was read last, and which was expected.
struct Watched final : data::Source {
  Watched(std::int64_t rows, float first) : count(rows), first(first) {}
  std::int64_t rows() const override { return count; }
  Row row(std::int64_t i, const RowKey&) const override {
    read = first + static_cast<float>(i);
    return {{"x", data::host_table(std::vector<float>{read, read}, Shape{2})}};
  }
  void expect(std::int64_t i) const override { expected = first + static_cast<float>(i); }

  std::int64_t count;
  float first;
  static inline float read = -1, expected = -1;
};

}  // namespace

TEST_CASE("what is made of other rows expects the row that it will read") {
  const auto a = std::make_shared<Watched>(60, 0.0F), b = std::make_shared<Watched>(30, 1000.0F);
  const auto same = [](Row row, const RowKey&) { return row; };
  const std::vector<SourcePtr> made = {
      data::concatenate_rows({a, b}),
      data::interleave_rows({a, b}),
      data::mix({a, b}, {.weights = {1, 1}, .seed = 4}),
      data::mix({a, b}, {.weights = {2, 1}, .seed = 4, .rows = 500}),
      data::flat_map_rows(
          a, [](std::int64_t row) { return row % 3; }, [](Row row, std::int64_t, const RowKey&) { return row; }),
      data::unbatch_rows(a, 2),
      data::repeat_rows(data::slice_rows(data::map_rows(b, same), 3, 20, 2), 3),
      data::filter_rows(a, [](const Row& row) { return data::elements<float>(row.at("x"))[0] > 11; })};
  for (std::size_t k = 0; k < made.size(); ++k) {
    CAPTURE(k);
    for (std::int64_t i = 0; i < made[k]->rows(); ++i) {
      made[k]->expect(i);
      static_cast<void>(made[k]->row(i, RowKey(0, 0, i)));
      REQUIRE(Watched::expected == Watched::read);
    }
    Watched::expected = -1;
    for (const std::int64_t i : {INT64_MIN, std::int64_t{-1}, made[k]->rows(), INT64_MAX}) made[k]->expect(i);
    CHECK(Watched::expected == -1);
  }
}

TEST_CASE("rows of files are the same where they were expected, beyond the end and behind a cut, too") {
  const tests::TemporaryFolder folder;
  std::vector<std::int32_t> tokens(100'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 31 % 60'000);
  data::write_tokens(folder.path() / "tokens", tokens);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "line " + std::to_string(i) + "\n";
  folder.write("text", text);
  const auto sources = [&] {
    return std::vector<SourcePtr>{data::token_windows(folder.path() / "tokens", {.length = 64}),
                                  data::text_documents(folder.path() / "text", data::byte_vocabulary())};
  };
  const std::vector<SourcePtr> plain = sources(), expected = sources();
  for (std::size_t k = 0; k < plain.size(); ++k) {
    for (const std::int64_t i : {INT64_MIN, std::int64_t{-1}, plain[k]->rows(), INT64_MAX}) expected[k]->expect(i);
    for (std::int64_t n = 0; n < plain[k]->rows(); ++n) {
      const std::int64_t i = n * 37 % plain[k]->rows();
      expected[k]->expect(i);
      const Row one = row_of(plain[k], i), other = row_of(expected[k], i);
      REQUIRE(one.size() == other.size());
      for (const auto& [name, table] : one) {
        REQUIRE(other.at(name).type == table.type);
        REQUIRE(other.at(name).bytes == table.bytes);
      }
    }
  }
  std::filesystem::resize_file(folder.path() / "tokens", 1000);
  expected[0]->expect(500);
  tests::expect_error<DataError>([&] { row_of(expected[0], 500); }, "it was cut while it was in use");
}

TEST_CASE("rows are mapped, filtered and put one behind the other") {
  const SourcePtr doubled = data::map_rows(numbered(10), [](Row row, const RowKey&) {
    data::elements<float>(row.at("x"))[0] *= 2;
    return row;
  });
  CHECK(doubled->rows() == 10);
  CHECK(x_of(doubled, 4) == 8);
  const SourcePtr some =
      data::filter_rows(doubled, [](const Row& row) { return data::elements<float>(row.at("x"))[0] > 11; });
  CHECK(some->rows() == 4);
  CHECK(x_of(some, 0) == 12);
  const SourcePtr both = data::concatenate_rows({numbered(3), numbered(2, 100), numbered(1, 7)});
  CHECK(both->rows() == 6);
  std::vector<float> found;
  for (std::int64_t i = 0; i < 6; ++i) found.push_back(x_of(both, i));
  CHECK(found == std::vector<float>{0, 1, 2, 100, 101, 7});
  // Two functions that draw, draw from two keys.
  const auto draw = [](Row row, const RowKey& key) {
    row["x"] = data::host_table(std::vector<double>{key.uniform()}, Shape{});
    return row;
  };
  const double once = data::elements<double>(row_of(data::map_rows(numbered(1), draw), 0).at("x"))[0];
  const SourcePtr twice = data::map_rows(data::map_rows(numbered(1), draw), [once](Row row, const RowKey& key) {
    CHECK(key.uniform() != data::elements<double>(row.at("x"))[0]);
    return row;
  });
  static_cast<void>(row_of(twice, 0));

  for (const SourcePtr& source : {some, both, numbered(2), data::in_memory(Tree::dict({{"x", ones({2, 3})}}))}) {
    tests::expect_error<DataError>([&] { static_cast<void>(row_of(source, source->rows())); }, "rows");
    tests::expect_error<DataError>([&] { static_cast<void>(row_of(source, -1)); }, "row -1");
  }
  tests::expect_error<DataError>([] { data::filter_rows(numbered(3), [](const Row&) { return false; }); },
                                 "none of 3 rows is kept");
  tests::expect_error<DataError>([] { data::concatenate_rows({}); }, "no source is given");
  tests::expect_error<DataError>([] { data::map_rows(nullptr, {}); }, "[map_rows] the source is null");
  tests::expect_error<ValueError>([] { data::generated(0, {}); }, "rows is 0");
  tests::expect_error<DataError>(
      [] {
        data::in_memory(Tree::dict({{"a", ones({2})}, {"b", ones({3})}}));
      },
      "'b' is f32[3], 'a' is f32[2]");
}

TEST_CASE("elements of a table are read as what they are") {
  data::HostTable table = data::host_table(std::vector<float>{1, 2, 3}, Shape{3});
  data::elements<float>(table)[1] = 5;
  CHECK(data::elements<float>(std::as_const(table))[1] == 5);
  tests::expect_error<DtypeError>([&] { static_cast<void>(data::elements<int>(table)); }, "f32[3]",
                                  "asked for as int32");
  tests::expect_error<ShapeError>(
      [] {
        data::host_table(std::vector<float>{1, 2}, Shape{3});
      },
      "2 elements for f32[3]");
}

TEST_CASE("a mixture has exactly its ratio in each run, and reads no row twice before all are read") {
  const SourcePtr mixed = data::mix({numbered(700), numbered(400, 10000)}, {.weights = {0.7, 0.3}, .seed = 4});
  CHECK(mixed->rows() == 1000);
  std::set<float> seen;
  std::int64_t second = 0;
  std::vector<float> first_run;
  for (std::int64_t i = 0; i < mixed->rows(); ++i) {
    const float x = x_of(mixed, i);
    if (i < 10) first_run.push_back(x);
    seen.insert(x);
    second += x >= 10000 ? 1 : 0;
    if (i % 10 == 9) CHECK(second == 3 * (i / 10 + 1));
  }
  CHECK(seen.size() == 1000);
  CHECK_FALSE(std::is_sorted(first_run.begin(), first_run.end()));
  const SourcePtr other = data::mix({numbered(700), numbered(400, 10000)}, {.weights = {7, 3}, .seed = 5});
  bool differs = false;
  for (std::int64_t i = 0; i < 10; ++i) differs = differs || x_of(other, i) != first_run[static_cast<std::size_t>(i)];
  CHECK(differs);
  // A source that ends begins anew, in another order.
  const SourcePtr longer = data::mix({numbered(5), numbered(100, 1000)}, {.seed = 1, .rows = 40});
  std::map<float, int> counts;
  std::vector<float> order;
  for (std::int64_t i = 0; i < 40; ++i) {
    const float x = x_of(longer, i);
    ++counts[x];
    if (x < 1000) order.push_back(x);
  }
  for (int i = 0; i < 5; ++i) CHECK(counts[static_cast<float>(i)] == 4);
  CHECK(std::vector(order.begin(), order.begin() + 5) != std::vector(order.begin() + 5, order.begin() + 10));
}

TEST_CASE("mixtures that cannot be are refused") {
  const auto mix = [](std::vector<double> weights, std::int64_t rows = 0) {
    data::mix({numbered(10), numbered(10)}, {.weights = std::move(weights), .rows = rows});
  };
  tests::expect_error<ValueError>([&] { mix({1}); }, "1 weights for 2 sources");
  tests::expect_error<ValueError>([&] { mix({1, -1}); }, "weight 1 is -1");
  tests::expect_error<ValueError>([&] { mix({1, 0.0 / 0.0}); }, "weights are positive numbers");
  tests::expect_error<ValueError>([&] { mix({1, 1e-9}); }, "at least a thousandth of all");
  tests::expect_error<ValueError>([&] { mix({1, 1}, -1); }, "rows is -1");
  tests::expect_error<DataError>(
      [&] {
        mix({0.983, 0.017});
      },
      "source 0 has 10 rows, and a run of the mixture takes 983");
  tests::expect_error<DataError>([] { data::mix({}); }, "no source is given");
}

TEST_CASE("packing puts every token into exactly one row, with its segment and position") {
  std::vector<std::vector<std::int32_t>> texts;
  std::int32_t next = 1;
  for (std::size_t length = 0; length < 40; ++length) {
    std::vector<std::int32_t> text;
    for (std::size_t i = 0; i < (length * 7) % 23; ++i) text.push_back(next++);
    texts.push_back(text);
  }
  for (const int open_rows : {1, 4, 64}) {
    const SourcePtr packed = data::pack(documents(texts), {.length = 10, .open_rows = open_rows});
    std::multiset<std::int32_t> seen;
    for (std::int64_t i = 0; i < packed->rows(); ++i) {
      const Row row = row_of(packed, i);
      const auto tokens = ints(row, "tokens"), segments = ints(row, "segments"), positions = ints(row, "positions");
      REQUIRE(tokens.size() == 10);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        if (segments[t] == 0) {
          CHECK(tokens[t] == 0);
          CHECK(positions[t] == 0);
          continue;
        }
        seen.insert(tokens[t]);
        const bool goes_on = t > 0 && segments[t] == segments[t - 1];
        CHECK(positions[t] == (goes_on ? positions[t - 1] + 1 : 0));
        if (goes_on) CHECK(tokens[t] == tokens[t - 1] + 1);
      }
    }
    CHECK(std::ssize(seen) == next - 1);
    CHECK(std::ssize(std::set<std::int32_t>(seen.begin(), seen.end())) == next - 1);
  }
  const SourcePtr packed = data::pack(documents({{1, 2, 3}, {4, 5, 6, 7, 8, 9}, {10}, {11, 12}}), {.length = 4});
  CHECK(packed->rows() == 3);
  CHECK(ints(row_of(packed, 0), "tokens") == std::vector<std::int32_t>{1, 2, 3, 10});
  CHECK(ints(row_of(packed, 0), "segments") == std::vector<std::int32_t>{1, 1, 1, 2});
  CHECK(ints(row_of(packed, 2), "tokens") == std::vector<std::int32_t>{8, 9, 11, 12});
  CHECK(ints(row_of(packed, 2), "positions") == std::vector<std::int32_t>{0, 1, 0, 1});

  tests::expect_error<ValueError>([&] { data::pack(documents(texts), {.length = 0}); }, "length is 0");
  tests::expect_error<ValueError>([&] { data::pack(documents(texts), {.length = 1, .open_rows = 0}); }, "open_rows 0");
  tests::expect_error<DataError>([&] { data::pack(numbered(2), {.length = 4}); }, "document 0 has no field 'tokens'");
  tests::expect_error<DataError>([&] { data::pack(numbered(2), {.length = 4, .field = "x"}); },
                                 "document 0 has 'x' of f32[]; expected 'x' of i32[any length]");
  tests::expect_error<DataError>([&] { data::pack(documents({{}, {}}), {.length = 4}); }, "no document has a token");
}
