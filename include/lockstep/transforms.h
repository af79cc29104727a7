#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/debug.h>
#include <lockstep/export.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/parallel.h>
#include <lockstep/precision.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

namespace lockstep {

/// What is differentiated.
struct GradOptions {
  /// The function takes and returns complex numbers and is holomorphic: its derivative is a complex number. (JAX's)
  bool holomorphic = false;
};

namespace detail {

/// value: what the function returned (its first leaf is the scalar); gradients: one tree per differentiated argument.
struct ValueAndGradients {
  Tree value;
  std::vector<Tree> gradients;
};
/// With respect to the arguments with these numbers.
LOCKSTEP_API ValueAndGradients value_and_grad(const TreeFunction& function, const std::vector<Tree>& arguments,
                                              const std::vector<int>& argnums, const GradOptions& options = {});
/// (result, its tangent).
LOCKSTEP_API std::pair<Tree, Tree> jvp(const TreeFunction& function, const std::vector<Tree>& primals,
                                       const std::vector<Tree>& tangents);
/// One entry of `in_axes` an argument, nothing where it has no batch; no entries: axis 0 of all.
LOCKSTEP_API Tree vmap(const TreeFunction& function, const std::vector<Tree>& arguments,
                       const std::vector<std::optional<std::int64_t>>& in_axes, std::int64_t out_axis,
                       const std::string& axis_name);

/// A cotangent's way back: linear in the cotangent.
LOCKSTEP_API std::pair<Tree, std::function<std::vector<Tree>(const Tree&)>> vjp(const TreeFunction& function,
                                                                                const std::vector<Tree>& primals);
/// The tangents' way forward: linear in them.
LOCKSTEP_API std::pair<Tree, std::function<Tree(const std::vector<Tree>&)>> linearize(const TreeFunction& function,
                                                                                      const std::vector<Tree>& primals);

template <int Argnum, class Tuple>
struct ArgumentAt {
  static_assert(sizeof(Tuple) == 0, "there is no argument of this number; the first is 0");
  using Type = Array;
};
template <int Argnum, class Tuple>
requires(Argnum >= 0 && static_cast<std::size_t>(Argnum) < std::tuple_size_v<Tuple>) struct ArgumentAt<Argnum, Tuple> {
  using Type = std::tuple_element_t<static_cast<std::size_t>(Argnum), Tuple>;
};
template <int Argnum, class Tuple>
using Element = typename ArgumentAt<Argnum, Tuple>::Type;

}  // namespace detail

// What these return keeps a copy of the function that it was given, and so what that captures by value. What it
// captures by reference must live as long as what was returned: capture by value, `[=]`, what leaves the block that it
// was made in. Arrays, trees, models, steps and ops are handles, which cost little to copy.

/// (value, gradient with respect to argument `Argnum`; with several argnums the tuple of their gradients). The function
/// returns a float scalar, or a std::pair of it and auxiliary results that are passed through. Gradients have the
/// argument's C++ type. Of a complex z = x + iy the gradient is df/dx - i df/dy, as in JAX: step along its conjugate to
/// descend (training steps give optimizers the conjugate). A complex scalar may be returned where the function is
/// `holomorphic` in complex arguments. Throws ShapeError for a value that is no scalar, DtypeError for a complex one
/// that is not said to be holomorphic and for an argument with integer leaves, MeshError where the value varies along a
/// mesh axis and the argument does not. (jax.value_and_grad)
template <int Argnum = 0, int... More, class F>
auto value_and_grad(F function, GradOptions options = {}) {
  auto call = [function = std::move(function), options]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    using Result = typename Call::Result;
    using Arguments = typename Call::Arguments;
    auto [value, gradients] =
        detail::value_and_grad(Call::function(function), Call::trees(args...), {Argnum, More...}, options);
    if constexpr (sizeof...(More) == 0) {
      using Gradient = detail::Element<Argnum, Arguments>;
      return std::pair<Result, Gradient>(from_tree<Result>(value), from_tree<Gradient>(gradients[0]));
    } else {
      using Gradients = std::tuple<detail::Element<Argnum, Arguments>, detail::Element<More, Arguments>...>;
      return std::pair<Result, Gradients>(from_tree<Result>(value),
                                          from_tree<Gradients>(Tree::list(std::move(gradients))));
    }
  };
  return detail::transformed<F>(std::move(call));
}

