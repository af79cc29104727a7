#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ops/rules/samples.h"
#include "engine/ops/window/geometry.h"
#include "tests/backends/aten/kernel_runs.h"
#include "tests/support/dims.h"

// Windows of many kinds, and the places of their largest elements, which mostly lie in tiles next to each other.
namespace lockstep::tests {

namespace {

using Arrays = std::vector<ir::ReferenceArray>;

Arrays reference(const BoundOp& bound, const ir::Primitive& primitive, const Arrays& inputs) {
  Arrays outputs;
  for (const ArrayType& type : bound.outputs) outputs.push_back(ir::reference_zeros(type));
  primitive.reference({inputs, bound.attrs, outputs});
  return outputs;
}

/// The kernel's results are the reference's, to the bit.
Arrays check_windows(const ir::Primitive& primitive, const Arrays& inputs, const Attrs& attrs) {
  std::vector<ArrayType> types;
  std::vector<Memory> memory;
  for (const ir::ReferenceArray& array : inputs) {
    types.push_back(array.type);
    memory.emplace_back(ir::reference_to_bytes(array));
  }
  const BoundOp bound(primitive, types, attrs);
  REQUIRE(bound.kernel != nullptr);
  const auto results = bound.run(memory);
  Arrays expected = reference(bound, primitive, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK_MESSAGE(results[i] == ir::reference_to_bytes(expected[i]),
                  primitive.name << " of " << to_string(types[0]) << ": result " << i);
  }
  return expected;
}

struct WindowsCase {
  Shape x;
  Attrs attrs;
};

std::vector<WindowsCase> windows_cases() {
  const std::vector<Dims> none = {{0, 0}, {0, 0}};
  return {
      {{3, 8, 6, 32}, ops::window_attrs({2, 2}, {2, 2}, none)},
      {{3, 8, 6, 19}, ops::window_attrs({2, 2}, {2, 2}, none)},
      {{3, 7, 9, 5}, ops::window_attrs({2, 3}, {2, 3}, none)},
      {{2, 8, 8, 7}, ops::window_attrs({3, 3}, {2, 2}, {{1, 1}, {1, 1}})},
      {{2, 9, 8, 3}, ops::window_attrs({3, 3}, {3, 3}, none)},
      {{2, 6, 5, 40}, ops::window_attrs({6, 5}, {1, 1}, none)},
      {{2, 9, 8, 4}, ops::window_attrs({2, 2}, {2, 3}, none, {3, 2})},
      {{2, 4, 4, 3}, ops::window_attrs({1, 1}, {1, 1}, none)},
  };
}

/// Few different numbers: many are equal.
ir::ReferenceArray number_array(DType dtype, const Shape& shape, std::uint64_t seed) {
  ir::ReferenceArray array = draw(ops::samples::input(dtype, shape, {-4, 4}), {}, seed);
  for (double& x : array.floats()) x = static_cast<double>(static_cast<std::int64_t>(x));
  return array;
}

}  // namespace

TEST_CASE("the largest elements of windows, and sums and elements at their places") {
  for (const WindowsCase& c : windows_cases()) {
    for (const DType dtype : {float32, float64, bfloat16}) {
      const ir::ReferenceArray x = number_array(dtype, c.x, 5);
      Arrays largest = check_windows(ops::primitives::window_max(), {x}, c.attrs);
      ir::ReferenceArray& places = largest[1];
      const Attrs spatial = {{"spatial", Dims(c.x.begin() + 1, c.x.end() - 1)}};
      const ir::ReferenceArray y = number_array(dtype, places.type.shape, 6);
      check_windows(ops::primitives::window_scatter(), {places, y}, spatial);
      check_windows(ops::primitives::window_gather(), {x, places}, {});
      // From the second plane on not what a window could hold.
      places.integers()[places.integers().size() / 2 + 1] = 1000;
      check_windows(ops::primitives::window_scatter(), {places, y}, spatial);
      check_windows(ops::primitives::window_gather(), {x, places}, {});
    }
  }
}

}  // namespace lockstep::tests
