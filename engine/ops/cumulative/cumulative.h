#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ops/cumulative/direction.h"
#include "engine/ops/rules/define.h"

// What the ops that accumulate along one axis share.
namespace lockstep::ops {

/// Integers wrap.
struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

/// Operands of one allowed dtype and one shape, and an axis of it.
ir::Infer cumulative_infer(infer::DtypeClass allowed, std::size_t operands = 1);

/// Element i becomes the one before it in the direction of the accumulation, the first one `first`.
Value previous(const Value& x, double first, std::int64_t axis, bool reverse);
/// primitives::linear_recurrence.
Value linear_recurrence(const Value& a, const Value& b, const Attrs& direction);

/// Calls `visit(offset, offset of the element before or -1)` along every line, in the direction of the accumulation.
template <class Visit>
void for_each_along(const Shape& shape, const Direction& direction, Visit visit) {
  const int axis = static_cast<int>(direction.axis);
  const std::int64_t stride = nth(row_major_strides(shape), axis);
  const std::int64_t extent = shape[axis];
  reference::for_each_index(shape.with(axis, shape.size() == 0 ? 0 : 1), [&](const reference::Index& index) {
    const std::int64_t start = reference::offset(shape, index);
    std::int64_t before = -1;
    for (std::int64_t k = 0; k < extent; ++k) {
      const std::int64_t at = start + (direction.reverse ? extent - 1 - k : k) * stride;
      visit(at, before);
      before = at;
    }
  });
}

/// y[i] = combine(y[i-1], x[i]) from y[0] = x[0] on.
template <class... Ts, class Combine>
ir::Reference accumulates(Combine combine) {
  return [combine](const ir::ReferenceContext& context) {
    const ir::ReferenceArray& x = context.inputs[0];
    ir::ReferenceArray& y = context.outputs[0];
    for_each_along(x.type.shape, Direction(context.attrs), [&](std::int64_t at, std::int64_t before) {
      reference::dispatch<Ts...>(x.type.dtype, [&]<class T>() {
        const T element = reference::load<T>(x, at);
        reference::store(y, at, before < 0 ? element : static_cast<T>(combine(reference::load<T>(y, before), element)));
      });
    });
  };
}

/// Along every axis, both ways, of shapes with extents 0 and 1; `operands` of each, floats without ties.
std::vector<ir::Sample> cumulative_samples(const std::vector<DType>& dtypes, double low, double high,
                                           std::size_t operands = 1);
samples::ErrorSamples cumulative_errors(DType illegal, std::size_t operands = 1);

}  // namespace lockstep::ops