/// Only the gradient, or the tuple of gradients.
template <int Argnum = 0, int... More, class F>
auto grad(F function, GradOptions options = {}) {
  auto call = [both = value_and_grad<Argnum, More...>(std::move(function), options)]<class... Args>(
                  const Args&... args) { return both(args...).second; };
  return detail::transformed<F>(std::move(call));
}

/// (f(primals), directional derivative along the tangents). Tangents are tuples of the arguments' types.
template <class F, class... Args>
auto jvp(const F& function, const std::tuple<Args...>& primals, const std::tuple<Args...>& tangents) {
  using Call = detail::CallOf<F, Args...>;
  using Result = typename Call::Result;
  const auto trees = [](const Args&... a) { return Call::trees(a...); };
  auto [y, dy] = detail::jvp(Call::function(function), std::apply(trees, primals), std::apply(trees, tangents));
  return std::pair<Result, Result>(from_tree<Result>(y), from_tree<Result>(dy));
}

/// (f(primals), function from a cotangent of the result to the tuple of cotangents of the arguments).
template <class F, class... Args>
auto vjp(const F& function, const Args&... primals) {
  using Call = detail::CallOf<F, Args...>;
  using Result = typename Call::Result;
  auto [y, back] = detail::vjp(Call::function(function), Call::trees(primals...));
  auto pullback = [back = std::move(back)](const Result& cotangent) {
    return from_tree<typename Call::Arguments>(Tree::list(back(to_tree(cotangent))));
  };
  return std::pair(from_tree<Result>(y), pullback);
}

/// (f(primals), the derivative at that point as a linear function of tangents).
template <class F, class... Args>
auto linearize(const F& function, const Args&... primals) {
  using Call = detail::CallOf<F, Args...>;
  using Result = typename Call::Result;
  auto [y, linear] = detail::linearize(Call::function(function), Call::trees(primals...));
  auto pushforward = [linear = std::move(linear)](const Args&... tangents) {
    return from_tree<Result>(linear(Call::trees(tangents...)));
  };
  return std::pair(from_tree<Result>(y), pushforward);
}

extern template class LOCKSTEP_API detail::OutOfLine<std::vector<std::optional<std::int64_t>>>;

/// Which axes are the batch.
struct VmapOptions {
  /// Per argument the batched axis of its leaves, or nothing; empty: axis 0 of every argument. Numbers have none.
  detail::OutOfLine<std::vector<std::optional<std::int64_t>>> in_axes = {};
  std::int64_t out_axis = 0;  ///< Where the batch stands in every leaf of the result.
  /// A name for the batch that collectives inside may use, or empty.
  std::string axis_name = {};
};

/// The function over a batch of arguments, equal to a loop over it. With an `axis_name` the batch is an axis as those
/// of a mesh are: batched arguments vary along it, psum over it sums the batch, and only what does not vary along it is
/// the same for all examples. Throws MeshError where an enclosing map or vmap has an axis of that name.
template <class F>
auto vmap(F function, VmapOptions options = {}) {
  auto call = [function = std::move(function), options = std::move(options)]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    return from_tree<typename Call::Result>(detail::vmap(Call::function(function), Call::trees(args...),
                                                         options.in_axes, options.out_axis, options.axis_name));
  };
  return detail::transformed<F>(std::move(call));
}

// ---- jit -------------------------------------------------------------------------------------------------------------

