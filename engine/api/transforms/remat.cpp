#include <lockstep/remat.h>

#include "engine/api/transforms/bind.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace checkpoint_policies {

const CheckpointPolicy nothing_saveable{};
const CheckpointPolicy everything_saveable{"everything_saveable"};
const CheckpointPolicy dots_saveable{"dots_saveable"};
const CheckpointPolicy dots_with_no_batch_dims_saveable{"dots_with_no_batch_dims_saveable"};

CheckpointPolicy save_only_these_names(std::vector<std::string> names) {
  return {"save_only_these_names", std::move(names)};
}
CheckpointPolicy save_anything_except_these_names(std::vector<std::string> names) {
  return {"save_anything_except_these_names", std::move(names)};
}

}  // namespace checkpoint_policies

Array checkpoint_name(const ArrayOperand& x, const std::string& name) {
  return api::bind_one(ops::primitives::checkpoint_name(), {x}, {{"name", name}});
}

namespace detail {

Tree remat(const TreeFunction& function, const std::vector<Tree>& arguments, const CheckpointPolicy& policy) {
  const api::FlatArguments flat(arguments);
  const std::vector<ArrayType> types = flat.types();
  const api::TracedTree traced = api::trace_tree(function, flat, types);
  return traced.received(api::bind(ops::primitives::checkpoint(), api::joined(flat.leaves(), traced.captured),
                                   {{"body", std::static_pointer_cast<const AttrObject>(traced.function)},
                                    {"policy", policy.name},
                                    {"names", policy.names}}));
}

}  // namespace detail
}  // namespace lockstep
