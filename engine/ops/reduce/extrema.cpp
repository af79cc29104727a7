#include <limits>
#include <type_traits>

#include "engine/ops/reduce/reduce.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

/// The tangent's mean over the elements that equal the result.
std::vector<Tangent> reduced_extremum_jvp(const JvpContext& context) {
  const Value& x = context.inputs[0];
  const auto& axes = context.attrs.get<Dims>("axes");
  if (reduced_size(x.shape(), axes) == 0) return {std::nullopt};
  const Value hit = equal(x, broadcast_reduced(context.outputs[0], x.shape(), axes));
  const Value count = reduce_sum(select(hit, full_like(x, 1), full_like(x, 0)), axes);
  const Value& dx = *context.tangents[0];
  return {reduce_sum(select(hit, dx, full_like(dx, 0)), axes) / count};
}

/// What an empty maximum (lowest) or minimum (highest) is.
struct Bound {
  bool lowest;

  template <class T>
  T operator()(DType dtype) const {
    if constexpr (std::is_same_v<T, double>) {
      const double infinity = std::numeric_limits<double>::infinity();
      return lowest ? -infinity : infinity;
    } else if constexpr (std::is_same_v<T, bool>) {
      return !lowest;
    } else {
      const int unused = 64 - static_cast<int>(size_of(dtype)) * 8;
      if constexpr (std::is_same_v<T, std::int64_t>) {
        return (lowest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) >> unused;
      } else {
        return lowest ? T{0} : std::numeric_limits<T>::max() >> unused;
      }
    }
  }
};

std::vector<ir::Sample> extremum_samples() {
  return reduction_samples({DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::int64, DType::int8,
                            DType::uint8, DType::bool_},
                           -4, 4);
}

}  // namespace

const Primitive& primitives::reduce_max() {
  static const Primitive op{.name = "reduce_max",
                            .infer = infer::reduction(infer::ordered),
                            .derivative = derivative::jvp(reduced_extremum_jvp),
                            .batch = batch::reducer(reduce_max),
                            .reference = reduces<double, std::int64_t, std::uint64_t, bool>(
                                Bound{true}, [](auto a, auto b) { return b > a || b != b ? b : a; }),
                            .flops = flops::per_element(0),
                            .samples = extremum_samples,
                            .error_samples = reduction_errors(DType::complex64),
                            .traits = {},
                            .layout = layout::reduction(ir::Factor::Kind::max)};
  return op;
}

const Primitive& primitives::reduce_min() {
  static const Primitive op{.name = "reduce_min",
                            .infer = infer::reduction(infer::ordered),
                            .derivative = derivative::jvp(reduced_extremum_jvp),
                            .batch = batch::reducer(reduce_min),
                            .reference = reduces<double, std::int64_t, std::uint64_t, bool>(
                                Bound{false}, [](auto a, auto b) { return b < a || b != b ? b : a; }),
                            .flops = flops::per_element(0),
                            .samples = extremum_samples,
                            .error_samples = reduction_errors(DType::complex64),
                            .traits = {},
                            .layout = layout::reduction(ir::Factor::Kind::min)};
  return op;
}

}  // namespace lockstep::ops
