#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <lockstep/backend/samplers.h>
#include <lockstep/error.h>

#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

backend::samplers::Key key_at(const ir::ReferenceArray& keys, std::int64_t i) {
  const auto words = reference::load<std::uint64_t>(keys, i);
  return {static_cast<std::uint32_t>(words >> 32), static_cast<std::uint32_t>(words)};
}

/// A key and `parameters` floats of one dtype and shape.
void expect_key_and_floats(const ir::InferContext& context, std::size_t parameters) {
  infer::expect_operands(context, parameters + 1);
  if (context.inputs[0].dtype != DType::key) {
    infer::dtype_error(context, "a key for operand 0", "pass random::split(key, n) or random::key(seed)");
  }
  for (std::size_t i = 1; i <= parameters; ++i) infer::expect_dtype(context, i, infer::floating);
  infer::expect_same_dtype(context, 1);
  infer::expect_same_shape(context);
}

bool log_space(const Attrs& attrs) { return attrs.get<bool>("log_space"); }

/// Samples for each shape and dtype, of a key (if any) and of parameters from ranges.
std::vector<ir::Sample> sampler_samples(bool with_key, const std::vector<samples::Range>& ranges, const Attrs& attrs) {
  std::vector<ir::Sample> list;
  for (const DType dtype : samples::all_floats) {
    for (const Shape& shape : samples::small_shapes()) {
      ir::Sample sample{{}, attrs, {}};
      if (with_key) sample.inputs.push_back(samples::input(DType::key, shape, {-9e18, 9e18}));
      for (const samples::Range& range : ranges) sample.inputs.push_back(samples::input(dtype, shape, range));
      list.push_back(std::move(sample));
    }
  }
  return list;
}

samples::Samples for_both_spaces(bool with_key, std::vector<samples::Range> ranges) {
  return [=] {
    std::vector<ir::Sample> list = sampler_samples(with_key, ranges, {{"log_space", false}});
    for (ir::Sample& sample : sampler_samples(with_key, ranges, {{"log_space", true}})) {
      list.push_back(std::move(sample));
    }
    return list;
  };
}

samples::ErrorSamples key_and_float_errors(std::size_t parameters, const Attrs& attrs) {
  const ArrayType key{DType::key, {2}, {}}, x{float32, {2}, {}}, longer{float32, {3}, {}}, count{int32, {2}, {}};
  std::vector<ArrayType> no_key(parameters + 1, x), wrong_shape = no_key, wrong_dtype = no_key;
  wrong_shape.front() = wrong_dtype.front() = key;
  wrong_shape.back() = longer;
  wrong_dtype.back() = count;
  return samples::errors({{{key}, attrs, "expected " + std::to_string(parameters + 1) + " operands", {}},
                          {no_key, attrs, "a key for operand 0", {}},
                          {wrong_shape, attrs, "operands of one shape", {}},
                          {wrong_dtype, attrs, "a float dtype", {}}});
}

// ---- gamma

std::vector<ArrayType> infer_gamma(const ir::InferContext& context) {
  expect_key_and_floats(context, 1);
  log_space(context.attrs);
  return {context.inputs[1]};
}

/// Drawn in the precision of the operand, so that the accepted proposals are the kernel's.
void gamma_reference(const ir::ReferenceContext& context) {
  const bool log = log_space(context.attrs);
  const bool wide = context.outputs[0].type.dtype == float64;
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    const backend::samplers::Key key = key_at(context.inputs[0], i);
    const double a = reference::load<double>(context.inputs[1], i);
    const double x = wide ? backend::samplers::gamma(key, a, log)  //
                          : static_cast<double>(backend::samplers::gamma(key, static_cast<float>(a), log));
    reference::store(context.outputs[0], i, x);
  }
}

std::vector<Tangent> gamma_jvp(const JvpContext& context) {
  const Value grad = apply_one(primitives::random_gamma_grad(), {context.inputs[1], context.outputs[0]}, context.attrs);
  return {*context.tangents[1] * grad};
}

void gamma_grad_reference(const ir::ReferenceContext& context) {
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    reference::store(
        context.outputs[0], i,
        backend::samplers::gamma_grad(reference::load<double>(context.inputs[0], i),
                                      reference::load<double>(context.inputs[1], i), log_space(context.attrs)));
  }
}

// ---- counts

