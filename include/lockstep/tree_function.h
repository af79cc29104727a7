#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>
#include <lockstep/weak_types.h>

// Functions of any types that are trees as functions of trees, which is what transforms and loops work on. Where a function
// does not fit, the compiler says so in one line.
namespace lockstep {

using TreeFunction = std::function<Tree(const std::vector<Tree>&)>;

namespace detail {

/// A function of one tree, as that takes it.
LOCKSTEP_API std::function<Tree(const Tree&)> of_one(TreeFunction function);

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

/// Whether a function takes arguments by const reference. What a transform makes of a function takes what that does.
template <class F, class... Args>
struct Takes : std::is_invocable<const F&, const Args&...> {};
template <class F, class... Args>
inline constexpr bool takes = Takes<F, Args...>::value;

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

/// The arguments of a call, those of the mask's bits with arrays in place of their numbers: bit i is of the i-th argument that
/// holds any.
template <class F, unsigned Mask, class... Args>
struct Chosen {
  static constexpr std::array<bool, sizeof...(Args)> numbers = {holds_numbers<Args>...};
  static constexpr bool is_traced(std::size_t argument) {
    unsigned bit = 0;
    for (std::size_t i = 0; i < argument; ++i) bit += numbers[i] ? 1U : 0U;
    return numbers[argument] && bit < 31 && (Mask >> bit & 1U) != 0;
  }
  template <std::size_t I>
  using Argument = std::conditional_t<is_traced(I), Traced<std::tuple_element_t<I, std::tuple<Args...>>>,
                                      std::tuple_element_t<I, std::tuple<Args...>>>;
  template <std::size_t... I>
  static constexpr bool fits(std::index_sequence<I...>) {
    return takes<F, Argument<I>...>;
  }
  static constexpr bool fit = fits(std::index_sequence_for<Args...>{});
};

/// For which arguments a function takes arrays in place of their numbers, as many as it can; those of `Fixed` stay numbers.
/// Of more than eight, all or none.
template <class F, unsigned Mask, unsigned Fixed, class... Args>
constexpr unsigned traced_numbers_of() {
  if constexpr (Mask == 0) {
    return 0;
  } else if constexpr ((Mask & Fixed) == 0 && Chosen<F, Mask, Args...>::fit) {
    return Mask;
  } else {
    return traced_numbers_of<F, (Mask < 256U ? Mask - 1 : 0U), Fixed, Args...>();
  }
}

/// The bits of those arguments that hold numbers, in order; `all` where no list is given.
template <class... Args>
constexpr unsigned number_bits(std::initializer_list<int> arguments, bool all) {
  constexpr std::array<bool, sizeof...(Args) + 1> numbers = {holds_numbers<Args>..., false};
  unsigned mask = 0, bit = 0;
  for (std::size_t i = 0; i < sizeof...(Args); ++i) {
    if (!numbers[i]) continue;
    bool listed = all;
    for (const int argument : arguments) listed = listed || argument == static_cast<int>(i);
    if (listed && bit < 31) mask |= 1U << bit;
    ++bit;
  }
  return mask;
}

template <class F, unsigned Fixed, class... Args>
constexpr unsigned traced_numbers() {
  constexpr unsigned all = number_bits<Args...>({}, true);
  return traced_numbers_of<F, (all < 256U ? all : all & ~Fixed), Fixed, Args...>();
}

/// A call of a user's function in a transform. An argument that is a number, or a container of numbers, is an array of weak
/// type where the function takes one, and a static value where it takes a number alone or the argument is among `Static`.
template <class F, class StaticArguments, class... Args>
struct CallWith;
template <class F, int... Static, class... Args>
struct CallWith<F, std::integer_sequence<int, Static...>, Args...> {
  static constexpr unsigned mask = traced_numbers<F, number_bits<Args...>({Static...}, false), Args...>();
  using Choice = Chosen<F, mask, Args...>;

  template <std::size_t I>
  using Argument = typename Choice::template Argument<I>;

  template <class Indices>
  struct With;
  template <std::size_t... I>
  struct With<std::index_sequence<I...>> {
    using Arguments = std::tuple<Argument<I>...>;
    using Result = ResultOf<F, Argument<I>...>;
    static TreeFunction function(const F& f) { return tree_function<F, Argument<I>...>(f); }
    template <class Rule>
    static TreeFunction rule(const Rule& f) {
      return rule_function<Rule, Argument<I>...>(f);
    }
    template <class Rule>
    using RuleResult = Returned<Rule, Argument<I>...>;
    template <class Rule>
    static constexpr bool taken_by = takes<Rule, Argument<I>...>;
    static std::vector<Tree> trees(const Args&... args) { return {tree<I>(args)...}; }
    template <class... Given>
    static std::vector<Tree> forwarded(Given&&... args) {
      std::vector<Tree> trees;
      trees.reserve(sizeof...(I));
      (trees.push_back(tree<I>(std::forward<Given>(args))), ...);
      return trees;
    }
  };
  using Whole = With<std::index_sequence_for<Args...>>;

  using Arguments = typename Whole::Arguments;
  using Result = typename Whole::Result;
  static TreeFunction function(const F& f) { return Whole::function(f); }
  static std::vector<Tree> trees(const Args&... args) { return Whole::trees(args...); }
  /// As `trees`; arguments that are moved in are moved on.
  template <class... Given>
  static std::vector<Tree> forwarded_trees(Given&&... args) {
    return Whole::forwarded(std::forward<Given>(args)...);
  }

  /// Argument I of the call.
  template <std::size_t I, class T>
  static Tree tree(T&& value) {
    if constexpr (Choice::is_traced(I)) {
      return to_tree(traced_form(value));
    } else {
      return to_tree(std::forward<T>(value));
    }
  }
};
template <class F, class... Args>
using CallOf = CallWith<F, std::integer_sequence<int>, Args...>;

}  // namespace detail

/// What a transform makes of a function: it takes the arguments that the function takes.
template <class F, class Call>
class Transformed {
 public:
  explicit Transformed(Call call) : call_(std::move(call)) {}
  template <class... Args>
  auto operator()(Args&&... args) const {
    return call_(std::forward<Args>(args)...);
  }

 private:
  Call call_;
};
namespace detail {

template <class F, class Call>
Transformed<F, Call> transformed(Call call) {
  return Transformed<F, Call>(std::move(call));
}

template <class F, class... Args>
inline constexpr bool takes_some_form = takes<F, Args...> || traced_numbers<F, 0, Args...>() != 0;
template <class F, class Call, class... Args>
struct Takes<Transformed<F, Call>, Args...> : std::bool_constant<takes_some_form<F, Args...>> {};

}  // namespace detail
}  // namespace lockstep
