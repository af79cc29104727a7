// Which dimensions of a dot_general become those of one product of batches of matrices.

#include "backends/cpu/products/matrix_product.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "backends/cpu/dims.h"
#include "backends/cpu/moves/moves.h"
#include "backends/cpu/scratch.h"

namespace lockstep::backend::cpu {

namespace {

/// Several dimensions as one, if they lie in memory so.
std::optional<MatrixOperand::Dimension> merged_group(std::span<const MatrixOperand::Dimension> dimensions) {
  MatrixOperand::Dimension result{1, 1};
  bool first = true;
  for (auto it = dimensions.rbegin(); it != dimensions.rend(); ++it) {
    if (it->extent == 1) continue;
    if (first) {
      result.stride = it->stride;
    } else if (it->stride != result.stride * result.extent) {
      return std::nullopt;
    }
    first = false;
    result.extent *= it->extent;
  }
  return result;
}

/// Dimensions of an operand in three groups.
MatrixOperand arranged(const Shape& shape, const std::array<Dims, 3>& groups) {
  MatrixOperand side;
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t begin = side.order.size();
    side.sizes[g] = 1;
    for (const std::int64_t dim : groups[g]) {
      side.order.push_back({shape[static_cast<int>(dim)], strides[static_cast<std::size_t>(dim)]});
      side.sizes[g] *= shape[static_cast<int>(dim)];
    }
    const auto whole = merged_group(std::span(side.order).subspan(begin));
    if (whole) {
      side.strides[g] = whole->stride;
    } else {
      side.copied = true;
    }
  }
  if (side.copied) side.strides = {side.sizes[1] * side.sizes[2], side.sizes[2], 1};
  return side;
}

Dims free_dims(int rank, const Dims& contract, const Dims& batch) {
  Dims free;
  for (std::int64_t d = 0; d < rank; ++d) {
    const bool taken = std::find(contract.begin(), contract.end(), d) != contract.end() ||
                       std::find(batch.begin(), batch.end(), d) != batch.end();
    if (!taken) free.push_back(d);
  }
  return free;
}

}  // namespace

MatrixProduct MatrixProduct::of(const KernelRequest& request) {
  const auto& contract = request.attrs.get<std::vector<Dims>>("contract");
  const auto& batch = request.attrs.get<std::vector<Dims>>("batch");
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  const Dims a_free = free_dims(a.rank(), contract[0], batch[0]);
  const Dims b_free = free_dims(b.rank(), contract[1], batch[1]);
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < contract[0].size(); ++i) pairs.emplace_back(contract[0][i], contract[1][i]);
  std::optional<MatrixProduct> best;
  const auto consider = [&] {
    Dims a_contract;
    Dims b_contract;
    for (const auto& [in_a, in_b] : pairs) {
      a_contract.push_back(in_a);
      b_contract.push_back(in_b);
    }
    MatrixProduct product{arranged(a, {batch[0], a_free, a_contract}), arranged(b, {batch[1], b_contract, b_free}), 0};
    if (!best || product.copied() < best->copied()) best = std::move(product);
  };
  consider();
  std::sort(pairs.begin(), pairs.end());
  consider();
  std::sort(pairs.begin(), pairs.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  consider();
  for (MatrixOperand* side : {&best->a, &best->b}) {
    if (!side->copied) continue;
    side->scratch_offset = best->scratch_bytes;
    const std::size_t nbytes = static_cast<std::size_t>(side->size()) * size_of(request.inputs[0].dtype);
    best->scratch_bytes += whole_lines(nbytes);
  }
  return *std::move(best);
}

void* MatrixOperand::matrices(const ArrayView& operand, void* scratch) const {
  if (!copied) return operand.data;
  std::byte* copy = static_cast<std::byte*>(scratch) + scratch_offset;
  Dims extents;
  Strides given{};
  for (const Dimension& dimension : order) {
    given[extents.size()] = dimension.stride;
    extents.push_back(dimension.extent);
  }
  copy_elements(contiguous_view(copy, operand.dtype, Shape(extents)), operand, operand.data, given);
  return copy;
}

}  // namespace lockstep::backend::cpu
