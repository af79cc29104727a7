#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "backends/aten/backend.h"
#include "backends/cpu/attention/attention_rows.h"
#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/dims.h"

namespace lockstep::tests {

namespace {

struct AttentionCase {
  std::string name;
  Shape q, k;
  Shape bias = {1, 1, 1, 1}, mask = {1, 1, 1, 1};
  Dims window = {-1, -1};
};

/// As many queries as keys.
AttentionCase square_case(std::int64_t length, std::int64_t features, Dims window = {-1, -1}) {
  const Shape shape{1, length, 2, features};
  return {"square", shape, shape, {1, 1, 1, 1}, {1, 1, 1, 1}, std::move(window)};
}

/// Blocks and vectors that end before, on and behind their borders, and everything that may hide a key.
std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> list;
  for (const std::int64_t length : {1, 63, 64, 65, 257}) {
    list.push_back(square_case(length, 16));
    list.push_back(square_case(length, 40, {-1, 0}));
  }
  list.push_back(square_case(130, 64, {20, 5}));
  list.push_back(square_case(300, 16, {0, 0}));
  list.push_back(square_case(65, 128, {-1, 0}));
  list.push_back(square_case(70, 16, {std::int64_t{1} << 40, std::int64_t{1} << 40}));
  list.push_back({"one query", {2, 1, 2, 64}, {2, 257, 2, 64}});
  list.push_back({"one key", {2, 70, 2, 16}, {2, 1, 2, 16}});
  list.push_back({"one feature", {1, 66, 2, 1}, {1, 70, 2, 1}});
  list.push_back({"grouped", {2, 66, 6, 16}, {2, 80, 2, 16}, {1, 1, 1, 1}, {1, 1, 1, 1}, {-1, 0}});
  list.push_back({"all heads on one", {1, 33, 4, 40}, {1, 130, 1, 40}});
  list.push_back({"bias of every place", {2, 65, 2, 16}, {2, 67, 2, 16}, {2, 2, 65, 67}});
  list.push_back({"bias of queries", {2, 65, 2, 16}, {2, 67, 2, 16}, {1, 2, 65, 1}});
  list.push_back({"bias of keys, sliding", {2, 65, 2, 16}, {2, 67, 2, 16}, {1, 1, 1, 67}, {1, 1, 1, 1}, {9, 3}});
  list.push_back({"mask of every place", {2, 65, 2, 16}, {2, 67, 2, 16}, {1, 1, 1, 1}, {2, 2, 65, 67}, {-1, 0}});
  list.push_back({"mask of keys", {3, 65, 2, 16}, {3, 67, 2, 16}, {1, 1, 1, 1}, {3, 1, 1, 67}});
  list.push_back({"mask of queries", {2, 65, 2, 16}, {2, 67, 2, 16}, {1, 2, 1, 1}, {1, 1, 65, 1}});
  list.push_back({"queries beyond all keys", {1, 200, 2, 16}, {1, 70, 2, 16}, {1, 1, 1, 1}, {1, 1, 1, 1}, {10, 0}});
  list.push_back({"both", {2, 66, 4, 16}, {2, 70, 2, 16}, {1, 4, 66, 70}, {2, 1, 66, 70}, {40, 10}});
  list.push_back({"long", {1, 70, 1, 16}, {1, 1100, 1, 16}, {1, 1, 1, 1}, {1, 1, 1, 1}, {-1, 900}});
  return list;
}

ir::Sample attention_sample(const AttentionCase& c, const ir::Primitive& op, DType dtype = float32) {
  ir::Sample sample;
  const auto add = [&](const Shape& shape) { sample.inputs.push_back({{dtype, shape, {}}, -1, 1, false}); };
  for (const Shape& shape : {c.q, c.k, c.k, c.bias}) add(shape);
  sample.inputs.push_back({{bool_, c.mask, {}}, c.mask.size() == 1 ? 1.0 : 0.4, 2, false});
  if (&op == &ops::primitives::attention_grad()) {
    const Shape lse{c.q[0], c.q[1], c.q[2]};
    for (const Shape& shape : {c.q, lse, c.q, lse}) add(shape);
  }
  sample.attrs = {{"scale", 1 / std::sqrt(static_cast<double>(c.q[3]))}, {"window", c.window}};
  return sample;
}

const std::vector<const ir::Primitive*>& both_ops() {
  static const std::vector<const ir::Primitive*> ops = {&ops::primitives::attention(),
                                                        &ops::primitives::attention_grad()};
  return ops;
}

float* floats_in(const Memory& memory) { return reinterpret_cast<float*>(memory.data()); }

/// Whether results agree: NaN where there is NaN, infinities likewise, numbers within a bound.
void check_same_kind(const std::vector<std::vector<std::byte>>& a, const std::vector<std::vector<std::byte>>& b,
                     const std::string& name) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t different = 0;
    for (std::size_t at = 0; at < a[i].size(); at += sizeof(float)) {
      float x = 0, y = 0;
      std::memcpy(&x, a[i].data() + at, sizeof(x));
      std::memcpy(&y, b[i].data() + at, sizeof(y));
      different += close(static_cast<double>(x), static_cast<double>(y), 2e-4) ? 0 : 1;
    }
    CHECK_MESSAGE(different == 0, name << ", result " << i);
  }
}

