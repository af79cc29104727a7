#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/fold_tree.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/layout.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using DimsPair = std::array<Dims, 2>;

/// The roles of the dimensions, each entry for operand 0 and 1. Result: batch, free of 0, free of 1.
struct DotDims {
  DimsPair contract;
  DimsPair batch;
  DimsPair free;  ///< What is neither contracted nor batch, ascending.
};

DotDims dot_dims(const Attrs& attrs, const std::array<int, 2>& ranks) {
  const auto& contract = attrs.get<std::vector<Dims>>("contract");
  const auto& batch = attrs.get<std::vector<Dims>>("batch");
  DotDims dims;
  for (std::size_t side = 0; side < 2; ++side) {
    dims.contract[side] = contract[side];
    dims.batch[side] = batch[side];
    for (std::int64_t i = 0; i < ranks[side]; ++i) {
      if (!contains(contract[side], i) && !contains(batch[side], i)) dims.free[side].push_back(i);
    }
  }
  return dims;
}

Attrs dot_attrs(const DimsPair& contract, const DimsPair& batch) {
  return {{"contract", std::vector<Dims>{contract[0], contract[1]}}, {"batch", std::vector<Dims>{batch[0], batch[1]}}};
}

void check_dims(const ir::InferContext& context) {
  std::array<std::vector<bool>, 2> used;
  for (std::size_t side = 0; side < 2; ++side) {
    used[side] = repeated<bool>(context.inputs[side].shape.rank());
  }
  for (const char* name : {"contract", "batch"}) {
    const auto& pair = context.attrs.get<std::vector<Dims>>(name);
    if (pair.size() != 2 || pair[0].size() != pair[1].size()) {
      infer::shape_error(context, std::string("as many dimensions of the first as of the second operand in ") + name,
                         std::string("write ") + name + "=([dims of a],[dims of b])");
    }
    for (std::size_t side = 0; side < 2; ++side) {
      for (const std::int64_t dim : pair[side]) {
        if (dim < 0 || dim >= context.inputs[side].shape.rank() || nth(used[side], dim)) {
          infer::shape_error(context,
                             "distinct dimensions that exist, but operand " + std::to_string(side) + " has none " +
                                 std::to_string(dim) + " left",
                             "name each dimension once, counted from 0, in contract or in batch");
        }
        nth(used[side], dim) = true;
      }
    }
  }
}

void check_extents(const ir::InferContext& context, const DimsPair& dims, const char* role) {
  for (std::size_t i = 0; i < dims[0].size(); ++i) {
    const std::int64_t a = context.inputs[0].shape[static_cast<int>(dims[0][i])];
    const std::int64_t b = context.inputs[1].shape[static_cast<int>(dims[1][i])];
    if (a == b) continue;
    infer::shape_error(context,
                       "equal extents of the " + std::string(role) + " dimensions, not " + std::to_string(a) +
                           " (dimension " + std::to_string(dims[0][i]) + " of the first) and " + std::to_string(b) +
                           " (dimension " + std::to_string(dims[1][i]) + " of the second)",
                       "transpose or reshape an operand");
  }
}

/// Where the order of sums is asked for: how many equal blocks are added up in order and joined in pairs.
void check_sum_blocks(const ir::InferContext& context, const DotDims& dims) {
  if (!context.attrs.has("sum_blocks")) return;
  const auto blocks = context.attrs.get<std::int64_t>("sum_blocks");
  std::int64_t depth = 1;
  for (const std::int64_t dim : dims.contract[0]) depth *= context.inputs[0].shape[static_cast<int>(dim)];
  const bool fits = blocks > 0 && std::has_single_bit(static_cast<std::uint64_t>(blocks)) && depth % blocks == 0;
  if (fits && is_float(context.inputs[0].dtype)) return;
  infer::shape_error(context,
                     "floats, and a sum_blocks that is a power of two and divides the " + std::to_string(depth) +
                         " numbers of a sum, not " + std::to_string(blocks),
                     "leave sum_blocks out");
}

