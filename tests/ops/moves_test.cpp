#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/op_functions.h"

// What an op says of moving elements, against its reference on operands whose elements are all different.
namespace lockstep::tests {
namespace {

using Ids = std::vector<std::int64_t>;

/// The number of each result element's source, counted through all operands; keys are what every moving op takes.
std::vector<ir::ReferenceArray> moved_by_op(const ir::Primitive& op, const ir::Sample& sample) {
  std::vector<ir::ReferenceArray> inputs, outputs;
  std::int64_t next = 0;
  for (const ArrayType& type : input_types(sample)) {
    inputs.push_back(ir::reference_zeros({DType::key, type.shape, {}}));
    for (std::int64_t& id : inputs.back().integers()) id = next++;
  }
  for (const ArrayType& type : output_types(op, sample)) {
    outputs.push_back(ir::reference_zeros({DType::key, type.shape, {}}));
  }
  op.reference({inputs, sample.attrs, outputs});
  return outputs;
}

Ids all_ids(const std::vector<ir::ReferenceArray>& arrays) {
  Ids ids;
  for (const ir::ReferenceArray& array : arrays)
    ids.insert(ids.end(), array.integers().begin(), array.integers().end());
  return ids;
}

Ids numbers_to(std::int64_t n) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(i);
  return ids;
}

/// The elements of the view, in the row-major order of the result.
Ids through(const ir::View& view, const Shape& shape) {
  Ids ids(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    ids[i] = view.offset;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      ids[i] += rest % shape[d] * view.strides[static_cast<std::size_t>(d)];
      rest /= shape[d];
    }
  }
  return ids;
}

Ids contiguous(const Shape& shape) {
  Ids strides(static_cast<std::size_t>(shape.rank()));
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = step;
    step *= shape[d];
  }
  return strides;
}

template <class Check>
int for_each_sample(Check check) {
  int checked = 0;
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (op.traits.moves == ir::Moves::none) continue;
    for (const ir::Sample& sample : op.samples()) {
      CAPTURE(text(op, sample));
      check(op, sample);
      ++checked;
    }
  }
  return checked;
}

}  // namespace

TEST_CASE("an op that moves elements gives those of its operands, as often as it says") {
  const int checked = for_each_sample([](const ir::Primitive& op, const ir::Sample& sample) {
    const std::vector<ir::ReferenceArray> results = moved_by_op(op, sample);
    Ids ids = all_ids(results);
    std::int64_t all = 0;
    for (const ArrayType& type : input_types(sample)) all += type.size();
    const auto size = static_cast<std::int64_t>(ids.size());
    CHECK((results.size() == 1 || op.traits.moves == ir::Moves::apart));
    CHECK((sample.inputs.size() == 1 || op.traits.moves == ir::Moves::together));
    CHECK(std::ranges::all_of(ids, [&](std::int64_t id) { return id >= 0 && id < all; }));
    if (op.traits.moves == ir::Moves::in_place) CHECK(ids == numbers_to(all));
    if (op.traits.moves != ir::Moves::repeated) {
      std::ranges::sort(ids);
      CHECK(std::ranges::adjacent_find(ids) == ids.end());
      CHECK((op.traits.moves == ir::Moves::elsewhere || size == all));
    }
  });
  CHECK(checked > 100);
}

TEST_CASE("a view reads what the reference copies") {
  int views = 0;
  for_each_sample([&](const ir::Primitive& op, const ir::Sample& sample) {
    if (!op.view) return;
    const Shape from = input_types(sample)[0].shape;
    const ir::ReferenceArray result = moved_by_op(op, sample)[0];
    CHECK(through(op.view(sample.attrs, from, contiguous(from)), result.type.shape) == result.integers());
    ++views;
  });
  CHECK(views > 50);
}

}  // namespace lockstep::tests
