#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/out_of_line.h>
#include <lockstep/transforms.h>
#include <lockstep/tree.h>

namespace lockstep {

/// What a rematerialized function keeps for its backward pass.
struct CheckpointPolicy {
  std::string name = "nothing_saveable";
  detail::OutOfLine<std::vector<std::string>> names = {};
};

/// The policies. Whatever they say, results of collectives are kept: nothing communicates twice.
namespace checkpoint_policies {
LOCKSTEP_API extern const CheckpointPolicy nothing_saveable;     ///< The arguments alone.
LOCKSTEP_API extern const CheckpointPolicy everything_saveable;  ///< All values.
LOCKSTEP_API extern const CheckpointPolicy dots_saveable;        ///< Results of matrix products.
/// Of those, the ones without a batch dimension: usually products with weights.
LOCKSTEP_API extern const CheckpointPolicy dots_with_no_batch_dims_saveable;
/// What `checkpoint_name` gave one of the names.
LOCKSTEP_API CheckpointPolicy save_only_these_names(std::vector<std::string> names);
/// Everything else.
LOCKSTEP_API CheckpointPolicy save_anything_except_these_names(std::vector<std::string> names);
}  // namespace checkpoint_policies

/// x, under a name that policies know.
LOCKSTEP_API Array checkpoint_name(const ArrayOperand& x, const std::string& name);

namespace detail {
/// The function on the arguments, under the policy.
LOCKSTEP_API Tree remat(const TreeFunction& function, const std::vector<Tree>& arguments,
                        const CheckpointPolicy& policy);
}  // namespace detail

/// The function, whose derivatives in reverse mode keep what `policy` says and compute the rest again when they need
/// it: memory for time. Values and bits stay, random draws included; collectives run once. Composes with every
/// transform. (JAX calls it checkpoint or remat; `checkpoint` is here what saves to disk.) Throws ValueError for an
/// unknown policy.
template <class F>
auto remat(F function, CheckpointPolicy policy = {}) {
  auto call = [function = std::move(function), policy = std::move(policy)]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    return from_tree<typename Call::Result>(detail::remat(Call::function(function), Call::trees(args...), policy));
  };
  return detail::transformed<F>(std::move(call));
}

}  // namespace lockstep