std::vector<ArrayType> infer_dot(const ir::InferContext& context) {
  infer::expect_operands(context, 2);
  infer::expect_dtype(context, 0, infer::numeric);
  infer::expect_same_dtype(context);
  check_dims(context);
  const ArrayType& a = context.inputs[0];
  const ArrayType& b = context.inputs[1];
  const DotDims dims = dot_dims(context.attrs, {a.shape.rank(), b.shape.rank()});
  check_extents(context, dims.contract, "contracted");
  check_extents(context, dims.batch, "batch");
  check_sum_blocks(context, dims);
  Dims extents;
  for (const std::int64_t dim : dims.batch[0]) extents.push_back(a.shape[static_cast<int>(dim)]);
  for (const std::int64_t dim : dims.free[0]) extents.push_back(a.shape[static_cast<int>(dim)]);
  for (const std::int64_t dim : dims.free[1]) extents.push_back(b.shape[static_cast<int>(dim)]);
  return {{infer::product_dtype(context), Shape(extents), {}}};
}

Dims counted_from(std::size_t first, std::size_t count) {
  Dims dims;
  for (std::size_t i = 0; i < count; ++i) dims.push_back(static_cast<std::int64_t>(first + i));
  return dims;
}

/// Where operand `side` has each dimension of a product that has these of its dimensions one after the other.
Dims places(std::initializer_list<const Dims*> groups) {
  Dims permutation;
  for (const Dims* group : groups) permutation.insert(permutation.end(), group->begin(), group->end());
  Dims inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    nth(inverse, permutation[i]) = static_cast<std::int64_t>(i);
  }
  return inverse;
}

/// The cotangent of operand `side`: the result's cotangent contracted with the other operand over the latter's free
/// dimensions, in the order of the two that puts the dimensions where the operand has them, if one does.
Value dot_operand_cotangent(const Value& cotangent, const Value& other, const DotDims& dims, std::size_t side) {
  const std::size_t batch = dims.batch[0].size();
  const Dims leading = counted_from(0, batch);
  const Dims cotangent_contract =
      counted_from(batch + (side == 0 ? dims.free[0].size() : 0), dims.free[1 - side].size());
  // The other's contracted dimensions are free in the product, ascending: what they are in operand `side`.
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < dims.contract[0].size(); ++i) {
    pairs.emplace_back(dims.contract[1 - side][i], dims.contract[side][i]);
  }
  std::sort(pairs.begin(), pairs.end());
  Dims contracted;
  for (const auto& [in_other, in_side] : pairs) contracted.push_back(in_side);
  const Dims swapped = places({&dims.batch[side], &contracted, &dims.free[side]});
  if (swapped == counted_from(0, swapped.size())) {
    return apply_one(primitives::dot_general(), {other, cotangent},
                     dot_attrs({dims.free[1 - side], cotangent_contract}, {dims.batch[1 - side], leading}));
  }
  const Value product =
      apply_one(primitives::dot_general(), {cotangent, other},
                dot_attrs({cotangent_contract, dims.free[1 - side]}, {leading, dims.batch[1 - side]}));
  const Dims permutation = places({&dims.batch[side], &dims.free[side], &contracted});
  if (permutation == counted_from(0, permutation.size())) return product;
  return transpose(product, permutation);
}

template <std::size_t side>
Value cotangent_of(const ir::TransposeContext& context, const Value& cotangent, const Value& other) {
  const DotDims dims =
      dot_dims(context.attrs, {context.input_types[0].shape.rank(), context.input_types[1].shape.rank()});
  return dot_operand_cotangent(convert(cotangent, other.dtype()), other, dims, side);
}

