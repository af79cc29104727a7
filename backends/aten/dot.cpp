#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/moves/moves.h"
#include "backends/cpu/products/ordered_product.h"
#include "backends/cpu/scratch.h"

namespace lockstep::backend::aten::kernels {

namespace {

struct Dimension {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

/// An operand as a batch of matrices: three dimensions over the operand's memory, or over a row-major copy of it in
/// scratch where its dimensions do not merge.
struct DotSide {
  std::vector<Dimension> order;  ///< The operand's dimensions as the product wants them.
  std::array<std::int64_t, 3> sizes{};
  std::array<std::int64_t, 3> strides{};
  bool copied = false;
  std::size_t scratch_offset = 0;

  std::int64_t size() const { return sizes[0] * sizes[1] * sizes[2]; }
};

/// Several dimensions as one, if they lie in memory so.
std::optional<Dimension> merged_dimensions(std::span<const Dimension> dimensions) {
  Dimension result{1, 1};
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
DotSide arranged(const Shape& shape, const std::array<Dims, 3>& groups) {
  DotSide side;
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t begin = side.order.size();
    side.sizes[g] = 1;
    for (const std::int64_t dim : groups[g]) {
      side.order.push_back({shape[static_cast<int>(dim)], strides[static_cast<std::size_t>(dim)]});
      side.sizes[g] *= shape[static_cast<int>(dim)];
    }
    const auto whole = merged_dimensions(std::span(side.order).subspan(begin));
    if (whole) {
      side.strides[g] = whole->stride;
    } else {
      side.copied = true;
    }
  }
  if (side.copied) side.strides = {side.sizes[1] * side.sizes[2], side.sizes[2], 1};
  return side;
}

/// a as [batch, rows, contracted], b as [batch, contracted, columns].
struct DotProduct {
  DotSide a, b;
  std::size_t scratch_bytes = 0;

