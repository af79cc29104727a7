#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/error.h>

#include "engine/ops/linalg/dot_dims.h"
#include "engine/ops/primitives.h"

namespace lockstep::ops {

namespace {

constexpr std::array<const char*, 2> side_names = {"first", "second"};

std::string shapes_text(const ir::InferContext& context) {
  return to_string(context.inputs[0]) + " and " + to_string(context.inputs[1]);
}

void check_dims_exist(const ir::InferContext& context) {
  for (const char* name : {"contract", "batch"}) {
    const auto& pair = context.attrs.get<std::vector<Dims>>(name);
    if (pair.size() != 2 || pair[0].size() != pair[1].size()) {
      throw ShapeError("dot_general: " + std::string(name) + "=" + to_string(context.attrs.at(name)) +
                       " must name as many dimensions of the first operand as of the second; write ([a dims],[b dims])");
    }
  }
  for (std::size_t side = 0; side < 2; ++side) {
    std::vector<bool> used(static_cast<std::size_t>(context.inputs[side].shape.rank()), false);
    for (const char* name : {"contract", "batch"}) {
      for (const std::int64_t dim : context.attrs.get<std::vector<Dims>>(name)[side]) {
        if (dim < 0 || dim >= static_cast<std::int64_t>(used.size()) || used[static_cast<std::size_t>(dim)]) {
          throw ShapeError("dot_general: dimension " + std::to_string(dim) + " of the " + side_names[side] +
                           " operand " + to_string(context.inputs[side]) +
                           " is named twice or does not exist in contract=" +
                           to_string(context.attrs.at("contract")) + " batch=" + to_string(context.attrs.at("batch")));
        }
        used[static_cast<std::size_t>(dim)] = true;
      }
    }
  }
}

void check_extents(const ir::InferContext& context, const std::array<Dims, 2>& dims, const char* role) {
  for (std::size_t i = 0; i < dims[0].size(); ++i) {
    const std::int64_t a = context.inputs[0].shape[static_cast<int>(dims[0][i])];
    const std::int64_t b = context.inputs[1].shape[static_cast<int>(dims[1][i])];
    if (a == b) continue;
    throw ShapeError("dot_general: " + shapes_text(context) + ": " + role + " dimension " + std::to_string(dims[0][i]) +
                     " of the first operand has extent " + std::to_string(a) + ", dimension " +
                     std::to_string(dims[1][i]) + " of the second has " + std::to_string(b) +
                     "; they must be equal (transpose or reshape an operand)");
  }
}

std::vector<ArrayType> infer(const ir::InferContext& context) {
  expect_operands(context, 2);
  const ArrayType& a = context.inputs[0];
  const ArrayType& b = context.inputs[1];
  if (a.dtype != b.dtype || !(is_inexact(a.dtype) || is_integer(a.dtype))) {
    throw DtypeError("dot_general: operands " + shapes_text(context) +
                     " must have one dtype, a float, complex or integer one; convert first");
  }
  check_dims_exist(context);
  const DotDims dims = dot_dims(context.attrs, {a.shape.rank(), b.shape.rank()});
  check_extents(context, dims.contract, "contracted");
  check_extents(context, dims.batch, "batch");
  Shape shape;
  for (const std::int64_t dim : dims.batch[0]) shape.append(a.shape[static_cast<int>(dim)]);
  for (const std::int64_t dim : dims.free[0]) shape.append(a.shape[static_cast<int>(dim)]);
  for (const std::int64_t dim : dims.free[1]) shape.append(b.shape[static_cast<int>(dim)]);
  return {{a.dtype, shape, {}}};
}

Dims counted_from(std::size_t first, std::size_t count) {
  Dims dims;
  for (std::size_t i = 0; i < count; ++i) dims.push_back(static_cast<std::int64_t>(first + i));
  return dims;
}

/// The cotangent of operand `side`: the result's cotangent contracted with the other operand over the latter's free
/// dimensions, its dimensions then put where the operand has them.
Value operand_cotangent(const Value& cotangent, const Value& other, const DotDims& dims, std::size_t side) {
  const std::size_t batch = dims.batch[0].size();
  const std::size_t other_free_begin = batch + (side == 0 ? dims.free[0].size() : 0);
  const Dims cotangent_contract = counted_from(other_free_begin, dims.free[1 - side].size());
  const Value product = apply_one(
      primitives::dot_general(), {cotangent, other},
      dot_attrs({cotangent_contract, dims.free[1 - side]}, {counted_from(0, batch), dims.batch[1 - side]}));
  // product: batch, free of `side`, then the other's contracted dimensions in ascending order.
  Dims sorted = dims.contract[1 - side];
  std::sort(sorted.begin(), sorted.end());
  const std::size_t rank = batch + dims.free[side].size() + sorted.size();
  Dims permutation(rank);
  for (std::size_t i = 0; i < batch; ++i) {
    permutation[static_cast<std::size_t>(dims.batch[side][i])] = static_cast<std::int64_t>(i);
  }
  for (std::size_t i = 0; i < dims.free[side].size(); ++i) {
    permutation[static_cast<std::size_t>(dims.free[side][i])] = static_cast<std::int64_t>(batch + i);
  }
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto at = std::find(sorted.begin(), sorted.end(), dims.contract[1 - side][i]) - sorted.begin();
    permutation[static_cast<std::size_t>(dims.contract[side][i])] =
        static_cast<std::int64_t>(batch + dims.free[side].size()) + at;
  }
  if (permutation == counted_from(0, rank)) return product;
  return transpose(product, permutation);
}

std::vector<ir::Tangent> transpose_rule(const ir::TransposeContext& context) {
  const DotDims dims =
      dot_dims(context.attrs, {context.input_types[0].shape.rank(), context.input_types[1].shape.rank()});
  const std::size_t side = context.inputs[0].has_value() ? 1 : 0;
  std::vector<ir::Tangent> result(2);
  result[side] = operand_cotangent(*context.cotangents[0], *context.inputs[1 - side], dims, side);
  return result;
}

Dims shifted(Dims dims) {
  for (std::int64_t& dim : dims) ++dim;
  return dims;
}

std::vector<Value> batch_rule(const ir::BatchContext& context) {
  std::array<int, 2> ranks{};
  for (std::size_t side = 0; side < 2; ++side) {
    ranks[side] = context.inputs[side].rank() - (context.batched[side] ? 1 : 0);
  }
  DotDims dims = dot_dims(context.attrs, ranks);
  for (std::size_t side = 0; side < 2; ++side) {
    if (!context.batched[side]) continue;
    dims.contract[side] = shifted(dims.contract[side]);
    dims.batch[side] = shifted(dims.batch[side]);
  }
  const bool both = context.batched[0] && context.batched[1];
  if (both) {
    for (Dims& batch : dims.batch) batch.insert(batch.begin(), 0);
  }
  const Value result = apply_one(primitives::dot_general(), {context.inputs[0], context.inputs[1]},
                                 dot_attrs(dims.contract, dims.batch));
  if (both) return {result};
  // The batch came out as the first free dimension of its operand.
  const std::size_t at = dims.batch[0].size() + (context.batched[0] ? 0 : dims.free[0].size());
  Dims permutation = counted_from(0, static_cast<std::size_t>(result.rank()));
  std::rotate(permutation.begin(), permutation.begin() + static_cast<std::ptrdiff_t>(at),
              permutation.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  return {at == 0 ? result : transpose(result, permutation)};
}

struct Loop {
  std::vector<std::int64_t> extents;
  std::array<std::vector<std::int64_t>, 2> strides;
};

void add_dims(Loop& loop, const Shape& shape, const Dims& first, const Dims& second,
              const std::array<std::vector<std::int64_t>, 2>& strides, std::size_t extent_side) {
  const Dims& dims = extent_side == 0 ? first : second;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    loop.extents.push_back(shape[static_cast<int>(dims[i])]);
    loop.strides[0].push_back(first.empty() ? 0 : strides[0][static_cast<std::size_t>(first[i])]);
    loop.strides[1].push_back(second.empty() ? 0 : strides[1][static_cast<std::size_t>(second[i])]);
  }
}

/// Offsets into both operands of every index of the loop, row-major.
std::vector<std::array<std::size_t, 2>> offsets(const Loop& loop) {
  std::vector<std::array<std::size_t, 2>> result = {{0, 0}};
  for (std::size_t d = 0; d < loop.extents.size(); ++d) {
    std::vector<std::array<std::size_t, 2>> next;
    for (const auto& base : result) {
      for (std::int64_t i = 0; i < loop.extents[d]; ++i) {
        next.push_back({base[0] + static_cast<std::size_t>(i * loop.strides[0][d]),
                        base[1] + static_cast<std::size_t>(i * loop.strides[1][d])});
      }
    }
    result = std::move(next);
  }
  return result;
}

template <class T>
void multiply(const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& out, const Loop& outer,
              const Loop& inner) {
  const auto inner_offsets = offsets(inner);
  std::size_t position = 0;
  for (const auto& base : offsets(outer)) {
    T sum{};
    for (const auto& offset : inner_offsets) {
      const T& x = a[base[0] + offset[0]];
      const T& y = b[base[1] + offset[1]];
      if constexpr (std::is_same_v<T, std::int64_t>) {
        sum = static_cast<T>(static_cast<std::uint64_t>(sum) +
                             static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
      } else {
        sum += x * y;
      }
    }
    out[position++] = sum;
  }
}

void reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& a = context.inputs[0];
  const ir::ReferenceArray& b = context.inputs[1];
  const DotDims dims = dot_dims(context.attrs, {a.type.shape.rank(), b.type.shape.rank()});
  const std::array<std::vector<std::int64_t>, 2> strides = {row_major_strides(a.type.shape),
                                                            row_major_strides(b.type.shape)};
  Loop outer;
  add_dims(outer, a.type.shape, dims.batch[0], dims.batch[1], strides, 0);
  add_dims(outer, a.type.shape, dims.free[0], {}, strides, 0);
  add_dims(outer, b.type.shape, {}, dims.free[1], strides, 1);
  Loop inner;
  add_dims(inner, a.type.shape, dims.contract[0], dims.contract[1], strides, 0);
  ir::ReferenceArray& out = context.outputs[0];
  if (is_complex(out.type.dtype)) {
    multiply(a.complexes(), b.complexes(), out.complexes(), outer, inner);
  } else if (is_float(out.type.dtype)) {
    multiply(a.floats(), b.floats(), out.floats(), outer, inner);
  } else {
    multiply(a.integers(), b.integers(), out.integers(), outer, inner);
  }
}

ir::Sample sample(DType dtype, const Shape& a, const Shape& b, const std::array<Dims, 2>& contract,
                  const std::array<Dims, 2>& batch) {
  return {{{{dtype, a, {}}}, {{dtype, b, {}}}}, dot_attrs(contract, batch), {}};
}

std::vector<ir::Sample> samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {float32, float64, float16, bfloat16, int32, uint8, int64, complex64, complex128}) {
    list.push_back(sample(dtype, {3, 4}, {4, 5}, {{{1}, {0}}}, {{{}, {}}}));
  }
  for (const DType dtype : {float32, float64}) {
    list.push_back(sample(dtype, {4, 3}, {5, 4}, {{{0}, {1}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {2, 3, 4}, {2, 4, 5}, {{{2}, {1}}}, {{{0}, {0}}}));
    list.push_back(sample(dtype, {3, 2, 4, 5}, {4, 5, 6, 2}, {{{3, 2}, {1, 0}}}, {{{1}, {3}}}));
    list.push_back(sample(dtype, {2, 3, 4}, {4, 2, 3}, {{{0, 2}, {1, 0}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {3}, {3}, {{{0}, {0}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {3}, {2}, {{{}, {}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {}, {}, {{{}, {}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {0, 3}, {3, 2}, {{{1}, {0}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {2, 0}, {0, 3}, {{{1}, {0}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {1, 1}, {1, 1}, {{{1}, {0}}}, {{{}, {}}}));
    list.push_back(sample(dtype, {3, 2}, {3, 2}, {{{}, {}}}, {{{0, 1}, {0, 1}}}));
  }
  return list;
}

std::vector<ir::ErrorSample> error_samples() {
  const ArrayType a{float32, {3, 4}, {}};
  const ArrayType b{float32, {4, 5}, {}};
  const std::array<Dims, 2> none;
  return {
      {{a, {float32, {5, 6}, {}}}, dot_attrs({{{1}, {0}}}, none), "extent 4", {}},
      {{a, {float64, {4, 5}, {}}}, dot_attrs({{{1}, {0}}}, none), "one dtype", {}},
      {{{DType::bool_, {3, 4}, {}}, {DType::bool_, {4, 5}, {}}}, dot_attrs({{{1}, {0}}}, none), "one dtype", {}},
      {{a, b}, dot_attrs({{{2}, {0}}}, none), "does not exist", {}},
      {{a, b}, dot_attrs({{{1}, {0}}}, {{{1}, {0}}}), "named twice", {}},
      {{a, b}, dot_attrs({{{1}, {0, 1}}}, none), "as many dimensions", {}},
      {{a, b}, dot_attrs(none, {{{0}, {0}}}), "batch dimension", {}},
  };
}

}  // namespace

const ir::Primitive& primitives::dot_general() {
  static const ir::Primitive primitive{
      .name = "dot_general",
      .infer = infer,
      .derivative = {.kind = ir::Derivative::Kind::bilinear, .jvp = {}, .transpose = transpose_rule, .linear_in = {}},
      .batch = batch_rule,
      .reference = reference,
      .samples = samples,
      .error_samples = error_samples,
      .traits = {},
  };
  return primitive;
}

}  // namespace lockstep::ops
