#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/backend/threefry.h>

#include "engine/core/lists.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/flops.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

DType dtype_of_width(const ir::InferContext& context) {
  switch (context.attrs.get<std::int64_t>("width")) {
    case 8:
      return uint8;
    case 16:
      return uint16;
    case 32:
      return uint32;
    case 64:
      return uint64;
    default:
      infer::dtype_error(context, "width 8, 16, 32 or 64", "draw 32 bits and convert");
  }
}

/// One result element of `dtype` for each key and each element of the drawn shape.
std::vector<ArrayType> infer_draw(const ir::InferContext& context, DType dtype) {
  const bool cut = context.attrs.has("cut");
  infer::expect_operands(context, cut ? 2 : 1);
  if (context.inputs[0].dtype != DType::key) {
    infer::dtype_error(context, "a key for operand 0", "pass random::key(seed) or random::wrap_key_data(words)");
  }
  const Shape shape = infer::shape_attr(context, "shape");
  if (cut) {
    infer::index_attr(context, "cut", shape.rank());
    if (context.inputs[1].dtype != int32) infer::dtype_error(context, "int32 for operand 1", "convert(block, int32)");
    infer::expect_rank(context, 1, 0);
  }
  Shape result = context.inputs[0].shape;
  for (const std::int64_t extent : shape) result.append(extent);
  return {{dtype, result, {}}};
}

std::vector<ArrayType> infer_bits(const ir::InferContext& context) {
  infer::expect_operands(context, context.attrs.has("cut") ? 2 : 1);
  return infer_draw(context, dtype_of_width(context));
}

std::vector<ArrayType> infer_split(const ir::InferContext& context) { return infer_draw(context, DType::key); }

/// A batch of keys stands in front of theirs; a batch of blocks, which only a vmapped axis makes, is drawn one by one.
std::vector<Value> batch_draw(const ir::BatchContext& context, const ir::Primitive& self) {
  if (context.inputs.size() == 1) return apply(self, context.inputs, context.attrs);
  if (!context.batched[1]) {
    return {apply_one(self, {batch::batched(context, 0), context.inputs[1]}, context.attrs)};
  }
  const Value keys = batch::batched(context, 0);
  const Value& blocks = context.inputs[1];
  std::vector<Value> draws;
  for (std::int64_t i = 0; i < context.size; ++i) {
    Dims start = repeated(keys.rank());
    Dims limit = keys.shape().to_vector();
    start[0] = i;
    limit[0] = i + 1;
    const Value key = slice(keys, start, limit, Dims(start.size(), 1));
    const Value block = reshape(slice(blocks, {i}, {i + 1}, {1}), Shape{});
    draws.push_back(apply_one(self, {key, block}, context.attrs));
  }
  if (!draws.empty()) return {concatenate(draws, 0)};
  const Value block = full(context.builder, int32, Shape{}, 0);
  return {apply_one(self, {keys, block}, context.attrs)};
}

std::vector<Value> batch_bits(const ir::BatchContext& context) {
  return batch_draw(context, primitives::random_bits());
}
std::vector<Value> batch_split(const ir::BatchContext& context) {
  return batch_draw(context, primitives::random_split());
}

/// For each element of the drawn shape, row-major, its counter in block 0. With a cut, that dimension counts as the
/// outermost one.
std::vector<std::uint64_t> counters(const Shape& shape, const Attrs& attrs) {
  const int outermost = attrs.has("cut") ? static_cast<int>(attrs.get<std::int64_t>("cut")) : 0;
  std::vector<std::uint64_t> result;
  reference::for_each_index(shape, [&](const Dims& index) {
    std::uint64_t counter = index.empty() ? 0 : static_cast<std::uint64_t>(nth(index, outermost));
    for (int d = 0; d < shape.rank(); ++d) {
      if (d == outermost) continue;
      counter = counter * static_cast<std::uint64_t>(shape[d]) + static_cast<std::uint64_t>(nth(index, d));
    }
    result.push_back(counter);
  });
  return result;
}

