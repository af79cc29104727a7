#include <string>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

using control_flow::FunctionPtr;

void check_predicate(const ir::InferContext& context, const ir::WhileLoop& loop) {
  const std::vector<ArrayType> types = loop.cond->output_types();
  if (types.size() != 1) {
    throw IrError("while_loop: cond gives " + std::to_string(types.size()) +
                  " results; expected the predicate alone; instead return one bool scalar");
  }
  const ArrayType expected{DType::bool_, {}, types[0].varying};
  control_flow::expect_type(context, "the predicate", types[0], expected, "compare, and reduce with any or all");
  const AxisSet communicated =
      control_flow::collective_axes(*loop.cond).joined(control_flow::collective_axes(*loop.body));
  for (const std::string& axis : types[0].varying) {
    if (!communicated.contains(axis)) continue;
    throw MeshError(
        "while_loop: the predicate varies along " + axis +
        ", so replicas would leave the loop at different times, but a collective inside communicates along " + axis +
        "; expected a predicate that is invariant along it; instead reduce the predicate with pmax");
  }
}

std::vector<ArrayType> infer_while_loop(const ir::InferContext& context) {
  const ir::WhileLoop loop = ir::WhileLoop::of(context.attrs);
  control_flow::expect_axes(context, *loop.cond, "cond");
  control_flow::expect_axes(context, *loop.body, "body");
  const std::size_t first = loop.cond_consts + loop.body_consts;
  control_flow::expect_count(context, first + loop.carries());
  if (loop.cond->inputs().size() != loop.cond_consts + loop.carries() ||
      loop.body->inputs().size() != loop.body_consts + loop.carries()) {
    throw IrError("while_loop given " + std::to_string(loop.carries()) + " carries, a cond of " +
                  std::to_string(loop.cond->inputs().size()) + " inputs and a body of " +
                  std::to_string(loop.body->inputs().size()) +
                  "; expected both to take their consts and all carries; instead return every carry from the body");
  }
  check_predicate(context, loop);
  const AxisSet predicate = loop.cond->type(loop.cond->outputs()[0]).varying;
  for (std::size_t i = 0; i < first; ++i) {
    const bool of_cond = i < loop.cond_consts;
    const std::size_t number = of_cond ? i : i - loop.cond_consts;
    const ir::Function& f = of_cond ? *loop.cond : *loop.body;
    control_flow::expect_type(context, std::string(of_cond ? "const of cond " : "const ") + std::to_string(number),
                              context.inputs[i], f.type(f.inputs()[number]), "pass what it takes");
  }
  for (std::size_t i = 0; i < loop.carries(); ++i) {
    const std::string what = "carry " + std::to_string(i);
    const ArrayType& carry = context.inputs[first + i];
    control_flow::expect_type(context, what + ", which the body takes,",
                              loop.body->type(loop.body->inputs()[loop.body_consts + i]), carry, "start from it");
    control_flow::expect_type(context, what + ", which cond takes,",
                              loop.cond->type(loop.cond->inputs()[loop.cond_consts + i]), carry, "start from it");
    control_flow::expect_type(context, "result of the body for " + what, loop.body->type(loop.body->outputs()[i]),
                              carry, "return what the body takes");
    ArrayType varying = carry;
    varying.varying = varying.varying.joined(predicate);
    control_flow::expect_type(context, what + ", beside a predicate that varies,", carry, varying, "pvary it");
  }
  return loop.body->output_types();
}

struct Parts {
  std::vector<ArrayType> cond_consts;
  std::vector<ArrayType> body_consts;
  std::vector<ArrayType> carries;
  control_flow::Body cond;
  control_flow::Body body;
};

Attrs loop_attrs(const Parts& parts, const ir::AxisSizes& mesh = {}) {
  const auto followed = [&](std::vector<ArrayType> types) {
    types.insert(types.end(), parts.carries.begin(), parts.carries.end());
    return types;
  };
  return ir::WhileLoop{control_flow::write(mesh, followed(parts.cond_consts), parts.cond),
                       control_flow::write(mesh, followed(parts.body_consts), parts.body), parts.cond_consts.size(),
                       parts.body_consts.size()}
      .attrs();
}

/// while i < n: i + 1, sin(x) * w + x / 2.
Attrs counting(DType dtype, const Shape& shape) {
  const ArrayType x{dtype, shape, {}};
  return loop_attrs({{samples::int32_scalar},
                     {x},
                     {samples::int32_scalar, x},
                     [](ir::Builder&, std::span<const Value> in) { return std::vector{less(in[1], in[0])}; },
                     [](ir::Builder&, std::span<const Value> in) {
                       return std::vector{in[1] + full_like(in[1], 1), sin(in[2]) * in[0] + in[2] * 0.5};
                     }});
}

