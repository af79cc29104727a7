#include <cstdint>

#include "engine/ops/cumulative/cumulative.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

/// The tangent of the element that first reached the result: its position is the latest one where the result changed.
std::vector<Tangent> cumulative_extremum_jvp(const JvpContext& context) {
  const Direction direction(context.attrs);
  const Value &x = context.inputs[0], &y = context.outputs[0];
  if (x.type().size() == 0) return {std::nullopt};
  const int axis = static_cast<int>(direction.axis);
  const Value place = iota(context.builder, DType::int32, x.shape(), axis);
  const std::int64_t last = x.shape()[axis] - 1;
  const Value first = equal(place, full_like(place, direction.reverse ? static_cast<double>(last) : 0));
  const Value changed = bitwise_or(not_equal(y, previous(y, 0, direction.axis, direction.reverse)), first);
  const Value none = full_like(place, direction.reverse ? static_cast<double>(last) : 0);
  const Primitive& latest = direction.reverse ? primitives::cummin() : primitives::cummax();
  const Value reached = apply_one(latest, {select(changed, place, none)}, context.attrs);
  return {apply_one(primitives::take_along_axis(), {*context.tangents[0], reached}, {{"axis", direction.axis}})};
}

template <class Before>
Primitive cumulative_extremum(std::string name, PrimitiveGetter self, Before before) {
  return {.name = std::move(name),
          .infer = cumulative_infer(infer::real),
          .derivative = derivative::jvp(cumulative_extremum_jvp),
          .batch = batch::along(self, "axis"),
          .reference = accumulates<double, std::int64_t, std::uint64_t>(
              [before](auto a, auto b) { return before(b, a) || b != b ? b : a; }),
          .flops = flops::per_element(0),
          .samples =
              [] {
                return cumulative_samples(
                    {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::int8, DType::uint8}, -4, 4);
              },
          .error_samples = cumulative_errors(DType::complex64),
          .traits = {},
          .layout = layout::along("axis")};
}

}  // namespace

const Primitive& primitives::cummax() {
  static const Primitive op = cumulative_extremum("cummax", cummax, [](auto a, auto b) { return a > b; });
  return op;
}

const Primitive& primitives::cummin() {
  static const Primitive op = cumulative_extremum("cummin", cummin, [](auto a, auto b) { return a < b; });
  return op;
}

}  // namespace lockstep::ops
