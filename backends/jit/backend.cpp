#include "backends/jit/backend.h"

#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/block_pool.h>
#include <lockstep/backend/element_loop.h>

#include "backends/cpu/float_control.h"
#include "backends/jit/code_cache.h"
#include "backends/jit/loop_kernel.h"

namespace lockstep::backend {

namespace jit {

namespace {

/// Of the functions of functions.h and of the order of sums: what bits depend on.
constexpr std::string_view functions_version = "4";

/// The loop that an op alone is: operands of one shape.
std::shared_ptr<const ElementLoop> loop_of_one(const KernelRequest& request) {
  if (request.outputs.size() != 1 || request.inputs.empty()) return nullptr;
  const Shape& shape = request.outputs[0].shape;
  std::vector<std::int64_t> dims;
  for (int d = 0; d < shape.rank(); ++d) dims.push_back(d);
  std::vector<ElementLoop::Operand> operands;
  ElementLoop::Instruction instruction{std::string(request.op), request.attrs, request.outputs[0].dtype, {}};
  for (const ArrayType& input : request.inputs) {
    if (input.shape != shape) return nullptr;
    instruction.operands.push_back(static_cast<int>(operands.size()));
    operands.push_back({input.dtype, dims});
  }
  const int result = static_cast<int>(operands.size());
  return std::make_shared<const ElementLoop>(std::move(operands), std::vector{std::move(instruction)},
                                             std::vector<ElementLoop::Result>{{result, {}}});
}

/// A sum is a loop without ops.
std::shared_ptr<const ElementLoop> loop_of_sum(const KernelRequest& request) {
  const auto axes = request.attrs.get<std::vector<std::int64_t>>("axes");
  const ArrayType& x = request.inputs[0];
  if (x.dtype != DType::float32 || !sum_as_matrix(x.shape, axes)) return nullptr;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.shape.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return std::make_shared<const ElementLoop>(std::vector<ElementLoop::Operand>{{x.dtype, dims}},
                                             std::vector<ElementLoop::Instruction>{},
                                             std::vector<ElementLoop::Result>{{0, axes}});
}

class JitBackend final : public Backend {
 public:
  explicit JitBackend(Isa isa) : codes_(std::make_shared<CodeCache>(isa)) {}

  std::string_view name() const override { return "jit"; }
  std::string version() const override {
    const std::string isa(backend::name(codes_->isa()));
    return std::string(functions_version) + " (" + (codes_->is_refused() ? "no executable pages" : isa) + ")";
  }
  std::string notice() const override {
    if (!codes_->is_refused()) return {};
    return "the system lets no page be executed that was written; element-wise ops run one by one, without machine "
           "code";
  }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }

  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    if (!supports(request.device.kind) || !fuses()) return nullptr;
    if (request.op == "fused") {
      const ElementLoop* loop = element_loop(request.attrs);
      return loop == nullptr ? nullptr : make_loop_kernel(*loop, request, *codes_);
    }
    if (request.op == "full" || request.attrs.has("sum_blocks")) return nullptr;
    const std::shared_ptr<const ElementLoop> loop =
        request.op == "reduce_sum" ? loop_of_sum(request) : loop_of_one(request);
    return loop == nullptr ? nullptr : make_loop_kernel(*loop, request, *codes_);
  }

  bool fuses() const override { return codes_->isa() != Isa::none && !codes_->is_refused(); }

  std::shared_ptr<Buffer> allocate(std::size_t /*nbytes*/, Device /*device*/) const override { return nullptr; }

  std::shared_ptr<void> enter_thread() const override {
    if (cpu::FloatControl::is_plain()) return nullptr;
    return std::allocate_shared<cpu::FloatControl>(BlockAllocator<cpu::FloatControl>());
  }

 private:
  std::shared_ptr<CodeCache> codes_;
};

}  // namespace

std::shared_ptr<const Backend> make_backend(Isa isa) { return std::make_shared<JitBackend>(isa); }

}  // namespace jit

std::shared_ptr<const Backend> make_jit_backend() { return jit::make_backend(usable_isa()); }

}  // namespace lockstep::backend
