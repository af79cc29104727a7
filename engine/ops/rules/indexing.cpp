#include "engine/ops/rules/indexing.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

Value clamped_index(const Value& index, std::int64_t count) {
  const double last = static_cast<double>(std::max<std::int64_t>(count - 1, 0));
  Value wide = index;
  if (index.dtype() == DType::uint64) wide = minimum(wide, full_like(wide, last));
  wide = convert(wide, DType::int64);
  return maximum(minimum(wide, full_like(wide, last)), full_like(wide, 0));
}

std::int64_t clamped_element(const ir::ReferenceArray& indices, std::int64_t i, std::int64_t count) {
  const std::int64_t index = nth(indices.integers(), i);
  if (indices.type.dtype == DType::uint64 && index < 0) return count - 1;
  return std::clamp<std::int64_t>(index, 0, count - 1);
}

Value batch_numbers(ir::Builder& builder, std::int64_t size, int rank) {
  Dims shape = repeated(rank, 1);
  shape[0] = size;
  return iota(builder, DType::int64, Shape(shape), 0);
}

void expect_scalar_indices(const ir::InferContext& context, std::size_t first, int rank) {
  infer::expect_operands(context, first + static_cast<std::size_t>(rank));
  infer::expect_same_dtype(context, first);
  for (std::size_t i = first; i < context.inputs.size(); ++i) {
    infer::expect_dtype(context, i, infer::integral);
    infer::expect_rank(context, i, 0);
  }
}

ir::SampleInput index_input(DType dtype, const Shape& shape) {
  return samples::input(dtype, shape, {is_unsigned_integer(dtype) ? 0.0 : -2.0, 7});
}

}  // namespace lockstep::ops