std::vector<Value> batch_rule(const ir::BatchContext& context) {
  std::array<int, 2> ranks{};
  for (std::size_t side = 0; side < 2; ++side) {
    ranks[side] = context.inputs[side].rank() - (context.batched[side] ? 1 : 0);
  }
  DotDims dims = dot_dims(context.attrs, ranks);
  for (std::size_t side = 0; side < 2; ++side) {
    if (!context.batched[side]) continue;
    dims.contract[side] = batch::shifted(dims.contract[side]);
    dims.batch[side] = batch::shifted(dims.batch[side]);
  }
  const bool both = context.batched[0] && context.batched[1];
  if (both) {
    for (Dims& leading : dims.batch) leading = batch::prepended(0, leading);
  }
  Attrs attrs = dot_attrs(dims.contract, dims.batch);
  for (const char* kept : {"dtype", "sum_blocks"}) {
    if (context.attrs.has(kept)) attrs = attrs.with(kept, context.attrs.at(kept));
  }
  const Value result = apply_one(primitives::dot_general(), {context.inputs[0], context.inputs[1]}, attrs);
  if (both) return {result};
  // The batch came out as the first free dimension of its operand.
  const std::size_t at = dims.batch[0].size() + (context.batched[0] ? 0 : dims.free[0].size());
  Dims permutation = counted_from(0, static_cast<std::size_t>(result.rank()));
  std::rotate(permutation.begin(), permutation.begin() + static_cast<std::ptrdiff_t>(at),
              permutation.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  return {at == 0 ? result : transpose(result, permutation)};
}

/// Where the row-major indices over some dimensions lie in both operands.
class Offsets {
 public:
  /// One more dimension, faster than those before it.
  void add(std::int64_t extent, std::int64_t stride_a, std::int64_t stride_b) {
    std::vector<std::array<std::int64_t, 2>> next;
    for (const auto& [a, b] : pairs_) {
      for (std::int64_t i = 0; i < extent; ++i) next.push_back({a + i * stride_a, b + i * stride_b});
    }
    pairs_ = std::move(next);
  }
  const std::vector<std::array<std::int64_t, 2>>& pairs() const { return pairs_; }

 private:
  std::vector<std::array<std::int64_t, 2>> pairs_ = {{0, 0}};
};

template <class T>
void multiply(const ir::ReferenceContext& context, const Offsets& outer, const Offsets& inner) {
  const std::int64_t blocks = context.attrs.has("sum_blocks") ? context.attrs.get<std::int64_t>("sum_blocks") : 1;
  const std::size_t length = inner.pairs().size() / static_cast<std::size_t>(blocks);
  std::int64_t position = 0;
  for (const auto& [row, column] : outer.pairs()) {
    const auto block = [&, row = row, column = column](std::int64_t number, TreeNode) {
      T sum{};
      for (const auto& [i, j] : std::span(inner.pairs()).subspan(static_cast<std::size_t>(number) * length, length)) {
        sum += reference::load<T>(context.inputs[0], row + i) * reference::load<T>(context.inputs[1], column + j);
      }
      return sum;
    };
    const auto added = [](T left, T right, TreeNode) { return left + right; };
    reference::store(context.outputs[0], position++, fold_tree<T>(0, blocks, block, added));
  }
}

void dot_reference(const ir::ReferenceContext& context) {
  const Shape& a = context.inputs[0].type.shape;
  const Shape& b = context.inputs[1].type.shape;
  const DotDims dims = dot_dims(context.attrs, {a.rank(), b.rank()});
  const auto strides_a = row_major_strides(a);
  const auto strides_b = row_major_strides(b);
  const auto at = [](const auto& list, std::int64_t i) { return nth(list, i); };
  const auto extent = [](const Shape& shape, std::int64_t i) { return shape[static_cast<int>(i)]; };
  Offsets outer;
  for (std::size_t i = 0; i < dims.batch[0].size(); ++i) {
    outer.add(extent(a, dims.batch[0][i]), at(strides_a, dims.batch[0][i]), at(strides_b, dims.batch[1][i]));
  }
  for (const std::int64_t dim : dims.free[0]) outer.add(extent(a, dim), at(strides_a, dim), 0);
  for (const std::int64_t dim : dims.free[1]) outer.add(extent(b, dim), 0, at(strides_b, dim));
  Offsets inner;
  for (std::size_t i = 0; i < dims.contract[0].size(); ++i) {
    inner.add(extent(a, dims.contract[0][i]), at(strides_a, dims.contract[0][i]), at(strides_b, dims.contract[1][i]));
  }
  // Integers wrap, which unsigned arithmetic does by definition.
  const DType dtype = context.outputs[0].type.dtype;
  if (is_integer(dtype)) return multiply<std::uint64_t>(context, outer, inner);
  reference::dispatch<double, reference::Complex>(dtype, [&]<class T>() { multiply<T>(context, outer, inner); });
}

ir::Sample sample(DType dtype, const Shape& a, const Shape& b, const DimsPair& contract, const DimsPair& batch) {
  return {{samples::input(dtype, a), samples::input(dtype, b)}, dot_attrs(contract, batch), {}};
}

std::vector<ir::Sample> dot_samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {float32, float64, float16, bfloat16, int32, uint8, int64, complex64, complex128}) {
    list.push_back(sample(dtype, {3, 4}, {4, 5}, {{{1}, {0}}}, {{{}, {}}}));
  }
  for (const DType dtype : {float16, bfloat16}) {
    list.push_back(sample(dtype, {2, 3, 4}, {2, 4, 5}, {{{2}, {1}}}, {{{0}, {0}}}));
    list.back().attrs = list.back().attrs.with("dtype", float32);
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
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    list.push_back(sample(dtype, {3, 8}, {8, 5}, {{{1}, {0}}}, {{{}, {}}}));
    list.back().attrs = list.back().attrs.with("sum_blocks", std::int64_t{4});
    list.push_back(sample(dtype, {2, 4, 3, 7}, {2, 5, 7, 4}, {{{1, 3}, {3, 2}}}, {{{0}, {0}}}));
    list.back().attrs = list.back().attrs.with("sum_blocks", std::int64_t{2});
  }
  return list;
}

