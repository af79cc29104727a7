#pragma once

#include <cstdint>
#include <string>

#include "engine/core/lists.h"
#include "engine/ops/rules/define.h"

// What the reductions over `axes` share.
namespace lockstep::ops {

/// For every element of operand 0, in row-major order: `visit(element, offset of its result)`.
template <class Visit>
void for_each_reduced(const ir::ReferenceContext& context, Visit visit) {
  const Shape& x = context.inputs[0].type.shape;
  const auto& axes = context.attrs.get<Dims>("axes");
  std::vector<bool> dropped = repeated<bool>(x.rank());
  for (const std::int64_t axis : axes) nth(dropped, axis) = true;
  std::int64_t i = 0;
  reference::for_each_index(x, [&](const reference::Index& index) {
    reference::Index kept;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (!dropped[d]) kept.push_back(index[d]);
    }
    visit(i++, reference::offset(context.outputs[0].type.shape, kept));
  });
}

/// result = combine(result, element), from `first(dtype)` on.
template <class... Ts, class First, class Combine>
ir::Reference reduces(First first, Combine combine) {
  return [first, combine](const ir::ReferenceContext& context) {
    ir::ReferenceArray& result = context.outputs[0];
    reference::dispatch<Ts...>(result.type.dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < result.type.size(); ++i) {
        reference::store(result, i, first.template operator()<T>(result.type.dtype));
      }
      for_each_reduced(context, [&](std::int64_t from, std::int64_t to) {
        reference::store(result, to,
                         combine(reference::load<T>(result, to), reference::load<T>(context.inputs[0], from)));
      });
    });
  };
}

/// Over none, one, several and all axes, of shapes with extents 0 and 1; floats without ties.
std::vector<ir::Sample> reduction_samples(const std::vector<DType>& dtypes, double low, double high);
samples::ErrorSamples reduction_errors(DType illegal, DType legal = DType::float32);

/// Number of elements that one result element is made of.
std::int64_t reduced_size(const Shape& x, const Dims& axes);

}  // namespace lockstep::ops