/// The 64 bits at each element's counter, less those that `width` leaves out.
void draw_reference(const ir::ReferenceContext& context, int width) {
  const Shape shape(context.attrs.get<Dims>("shape"));
  const std::vector<std::uint64_t> first = counters(shape, context.attrs);
  std::uint64_t skipped = 0;
  if (context.attrs.has("cut")) {
    skipped = reference::load<std::uint64_t>(context.inputs[1], 0) * static_cast<std::uint64_t>(shape.size());
  }
  std::int64_t position = 0;
  for (std::int64_t k = 0; k < context.inputs[0].type.size(); ++k) {
    const auto key = reference::load<std::uint64_t>(context.inputs[0], k);
    const std::array<std::uint32_t, 2> words = {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)};
    for (const std::uint64_t counter : first) {
      reference::store(context.outputs[0], position++,
                       backend::threefry_draw(backend::threefry_bits(words, skipped + counter), width));
    }
  }
}

void bits_reference(const ir::ReferenceContext& context) {
  draw_reference(context, static_cast<int>(context.attrs.get<std::int64_t>("width")));
}

void random_split_reference(const ir::ReferenceContext& context) { draw_reference(context, 64); }

ir::SampleInput key_input(const Shape& shape) { return samples::input(DType::key, shape, {-9e18, 9e18}); }

Attrs draw(const Dims& shape, std::int64_t width) { return {{"shape", shape}, {"width", width}}; }

std::vector<ir::Sample> random_bits_samples() {
  std::vector<ir::Sample> list;
  for (const std::int64_t width : {8, 16, 32, 64}) {
    list.push_back({{key_input({})}, draw({3, 5}, width), {}});
    list.push_back({{key_input({2, 3})}, draw({4}, width), {}});
  }
  for (const Dims& shape : {Dims{}, Dims{1}, Dims{0}, Dims{2, 0}}) {
    list.push_back({{key_input({})}, draw(shape, 32), {}});
  }
  list.push_back({{key_input({0})}, draw({2}, 32), {}});
  for (const std::int64_t cut : {0, 1, 2}) {
    list.push_back({{key_input({}), samples::input(int32, {}, {0, 8})}, draw({2, 3, 4}, 32).with("cut", cut), {}});
  }
  list.push_back(
      {{key_input({2}), samples::input(int32, {}, {0, 8})}, draw({3, 2}, 64).with("cut", std::int64_t{1}), {}});
  return list;
}

std::vector<ir::Sample> random_split_samples() {
  std::vector<ir::Sample> list;
  for (const Dims& shape : {Dims{}, Dims{1}, Dims{0}, Dims{2, 0}, Dims{5}, Dims{3, 2}}) {
    list.push_back({{key_input({})}, {{"shape", shape}}, {}});
  }
  list.push_back({{key_input({2, 3})}, {{"shape", Dims{4}}}, {}});
  const Attrs cut = {{"shape", Dims{2, 3}}, {"cut", std::int64_t{1}}};
  list.push_back({{key_input({}), samples::input(int32, {}, {0, 8})}, cut, {}});
  list.push_back({{key_input({2}), samples::input(int32, {}, {0, 8})}, cut, {}});
  return list;
}

std::vector<ir::ErrorSample> split_errors() {
  return {
      {{}, {{"shape", Dims{2}}}, "expected 1 operand", {}},
      {{{uint32, {2}, {}}}, {{"shape", Dims{2}}}, "a key for operand 0", {}},
      {{{DType::key, {}, {}}}, {{"shape", Dims{-2}}}, "extents of 0 or more in shape", {}},
  };
}