std::vector<ir::ErrorSample> dot_errors() {
  const ArrayType a{float32, {3, 4}, {}};
  const ArrayType b{float32, {4, 5}, {}};
  const DimsPair none;
  return {
      {{a, {float32, {5, 6}, {}}},
       dot_attrs({{{1}, {0}}}, none),
       "equal extents of the contracted dimensions, not 4",
       {}},
      {{a, {float64, {4, 5}, {}}}, dot_attrs({{{1}, {0}}}, none), "operands of one dtype", {}},
      {{a, b}, dot_attrs({{{1}, {0}}}, none).with("sum_blocks", std::int64_t{8}), "divides the 4 numbers of a sum", {}},
      {{a, b}, dot_attrs({{{1}, {0}}}, none).with("dtype", float64), "dtype=f32 of bfloat16 or float16 operands", {}},
      {{{DType::bool_, {3, 4}, {}}, {DType::bool_, {4, 5}, {}}},
       dot_attrs({{{1}, {0}}}, none),
       "a float, complex or integer dtype",
       {}},
      {{a, b}, dot_attrs({{{2}, {0}}}, none), "operand 0 has none 2 left", {}},
      {{a, b}, dot_attrs({{{1}, {0}}}, {{{1}, {0}}}), "operand 0 has none 1 left", {}},
      {{a, b}, dot_attrs({{{1}, {0, 1}}}, none), "as many dimensions", {}},
      {{a, b}, dot_attrs(none, {{{0}, {0}}}), "equal extents of the batch dimensions, not 3", {}},
  };
}

double dot_flops(const ir::CostContext& context) {
  double contracted = 1;
  for (const std::int64_t dim : context.attrs.get<std::vector<Dims>>("contract")[0]) {
    contracted *= static_cast<double>(context.inputs[0].shape[static_cast<int>(dim)]);
  }
  return 2 * contracted * static_cast<double>(context.outputs[0].size());
}

/// Batch and free dimensions run on, contracted ones run together and are summed.
ir::Factors dot_factors(const ir::LayoutContext& context) {
  ir::Factors factors;
  const DotDims dims = dot_dims(context.attrs, {context.inputs[0].shape.rank(), context.inputs[1].shape.rank()});
  ir::FactorDims result;
  for (std::size_t side = 0; side < 2; ++side) {
    factors.operands.emplace_back(static_cast<std::size_t>(context.inputs[side].shape.rank()));
  }
  const auto extent = [&](std::size_t side, std::int64_t d) { return context.inputs[side].shape[static_cast<int>(d)]; };
  const auto together = [&](const DimsPair& pair, bool is_kept) {
    for (std::size_t i = 0; i < pair[0].size(); ++i) {
      const int factor = factors.add(extent(0, pair[0][i]));
      for (std::size_t side = 0; side < 2; ++side)
        factors.operands[side][static_cast<std::size_t>(pair[side][i])] = {factor};
      if (is_kept) result.push_back({factor});
    }
  };
  together(dims.batch, true);
  for (std::size_t side = 0; side < 2; ++side) {
    for (const std::int64_t d : dims.free[side]) {
      const int factor = factors.add(extent(side, d));
      factors.operands[side][static_cast<std::size_t>(d)] = {factor};
      result.push_back({factor});
    }
  }
  together(dims.contract, false);
  factors.results = {result};
  return factors;
}

}  // namespace

const ir::Primitive& primitives::dot_general() {
  static const ir::Primitive primitive{.name = "dot_general",
                                       .infer = infer_dot,
                                       .derivative = derivative::bilinear(cotangent_of<0>, cotangent_of<1>),
                                       .batch = batch_rule,
                                       .reference = dot_reference,
                                       .flops = dot_flops,
                                       .samples = dot_samples,
                                       .error_samples = dot_errors,
                                       .traits = {},
                                       .grouped = {.sum = "sum_of_products"},
                                       .layout = {.factors = dot_factors}};
  return primitive;
}

}  // namespace lockstep::ops