/// while the sum of x is below 9: x * 1.5 + 1.
Attrs growing(const ArrayType& x, const ir::AxisSizes& mesh = {}) {
  return loop_attrs({{},
                     {},
                     {x},
                     [](ir::Builder&, std::span<const Value> in) {
                       const Value sum = reduce_sum(in[0], {0});
                       return std::vector{less(sum, full_like(sum, 9))};
                     },
                     [](ir::Builder&, std::span<const Value> in) { return std::vector{in[0] * 1.5 + 1.0}; }},
                    mesh);
}

/// The same with the sum over all replicas, so that all of them leave together.
Attrs growing_together(const ArrayType& x, const ir::AxisSizes& mesh) {
  return loop_attrs({{},
                     {},
                     {x},
                     [](ir::Builder&, std::span<const Value> in) {
                       const Value sum = psum(reduce_sum(in[0], {0}), {"batch"});
                       return std::vector{less(sum, full_like(sum, 9))};
                     },
                     [](ir::Builder&, std::span<const Value> in) { return std::vector{in[0] * 1.5 + 1.0}; }},
                    mesh);
}

std::vector<ir::Sample> while_loop_samples() {
  const auto in = [](const Shape& shape, DType dtype = DType::float64) {
    return samples::input(dtype, shape, {-1, 1});
  };
  const samples::SampleInput bound = samples::input(DType::int32, {}, {2, 5});
  const samples::SampleInput start = samples::input(DType::int32, {}, {0, 3});
  const ir::AxisSizes mesh({{"batch", 4}});
  const ArrayType local{DType::float64, {3}, {"batch"}};
  return {
      {{bound, in({2}), start, in({2})}, counting(DType::float64, {2}), {}},
      {{bound, in({}), start, in({})}, counting(DType::float64, {}), {}},
      {{bound, in({0}), start, in({0})}, counting(DType::float64, {0}), {}},
      {{bound, in({3}, DType::float32), start, in({3}, DType::float32)}, counting(DType::float32, {3}), {}},
      {{in({3})}, growing({DType::float64, {3}, {}}), {}},
      {{{local, -1, 3, false}}, growing(local, mesh), mesh},
      {{{local, -1, 1, false}}, growing_together(local, mesh), mesh},
  };
}

std::vector<ir::ErrorSample> while_loop_errors() {
  const ArrayType x{DType::float32, {3}, {}};
  const Attrs good = growing(x);
  const auto identity = [](ir::Builder&, std::span<const Value> in) { return std::vector(in.begin(), in.end()); };
  const auto vector_predicate = [](ir::Builder&, std::span<const Value> in) {
    return std::vector{less(in[0], full_like(in[0], 9))};
  };
  const auto narrowed = [](ir::Builder&, std::span<const Value> in) {
    return std::vector{convert(in[0], DType::float16)};
  };
  const auto scalar_predicate = [](ir::Builder&, std::span<const Value> in) {
    const Value sum = reduce_sum(in[0], {0});
    return std::vector{less(sum, full_like(sum, 9))};
  };
  const auto reduced = [](ir::Builder&, std::span<const Value> in) {
    return std::vector{pvary(psum(in[0], {"batch"}), {"batch"})};
  };
  const ir::AxisSizes mesh({{"batch", 2}});
  const ArrayType local{DType::float32, {3}, {"batch"}};
  return {
      {{x, x}, good, "while_loop given 2 operands; expected 1", {}},
      {{{DType::float64, {3}, {}}}, good, "carry 0, which the body takes, is f32[3], expected f64[3]", {}},
      {{x}, loop_attrs({{}, {}, {x}, vector_predicate, identity}), "the predicate is bool[3], expected bool[]", {}},
      {{x}, loop_attrs({{}, {}, {x}, identity, identity}), "the predicate is f32[3]", {}},
      {{x}, loop_attrs({{}, {}, {x}, scalar_predicate, narrowed}), "result of the body for carry 0 is f16[3]", {}},
      {{x}, good, "other mesh axes", mesh},
      {{local}, loop_attrs({{}, {}, {local}, scalar_predicate, reduced}, mesh), "reduce the predicate with pmax", mesh},
  };
}

}  // namespace

const Primitive& primitives::while_loop() {
  static const Primitive op{.name = "while_loop",
                            .infer = infer_while_loop,
                            .derivative = {.kind = ir::Derivative::Kind::joint,
                                           .jvp = nullptr,
                                           .transpose = control_flow::transpose_while_loop,
                                           .linear_in = {},
                                           .joint = control_flow::while_loop_tangents},
                            .split = control_flow::split_while_loop,
                            .align = control_flow::align_while_loop,
                            .batch = control_flow::batch_while_loop,
                            .reference = nullptr,
                            .samples = while_loop_samples,
                            .error_samples = while_loop_errors,
                            .traits = {.typed_axes = true, .loop = true},
                            .sub_functions = {.trim = control_flow::trim_while_loop,
                                              .evaluate = control_flow::evaluate_while_loop,
                                              .follow_keys = control_flow::follow_while_loop_keys,
                                              .capture = control_flow::capture_in_while_loop,
                                              .choice = control_flow::choice_of_while_loop}};
  return op;
}

}  // namespace lockstep::ops
