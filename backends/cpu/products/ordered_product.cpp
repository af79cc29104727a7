#include "backends/cpu/products/ordered_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/backend/isa.h>
#include <lockstep/backend/round_up.h>

#include "backends/cpu/blocks.h"
#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/products/gemv_blocks.h"
#include "backends/cpu/products/packed_products.h"
#include "backends/cpu/products/product_plan.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

namespace {

/// A product of matrices as the loops take it; the result has step 1 along its columns, b too where it is not float32.
template <class T>
struct OrderedProduct {
  const T* a;
  const T* b;
  T* result;
  T* scratch;
  std::int64_t blocks, rows, columns, depth;  ///< The depth of a block.
  std::int64_t a_row, a_depth, b_depth, b_column, result_row;
};

/// The plan's matrices as they lie, from these elements on.
template <class T>
OrderedProduct<T> product_of(const ProductPlan& plan, std::int64_t blocks, const T* a, const T* b, T* result,
                             T* scratch) {
  return {.a = a,
          .b = b,
          .result = result,
          .scratch = scratch,
          .blocks = blocks,
          .rows = plan.rows.extent,
          .columns = plan.columns.extent,
          .depth = plan.depth.extent / blocks,
          .a_row = plan.rows.operand[0],
          .a_depth = plan.depth.operand[0],
          .b_depth = plan.depth.operand[1],
          .b_column = plan.columns.operand[1],
          .result_row = plan.rows.result};
}

std::int64_t levels_of(std::int64_t blocks) { return std::bit_width(static_cast<std::uint64_t>(blocks)); }

/// A row of the result after the other; what waits for its equal lies in scratch.
template <class T>
void multiply_rows_in_order(const OrderedProduct<T>& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    std::int64_t waiting = 0;
    for (std::int64_t block = 0; block < p.blocks; ++block, ++waiting) {
      T* const sums = p.scratch + waiting * p.columns;
      for (std::int64_t j = 0; j < p.columns; ++j) sums[j] = 0;
      for (std::int64_t k = block * p.depth; k < (block + 1) * p.depth; ++k) {
        const T factor = p.a[i * p.a_row + k * p.a_depth];
        const T* const row = p.b + k * p.b_depth;
        for (std::int64_t j = 0; j < p.columns; ++j) sums[j] = std::fma(factor, row[j], sums[j]);
      }
      for (std::int64_t digit = block; (digit & 1) != 0; digit >>= 1, --waiting) {
        T* const right = p.scratch + waiting * p.columns;
        T* const left = right - p.columns;
        for (std::int64_t j = 0; j < p.columns; ++j) left[j] += right[j];
      }
    }
    for (std::int64_t j = 0; j < p.columns; ++j) p.result[i * p.result_row + j] = p.scratch[j];
  }
}

bool has_packed_loops() {
#if defined(__x86_64__)
  return usable_isa() != Isa::none;
#else
  return false;
#endif
}

void multiply_in_order(const OrderedProduct<double>& p) {
  static const auto widest = VectorVariants<multiply_rows_in_order<double>>::chosen();
  widest(p);
}

constexpr std::int64_t most_blocks = 64;

void multiply_in_order(const OrderedProduct<float>& p) {
#if defined(__x86_64__)
  constexpr std::int64_t few_rows = 12;  // that are multiplied without a copy of b
  if (has_packed_loops() && p.blocks == 1 && p.rows <= few_rows && p.b_column == 1) {
    static const auto of_few = usable_isa() == Isa::avx512 ? multiply_gemv_avx512 : multiply_gemv_avx2;
    of_few({.a = p.a,
            .b = p.b,
            .result = p.result,
            .rows = p.rows,
            .columns = p.columns,
            .depth = p.depth,
            .a_row = p.a_row,
            .a_depth = p.a_depth,
            .b_depth = p.b_depth,
            .b_column = 1,
            .result_row = p.result_row});
    return;
  }
  if (has_packed_loops() && p.blocks <= most_blocks) {
    static const auto widest = usable_isa() == Isa::avx512 ? sum_products_avx512 : sum_products_avx2;
    std::array<const float*, most_blocks> a{}, b{};
    for (std::int64_t block = 0; block < p.blocks; ++block) {
      a[static_cast<std::size_t>(block)] = p.a + block * p.depth * p.a_depth;
      b[static_cast<std::size_t>(block)] = p.b + block * p.depth * p.b_depth;
    }
    widest({.a = a.data(),
            .b = b.data(),
            .result = p.result,
            .scratch = p.scratch,
            .leaves = p.blocks,
            .rows = p.rows,
            .columns = p.columns,
            .depth = p.depth,
            .a_row = p.a_row,
            .a_depth = p.a_depth,
            .b_depth = p.b_depth,
            .result_row = p.result_row,
            .b_column = p.b_column});
    return;
  }
#endif
  static const auto widest = VectorVariants<multiply_rows_in_order<float>>::chosen();
  widest(p);
}

