#include <lockstep/backend/effects.h>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// The effect on operands, then a result that says nothing.
std::unique_ptr<Kernel> make_effect(const KernelRequest& request,
                                    void (*effect)(const Attrs&, std::span<const ArrayView>)) {
  return make_function_kernel([attrs = request.attrs, effect](const KernelArguments& arguments) {
    effect(attrs, arguments.inputs);
    *static_cast<bool*>(arguments.outputs[0].data) = false;
  });
}

}  // namespace

std::unique_ptr<Kernel> debug_print(const KernelRequest& request) { return make_effect(request, effects::print); }
std::unique_ptr<Kernel> error_if(const KernelRequest& request) { return make_effect(request, effects::check); }

}  // namespace lockstep::backend::cpu::kernels
