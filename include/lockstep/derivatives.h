#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/custom_derivatives.h>
#include <lockstep/export.h>
#include <lockstep/transforms.h>
#include <lockstep/tree.h>

// Whole derivatives, and checks of them, on top of the transforms.
namespace lockstep {

namespace detail {

/// The result's tree, each float leaf replaced by a tree like the argument: shapes are (result leaf) + (argument leaf).
LOCKSTEP_API Tree jacfwd(const TreeFunction& function, const std::vector<Tree>& arguments, int argnum,
                         const GradOptions& options = {});
/// The same by reverse mode.
LOCKSTEP_API Tree jacrev(const TreeFunction& function, const std::vector<Tree>& arguments, int argnum,
                         const GradOptions& options = {});
/// From a cotangent of the result to one of each argument.
LOCKSTEP_API std::function<std::vector<Tree>(const Tree&)> linear_transpose(const TreeFunction& function,
                                                                            const std::vector<Tree>& arguments);

/// An Array where function and argument are Arrays, else a Tree.
template <class Result, class Argument>
using Jacobian = std::conditional_t<std::is_same_v<Result, Array> && std::is_same_v<Argument, Array>, Array, Tree>;

template <int Argnum, class Call>
using JacobianOf = Jacobian<typename Call::Result, Element<Argnum, typename Call::Arguments>>;

}  // namespace detail

/// All derivatives of the result with respect to argument `Argnum`, by forward mode: a column for each element of the
/// argument. For an Array by an Array of shape result.shape + argument.shape; for trees the result's tree, each leaf
/// replaced by a tree like the argument. The argument is real (results may be complex), or the function `holomorphic`
/// in a complex one. Throws DtypeError otherwise, and for an argument with integer leaves. (jax.jacfwd)
template <int Argnum = 0, class F>
auto jacfwd(F function, GradOptions options = {}) {
  auto call = [function = std::move(function), options]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    return from_tree<detail::JacobianOf<Argnum, Call>>(
        detail::jacfwd(Call::function(function), Call::trees(args...), Argnum, options));
  };
  return detail::transformed<F>(std::move(call));
}

/// The same by reverse mode: a row for each element of the result. The result is real, the argument may be complex:
/// rows are then gradients as of `grad`; or the function is `holomorphic`. Throws DtypeError otherwise. (jax.jacrev)
template <int Argnum = 0, class F>
auto jacrev(F function, GradOptions options = {}) {
  auto call = [function = std::move(function), options]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    return from_tree<detail::JacobianOf<Argnum, Call>>(
        detail::jacrev(Call::function(function), Call::trees(args...), Argnum, options));
  };
  return detail::transformed<F>(std::move(call));
}

/// Second derivatives of a scalar function, forward over reverse: jacfwd(jacrev(function)), so of a real argument, or
/// of a `holomorphic` function. (jax.hessian)
template <int Argnum = 0, class F>
auto hessian(F function, GradOptions options = {}) {
  return jacfwd<Argnum>(jacrev<Argnum>(std::move(function), options), options);
}

/// The Hessian of a scalar function of one argument at x, times v, without the Hessian: jvp(grad(function)).
template <class F, class X>
X hvp(const F& function, const X& x, const X& v) {
  const auto gradient = [&function](const X& at) { return grad([&function](const X& u) { return function(u); })(at); };
  return jvp(gradient, std::tuple<X>(x), std::tuple<X>(v)).second;
}

/// The transpose of a function that is linear in the float leaves of its arguments: from a cotangent of the result to
/// the tuple of the arguments' cotangents, which is what vjp's is. The arguments give types alone; what stop_gradient
/// returns gives nothing back. Throws TraceError naming an op that is not linear.
template <class F, class... Args>
auto linear_transpose(const F& function, const Args&... arguments) {
  using Call = detail::CallOf<F, Args...>;
  auto back = detail::linear_transpose(Call::function(function), Call::trees(arguments...));
  return [back = std::move(back)](const typename Call::Result& cotangent) {
    return from_tree<typename Call::Arguments>(Tree::list(back(to_tree(cotangent))));
  };
}

// ---- types without running ---------------------------------------------------------------------------------------------

/// The types of a result's leaves by path.
struct ResultTypes {
  std::vector<std::string> paths;
  std::vector<ArrayType> types;

  /// Throws StateError where there is no leaf of that path ("" where the result is an Array).
  LOCKSTEP_API const ArrayType& at(std::string_view path) const;
};

namespace detail {
/// Of the function at arguments of these types.
LOCKSTEP_API ResultTypes eval_shape(const TreeFunction& function, const std::vector<Tree>& arguments);
}  // namespace detail

/// What the function would return, traced and not run.
template <class F, class... Args>
ResultTypes eval_shape(const F& function, const Args&... arguments) {
  using Call = detail::CallOf<F, Args...>;
  return detail::eval_shape(Call::function(function), Call::trees(arguments...));
}

// ---- checking ----------------------------------------------------------------------------------------------------------

/// What check_grads compares, and how closely.
struct CheckGradsOptions {
  int order = 1;           ///< 2 checks the derivatives' derivatives too, and so on.
  bool forward = true;     ///< jvp
  bool reverse = true;     ///< vjp
  double step = 0;         ///< Of the differences; 0: 1e-4 where all float leaves are float64, else 1e-2.
  double tolerance = 0;    ///< Relative to the derivatives' size, at least 1; 0: 1e-6, else 2e-2.
  std::uint64_t seed = 0;  ///< Of the directions.
};

namespace detail {
/// Throws DerivativeError.
LOCKSTEP_API void check_grads(const TreeFunction& function, const std::vector<Tree>& arguments,
                              const CheckGradsOptions& options);
}  // namespace detail

/// Compares derivatives at a point with central differences along random directions (complex ones of complex leaves),
/// integer leaves fixed. Throws
/// DerivativeError with the mode, the order and both numbers. Keep the point off kinks.
template <class F, class... Args>
void check_grads(const F& function, const std::tuple<Args...>& arguments, const CheckGradsOptions& options = {}) {
  using Call = detail::CallOf<F, Args...>;
  const auto trees = [](const Args&... a) { return Call::trees(a...); };
  detail::check_grads(Call::function(function), std::apply(trees, arguments), options);
}

}  // namespace lockstep
