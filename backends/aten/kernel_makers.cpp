// The table of ATen's kernels.

#include "backends/aten/kernel_makers.h"

#include <string_view>
#include <unordered_map>

#include "backends/modules/module.h"

namespace lockstep::backend::aten {

namespace {

struct Line {
  KernelMaker maker;
  modules::Elements elements;
};

}  // namespace

KernelMaker find_maker(const KernelRequest& request) {
  static const std::unordered_map<std::string_view, Line> table = {
#define LOCKSTEP_KERNEL(op, elements) {#op, {kernels::op, modules::elements}},
#include "backends/aten/kernels.def"
#undef LOCKSTEP_KERNEL
  };
  const auto found = table.find(request.op);
  return found == table.end() || !found->second.elements(request.inputs[0].dtype) ? nullptr : found->second.maker;
}

}  // namespace lockstep::backend::aten