/// One query that sees all keys, whose logits are `weights` and one bias.
backend::cpu::AttentionRows one_row(std::int64_t keys, const float& bias, const bool& mask, float* weights) {
  return {.rows = 1,
          .first_query = 0,
          .keys = keys,
          .first_key = 0,
          .stride = keys,
          .left = -1,
          .right = -1,
          .scale = 1,
          .bias = &bias,
          .bias_row = 0,
          .bias_key = 0,
          .mask = &mask,
          .mask_row = 0,
          .mask_key = 0,
          .saved_row = 0,
          .weights = weights};
}

}  // namespace

TEST_CASE("attention and its gradient have the reference's values") {
  if (!offers()) return skip(not_offered);
  for (const ir::Primitive* op : both_ops()) {
    for (const AttentionCase& c : attention_cases()) check_against_reference(*op, attention_sample(c, *op), c.name);
    for (const ir::Sample& sample : op->samples()) {
      const ArrayType& q = sample.inputs[0].type;
      if (q.dtype == float32 && q.size() > 0) check_against_reference(*op, sample, "sample");
    }
  }
}

TEST_CASE("NaN and infinities go where ATen's kernels take them") {
  if (!offers()) return skip(not_offered);
  const std::shared_ptr<const backend::Backend> aten = backend::make_aten_backend();
  const AttentionCase c{"", {2, 66, 2, 16}, {2, 67, 2, 16}, {1, 2, 66, 67}, {2, 1, 66, 67}};
  for (const ir::Primitive* op : both_ops()) {
    const ir::Sample sample = attention_sample(c, *op);
    const BoundOp ours(*op, sample);
    const BackendOp theirs(*aten, *op, input_types(sample), sample.attrs);
    for (const float x : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
      for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
        if (i == 4) continue;
        const std::vector<Memory> operands = draw_memory(sample, 5);
        floats_in(operands[i])[sample.inputs[i].type.size() / 3] = x;
        check_same_kind(ours.run(operands), theirs.run(operands),
                        op->name + " with " + std::to_string(x) + " in operand " + std::to_string(i));
      }
      const std::vector<Memory> operands = draw_memory(sample, 5);
      for (std::int64_t j = 0; j < 67; ++j) floats_in(operands[3])[10 * 67 + j] = x;  // all a query's logits
      check_same_kind(ours.run(operands), theirs.run(operands), op->name + ", a whole row of " + std::to_string(x));
    }
  }
}