  std::int64_t copied() const { return (a.copied ? a.size() : 0) + (b.copied ? b.size() : 0); }
};

Dims free_dims(int rank, const Dims& contract, const Dims& batch) {
  Dims free;
  for (std::int64_t d = 0; d < rank; ++d) {
    const bool taken = std::find(contract.begin(), contract.end(), d) != contract.end() ||
                       std::find(batch.begin(), batch.end(), d) != batch.end();
    if (!taken) free.push_back(d);
  }
  return free;
}

/// Pairs of contracted dimensions may be taken in any order: the one is chosen that copies least.
DotProduct plan(const KernelRequest& request) {
  const auto& contract = request.attrs.get<std::vector<Dims>>("contract");
  const auto& batch = request.attrs.get<std::vector<Dims>>("batch");
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  const Dims a_free = free_dims(a.rank(), contract[0], batch[0]);
  const Dims b_free = free_dims(b.rank(), contract[1], batch[1]);
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < contract[0].size(); ++i) pairs.emplace_back(contract[0][i], contract[1][i]);
  std::optional<DotProduct> best;
  const auto consider = [&] {
    Dims a_contract;
    Dims b_contract;
    for (const auto& [in_a, in_b] : pairs) {
      a_contract.push_back(in_a);
      b_contract.push_back(in_b);
    }
    DotProduct product{arranged(a, {batch[0], a_free, a_contract}), arranged(b, {batch[1], b_contract, b_free}), 0};
    if (!best || product.copied() < best->copied()) best = std::move(product);
  };
  consider();
  std::sort(pairs.begin(), pairs.end());
  consider();
  std::sort(pairs.begin(), pairs.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  consider();
  for (DotSide* side : {&best->a, &best->b}) {
    if (!side->copied) continue;
    side->scratch_offset = best->scratch_bytes;
    const std::size_t nbytes = static_cast<std::size_t>(side->size()) * size_of(request.inputs[0].dtype);
    best->scratch_bytes += cpu::whole_lines(nbytes);
  }
  return *std::move(best);
}

/// The memory a side's strides refer to.
void* matrices(const DotSide& side, const ArrayView& operand, void* scratch) {
  if (!side.copied) return operand.data;
  std::byte* copy = static_cast<std::byte*>(scratch) + side.scratch_offset;
  Dims extents;
  Strides strides{};
  for (const Dimension& dimension : side.order) {
    strides[extents.size()] = dimension.stride;
    extents.push_back(dimension.extent);
  }
  copy_elements(contiguous_view(copy, operand.dtype, Shape(extents)), operand, operand.data, strides);
  return copy;
}

at::Tensor tensor_of_side(const DotSide& side, void* data, at::ScalarType type, std::size_t from) {
  return tensor_at(data, type, at::IntArrayRef(side.sizes).slice(from), at::IntArrayRef(side.strides).slice(from));
}

void multiply(const DotProduct& product, const KernelArguments& arguments) {
  const ArrayView& result = arguments.outputs[0];
  const at::ScalarType type = scalar_type(arguments.inputs[0].dtype);
  void* a = matrices(product.a, arguments.inputs[0], arguments.scratch);
  void* b = matrices(product.b, arguments.inputs[1], arguments.scratch);
  const std::array<std::int64_t, 3> sizes = {product.a.sizes[0], product.a.sizes[1], product.b.sizes[2]};
  const bool single = sizes[0] == 1;
  const std::size_t from = single ? 1 : 0;
  at::Tensor out = tensor_at(result.data, scalar_type(result.dtype), at::IntArrayRef(sizes).slice(from));
  // 16-bit floats are multiplied as float32, as convolutions of them are.
  const at::ScalarType computed = is_narrow_float(arguments.inputs[0].dtype) ? at::kFloat : type;
  const at::Tensor left = tensor_of_side(product.a, a, type, from).to(computed);
  const at::Tensor right = tensor_of_side(product.b, b, type, from).to(computed);
  if (result.dtype != DType::float32 && computed == at::kFloat) {
    out.copy_(single ? at::mm(left, right) : at::bmm(left, right));
  } else if (single) {
    at::mm_out(out, left, right);
  } else {
    at::bmm_out(out, left, right);
  }
}

/// Integers, modulo 2^n.
template <class T>
void multiply_integers(const DotProduct& product, const KernelArguments& arguments) {
  const T* a = static_cast<const T*>(matrices(product.a, arguments.inputs[0], arguments.scratch));
  const T* b = static_cast<const T*>(matrices(product.b, arguments.inputs[1], arguments.scratch));
  T* out = static_cast<T*>(arguments.outputs[0].data);
  const auto [batch, rows, depth] = product.a.sizes;
  const std::int64_t columns = product.b.sizes[2];
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t i = 0; i < rows; ++i, out += columns) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::uint64_t x = a[n * product.a.strides[0] + i * product.a.strides[1] + k * product.a.strides[2]];
        const T* row = b + n * product.b.strides[0] + k * product.b.strides[1];
        for (std::int64_t j = 0; j < columns; ++j) {
          out[j] = static_cast<T>(out[j] + x * static_cast<std::uint64_t>(row[j * product.b.strides[2]]));
        }
      }
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> dot_general(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_inexact(dtype) && !is_integer(dtype)) return nullptr;
  const bool is_empty = request.inputs[0].size() == 0 || request.inputs[1].size() == 0;
  if (request.attrs.has("sum_blocks") && !is_empty) return cpu::make_ordered_product(request);
  using Run = void (*)(const DotProduct&, const KernelArguments&);
  const Run run =
      is_inexact(dtype) ? multiply : with_bits(dtype, []<class T>() -> Run { return multiply_integers<T>; });
  DotProduct product = plan(request);
  const std::size_t scratch_bytes = product.scratch_bytes;
  const bool starts_at_zero = !is_inexact(dtype) || product.a.size() == 0 || product.b.size() == 0;
  return make_tensor_kernel(request,
                            [run, starts_at_zero, product = std::move(product)](const KernelArguments& arguments) {
                              const ArrayView& out = arguments.outputs[0];
                              const auto nbytes = static_cast<std::size_t>(out.shape.size()) * size_of(out.dtype);
                              if (starts_at_zero && nbytes > 0) std::memset(out.data, 0, nbytes);
                              if (product.a.size() > 0 && product.b.size() > 0) run(product, arguments);
                            },
                            {.scratch_bytes = scratch_bytes});
}

}  // namespace lockstep::backend::aten::kernels
