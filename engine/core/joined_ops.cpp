#include <lockstep/joined_ops.h>

namespace lockstep {
namespace {

struct Name {
  std::string_view op, joined;
};
constexpr std::array sums = {Name{"dot_general", "sum_of_products"}, Name{"conv_kernel_grad", "sum_of_kernel_grads"}};
constexpr std::array shards = {Name{"conv", "conv_of_shards"}, Name{"conv_input_grad", "conv_input_grad_of_shards"}};

std::string_view find(const std::array<Name, 2>& names, std::string_view op) {
  for (const Name& name : names) {
    if (name.op == op) return name.joined;
  }
  return {};
}

}  // namespace

std::string_view op_of_sum(std::string_view op) { return find(sums, op); }
std::string_view op_of_shards(std::string_view op) { return find(shards, op); }

std::optional<JoinedOps> joined_ops(const KernelRequest& request) {
  for (const Name& name : sums) {
    if (name.joined == request.op)
      return {{name.op, request.inputs.size() / 2, {request.inputs[0], request.inputs[1]}}};
  }
  for (const Name& name : shards) {
    if (name.joined == request.op) {
      return {{name.op, request.outputs.size(), {request.inputs.front(), request.inputs.back()}}};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
