#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/dlpack.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"

using namespace lockstep;
using tests::expect_error;
using tests::infinity;

namespace {

constexpr std::int64_t largest_extent = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t huge = std::int64_t{1} << 61;

dlpack::Managed foreign(std::vector<std::int64_t> extents, void* data) {
  struct Owned {
    std::vector<std::int64_t> shape;
    dlpack::ManagedTensor managed;
  };
  auto* owned = new Owned{std::move(extents), {}};
  Array one = array(1.0);
  const dlpack::Managed like = to_dlpack(one);
  owned->managed = *like;
  owned->managed.tensor.shape = owned->shape.data();
  owned->managed.tensor.strides = nullptr;
  owned->managed.tensor.ndim = static_cast<int>(owned->shape.size());
  owned->managed.tensor.data = data;
  owned->managed.context = owned;
  owned->managed.deleter = [](dlpack::ManagedTensor* tensor) { delete static_cast<Owned*>(tensor->context); };
  return dlpack::Managed(&owned->managed);
}

}  // namespace

TEST_CASE("arrays of which elements or bytes fit no memory are refused where they are asked for, by any way") {
  const Array one = ones({1}), row = ones({2});
  struct Row {
    const char* name;
    std::function<Array()> make;
  };
  const std::vector<Row> rows = {
      {"zeros", [] { return zeros({huge}, float64); }},
      {"zeros with an extent of 0",
       [] {
         return zeros({0, huge, 4}, float64);
       }},
      {"ones of products",
       [] {
         return ones({huge, 8});
       }},
      {"full", [] { return full({largest_extent}, 1, int8); }},
      {"iota",
       [] {
         return iota({huge, 2}, 0);
       }},
      {"eye", [] { return eye(std::int64_t{1} << 40); }},
      {"from_bytes",
       [] {
         return from_bytes({float64, {huge}, {}}, {});
       }},
      {"from_bytes of products",
       [] {
         return from_bytes({float64, {huge, 16}, {}}, {});
       }},
      {"from_bytes with an extent of 0",
       [] {
         return from_bytes({float64, {0, huge, 16}, {}}, {});
       }},
      {"array of a shape",
       [] {
         return array(std::vector<float>{}, {0, largest_extent, 2});
       }},
      {"broadcast_to",
       [&] {
         return broadcast_to(one, {huge, 1});
       }},
      {"broadcast_to of products",
       [&] {
         return broadcast_to(one, {largest_extent, largest_extent});
       }},
      {"pad", [&] { return pad(row, 0, {largest_extent - 1}, {0}); }},
      {"pad on both sides", [&] { return pad(row, 0, {largest_extent}, {largest_extent}); }},
      {"pad between", [&] { return pad(row, 0, {0}, {0}, {largest_extent}); }},
      {"tile", [&] { return tile(row, {huge}); }},
      {"repeat", [&] { return repeat(row, largest_extent, 0); }},
      {"reshape",
       [&] {
         return reshape(row, {huge, 8});
       }},
      {"arange", [] { return arange(largest_extent); }},
      {"arange from to", [] { return arange(std::int64_t{0}, largest_extent, std::int64_t{1}, int8); }},
      {"arange over all numbers",
       [] { return arange(std::numeric_limits<std::int64_t>::min(), largest_extent, std::int64_t{1}, int64); }},
      {"arange of reals", [] { return arange(0.0, 1e300, 1e-300, float32); }},
      {"linspace", [] { return linspace(0, 1, largest_extent); }},
      {"uniform",
       [] {
         return random::uniform(random::key(0), {huge, 4});
       }},
      {"from_dlpack",
       [] {
         return from_dlpack(foreign({huge, 16}, nullptr));
       }},
      {"from_dlpack with an extent of 0",
       [] {
         return from_dlpack(foreign({0, huge, 16}, nullptr));
       }},
  };
  for (const Row& r : rows) {
    CAPTURE(r.name);
    expect_error<ShapeError>([&] { r.make(); }, "");
  }
}

TEST_CASE("arange takes finite numbers, and counts over all 64 bits") {
  for (const auto& [start, stop, step] : {std::tuple{0.0, infinity, 1.0},
                                          {NAN, 1.0, 1.0},
                                          {0.0, 1.0, NAN},
                                          {-infinity, 0.0, 1.0},
                                          {0.0, 5.0, infinity}}) {
    expect_error<ValueError>([&, a = start, b = stop, c = step] { arange(a, b, c, float32); }, "must be finite");
  }
  // numpy.arange with the same numbers.
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  CHECK(arange(lowest, largest_extent, std::int64_t{1} << 62, int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{lowest, lowest / 2, 0, -(lowest / 2)});
  CHECK(arange(largest_extent, lowest, lowest, int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{largest_extent, -1});
  CHECK(arange(std::int64_t{5}, std::int64_t{0}, std::int64_t{-2}, int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{5, 3, 1});
  CHECK(arange(std::int64_t{5}, std::int64_t{5}, std::int64_t{1}, int64).size() == 0);
  CHECK(arange(0.0, 1.0, 0.25, float64).to_vector<double>() == std::vector<double>{0, 0.25, 0.5, 0.75});
  CHECK(arange(1.0, 0.0, 0.25, float64).size() == 0);
}

TEST_CASE("a foreign tensor with elements has memory") {
  expect_error<ValueError>([] { from_dlpack(foreign({2}, nullptr)); }, "has no memory");
  CHECK(from_dlpack(foreign({2, 0}, nullptr)).size() == 0);
}
