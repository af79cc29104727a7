#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include "engine/ops/rules/define.h"

// The definition that docs/adding_an_op.md shows written out.
namespace lockstep::ops {

TEST_CASE("an op that is written out is what its family makes of it") {
  using primitives::log2;
  const auto f = [](double x) { return std::log2(x); };
  const auto rule = [](const Value& x, const Value&, const Value& dx) { return dx / (x * std::numbers::ln2); };
  static const Primitive op{.name = "log2",
                            .infer = infer::same_shape(infer::floating),
                            .derivative = derivative::unary(rule),
                            .batch = batch::pointwise(log2),
                            .reference = reference::unary<double>(f),
                            .samples = samples::unary(0.1, 4, samples::all_floats),
                            .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
                            .traits = pointwise_traits};
  CHECK(op.samples().size() == log2().samples().size());
  CHECK(op.error_samples().size() == log2().error_samples().size());
  CHECK(op.traits.pointwise == log2().traits.pointwise);
  for (const ir::Sample& sample : op.samples()) {
    const ArrayType type = sample.inputs[0].type;
    const std::vector<ArrayType> types = ir::infer_types(op, std::span(&type, 1), {}, {});
    CHECK(types == ir::infer_types(log2(), std::span(&type, 1), {}, {}));
    ir::ReferenceArray x = ir::reference_zeros(type);
    for (std::size_t i = 0; i < x.floats().size(); ++i) x.floats()[i] = 0.5 + static_cast<double>(i);
    ir::ReferenceArray y = ir::reference_zeros(types[0]), expected = y;
    op.reference({std::span(&x, 1), {}, std::span(&y, 1)});
    log2().reference({std::span(&x, 1), {}, std::span(&expected, 1)});
    CHECK(y.floats() == expected.floats());
  }
}

}  // namespace lockstep::ops