/// Row-major extents from where they lie, as elements of T.
template <class T, class From>
void copy_from(const From* from, std::span<const std::int64_t> extents, std::span<const std::int64_t> strides, T*& to) {
  if (extents.empty()) {
    *to++ = static_cast<T>(*from);
    return;
  }
  for (std::int64_t i = 0; i < extents[0]; ++i, from += strides[0]) {
    if (extents.size() > 1) {
      copy_from(from, extents.subspan(1), strides.subspan(1), to);
    } else {
      *to++ = static_cast<T>(*from);
    }
  }
}

/// T: what is computed in; Element: of operands; Result: of the result.
template <class T, class Element, class Result>
class OrderedProductKernel final : public Kernel {
 public:
  explicit OrderedProductKernel(const KernelRequest& request)
      : plan_(plan_product(request)), blocks_(request.attrs.get<std::int64_t>("sum_blocks")) {
    for (const std::size_t side : {0U, 1U}) {
      const ArrayType& type = request.inputs[operand(side)];
      Copy& copy = plan_.copies[side];
      if (copy.extents.empty() && !std::is_same_v<T, Element>) {
        copy.extents = type.shape.to_vector();
        copy.strides = row_major_strides(type.shape);
      }
      if (!copy.extents.empty()) copies_[side] = reserve(type.shape.size());
    }
    if (copies_columns()) {
      columns_ = reserve(plan_.depth.extent * plan_.columns.extent);
    }
    if (!std::is_same_v<T, Result>) result_ = reserve(request.outputs[0].size());
    loop_ = reserve(loop_elements());
  }

  std::size_t scratch_bytes() const override { return reserved_; }

  void run(const KernelArguments& arguments) const override {
    std::array<const T*, 2> operands{};
    for (const std::size_t side : {0U, 1U}) operands[side] = operand_of(arguments, side);
    const ArrayView& out = arguments.outputs[0];
    if constexpr (std::is_same_v<T, Result>) {
      run_loops(0, operands[0], operands[1], static_cast<T*>(out.data), arguments);
    } else {
      T* const wide = at<T>(arguments, result_);
      run_loops(0, operands[0], operands[1], wide, arguments);
      Result* const to = static_cast<Result*>(out.data);
      for (std::int64_t i = 0; i < out.shape.size(); ++i) to[i] = rounded<Result>(wide[i]);
    }
  }

 private:
  std::size_t operand(std::size_t side) const { return plan_.swapped ? 1 - side : side; }
  std::size_t reserve(std::int64_t elements) {
    return std::exchange(reserved_, reserved_ + whole_lines(static_cast<std::size_t>(elements) * sizeof(T)));
  }
  bool is_packed() const { return std::is_same_v<T, float> && has_packed_loops() && blocks_ <= most_blocks; }
  bool copies_columns() const {
    return plan_.columns.extent > 1 && plan_.columns.operand[1] != 1 && (!is_packed() || plan_.depth.operand[1] != 1);
  }
  std::int64_t loop_elements() const {
    const std::int64_t in_rows = levels_of(blocks_) * plan_.columns.extent;
    return is_packed() ? packed_floats(blocks_, plan_.rows.extent, plan_.depth.extent / blocks_) : in_rows;
  }

  const T* operand_of(const KernelArguments& arguments, std::size_t side) const {
    const Element* from = static_cast<const Element*>(arguments.inputs[operand(side)].data);
    const Copy& copy = plan_.copies[side];
    if constexpr (std::is_same_v<T, Element>) {
      if (copy.extents.empty()) return from;
    }
    T* const to = at<T>(arguments, copies_[side]);
    T* next = to;
    copy_from<T>(from, copy.extents, copy.strides, next);
    return to;
  }

  void run_loops(std::size_t loop, const T* a, const T* b, T* result, const KernelArguments& arguments) const {
    if (loop == plan_.loops.size()) {
      multiply(a, b, result, arguments);
      return;
    }
    const Axis& axis = plan_.loops[loop];
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      run_loops(loop + 1, a + i * axis.operand[0], b + i * axis.operand[1], result + i * axis.result, arguments);
    }
  }

  void multiply(const T* a, const T* b, T* result, const KernelArguments& arguments) const {
    std::int64_t b_depth = plan_.depth.operand[1];
    std::int64_t b_column = plan_.columns.extent > 1 ? plan_.columns.operand[1] : 1;
    if (copies_columns()) {
      T* const to = at<T>(arguments, columns_);
      for (std::int64_t j = 0; j < plan_.columns.extent; ++j) {
        const T* const column = b + j * plan_.columns.operand[1];
        for (std::int64_t k = 0; k < plan_.depth.extent; ++k) to[k * plan_.columns.extent + j] = column[k * b_depth];
      }
      b = to;
      b_depth = plan_.columns.extent;
      b_column = 1;
    }
    OrderedProduct<T> product = product_of(plan_, blocks_, a, b, result, at<T>(arguments, loop_));
    product.b_depth = b_depth;
    product.b_column = b_column;
    multiply_in_order(product);
  }

  ProductPlan plan_;
  std::int64_t blocks_;
  std::array<std::size_t, 2> copies_{};
  std::size_t columns_ = 0, result_ = 0, loop_ = 0;  ///< Where in scratch.
  std::size_t reserved_ = 0;
};

