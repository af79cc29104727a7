#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/parts.h"
#include "backends/cpu/products/gemv.h"
#include "backends/cpu/products/product_plan.h"
#include "backends/cpu/products/small_product.h"
#include "backends/cpu/scratch.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/library.h"
#include "backends/onednn/matmul.h"
#include "backends/onednn/widened.h"

namespace lockstep::backend::onednn {

namespace {

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

/// A round of a plan: its a, b, result and scratch.
using OwnProduct = void (*)(const cpu::ProductPlan&, const float*, const float*, float*, float*);

class DotGeneral final : public Kernel {
 public:
  DotGeneral(cpu::ProductPlan plan, const KernelRequest& request)
      : plan_(std::move(plan)),
        width_(size_of(request.inputs[0].dtype)),
        result_width_(size_of(request.outputs[0].dtype)) {}

  /// By a loop of ours over float32. False where oneDNN has no fast copy of an operand.
  bool multiply_by(OwnProduct product, std::size_t scratch_bytes, const KernelRequest& request) {
    own_product_ = product;
    return copy_operands(request, scratch_bytes);
  }

  /// By oneDNN, all loops of the plan in one call or each round in one. False where it has nothing fast.
  bool multiply_by_onednn(bool all_loops, const KernelRequest& request) {
    product_ = make_product(plan_, data_type(request.inputs[0].dtype), data_type(request.outputs[0].dtype), all_loops);
    if (product_ == nullptr) return false;
    if (all_loops) plan_.loops.clear();
    return copy_operands(request, product_->scratch_bytes());
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
  /// Products need so many bytes of scratch beside the copies; they and the making of copies share what is not a copy.
  bool copy_operands(const KernelRequest& request, std::size_t scratch_bytes) {
    const dnnl::memory::data_type type = data_type(request.inputs[0].dtype);
    for (const std::size_t side : {0U, 1U}) {
      if (plan_.copies[side].extents.empty()) continue;
      OperandCopy& copy = copies_[side];
      copy.reorder = make_reorder(plan_.copies[side], type);
      if (copy.reorder == nullptr) return false;
      copy.offset = temporary_;
      temporary_ += cpu::whole_lines(static_cast<std::size_t>(request.inputs[operand(side)].nbytes()));
      scratch_bytes = std::max(scratch_bytes, copy.reorder->scratch_bytes());
    }
    scratch_bytes_ = temporary_ + scratch_bytes;
    return true;
  }

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
    own_product_(plan_, reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                 reinterpret_cast<float*>(result), static_cast<float*>(scratch));
  }