std::vector<ir::ErrorSample> bits_errors() {
  const ArrayType key{DType::key, {}, {}};
  const ArrayType block{int32, {}, {}};
  const Attrs cut = draw({2, 3}, 32).with("cut", std::int64_t{1});
  return {
      {{}, draw({2}, 32), "expected 1 operand", {}},
      {{key}, cut, "expected 2 operands", {}},
      {{{uint32, {2}, {}}}, draw({2}, 32), "a key for operand 0", {}},
      {{key}, draw({2}, 24), "width 8, 16, 32 or 64", {}},
      {{key}, draw({-2}, 32), "extents of 0 or more in shape", {}},
      {{key, block}, cut.with("cut", std::int64_t{2}), "cut in [0, 2)", {}},
      {{key, {int64, {}, {}}}, cut, "int32 for operand 1", {}},
      {{key, {int32, {1}, {}}}, cut, "rank 0 for operand 1", {}},
  };
}

/// What is drawn for each key runs with it. Dimension 0 of what is drawn, or the one that counts as the outermost
/// already, may be cut: a block of it is a draw of its own.
ir::Factors draw_factors(const ir::LayoutContext& context) {
  ir::Factors factors;
  const int keys = context.inputs[0].shape.rank();
  const int outermost = context.attrs.has("cut") ? static_cast<int>(context.attrs.get<std::int64_t>("cut")) : 0;
  const Shape& shape = context.outputs[0].shape;
  ir::FactorDims dims;
  for (int d = 0; d < shape.rank(); ++d) {
    const bool may_be_cut = d < keys || d == keys + outermost;
    dims.push_back({factors.add(shape[d], may_be_cut ? ir::Factor::Kind::sum : ir::Factor::Kind::whole)});
  }
  factors.operands = {ir::FactorDims(dims.begin(), dims.begin() + keys)};
  if (context.inputs.size() == 2) factors.operands.emplace_back();
  factors.results = {dims};
  return factors;
}

template <PrimitiveGetter self>
std::vector<Value> draw_block(const ir::BlockContext& context) {
  const int keys = context.inputs[0].rank();
  const bool has_cut = context.attrs.has("cut");
  const std::int64_t cut = has_cut ? context.attrs.get<std::int64_t>("cut") : 0;
  const Shape& block = context.outputs[0].shape;
  const Attrs attrs = context.attrs.with("shape", Dims(block.begin() + keys, block.end()));
  const int factor = keys + static_cast<int>(cut);
  if (factor >= block.rank() || context.axes[static_cast<std::size_t>(factor)].empty()) {
    return apply(self(), context.inputs, attrs);
  }
  Value number = layout::block_number(context, factor);
  if (has_cut) {
    const std::int64_t blocks = context.whole_outputs[0].shape[factor] / block[factor];
    number = context.inputs[1] * static_cast<double>(blocks) + number;
  }
  return {apply_one(self(), {context.inputs[0], number}, attrs.with("cut", cut))};
}

}  // namespace

const ir::Primitive& primitives::random_bits() {
  static const ir::Primitive primitive{
      .name = "random_bits",
      .infer = infer_bits,
      .derivative = derivative::zero(),
      .batch = batch_bits,
      .reference = bits_reference,
      .flops = flops::per_result(50),
      .samples = random_bits_samples,
      .error_samples = bits_errors,
      .traits = {.draws = true},
      .layout = {.factors = draw_factors, .write = draw_block<primitives::random_bits>, .repeated = true}};
  return primitive;
}

const ir::Primitive& primitives::random_split() {
  static const ir::Primitive primitive{
      .name = "random_split",
      .infer = infer_split,
      .derivative = derivative::zero(),
      .batch = batch_split,
      .reference = random_split_reference,
      .flops = flops::per_result(100),
      .samples = random_split_samples,
      .error_samples = split_errors,
      .traits = {.draws = true},
      .layout = {.factors = draw_factors, .write = draw_block<primitives::random_split>, .repeated = true}};
  return primitive;
}

}  // namespace lockstep::ops