bool is_packed_in_place(const ProductPlan& plan, std::int64_t blocks) {
  const bool lies = plan.columns.operand[1] == 1 || plan.depth.operand[1] == 1;
  return has_packed_loops() && plan.is_matrix() && plan.columns.extent > 1 && lies && blocks <= most_blocks;
}

/// A product of float32 matrices as they lie.
class OrderedMatrices final : public Kernel {
 public:
  OrderedMatrices(const ProductPlan& plan, std::int64_t blocks) : plan_(plan), blocks_(blocks) {}

  /// The same of some rows or columns alone.
  std::unique_ptr<Kernel> part(Axis ProductPlan::*axis, Range range) const {
    auto result = std::make_unique<OrderedMatrices>(plan_, blocks_);
    const Axis& whole = plan_.*axis;
    (result->plan_.*axis).extent = range.size();
    for (const std::size_t side : {0U, 1U}) result->operands_[side] = range.first * whole.operand[side];
    result->result_ = range.first * whole.result;
    return result;
  }

  std::size_t scratch_bytes() const override {
    return sizeof(float) *
           static_cast<std::size_t>(packed_floats(blocks_, plan_.rows.extent, plan_.depth.extent / blocks_));
  }

  void run(const KernelArguments& arguments) const override {
    const auto operand = [&](std::size_t side) {
      const std::size_t input = plan_.swapped ? 1 - side : side;
      return static_cast<const float*>(arguments.inputs[input].data) + operands_[side];
    };
    float* const result = static_cast<float*>(arguments.outputs[0].data) + result_;
    multiply_in_order(product_of(plan_, blocks_, operand(0), operand(1), result, at<float>(arguments, 0)));
  }

 private:
  ProductPlan plan_;
  std::int64_t blocks_;
  std::array<std::int64_t, 2> operands_{};  ///< Where the first elements lie.
  std::int64_t result_ = 0;
};

/// In parts that devices share: of rows, where there are enough of them, else of columns.
std::unique_ptr<Kernel> make_ordered_matrices(const ProductPlan& plan, std::int64_t blocks) {
  constexpr std::int64_t least_elements = std::int64_t{1} << 17, many_rows = 32 * packed_rows, least_columns = 192;
  const OrderedMatrices whole(plan, blocks);
  const bool by_rows = plan.rows.extent >= many_rows && plan.rows.extent > plan.columns.extent / 8;
  const auto axis = by_rows ? &ProductPlan::rows : &ProductPlan::columns;
  const std::int64_t extent = (plan.*axis).extent;
  const bool is_large = plan.depth.extent * plan.columns.extent >= least_elements;
  const std::int64_t most = is_large ? extent / (by_rows ? many_rows / 2 : least_columns) : 1;
  const std::int64_t parts = std::clamp<std::int64_t>(most, 1, most_parts);
  const std::int64_t part =
      round_up<std::int64_t>(ceil_div(extent, parts), by_rows ? packed_rows : most_packed_columns);
  return std::make_unique<CutKernel>(Cut{extent, part}, [whole, axis](Range range) { return whole.part(axis, range); });
}

template <class Element>
std::unique_ptr<Kernel> make_narrow(const KernelRequest& request) {
  if (request.outputs[0].dtype == DType::float32) {
    return std::make_unique<OrderedProductKernel<float, Element, float>>(request);
  }
  return std::make_unique<OrderedProductKernel<float, Element, Element>>(request);
}

}  // namespace

std::unique_ptr<Kernel> make_ordered_product(const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::float32) {
    const ProductPlan plan = plan_product(request);
    const auto blocks = request.attrs.get<std::int64_t>("sum_blocks");
    if (is_packed_in_place(plan, blocks)) return make_ordered_matrices(plan, blocks);
  }
  switch (request.inputs[0].dtype) {
    case DType::float32:
      return std::make_unique<OrderedProductKernel<float, float, float>>(request);
    case DType::float64:
      return std::make_unique<OrderedProductKernel<double, double, double>>(request);
    case DType::bfloat16:
      return make_narrow<Bfloat16>(request);
    case DType::float16:
      return make_narrow<Float16>(request);
    default:
      return nullptr;
  }
}

}  // namespace lockstep::backend::cpu
