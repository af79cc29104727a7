#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using data::Loader;
using data::Permutation;
using data::Position;

namespace {

/// Row i holds the number i, label i mod 10.
std::shared_ptr<const data::Dataset> labelled_numbers(std::int64_t rows) {
  auto set = std::make_shared<data::Dataset>();
  set->x = {{float32, {rows, 1}, {}}, std::vector<std::byte>(static_cast<std::size_t>(rows) * 4)};
  set->y = {{int32, {rows}, {}}, std::vector<std::byte>(static_cast<std::size_t>(rows) * 4)};
  set->classes = 10;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto value = static_cast<float>(i);
    const auto label = static_cast<std::int32_t>(i % 10);
    std::memcpy(set->x.bytes.data() + i * 4, &value, 4);
    std::memcpy(set->y.bytes.data() + i * 4, &label, 4);
  }
  return set;
}

std::vector<float> numbers_in(const Batch& batch) { return batch.x.to_vector<float>(); }

}  // namespace

TEST_CASE("a permutation visits every position once, for every size") {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 17, 64, 1000, 60000}) {
    const Permutation order(7, 3, n);
    std::vector<std::int64_t> seen;
    for (std::int64_t i = 0; i < n; ++i) seen.push_back(order(i));
    std::sort(seen.begin(), seen.end());
    for (std::int64_t i = 0; i < n; ++i) REQUIRE(seen[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("data without rows are refused, whatever becomes of the last batch") {
  for (const bool drop_last : {false, true}) {
    tests::expect_error<DataError>([&] { static_cast<void>(Loader(labelled_numbers(0), {.drop_last = drop_last})); },
                                   "[loader] the data has no rows; give at least one");
  }
}

TEST_CASE("seed and epoch change a permutation, nothing else does") {
  const auto orders = [](std::uint64_t seed, std::uint64_t epoch) {
    const Permutation order(seed, epoch, 1000);
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < 1000; ++i) values.push_back(order(i));
    return values;
  };
  CHECK(orders(1, 0) == orders(1, 0));
  CHECK(orders(1, 0) != orders(2, 0));
  CHECK(orders(1, 0) != orders(1, 1));
  const Permutation huge(1, 1, (std::int64_t{1} << 32) + 1);
  CHECK(huge(std::int64_t{1} << 32) <= std::int64_t{1} << 32);
  tests::expect_error<ValueError>([&] { static_cast<void>(Permutation(1, 1, 0)); }, "n is 0");
  tests::expect_error<ValueError>([&] { static_cast<void>(Permutation(1, 1, 4)(4)); }, "outside [0, 4)");
}

TEST_CASE("a loader goes on from any position as if it had never stopped") {
  const auto set = labelled_numbers(103);
  Loader whole(set, {.batch = 10, .seed = 5});
  std::vector<Position> positions;
  std::vector<std::vector<float>> batches;
  for (int i = 0; i < 25; ++i) {
    positions.push_back(whole.position());
    batches.push_back(numbers_in(whole.next()));
  }
  CHECK(whole.batches_per_epoch() == 10);
  CHECK(positions[10] == Position{1, 0});
  for (const std::size_t start : {std::size_t{0}, std::size_t{7}, std::size_t{10}, std::size_t{19}}) {
    Loader resumed(set, {.batch = 10, .seed = 5});
    resumed.seek(positions[start]);
    for (std::size_t i = start; i < batches.size(); ++i) REQUIRE(numbers_in(resumed.next()) == batches[i]);
  }
  Loader loader(set, {.batch = 10});
  tests::expect_error<DataError>([&] { static_cast<void>(loader.seek({0, 103})); }, "outside the data set of 103 rows");
  tests::expect_error<DataError>([&] { static_cast<void>(loader.seek({-1, 0})); }, "outside the data set");
}

TEST_CASE("the last batch repeats a real row with weight 0") {
  Loader loader(labelled_numbers(7), {.batch = 4, .shuffle = false, .drop_last = false});
  CHECK(loader.batches_per_epoch() == 2);
  CHECK(numbers_in(loader.next()) == std::vector<float>{0, 1, 2, 3});
  const Batch last = loader.next();
  CHECK(numbers_in(last) == std::vector<float>{4, 5, 6, 6});
  CHECK(last.weight.to_vector<float>() == std::vector<float>{1, 1, 1, 0});
  CHECK(last.y.to_vector<std::int32_t>() == std::vector<std::int32_t>{4, 5, 6, 6});
  CHECK(loader.position() == Position{1, 0});
}

TEST_CASE("a loader refuses batches it cannot fill") {
  tests::expect_error<ValueError>([&] { static_cast<void>(Loader(labelled_numbers(3), {.batch = 0})); },
                                  "the batch is 0");
  tests::expect_error<DataError>([&] { static_cast<void>(Loader(labelled_numbers(3), {.batch = 4})); },
                                 "a batch of 4 from 3 rows");
  tests::expect_error<DataError>([&] { static_cast<void>(data::gather_batch(*labelled_numbers(3), {}, 2)); },
                                 "0 rows for a batch of 2");
}

TEST_CASE("a data set whose tables do not fit together is refused when the loader is made") {
  const auto with = [](const auto& change) {
    auto set = std::make_shared<data::Dataset>(*labelled_numbers(16));
    change(*set);
    return set;
  };
  tests::expect_error<DataError>([&] { static_cast<void>(Loader(nullptr, {.batch = 4})); }, "the data set is null");
  tests::expect_error<DataError>(
      [&] { static_cast<void>(Loader(with([](data::Dataset& d) { d.y = labelled_numbers(3)->y; }), {.batch = 4})); },
      "x has 16 rows, y has 3");
  tests::expect_error<DataError>(
      [&] { static_cast<void>(Loader(with([](data::Dataset& d) { d.y = {}; }), {.batch = 4})); }, "y is");
  tests::expect_error<DataError>(
      [&] { static_cast<void>(Loader(with([](data::Dataset& d) { d.x.bytes.resize(12); }), {.batch = 4})); },
      "x is f32[16,1] with 12 bytes");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(Loader(with([](data::Dataset& d) { d.y.type.shape = {16, 2}; }), {.batch = 4}));
      },
      "y is i32[16,2] with 64 bytes");
  tests::expect_error<DataError>(
      [&] { static_cast<void>(Loader(with([](data::Dataset& d) { d.x.type.shape = {}; }), {.batch = 4})); },
      "dimension 0");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(Loader(with([](data::Dataset& d) {
                                   d.x.type.shape = {16, std::int64_t{1} << 62};
                                 }),
                                 {.batch = 4}));
      },
      "");
}

