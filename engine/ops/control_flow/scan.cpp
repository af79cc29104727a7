#include <string>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

using control_flow::FunctionPtr;

std::vector<ArrayType> infer_scan(const ir::InferContext& context) {
  const ir::Scan scan = ir::Scan::of(context.attrs);
  const ir::Function& body = *scan.body;
  control_flow::expect_axes(context, body, "body");
  control_flow::expect_count(context, body.inputs().size());
  const std::size_t first_x = scan.consts + scan.carries;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    ArrayType expected = body.type(body.inputs()[i]);
    if (i < scan.consts) {
      control_flow::expect_type(context, "const " + std::to_string(i), context.inputs[i], expected,
                                "pass what the body takes");
    } else if (i < first_x) {
      const std::string what = "carry " + std::to_string(i - scan.consts);
      control_flow::expect_type(context, what, context.inputs[i], expected, "start from what the body takes");
      control_flow::expect_type(context, "result of the body for " + what, body.type(body.outputs()[i - scan.consts]),
                                expected, "return what the body takes");
    } else {
      expected.shape = expected.shape.insert(0, scan.length);
      control_flow::expect_type(context, "xs " + std::to_string(i - first_x), context.inputs[i], expected,
                                "stack one x for each of the " + std::to_string(scan.length) + " iterations");
    }
  }
  std::vector<ArrayType> results = body.output_types();
  for (std::size_t i = scan.carries; i < results.size(); ++i) {
    results[i].shape = results[i].shape.insert(0, scan.length);
  }
  return results;
}

/// c' = sin(c * w) + x, y = c' * x.
FunctionPtr recurrence(DType dtype, const Shape& shape) {
  const ArrayType type{dtype, shape, {}};
  return control_flow::write({}, std::vector(3, type), [](ir::Builder&, std::span<const Value> in) {
    const Value next = sin(in[1] * in[0]) + in[2];
    return std::vector{next, next * in[2]};
  });
}

/// A counter beside the state: c' = c * x + i, y = c.
FunctionPtr counted() {
  const std::vector<ArrayType> types = {samples::int32_scalar, {DType::float64, {2}, {}}, {DType::float64, {2}, {}}};
  return control_flow::write({}, types, [](ir::Builder&, std::span<const Value> in) {
    const Value number = broadcast_in_dim(convert(in[0], DType::float64), Shape{2}, {});
    return std::vector{in[0] + full_like(in[0], 1), in[1] * in[2] + number, in[1]};
  });
}

/// A map: y = exp(x) * w, and the scalar w itself.
FunctionPtr mapped() {
  const std::vector<ArrayType> types = {{DType::float64, {}, {}}, {DType::float64, {3}, {}}};
  return control_flow::write({}, types, [](ir::Builder&, std::span<const Value> in) {
    return std::vector{exp(in[1]) * broadcast_in_dim(in[0], Shape{3}, {}), in[0]};
  });
}

/// c' = the result of an inner loop of three steps c <- cos(c) * w.
FunctionPtr nested() {
  const ArrayType type{DType::float64, {2}, {}};
  ir::Scan inner;
  inner.body = control_flow::write({}, std::vector(2, type), [](ir::Builder&, std::span<const Value> in) {
    return std::vector{cos(in[1]) * in[0]};
  });
  inner.length = 3;
  inner.consts = inner.carries = 1;
  return control_flow::write({}, std::vector(3, type), [&](ir::Builder&, std::span<const Value> in) {
    const Value c = apply(primitives::scan(), std::vector{in[0], in[1] + in[2]}, inner.attrs())[0];
    return std::vector{c, c * in[0]};
  });
}

/// c' = c * w + the mean of c over the replicas, which is y.
FunctionPtr averaged(const ir::AxisSizes& mesh) {
  const ArrayType type{DType::float64, {2}, {"batch"}};
  return control_flow::write(mesh, std::vector(2, type), [&](ir::Builder&, std::span<const Value> in) {
    const Value mean = psum(sin(in[1]), {"batch"}) * (1.0 / static_cast<double>(mesh.total()));
    return std::vector{in[1] * in[0] + mean, mean};
  });
}

