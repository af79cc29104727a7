#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/tree.h>

// Functions of any types that are trees as functions of trees, which is what transforms and loops work on. Where a function
// does not fit, the compiler says so in one line.
namespace lockstep {

using TreeFunction = std::function<Tree(const std::vector<Tree>&)>;

namespace detail {

/// The two halves of what a loop's body returns; neither where it is no std::pair or std::tuple of two trees.
template <class T>
struct TreePair : std::false_type {
  using First = Array;
  using Second = Array;
};
template <class A, class B>
struct TreePair<std::pair<A, B>> : std::bool_constant<is_tree<A> && is_tree<B>> {
  using First = A;
  using Second = B;
};
template <class A, class B>
struct TreePair<std::tuple<A, B>> : TreePair<std::pair<A, B>> {};

template <class F, class... Args>
inline constexpr bool takes = std::is_invocable_v<const F&, const Args&...>;

/// What a function returns for arguments that it is given by const reference; void where it does not take them.
template <bool Taken, class F, class... Args>
struct ReturnedBy {
  using Type = void;
};
template <class F, class... Args>
struct ReturnedBy<true, F, Args...> {
  using Type = std::remove_cvref_t<std::invoke_result_t<const F&, const Args&...>>;
};
template <class F, class... Args>
using Returned = typename ReturnedBy<takes<F, Args...>, F, Args...>::Type;

/// A user's function in a transform.
template <class F, class... Args>
struct FunctionOf {
  static constexpr bool taken = takes<F, Args...>;
  static_assert(taken,
                "the function does not take these arguments: give it as many parameters as it is called with, by value "
                "or const reference, and let it be callable where it is const");
  static_assert(
      !taken || is_tree<Returned<F, Args...>>,
      "the function must return a tree: an Array, a Tree, a vector, map, tuple, pair or optional of trees, or a "
      "struct with LOCKSTEP_TREE");
  using Result = std::conditional_t<is_tree<Returned<F, Args...>>, Returned<F, Args...>, Array>;
};

/// What the function returns.
template <class F, class... Args>
using ResultOf = typename FunctionOf<F, Args...>::Result;

/// A function that takes the arguments and returns a tree as a function of trees, else nothing: the caller has said so. The
/// function must outlive it.
template <class F, class... Args>
TreeFunction rule_function(const F& function) {
  if constexpr (takes<F, Args...> && is_tree<Returned<F, Args...>> && (is_tree<Args> && ...)) {
    return [&function](const std::vector<Tree>& trees) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return to_tree(function(from_tree<Args>(trees[I])...));
      }
      (std::index_sequence_for<Args...>{});
    };
  } else {
    return {};
  }
}
/// A user's function in a transform as a function of trees; it must outlive it.
template <class F, class... Args>
TreeFunction tree_function(const F& function) {
  static_cast<void>(FunctionOf<F, Args...>::taken);
  return rule_function<F, Args...>(function);
}

}  // namespace detail
}  // namespace lockstep