TEST_CASE("gather_batch takes rows that the data set has") {
  const auto set = labelled_numbers(5);
  CHECK(numbers_in(data::gather_batch(*set, {4, 0}, 3)) == std::vector<float>{4, 0, 0});
  for (const std::int64_t row : {-1, 5})
    tests::expect_error<DataError>([&] { static_cast<void>(data::gather_batch(*set, {0, row}, 2)); }, "of 5 rows");
  data::Dataset short_labels = *set;
  short_labels.y = labelled_numbers(3)->y;
  tests::expect_error<DataError>([&] { static_cast<void>(data::gather_batch(short_labels, {4}, 1)); },
                                 "x has 5 rows, y has 3");
}

TEST_CASE("batches that no memory holds are refused, by loaders of data sets and of trees") {
  for (const std::int64_t batch :
       {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 40) + 1, std::int64_t{1} << 62}) {
    CAPTURE(batch);
    tests::expect_error<ValueError>(
        [&] { static_cast<void>(Loader(labelled_numbers(4), {.batch = batch, .drop_last = false})); }, "the batch is");
    const Batch rows{ones({4, 1}), ones({4}), {}};
    tests::expect_error<ValueError>(
        [&] { static_cast<void>(data::TreeLoader(rows, {.batch = batch, .drop_last = false})); }, "the batch is");
  }
  auto wide = std::make_shared<data::Dataset>(*labelled_numbers(2));
  wide->x = {{float32, {2, 1 << 20}, {}}, std::vector<std::byte>(std::size_t{8} << 20)};
  Loader loader(wide, {.batch = std::int64_t{1} << 40, .drop_last = false});
  tests::expect_error<DataError>([&] { static_cast<void>(loader.next()); }, "does not fit the memory");
}

TEST_CASE("a loader that was moved away says so") {
  Loader loader(labelled_numbers(4), {.batch = 2});
  Loader moved = std::move(loader);
  CHECK(moved.batches_per_epoch() == 2);
  tests::expect_error<ValueError>([&] { static_cast<void>(loader.next()); }, "it holds nothing");
  tests::expect_error<ValueError>([&] { static_cast<void>(loader.batches_per_epoch()); }, "it holds nothing");
  tests::expect_error<ValueError>([&] { static_cast<void>(loader.seek({})); }, "it holds nothing");
  const Batch rows{ones({4, 1}), ones({4}), {}};
  data::TreeLoader trees(rows, {.batch = 2});
  data::TreeLoader moved_trees = std::move(trees);
  CHECK(moved_trees.batches_per_epoch() == 2);
  tests::expect_error<ValueError>([&] { static_cast<void>(trees.next<Tree>()); }, "it holds nothing");
  tests::expect_error<ValueError>([&] { static_cast<void>(trees.batches_per_epoch()); }, "it holds nothing");
  tests::expect_error<ValueError>([&] { static_cast<void>(trees.seek({})); }, "it holds nothing");
  tests::expect_error<DataError>([&] { static_cast<void>(data::TreeLoader(Tree(), {.batch = 2})); }, "no leaf");
}