TEST_CASE("what lies beyond the range of keys that a window shows is not read") {
  if (!offers()) return skip(not_offered);
  const ir::Primitive& op = ops::primitives::attention();
  const ir::Sample sample = attention_sample(square_case(256, 16, {-1, 0}), op);
  const BoundOp bound(op, sample);
  const std::vector<Memory> operands = draw_memory(sample, 5);
  const std::vector<std::byte> expected = bound.run(operands)[0];
  std::fill_n(floats_in(operands[2]) + 64 * 2 * 16, 192 * 2 * 16, std::numeric_limits<float>::quiet_NaN());
  const std::vector<std::byte> result = bound.run(operands)[0];
  CHECK(std::memcmp(result.data(), expected.data(), 64 * 2 * 16 * sizeof(float)) == 0);
}

TEST_CASE("what lies behind the last keys that a mask shows is not read, nor does it change bits") {
  if (!offers()) return skip(not_offered);
  const ir::Primitive& op = ops::primitives::attention();
  const AttentionCase c{"", {2, 70, 3, 16}, {2, 300, 3, 16}, {1, 1, 1, 1}, {2, 1, 70, 300}};
  const AttentionCase cut{"", {2, 70, 3, 16}, {2, 128, 3, 16}, {1, 1, 1, 1}, {2, 1, 70, 128}};
  const std::int64_t seen[] = {128, 66};
  const ir::Sample sample = attention_sample(c, op);
  std::vector<Memory> operands = draw_memory(sample, 5), first = draw_memory(attention_sample(cut, op), 5);
  const auto copy = [](const Memory& from, std::int64_t step, Memory& to, std::int64_t bytes, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(to.data() + i * bytes, from.data() + i * step, bytes);
  };
  auto* mask = reinterpret_cast<bool*>(operands[4].data());
  for (std::int64_t i = 0; i < 2 * 70 * 300; ++i) mask[i] = i % 300 < std::min(seen[i / 21000], i / 300 % 70 + 60);
  copy(operands[0], 0, first[0], 2 * 70 * 48 * 4, 1);
  for (const std::size_t i : {1U, 2U}) copy(operands[i], 300 * 48 * 4, first[i], 128 * 48 * 4, 2);
  copy(operands[3], 0, first[3], 4, 1);
  copy(operands[4], 300, first[4], 128, 140);
  for (std::int64_t i = 0; i < 2; ++i) {
    for (const std::size_t of : {1U, 2U}) {
      std::fill_n(floats_in(operands[of]) + (300 * i + 128) * 48, 172 * 48, std::numeric_limits<float>::quiet_NaN());
    }
  }
  CHECK(BoundOp(op, sample).run(operands) == BoundOp(op, attention_sample(cut, op)).run(first));
}

TEST_CASE("parts of attention, in any order, have the bits of the whole") {
  if (!offers()) return skip(not_offered);
  const ir::Primitive& op = ops::primitives::attention();
  const AttentionCase c{"", {3, 130, 4, 64}, {3, 260, 2, 64}, {1, 4, 130, 260}, {3, 1, 130, 260}, {200, 0}};
  const ir::Sample sample = attention_sample(c, op);
  const BoundOp bound(op, sample);
  const std::vector<Memory> operands = draw_memory(sample, 5);
  std::vector<std::unique_ptr<backend::Kernel>> parts =
      onednn().make_parts({bound.op, bound.attrs, bound.inputs, bound.outputs, {}}, *bound.kernel);
  CHECK(parts.size() > 1);
  std::vector<ArrayView> inputs, outputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(contiguous_view(operands[i].data(), bound.inputs[i].dtype, bound.inputs[i].shape));
  }
  std::vector<Memory> results;
  results.reserve(bound.outputs.size());
  for (const ArrayType& type : bound.outputs) {
    const Memory& result = results.emplace_back(static_cast<std::size_t>(type.nbytes()));
    outputs.push_back(contiguous_view(result.data(), type.dtype, type.shape));
  }
  std::ranges::reverse(parts);
  for (const std::unique_ptr<backend::Kernel>& part : parts) {
    const Memory scratch(part->scratch_bytes());
    part->run({inputs, outputs, scratch.data()});
  }
  const std::vector<std::vector<std::byte>> expected = bound.run(operands);
  for (std::size_t i = 0; i < results.size(); ++i) CHECK(results[i].bytes() == expected[i]);
}