std::vector<ArrayType> infer_poisson(const ir::InferContext& context) {
  expect_key_and_floats(context, 1);
  const DType dtype = context.attrs.get<DType>("dtype");
  if (dtype != int32 && dtype != int64) {
    infer::dtype_error(context, "dtype int32 or int64", "draw int32 and convert");
  }
  return {{dtype, context.inputs[1].shape, {}}};
}

void poisson_reference(const ir::ReferenceContext& context) {
  const bool wide = context.outputs[0].type.dtype == int64;
  const std::int64_t most = wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    const double k =
        backend::samplers::poisson(key_at(context.inputs[0], i), reference::load<double>(context.inputs[1], i));
    const bool fits = k < static_cast<double>(most);
    reference::store(context.outputs[0], i, fits ? static_cast<std::int64_t>(k) : most);
  }
}

std::vector<ArrayType> infer_binomial(const ir::InferContext& context) {
  expect_key_and_floats(context, 2);
  return {context.inputs[1]};
}

void binomial_reference(const ir::ReferenceContext& context) {
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    const backend::samplers::Key key = key_at(context.inputs[0], i);
    reference::store(context.outputs[0], i,
                     backend::samplers::binomial(key, reference::load<double>(context.inputs[1], i),
                                                 reference::load<double>(context.inputs[2], i)));
  }
}

}  // namespace

const Primitive& primitives::random_gamma() {
  static const Primitive op{.name = "random_gamma",
                            .infer = infer_gamma,
                            .derivative = derivative::jvp(gamma_jvp),
                            .batch = batch::pointwise(random_gamma),
                            .reference = gamma_reference,
                            .samples = for_both_spaces(true, {{0.1, 5}}),
                            .error_samples = key_and_float_errors(1, {{"log_space", false}}),
                            .traits = {.pointwise = true, .draws = true}};
  return op;
}

const Primitive& primitives::random_gamma_grad() {
  static const Primitive op{.name = "random_gamma_grad",
                            .infer =
                                [](const ir::InferContext& context) {
                                  log_space(context.attrs);
                                  return infer::same_shape(infer::floating, 2)(context);
                                },
                            .derivative = derivative::jvp([](const JvpContext&) -> std::vector<Tangent> {
                              throw TraceError(
                                  "random_gamma_grad: a draw of gamma can be differentiated once, not twice; put "
                                  "stop_gradient on the draw or "
                                  "on its derivative");
                            }),
                            .batch = batch::pointwise(random_gamma_grad),
                            .reference = gamma_grad_reference,
                            .samples = for_both_spaces(false, {{0.1, 5}, {0.05, 2}}),
                            .error_samples = samples::errors(
                                {{{{float32, {2}, {}}}, {{"log_space", false}}, "expected 2 operands", {}},
                                 {{{int32, {2}, {}}, {int32, {2}, {}}}, {{"log_space", false}}, "a float dtype", {}}}),
                            .traits = pointwise_traits};
  return op;
}

const Primitive& primitives::random_poisson() {
  static const Primitive op{.name = "random_poisson",
                            .infer = infer_poisson,
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(random_poisson),
                            .reference = poisson_reference,
                            .samples =
                                [] {
                                  std::vector<ir::Sample> list = sampler_samples(true, {{0, 8}}, {{"dtype", int32}});
                                  for (ir::Sample& sample : sampler_samples(true, {{9, 40}}, {{"dtype", int64}})) {
                                    list.push_back(std::move(sample));
                                  }
                                  return list;
                                },
                            .error_samples =
                                [] {
                                  auto list = key_and_float_errors(1, {{"dtype", int32}})();
                                  const ArrayType key{DType::key, {2}, {}}, rate{float32, {2}, {}};
                                  list.push_back({{key, rate}, {{"dtype", float32}}, "dtype int32 or int64", {}});
                                  return list;
                                },
                            .traits = {.pointwise = true, .draws = true}};
  return op;
}

const Primitive& primitives::random_binomial() {
  static const Primitive op{.name = "random_binomial",
                            .infer = infer_binomial,
                            .derivative = derivative::zero(),
                            .batch = batch::pointwise(random_binomial),
                            .reference = binomial_reference,
                            .samples =
                                [] {
                                  return sampler_samples(true, {{1, 100}, {0.05, 0.95}}, {});
                                },
                            .error_samples = key_and_float_errors(2, {}),
                            .traits = {.pointwise = true, .draws = true}};
  return op;
}

}  // namespace lockstep::ops
