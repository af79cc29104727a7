#include <cstdint>
#include <vector>

#include <lockstep/backend/threefry.h>

#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

void expect_key(const ir::InferContext& context) {
  if (context.inputs[0].dtype == DType::key) return;
  infer::dtype_error(context, "a key for operand 0", "pass random::key(seed) or random::wrap_key_data(words)");
}

std::vector<ArrayType> infer_fold_in(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  expect_key(context);
  if (context.inputs[1].dtype != uint32) infer::dtype_error(context, "uint32 for operand 1", "convert(data, uint32)");
  infer::expect_same_shape(context);
  return {{DType::key, context.inputs[0].shape, {}}};
}

std::vector<ArrayType> infer_wrap(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const ArrayType& words = context.inputs[0];
  if (words.dtype != uint32) infer::dtype_error(context, "uint32 words", "convert(words, uint32)");
  if (words.shape.rank() == 0 || words.shape.dim(-1) != 2) {
    infer::shape_error(context, "a last dimension of extent 2, the key's words", "stack the two words along it");
  }
  return {{DType::key, words.shape.erase(words.shape.rank() - 1), {}}};
}

std::vector<ArrayType> infer_unwrap(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  expect_key(context);
  Shape words = context.inputs[0].shape;
  words.append(2);
  return {{uint32, words, {}}};
}

void fold_in_reference(const ir::ReferenceContext& context) {
  for (std::int64_t i = 0; i < context.inputs[0].type.size(); ++i) {
    const auto key = reference::load<std::uint64_t>(context.inputs[0], i);
    const auto data = reference::load<std::uint64_t>(context.inputs[1], i);
    reference::store(
        context.outputs[0], i,
        backend::threefry_bits({static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)}, data));
  }
}

void wrap_reference(const ir::ReferenceContext& context) {
  for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
    const auto first = reference::load<std::uint64_t>(context.inputs[0], 2 * i);
    reference::store(context.outputs[0], i,
                     (first << 32) | reference::load<std::uint64_t>(context.inputs[0], 2 * i + 1));
  }
}

void unwrap_reference(const ir::ReferenceContext& context) {
  for (std::int64_t i = 0; i < context.inputs[0].type.size(); ++i) {
    const auto key = reference::load<std::uint64_t>(context.inputs[0], i);
    reference::store(context.outputs[0], 2 * i, key >> 32);
    reference::store(context.outputs[0], 2 * i + 1, key & 0xffffffffU);
  }
}

constexpr samples::Range any_key{-9e18, 9e18};
constexpr samples::Range any_word{0, 4294967296.0};

std::vector<ir::Sample> fold_in_samples() {
  std::vector<ir::Sample> list;
  for (const Shape& shape : samples::small_shapes()) {
    list.push_back({{samples::input(DType::key, shape, any_key), samples::input(uint32, shape, any_word)}, {}, {}});
  }
  return list;
}

std::vector<ir::Sample> wrap_samples() {
  std::vector<ir::Sample> list;
  for (Shape shape : samples::small_shapes()) {
    shape.append(2);
    list.push_back({{samples::input(uint32, shape, any_word)}, {}, {}});
  }
  return list;
}

std::vector<ir::ErrorSample> fold_in_errors() {
  const ArrayType key{DType::key, {2}, {}};
  return {
      {{key}, {}, "expected 2 operands", {}},
      {{{uint32, {2}, {}}, {uint32, {2}, {}}}, {}, "a key for operand 0", {}},
      {{key, {int32, {2}, {}}}, {}, "uint32 for operand 1", {}},
      {{key, {uint32, {3}, {}}}, {}, "operands of one shape", {}},
  };
}

std::vector<ir::ErrorSample> wrap_errors() {
  return {
      {{}, {}, "expected 1 operand", {}},
      {{{int32, {2}, {}}}, {}, "uint32 words", {}},
      {{{uint32, {}, {}}}, {}, "a last dimension of extent 2", {}},
      {{{uint32, {2, 3}, {}}}, {}, "a last dimension of extent 2", {}},
  };
}

std::vector<ir::ErrorSample> unwrap_errors() {
  return {{{}, {}, "expected 1 operand", {}}, {{{uint32, {2}, {}}}, {}, "a key for operand 0", {}}};
}

}  // namespace

const ir::Primitive& primitives::random_fold_in() {
  static const ir::Primitive primitive{
      .name = "random_fold_in",
      .infer = infer_fold_in,
      .derivative = derivative::zero(),
      .batch = batch::pointwise(primitives::random_fold_in),
      .reference = fold_in_reference,
      .samples = fold_in_samples,
      .error_samples = fold_in_errors,
      .traits = {.pointwise = true},
  };
  return primitive;
}

const ir::Primitive& primitives::random_wrap() {
  static const ir::Primitive primitive{
      .name = "random_wrap",
      .infer = infer_wrap,
      .derivative = derivative::zero(),
      .batch = batch::pointwise(primitives::random_wrap),
      .reference = wrap_reference,
      .samples = wrap_samples,
      .error_samples = wrap_errors,
      .traits = {},
  };
  return primitive;
}

const ir::Primitive& primitives::random_unwrap() {
  static const ir::Primitive primitive{
      .name = "random_unwrap",
      .infer = infer_unwrap,
      .derivative = derivative::zero(),
      .batch = batch::pointwise(primitives::random_unwrap),
      .reference = unwrap_reference,
      .samples = samples::elementwise({any_key}, {DType::key}),
      .error_samples = unwrap_errors,
      .traits = {},
  };
  return primitive;
}

}  // namespace lockstep::ops
