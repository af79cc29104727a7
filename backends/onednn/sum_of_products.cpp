#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/backend/grouped_kernels.h>
#include <lockstep/backend/isa.h>
#include <lockstep/backend/round_up.h>

#include "backends/cpu/add_floats.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/products/packed_products.h"
#include "backends/cpu/products/product_plan.h"
#include "backends/cpu/scratch.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"

// A product for each shard, and their sum by the tree of a psum: S(0, V) with S(a, b) = S(a, m) + S(m, b). Block by block
// of the result, so that what is added lies in the first-level cache and the sum alone is written to memory.
namespace lockstep::backend::onednn {

namespace {

constexpr std::size_t most_leaves = 64;

/// Adds up what is pushed, one after the other, by that tree: `sum` after as many as a power of two.
class SumTree {
 public:
  SumTree(float* levels, std::int64_t size) : levels_(levels), size_(size) {}

  float* next() { return levels_ + depth_ * size_; }
  void push() {
    ++depth_;
    for (std::int64_t rest = count_++; (rest & 1) != 0; rest >>= 1) {
      --depth_;
      cpu::add_floats(levels_ + depth_ * size_, size_, levels_ + (depth_ - 1) * size_);
    }
  }
  const float* sum() const { return levels_; }

  /// Of as many leaves: how many levels there are at once.
  static std::int64_t levels(std::int64_t leaves) { return std::bit_width(static_cast<std::uint64_t>(leaves)) + 1; }

 private:
  float* levels_;
  std::int64_t size_;
  std::int64_t depth_ = 0, count_ = 0;
};

class SumOfProducts final : public Kernel {
 public:
  /// Of `rows` rows of the result, from `first` on.
  SumOfProducts(const cpu::ProductPlan& plan, std::int64_t leaves, std::int64_t first, std::int64_t rows)
      : plan_(plan), leaves_(leaves), first_(first), rows_(rows) {}

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(cpu::packed_floats(leaves_, rows_, plan_.depth.extent)) * sizeof(float);
  }

  void run(const KernelArguments& arguments) const override {
#if defined(__x86_64__)
    static const auto widest = usable_isa() == Isa::avx512 ? cpu::sum_products_avx512 : cpu::sum_products_avx2;
    std::array<const float*, most_leaves> a, b;
    for (std::size_t leaf = 0; leaf < static_cast<std::size_t>(leaves_); ++leaf) {
      const auto operand = [&](std::size_t side) {
        return static_cast<const float*>(arguments.inputs[2 * leaf + (plan_.swapped ? 1 - side : side)].data);
      };
      a[leaf] = operand(0) + first_ * plan_.rows.operand[0];
      b[leaf] = operand(1);
    }
    widest({.a = a.data(),
            .b = b.data(),
            .result = static_cast<float*>(arguments.outputs[0].data) + first_ * plan_.rows.result,
            .scratch = static_cast<float*>(arguments.scratch),
            .leaves = leaves_,
            .rows = rows_,
            .columns = plan_.columns.extent,
            .depth = plan_.depth.extent,
            .a_row = plan_.rows.operand[0],
            .a_depth = plan_.depth.operand[0],
            .b_depth = plan_.depth.operand[1],
            .result_row = plan_.rows.result});
#else
    static_cast<void>(arguments);
#endif
  }

 private:
  cpu::ProductPlan plan_;
  std::int64_t leaves_, first_, rows_;
};

/// Each product by its own kernel, then the sum: what the others must give.
class SeparateProducts final : public Kernel {
 public:
  SeparateProducts(std::unique_ptr<Kernel> product, std::int64_t leaves, std::int64_t size)
      : product_(std::move(product)), leaves_(leaves), size_(size) {}

  std::size_t scratch_bytes() const override { return levels_bytes() + product_->scratch_bytes(); }

  void run(const KernelArguments& arguments) const override {
    SumTree tree(static_cast<float*>(arguments.scratch), size_);
    for (std::int64_t leaf = 0; leaf < leaves_; ++leaf) {
      ArrayView result = arguments.outputs[0];
      result.data = tree.next();
      product_->run({arguments.inputs.subspan(2 * static_cast<std::size_t>(leaf), 2),
                     {&result, 1},
                     static_cast<std::byte*>(arguments.scratch) + levels_bytes()});
      tree.push();
    }
    std::copy_n(tree.sum(), size_, static_cast<float*>(arguments.outputs[0].data));
  }

 private:
  std::size_t levels_bytes() const {
    return cpu::whole_lines(static_cast<std::size_t>(SumTree::levels(leaves_) * size_) * sizeof(float));
  }

  std::unique_ptr<Kernel> product_;
  std::int64_t leaves_, size_;
};

std::vector<std::unique_ptr<Kernel>> make_all(const KernelRequest& request, std::int64_t most) {
  const cpu::ProductPlan plan =
      cpu::plan_product({"dot_general", request.attrs, request.inputs.first(2), request.outputs, {}});
  const auto leaves = static_cast<std::int64_t>(request.inputs.size() / 2);
  std::vector<std::unique_ptr<Kernel>> result;
  // Measured: what is deeper may as well be multiplied by oneDNN, written and added.
  constexpr std::int64_t most_depth = 32;
  if (!plan.is_matrix() || plan.depth.extent > most_depth || plan.columns.operand[1] != 1 || plan.rows.extent < 2 ||
      plan.columns.extent < 2)
    return result;
  const std::int64_t blocks = ceil_div<std::int64_t>(plan.rows.extent, cpu::packed_rows);
  // Each part copies all columns: it must have rows enough that this costs little.
  constexpr std::int64_t least_rows = 128;
  const auto wanted =
      static_cast<std::uint64_t>(std::min(plan.size() * leaves / cpu::least_part, plan.rows.extent / least_rows));
  const std::int64_t parts = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(wanted)), 1, most);
  const std::int64_t rows = ceil_div(blocks, parts) * cpu::packed_rows;
  for (std::int64_t first = 0; first < plan.rows.extent; first += rows) {
    result.push_back(std::make_unique<SumOfProducts>(plan, leaves, first, std::min(rows, plan.rows.extent - first)));
  }
  return result;
}

}  // namespace

std::unique_ptr<Kernel> make_sum_of_products(const KernelRequest& request) {
  const bool is_float = request.inputs[0].dtype == DType::float32 && request.outputs[0].dtype == DType::float32 &&
                        std::has_single_bit(request.inputs.size()) && request.inputs.size() <= 2 * most_leaves;
  if (!is_float || request.inputs[0].size() == 0 || request.inputs[1].size() == 0) return nullptr;
  auto made = make_all(request, 1);
  if (made.empty()) return nullptr;
  auto product = make_dot_general(grouped_sum(request, "dot_general").first(request));
  if (product == nullptr) return nullptr;
  const SeparateProducts separate(std::move(product), static_cast<std::int64_t>(request.inputs.size() / 2),
                                  request.outputs[0].size());
  return cpu::have_same_bits(request, separate, made) ? std::move(made[0]) : nullptr;
}

std::vector<std::unique_ptr<Kernel>> make_sum_of_products_parts(const KernelRequest& request) {
  auto made = make_all(request, cpu::most_parts);
  if (made.size() < 2) made.clear();
  return made;
}

}  // namespace lockstep::backend::onednn
