#include "backends/cpu/reductions/ordered_sum.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <lockstep/backend/pairwise_sums.h>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

namespace {

/// x [outer, blocks * length, inner].
struct OrderedSum {
  std::int64_t outer = 1, blocks = 1, length = 1, inner = 1;
  bool is_last = false;  ///< The axis, of all: not only where inner is 1, which layouts may make it.
};

constexpr std::int64_t columns_at_once = 512;

/// Of some columns; `waiting` has a row of them for each level of the tree.
template <class T>
void sum_of_columns(const OrderedSum& of, const T* x, T* result, T* waiting) {
  for (std::int64_t o = 0; o < of.outer; ++o, x += of.blocks * of.length * of.inner, result += of.inner) {
    for (std::int64_t first = 0; first < of.inner; first += columns_at_once) {
      const std::int64_t columns = std::min(columns_at_once, of.inner - first);
      std::int64_t level = 0;
      for (std::int64_t block = 0; block < of.blocks; ++block, ++level) {
        T* const sums = waiting + level * columns;
        std::fill_n(sums, columns, T{0});
        const T* row = x + block * of.length * of.inner + first;
        for (std::int64_t k = 0; k < of.length; ++k, row += of.inner) {
          for (std::int64_t j = 0; j < columns; ++j) sums[j] += row[j];
        }
        for (std::int64_t digit = block; (digit & 1) != 0; digit >>= 1, --level) {
          T* const right = waiting + level * columns;
          T* const left = right - columns;
          for (std::int64_t j = 0; j < columns; ++j) left[j] += right[j];
        }
      }
      std::copy_n(waiting, columns, result + first);
    }
  }
}

constexpr std::int64_t sum_lanes = 16;

template <class T>
using SumLanes __attribute__((vector_size(sum_lanes * sizeof(T)))) = T;

template <class T>
void sum_of_rows(const OrderedSum& of, const T* x, T* result, T* /*waiting*/) {
  for (std::int64_t o = 0; o < of.outer; ++o) {
    PairwiseSums<T> joined;
    for (std::int64_t block = 0; block < of.blocks; ++block, x += of.length) {
      SumLanes<T> sums = {};
      std::int64_t k = 0;
      for (; k + sum_lanes <= of.length; k += sum_lanes) {
        SumLanes<T> next;
        std::memcpy(&next, x + k, sizeof(next));
        sums += next;
      }
      T parts[sum_lanes];
      std::memcpy(parts, &sums, sizeof(parts));
      for (std::int64_t i = 0; k < of.length; ++k, ++i) parts[i] += x[k];
      for (std::int64_t half = sum_lanes / 2; half > 0; half /= 2) {
        for (std::int64_t i = 0; i < half; ++i) parts[i] += parts[i + half];
      }
      joined.add(parts[0]);
    }
    result[o] = joined.total();
  }
}

template <class T>
std::unique_ptr<Kernel> make_ordered_kernel(const OrderedSum& of) {
  const auto levels = std::bit_width(static_cast<std::uint64_t>(of.blocks));
  const auto scratch =
      of.is_last ? std::size_t{0} : static_cast<std::size_t>(levels * std::min(of.inner, columns_at_once)) * sizeof(T);
  return make_function_kernel(
      [of](const KernelArguments& arguments) {
        static const auto by_rows = VectorVariants<sum_of_rows<T>>::chosen();
        static const auto by_columns = VectorVariants<sum_of_columns<T>>::chosen();
        (of.is_last ? by_rows : by_columns)(of, static_cast<const T*>(arguments.inputs[0].data),
                                            static_cast<T*>(arguments.outputs[0].data), at<T>(arguments, 0));
      },
      {.scratch_bytes = scratch});
}

}  // namespace

std::unique_ptr<Kernel> make_ordered_sum(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const auto axis = static_cast<int>(request.attrs.get<std::vector<std::int64_t>>("axes")[0]);
  OrderedSum of;
  of.blocks = request.attrs.get<std::int64_t>("sum_blocks");
  of.length = shape[axis] / of.blocks;
  of.is_last = axis + 1 == shape.rank();
  for (int d = 0; d < axis; ++d) of.outer *= shape[d];
  for (int d = axis + 1; d < shape.rank(); ++d) of.inner *= shape[d];
  switch (request.inputs[0].dtype) {
    case DType::float32:
      return make_ordered_kernel<float>(of);
    case DType::float64:
      return make_ordered_kernel<double>(of);
    default:
      return nullptr;
  }
}

}  // namespace lockstep::backend::cpu