TEST_CASE("weights keep the bound of their exponential") {
  if (!offers()) return skip(not_offered);
  constexpr std::int64_t count = std::int64_t{1} << 16;
  const float bias = 0;
  const bool mask = true;
  float inverse = 0, saved = 0;
  double most = 0;
  const Memory memory(count * sizeof(float));
  float* values = floats_in(memory);
  const backend::cpu::AttentionRows row = one_row(count, bias, mask, values);
  for (std::uint32_t part = 0; part < 64; ++part) {
    // What the largest of a row, 0 here, is subtracted from.
    std::vector<float> x(count);
    for (std::uint32_t i = 1; i < count; ++i) {
      const float drawn = std::bit_cast<float>((part * 65536 + i) * 1021);
      x[i] = std::isnan(drawn) ? 0 : -std::abs(drawn);
    }
    std::copy(x.begin(), x.end(), values);
    soften(row, &inverse, &saved);
    REQUIRE(inverse > 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float y = values[i];
      if (x[i] < -87.7F) CHECK(y == 0);
      if (!(x[i] >= -87.3F)) continue;
      const double exact = std::exp(static_cast<double>(x[i]));
      most = std::max(most, std::abs(static_cast<double>(y) - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
    }
  }
  CHECK(most < 1);
  CHECK(most > 0.4);
}

TEST_CASE("weights of a backward pass add up to 1, whatever the log-sum-exp has lost") {
  if (!offers()) return skip(not_offered);
  constexpr std::int64_t count = 80;
  const bool mask = true;
  const Memory memory(count * sizeof(float));
  float* values = floats_in(memory);
  for (const float bias : {0.0F, -1e6F, 1e9F, -std::numeric_limits<float>::max()}) {
    for (const float away : {-9.0F, 0.0F, 9.0F}) {
      const backend::cpu::AttentionRows row = one_row(count, bias, mask, values);
      std::fill_n(values, count, 0.5F);
      const float saved = bias + away;
      bool seen = false;
      weigh(row, &saved, &seen);
      REQUIRE(seen);
      for (std::int64_t i = 0; i < count; ++i) CHECK(values[i] == doctest::Approx(1.0 / count).epsilon(1e-6));
    }
  }
}

TEST_CASE("attention of other dtypes, without elements, and the tangent are left to others") {
  const AttentionCase c = square_case(4, 2);
  for (const DType dtype : {float64, bfloat16, float16}) {
    CHECK(BoundOp(ops::primitives::attention(), attention_sample(c, ops::primitives::attention(), dtype)).kernel ==
          nullptr);
  }
  for (const ir::Primitive* op : both_ops()) {
    CHECK((BoundOp(*op, attention_sample(c, *op)).kernel != nullptr) == offers());
    CHECK(BoundOp(*op, attention_sample({"", {0, 4, 2, 2}, {0, 4, 2, 2}}, *op)).kernel == nullptr);
    CHECK(BoundOp(*op, attention_sample({"", {1, 0, 2, 2}, {1, 4, 2, 2}}, *op)).kernel == nullptr);
    CHECK(BoundOp(*op, attention_sample({"", {1, 3, 2, 0}, {1, 4, 2, 0}}, *op)).kernel == nullptr);
  }
  const ir::Sample tangent = ops::primitives::attention_tangent().samples()[0];
  CHECK(BoundOp(ops::primitives::attention_tangent(), tangent).kernel == nullptr);
}

}  // namespace lockstep::tests
