#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "backends/cpu/gemv.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/product_plan.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/small_product.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/matmul.h"
#include "backends/onednn/widened.h"

namespace lockstep::backends::onednn {

namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

/// The matrices of an operand of the plan; of all loops at once or of one round.
Desc operand_desc(const cpu::ProductPlan& plan, std::size_t side, dnnl::memory::data_type type, bool all_loops) {
  Dims extents, strides;
  const auto add = [&](const cpu::Axis& axis, std::int64_t extent) {
    extents.push_back(extent);
    strides.push_back(axis.operand[side]);
  };
  if (all_loops) {
    for (const cpu::Axis& axis : plan.loops) add(axis, axis.operand[side] == 0 ? 1 : axis.extent);
  }
  const cpu::Axis& outer = side == 0 ? plan.rows : plan.depth;
  const cpu::Axis& inner = side == 0 ? plan.depth : plan.columns;
  add(outer, outer.extent);
  add(inner, inner.extent);
  return matrices(type, extents, strides);
}

Desc result_desc(const cpu::ProductPlan& plan, dnnl::memory::data_type type, bool all_loops) {
  Dims extents, strides;
  const auto add = [&](const cpu::Axis& axis) {
    extents.push_back(axis.extent);
    strides.push_back(axis.result);
  };
  if (all_loops) {
    for (const cpu::Axis& axis : plan.loops) add(axis);
  }
  add(plan.rows);
  add(plan.columns);
  return matrices(type, extents, strides);
}

/// Null where oneDNN has only a plain loop for it.
std::unique_ptr<BoundPrimitive> make_product(const cpu::ProductPlan& plan, dnnl::memory::data_type type,
                                             dnnl::memory::data_type result, bool all_loops) {
  return make_matmul(operand_desc(plan, 0, type, all_loops), operand_desc(plan, 1, type, all_loops),
                     result_desc(plan, result, all_loops));
}

/// A copy of an operand, into the scratch at `offset`.
struct OperandCopy {
  std::unique_ptr<BoundPrimitive> reorder;
  std::size_t offset = 0;
};

std::unique_ptr<BoundPrimitive> make_reorder(const cpu::Copy& copy, dnnl::memory::data_type type) {
  Dims strides(copy.extents.size());
  std::int64_t stride = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= copy.extents[d];
  }
  const Desc from(copy.extents, type, copy.strides);
  const Desc to(copy.extents, type, strides);
  const dnnl::reorder::primitive_desc description(cpu_engine(), from, cpu_engine(), to, attributes(), true);
  if (!description || is_reference(description)) return nullptr;
  return std::make_unique<BoundPrimitive>(
      description, dnnl::reorder(description),
      std::vector<BoundPrimitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

class DotGeneral final : public Kernel {
 public:
  DotGeneral(cpu::ProductPlan plan, const KernelRequest& request)
      : plan_(std::move(plan)),
        width_(size_of(request.inputs[0].dtype)),
        result_width_(size_of(request.outputs[0].dtype)) {}

  /// False where oneDNN has nothing fast.
  bool prepare(const KernelRequest& request) {
    const dnnl::memory::data_type type = data_type(request.inputs[0].dtype);
    const dnnl::memory::data_type result = data_type(request.outputs[0].dtype);
    std::size_t temporary = 0;
    for (const std::size_t side : {0U, 1U}) {
      if (plan_.copies[side].extents.empty()) continue;
      OperandCopy& copy = copies_[side];
      copy.reorder = make_reorder(plan_.copies[side], type);
      if (copy.reorder == nullptr) return false;
      copy.offset = temporary_;
      temporary_ += cpu::whole_lines(static_cast<std::size_t>(request.inputs[operand(side)].nbytes()));
      temporary = std::max(temporary, copy.reorder->scratch_bytes());
    }
    const bool is_float32 = type == dnnl::memory::data_type::f32;
    if (is_float32 && plan_.rows.extent > 1 && cpu::is_small(plan_)) {
      own_product_ = &DotGeneral::multiply_small;
      scratch_bytes_ = temporary_ + std::max(temporary, cpu::small_product_scratch(plan_));
      return true;
    }
    if (is_float32 && cpu::has_few_rows(plan_)) {
      own_product_ = &DotGeneral::multiply_gemv;
      scratch_bytes_ = temporary_ + temporary;
      return true;
    }
    if (!plan_.is_in_blocks && plan_.loops.size() + 2 <= DNNL_MAX_NDIMS)
      product_ = make_product(plan_, type, result, true);
    if (product_ != nullptr) {
      plan_.loops.clear();
    } else {
      product_ = make_product(plan_, type, result, false);
    }
    if (product_ == nullptr) return false;
    scratch_bytes_ = temporary_ + std::max(temporary, product_->scratch_bytes());
    return true;
  }

  void run(const KernelArguments& arguments) const override {
    std::byte* scratch = static_cast<std::byte*>(arguments.scratch);
    std::byte* temporary = scratch + temporary_;
    std::array<const std::byte*, 2> from{};
    for (const std::size_t side : {0U, 1U}) {
      from[side] = static_cast<const std::byte*>(arguments.inputs[operand(side)].data);
      if (copies_[side].reorder == nullptr) continue;
      std::byte* copy = scratch + copies_[side].offset;
      copies_[side].reorder->run({from[side], copy}, temporary);
      from[side] = copy;
    }
    run_loops(0, from[0], from[1], static_cast<std::byte*>(arguments.outputs[0].data), temporary);
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  std::size_t operand(std::size_t side) const { return plan_.swapped ? 1 - side : side; }

  void run_loops(std::size_t loop, const std::byte* a, const std::byte* b, std::byte* result, void* scratch) const {
    if (loop == plan_.loops.size()) {
      multiply(a, b, result, scratch);
      return;
    }
    const cpu::Axis& axis = plan_.loops[loop];
    const auto width = static_cast<std::int64_t>(width_), result_width = static_cast<std::int64_t>(result_width_);
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      run_loops(loop + 1, a + i * axis.operand[0] * width, b + i * axis.operand[1] * width,
                result + i * axis.result * result_width, scratch);
    }
  }

  void multiply(const std::byte* a, const std::byte* b, std::byte* result, void* scratch) const {
    if (product_ != nullptr) {
      product_->run({a, b, result}, scratch);
      return;
    }
    (this->*own_product_)(reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                          reinterpret_cast<float*>(result), static_cast<float*>(scratch));
  }

  void multiply_small(const float* a, const float* b, float* result, float* scratch) const {
    cpu::small_product(plan_, a, b, result, scratch);
  }

  void multiply_gemv(const float* a, const float* b, float* result, float* /*scratch*/) const {
    cpu::gemv_product(plan_, a, b, result);
  }

  cpu::ProductPlan plan_;
  std::size_t width_, result_width_;  ///< Of an element.
  std::array<OperandCopy, 2> copies_;
  std::unique_ptr<BoundPrimitive> product_;  ///< Null where a loop of ours is faster.
  void (DotGeneral::*own_product_)(const float*, const float*, float*, float*) const = nullptr;
  std::size_t temporary_ = 0;  ///< Where the scratch behind the copies begins.
  std::size_t scratch_bytes_ = 0;
};

/// An axis to cut, and how far each part reaches.
struct AxisCut {
  cpu::Axis* axis = nullptr;
  std::int64_t extent = 0;
};

/// Ways to cut a product, the best first. A matrix is cut where each part is still large, since each brings the other
/// operand to oneDNN's layout.
std::vector<AxisCut> ways_to_cut(cpu::ProductPlan& plan) {
  constexpr std::int64_t least_side = 256;
  std::int64_t size = plan.size();
  for (const cpu::Axis& loop : plan.loops) size *= loop.extent;
  std::vector<AxisCut> ways;
  const auto add = [&](cpu::Axis& axis, std::int64_t least) {
    const std::int64_t parts = std::min({cpu::most_parts, size / cpu::least_part, axis.extent / least});
    if (parts >= 2) ways.push_back({&axis, (axis.extent + parts - 1) / parts});
  };
  cpu::Axis* const sides[] = {&plan.rows, &plan.columns};
  const std::size_t longer = plan.rows.extent >= plan.columns.extent ? 0 : 1;
  if (!plan.is_in_blocks) {
    add(*sides[longer], least_side);
    add(*sides[1 - longer], least_side);
  }
  if (!plan.loops.empty()) add(plan.loops[0], 1);
  return ways;
}

std::vector<std::unique_ptr<Kernel>> cut_product(const KernelRequest& request, cpu::ProductPlan& plan,
                                                 const AxisCut& way) {
  const cpu::Axis whole = *way.axis;
  const auto step = [](std::int64_t elements, const ArrayType& type) {
    return static_cast<std::size_t>(elements) * size_of(type.dtype);
  };
  const std::size_t first = plan.swapped ? 1 : 0;  // side of the plan that the op's first operand is
  const cpu::PartSteps steps{
      {step(whole.operand[first], request.inputs[0]), step(whole.operand[1 - first], request.inputs[1])},
      step(whole.result, request.outputs[0])};
  auto parts = cpu::cut(whole.extent, way.extent, steps, [&](std::int64_t extent) -> std::shared_ptr<const Kernel> {
    way.axis->extent = extent;
    auto made = std::make_shared<DotGeneral>(plan, request);
    return made->prepare(request) ? made : nullptr;
  });
  *way.axis = whole;
  return parts;
}

}  // namespace

std::vector<std::unique_ptr<Kernel>> make_dot_general_parts(const KernelRequest& request, const Kernel& whole) {
  if (is_widened(request)) return {};
  cpu::ProductPlan plan = cpu::plan_in_blocks(request);
  if (!plan.is_in_place()) return {};
  for (const AxisCut& way : ways_to_cut(plan)) {
    std::vector<std::unique_ptr<Kernel>> parts = cut_product(request, plan, way);
    if (!parts.empty() && cpu::have_same_bits(request, whole, parts)) return parts;
  }
  return {};
}

std::unique_ptr<Kernel> make_dot_general(const KernelRequest& request) {
  if (data_type(request.inputs[0].dtype) == dnnl::memory::data_type::undef) return nullptr;
  const bool empty = request.inputs[0].size() == 0 || request.inputs[1].size() == 0;
  if (empty) return nullptr;  // zeros, or nothing at all
  if (is_widened(request)) return make_widened(request, make_dot_general);
  auto kernel = std::make_unique<DotGeneral>(cpu::plan_in_blocks(request), request);
  if (!kernel->prepare(request)) return nullptr;
  return kernel;
}

}  // namespace lockstep::backends::onednn
