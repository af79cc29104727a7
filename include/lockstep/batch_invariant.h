#pragma once

#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/transforms.h>
#include <lockstep/tree.h>

namespace lockstep {

namespace detail {
/// The function on the arguments.
LOCKSTEP_API Tree batch_invariant(const TreeFunction& function, const std::vector<Tree>& arguments);
}  // namespace detail

/// The function, whose products of floats (dot_general) each add up their depth in ascending order, by fused
/// multiply-adds: so a row of a product has the same bits however many rows stand beside it, on any number of devices
/// and any processor. For what answers requests in batches of any size. Many rows take as long as without, or a little
/// longer; convolutions and derivatives are left as they are.
///
///     const auto f = ls::jit(ls::batch_invariant(predict));
template <class F>
auto batch_invariant(F function) {
  auto call = [function = std::move(function)]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    return from_tree<typename Call::Result>(detail::batch_invariant(Call::function(function), Call::trees(args...)));
  };
  return detail::transformed<F>(std::move(call));
}

}  // namespace lockstep