  cpu::ProductPlan plan_;
  std::size_t width_, result_width_;  ///< Of an element.
  std::array<OperandCopy, 2> copies_;
  std::unique_ptr<BoundPrimitive> product_;  ///< Null where a loop of ours is faster.
  OwnProduct own_product_ = nullptr;
  std::size_t temporary_ = 0;  ///< Where the scratch behind the copies begins.
  std::size_t scratch_bytes_ = 0;
};

std::unique_ptr<Kernel> make_own(const KernelRequest& request, const cpu::ProductPlan& plan, OwnProduct product,
                                 std::size_t scratch_bytes) {
  auto kernel = std::make_unique<DotGeneral>(plan, request);
  if (!kernel->multiply_by(product, scratch_bytes, request)) return nullptr;
  return kernel;
}

std::unique_ptr<Kernel> make_onednn(const KernelRequest& request, const cpu::ProductPlan& plan, bool all_loops) {
  auto kernel = std::make_unique<DotGeneral>(plan, request);
  if (!kernel->multiply_by_onednn(all_loops, request)) return nullptr;
  return kernel;
}

bool is_float32(const KernelRequest& request) { return request.inputs[0].dtype == DType::float32; }

/// A way to compute a product.
struct ProductWay {
  const char* why;
  bool (*applies)(const KernelRequest&, const cpu::ProductPlan&);
  /// Null where there is nothing fast after all.
  std::unique_ptr<Kernel> (*make)(const KernelRequest&, const cpu::ProductPlan&);
};

/// The first that applies and has a kernel is taken.
constexpr ProductWay product_ways[] = {
    {"bfloat16 is multiplied no faster than float32 here: widened, and as that is computed",
     [](const KernelRequest& request, const cpu::ProductPlan&) { return is_widened(request); },
     [](const KernelRequest& request, const cpu::ProductPlan&) { return make_widened(request, make_dot_general); }},
    {"a small product: oneDNN's call costs more than a loop of ours",
     [](const KernelRequest& request, const cpu::ProductPlan& plan) {
       return is_float32(request) && plan.rows.extent > 1 && cpu::is_small(plan);
     },
     [](const KernelRequest& request, const cpu::ProductPlan& plan) {
       return make_own(request, plan, cpu::small_product, cpu::small_product_scratch(plan));
     }},
    {"few rows: the other operand is read once, where it lies; oneDNN would pack it",
     [](const KernelRequest& request, const cpu::ProductPlan& plan) {
       return is_float32(request) && cpu::has_few_rows(plan);
     },
     [](const KernelRequest& request, const cpu::ProductPlan& plan) {
       const auto product = [](const cpu::ProductPlan& of, const float* a, const float* b, float* result, float*) {
         cpu::gemv_product(of, a, b, result);
       };
       return make_own(request, plan, product, 0);
     }},
    {"oneDNN's product of all matrices in one call",
     [](const KernelRequest& request, const cpu::ProductPlan& plan) {
       return !is_widened(request) && !plan.is_in_blocks && plan.loops.size() + 2 <= DNNL_MAX_NDIMS;
     },
     [](const KernelRequest& request, const cpu::ProductPlan& plan) { return make_onednn(request, plan, true); }},
    {"oneDNN's product, a call for each matrix or block",
     [](const KernelRequest& request, const cpu::ProductPlan&) { return !is_widened(request); },
     [](const KernelRequest& request, const cpu::ProductPlan& plan) { return make_onednn(request, plan, false); }},
};

std::unique_ptr<Kernel> make_planned(const KernelRequest& request, const cpu::ProductPlan& plan) {
  for (const ProductWay& candidate : product_ways) {
    if (!candidate.applies(request, plan)) continue;
    if (auto kernel = candidate.make(request, plan)) return kernel;
  }
  return nullptr;
}

/// An axis to cut, and how far each part reaches.
struct AxisCut {
  cpu::Axis* axis = nullptr;
  std::int64_t extent = 0;
};

/// Ways to cut a product, the best first. A matrix is cut where each part is still large, since each brings the other
/// operand to oneDNN's layout.
std::vector<AxisCut> ways_to_cut(cpu::ProductPlan& plan) {
  constexpr std::int64_t least_side = 256;
  if (const std::int64_t parts = cpu::few_rows_parts(plan); parts > 0) {
    if (parts < 2) return {};
    constexpr std::int64_t vectors = 32;  // whole ones in all parts but the last
    return {{&plan.columns, round_up<std::int64_t>(ceil_div(plan.columns.extent, parts), vectors)}};
  }
  std::int64_t size = plan.size();
  for (const cpu::Axis& loop : plan.loops) size *= loop.extent;
  std::vector<AxisCut> ways;
  const auto add = [&](cpu::Axis& axis, std::int64_t least) {
    const std::int64_t parts = std::min({cpu::most_parts, size / cpu::least_part, axis.extent / least});
    if (parts >= 2) ways.push_back({&axis, ceil_div(axis.extent, parts)});
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
    return make_planned(request, plan);
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
    if (!parts.empty() && (cpu::few_rows_parts(plan) > 0 || cpu::have_same_bits(request, whole, parts))) return parts;
  }
  return {};
}

std::unique_ptr<Kernel> make_dot_general(const KernelRequest& request) {
  if (data_type(request.inputs[0].dtype) == dnnl::memory::data_type::undef) return nullptr;
  const bool empty = request.inputs[0].size() == 0 || request.inputs[1].size() == 0;
  if (empty) return nullptr;                            // zeros, or nothing at all
  if (request.attrs.has("sum_blocks")) return nullptr;  // an order of its own
  return make_planned(request, cpu::plan_in_blocks(request));
}

}  // namespace lockstep::backend::onednn