Attrs scan_attrs(FunctionPtr body, std::int64_t length, std::size_t consts, std::size_t carries, bool reverse = false) {
  return ir::Scan{std::move(body), length, consts, carries, reverse, 1}.attrs();
}

std::vector<ir::Sample> scan_samples() {
  const auto in = [](const Shape& shape, DType dtype = DType::float64) {
    return samples::input(dtype, shape, {-1, 1});
  };
  const FunctionPtr step = recurrence(DType::float64, {3});
  std::vector<ir::Sample> list;
  for (const bool reverse : {false, true}) {
    list.push_back({{in({3}), in({3}), in({4, 3})}, scan_attrs(step, 4, 1, 1, reverse), {}});
  }
  for (const std::int64_t length : {0, 1}) {
    list.push_back({{in({3}), in({3}), in({length, 3})}, scan_attrs(step, length, 1, 1), {}});
  }
  list.push_back({{in({}), in({}), in({2})}, scan_attrs(recurrence(DType::float64, {}), 2, 1, 1), {}});
  list.push_back({{in({0}), in({0}), in({2, 0})}, scan_attrs(recurrence(DType::float64, {0}), 2, 1, 1), {}});
  list.push_back({{in({2}, DType::float32), in({2}, DType::float32), in({5, 2}, DType::float32)},
                  scan_attrs(recurrence(DType::float32, {2}), 5, 1, 1).with("unroll", std::int64_t{2}),
                  {}});
  list.push_back({{samples::input(DType::int32, {}, {0, 3}), in({2}), in({3, 2})}, scan_attrs(counted(), 3, 0, 2), {}});
  list.push_back({{in({}), in({2, 3})}, scan_attrs(mapped(), 2, 1, 0), {}});
  list.push_back({{in({2}), in({2}), in({2, 2})}, scan_attrs(nested(), 2, 1, 1, true), {}});
  const ir::AxisSizes mesh({{"batch", 2}});
  const samples::SampleInput local{{DType::float64, {2}, {"batch"}}, -1, 1, false};
  list.push_back({{local, local}, scan_attrs(averaged(mesh), 3, 1, 1), mesh});
  return list;
}

std::vector<ir::ErrorSample> scan_errors() {
  const ArrayType x{DType::float32, {3}, {}};
  const ArrayType xs{DType::float32, {4, 3}, {}};
  const Attrs good = scan_attrs(recurrence(DType::float32, {3}), 4, 1, 1);
  const FunctionPtr narrowed = control_flow::write({}, std::vector{x}, [](ir::Builder&, std::span<const Value> in) {
    return std::vector{convert(in[0], DType::float16)};
  });
  const ir::AxisSizes mesh({{"batch", 2}});
  return {
      {{x, x}, good, "scan given 2 operands; expected 3", {}},
      {{{DType::float64, {3}, {}}, x, xs}, good, "const 0 is f64[3], expected f32[3]", {}},
      {{x, {DType::float32, {2}, {}}, xs}, good, "carry 0 is f32[2], expected f32[3]", {}},
      {{x, x, {DType::float32, {5, 3}, {}}}, good, "xs 0 is f32[5,3], expected f32[4,3]", {}},
      {{x}, scan_attrs(narrowed, 2, 0, 1), "result of the body for carry 0 is f16[3], expected f32[3]", {}},
      {{x, x, xs}, good, "scan given body written under other mesh axes", mesh},
  };
}

}  // namespace

const Primitive& primitives::scan() {
  static const Primitive op{.name = "scan",
                            .infer = infer_scan,
                            .derivative = {.kind = ir::Derivative::Kind::joint,
                                           .jvp = nullptr,
                                           .transpose = control_flow::transpose_scan,
                                           .linear_in = {},
                                           .joint = control_flow::scan_tangents},
                            .split = control_flow::split_scan,
                            .align = control_flow::align_scan,
                            .batch = control_flow::batch_scan,
                            .reference = nullptr,
                            .samples = scan_samples,
                            .error_samples = scan_errors,
                            .traits = {.typed_axes = true, .loop = true},
                            .sub_functions = {.trim = control_flow::trim_scan,
                                              .evaluate = control_flow::evaluate_scan,
                                              .follow_keys = control_flow::follow_scan_keys,
                                              .capture = control_flow::capture_in_scan}};
  return op;
}

}  // namespace lockstep::ops