namespace detail {

/// Owns the first-level cache of one jitted function: structure, leaf types and static values -> executable.
class LOCKSTEP_API JitCache {
 public:
  explicit JitCache(const DebugOptions& debug = {}, Precision precision = Precision::float32);
  /// Calls the function compiled for the arguments' types. Arguments are consumed: leaves that nobody else holds are
  /// donated.
  Tree call(const TreeFunction& function, std::span<Tree> arguments);
  Tree call(const TreeFunction& function, std::vector<Tree> arguments);
  /// How often it was traced, and why: one line a trace, naming the argument's path that was new.
  std::size_t traces() const;
  std::vector<std::string> retrace_reasons() const;

 private:
  struct Impl;
  SharedObject<Impl> impl_;
};

}  // namespace detail

namespace detail {

/// What is left of a moved struct notes that it was given away.
template <TreeStruct T>
void note_given_away(T& value, std::size_t argument) noexcept {
  lockstep_visit_members(value, [&](const char*, auto& member) {
    using Member = std::remove_reference_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, Array> || TreeStruct<Member>) note_given_away(member, argument);
  });
}

/// Argument I of a call as a tree.
template <class Call, std::size_t I, class T>
Tree argument_tree(T&& value) {
  Tree tree = Call::template tree<I>(std::forward<T>(value));
  if constexpr (!std::is_reference_v<T> && (std::is_same_v<T, Array> || TreeStruct<T>)) {
    note_given_away(value, I);
  }
  return tree;
}

}  // namespace detail

/// How a function is compiled.
struct JitOptions {
  DebugOptions debug = {};
  Precision precision = Precision::float32;  ///< Of products and convolutions, those in maps included.
};

/// Arguments of a compiled function that stay C++ values: it is traced for each of them. (JAX's static_argnums)
template <int... Arguments>
struct StaticArgnums {};
template <int... Arguments>
inline constexpr StaticArgnums<Arguments...> static_argnums{};

/// A compiled function: traced once per structure, types and static values of its arguments.
template <class F, int... Static>
class Jitted {
 public:
  explicit Jitted(F function, const JitOptions& options = {})
      : function_(std::move(function)), cache_(options.debug, options.precision) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Call = detail::CallWith<F, std::integer_sequence<int, Static...>, std::remove_cvref_t<Args>...>;
    std::array<Tree, sizeof...(Args)> trees;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((trees[I] = detail::argument_tree<Call, I>(std::forward<Args>(args))), ...);
    }
    (std::index_sequence_for<Args...>{});
    return from_tree<typename Call::Result>(cache_.call(Call::function(function_), std::span<Tree>(trees)));
  }
  std::size_t traces() const { return cache_.traces(); }
  std::vector<std::string> retrace_reasons() const { return cache_.retrace_reasons(); }

 private:
  F function_;
  mutable detail::JitCache cache_;
};

namespace detail {
template <class F, int... Static, class... Args>
struct Takes<Jitted<F, Static...>, Args...> : std::bool_constant<takes_some_form<F, Args...>> {};
}  // namespace detail

/// The function, compiled. An argument that is a C++ number, or a container of numbers, is a scalar of weak type (see
/// weak_types.h) where the function takes an Array for it, as `const Array&` or `auto`: one trace serves all values,
/// and dtypes and bits are those of a call with the number itself. It stays a number, which a C++ `if` or loop may
/// read, and is traced for each value, where the function takes a number alone (`double`, `int`, `bool`, a struct with
/// such members) or the argument is among the static ones: jit(f, static_argnums<1>). A member of a struct that changes
/// from call to call is an Array, set by weak_scalar. What C++ alone computes (std::exp, a division of ints) has no
/// traced form, and a power by an integer that is not known is pow. (jax.jit)
template <class F>
Jitted<F> jit(F function, const JitOptions& options = {}) {
  return Jitted<F>(std::move(function), options);
}
template <class F, int... Arguments>
requires(sizeof...(Arguments) > 0) Jitted<F, Arguments...> jit(F function, StaticArgnums<Arguments...>,
                                                               const JitOptions& options = {}) {
  return Jitted<F, Arguments...>(std::move(function), options);
}

}  // namespace lockstep
