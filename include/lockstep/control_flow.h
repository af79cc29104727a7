#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

// Control flow on values that are not known when a program is traced. Functions are traced once, whatever number of
// times they run; what they capture is passed in. Carries and results are any types that are trees: Array, structs with
// LOCKSTEP_TREE, std::vector, std::tuple, std::pair, ... Messages name a component by its path.
namespace lockstep {

/// How a scan goes over its xs.
struct ScanOptions {
  /// How many iterations; needed where there are no xs, else checked against them.
  std::optional<std::int64_t> length = {};
  bool reverse = false;     ///< From the last x to the first; ys stay in the order of xs.
  std::int64_t unroll = 1;  ///< Iterations written out at once: speed alone.
};

namespace detail {

using LoopBody = std::function<std::pair<Tree, Tree>(const Tree& carry, const Tree& x)>;
/// A function of (carry, x), or of the carry alone, that returns both halves, as a body.
LOCKSTEP_API LoopBody scan_body(TreeFunction function, bool takes_x);
LOCKSTEP_API std::function<Tree(const Array&, const Tree&)> fori_body(TreeFunction function);  ///< Of (i, carry).
/// (final carry, stacked ys).
LOCKSTEP_API std::pair<Tree, Tree> scan(const LoopBody& body, const Tree& init, const Tree& xs,
                                        const ScanOptions& options);
/// The final carry.
LOCKSTEP_API Tree while_loop(const std::function<Array(const Tree&)>& cond,
                             const std::function<Tree(const Tree&)>& body, const Tree& init);
/// A scan over lower, ..., upper - 1; `init` where there is none.
LOCKSTEP_API Tree fori_loop(std::int64_t lower, std::int64_t upper,
                            const std::function<Tree(const Array&, const Tree&)>& body, const Tree& init);
/// A while_loop: bounds are int32 scalars.
LOCKSTEP_API Tree fori_loop(const Operand& lower, const Operand& upper,
                            const std::function<Tree(const Array&, const Tree&)>& body, const Tree& init);
/// switch_ of two, but for the predicate: a scalar of any dtype, all but 0 holds.
LOCKSTEP_API Tree cond(const Operand& predicate, const TreeFunction& true_fn, const TreeFunction& false_fn,
                       const std::vector<Tree>& operands);
/// Throws ValueError without branches, ShapeError for an index of rank 1 or more, DtypeError for one that is no
/// integer.
LOCKSTEP_API Tree switch_(const Operand& index, const std::vector<TreeFunction>& branches,
                          const std::vector<Tree>& operands);
/// Throws ValueError for no leaf, ShapeError where leaves differ in extent along the axis.
LOCKSTEP_API Tree associative_scan(const TreeFunction& combine, const Tree& elems, bool reverse, std::int64_t axis);

/// What a loop carries where it starts from a T: a C++ scalar becomes an array of its default dtype, or of the one that
/// the body returns.
template <class T>
using Carried = std::conditional_t<std::is_arithmetic_v<T>, Array, T>;
template <class T>
Carried<T> carried(const T& init) {
  if constexpr (std::is_arithmetic_v<T>) {
    return weak_scalar(init);
  } else {
    return init;
  }
}

/// The body of a scan from a carry and, where there are xs, a slice of them to (carry, y).
template <class F, class Carry, class... X>
struct ScanBody {
  using Result = TreePair<Returned<F, Carry, X...>>;
  using Y = typename Result::Second;
  static_assert(takes<F, Carry, X...>,
                "scan: the body must take the carry and, where there are xs, a slice of them (const Carry&, const X&), "
                "and be callable where it is const");
  static_assert(
      !takes<F, Carry, X...> || Result::value,
      "scan: the body must return std::pair(carry, y), both trees; where there is no y, fori_loop is the loop");

  static LoopBody of(const F& f) { return scan_body(rule_function<F, Carry, X...>(f), sizeof...(X) != 0); }
};

/// What a loop carries from one iteration to the next.
template <class Body, class Carry>
struct WhileBody {
  static_assert(takes<Body, Carry>,
                "while_loop: body must take the carry (const Carry&) and be callable where it is const");
  static_assert(!takes<Body, Carry> || is_tree<Returned<Body, Carry>>,
                "while_loop: body must return the next carry, a tree");

  static std::function<Tree(const Tree&)> of(const Body& body) { return of_one(rule_function<Body, Carry>(body)); }
};
template <class Cond, class Carry>
struct WhileCondition {
  static constexpr bool gives_array = std::is_convertible_v<Returned<Cond, Carry>, Array>;
  static_assert(takes<Cond, Carry>,
                "while_loop: cond must take the carry (const Carry&) and be callable where it is const");
  static_assert(!takes<Cond, Carry> || gives_array, "while_loop: cond must return an Array, one bool scalar");

  static std::function<Array(const Tree&)> of(const Cond& cond) {
    return [&cond](const Tree& carry) -> Array {
      if constexpr (gives_array && is_tree<Carry>) return cond(from_tree<Carry>(carry));
      return {};
    };
  }
};
template <class Body, class Carry>
struct ForiBody {
  static_assert(takes<Body, Array, Carry>,
                "fori_loop: the body must take (const Array& i, const Carry&) and be callable where it is const");
  static_assert(!takes<Body, Array, Carry> || is_tree<Returned<Body, Array, Carry>>,
                "fori_loop: the body must return the next carry, a tree");

  static std::function<Tree(const Array&, const Tree&)> of(const Body& body) {
    return fori_body(rule_function<Body, Array, Carry>(body));
  }
};

/// A branch of switch_.
template <class Result, class... Args>
class SwitchBranch {
 public:
  template <class F>
  SwitchBranch(F function) {  // NOLINT: implicit by design
    constexpr bool fits = std::is_convertible_v<Returned<F, Args...>, Result>;
    static_assert(takes<F, Args...>,
                  "switch_: each branch must take the operands, as (const X&), and be callable where it is const");
    static_assert(
        !takes<F, Args...> || fits,
        "switch_: each branch must return one type, which is named where it is no Array: switch_<Params>(...)");
    if constexpr (fits) function_ = std::move(function);
  }
  const std::function<Result(const Args&...)>& function() const { return function_; }

 private:
  std::function<Result(const Args&...)> function_;
};
template <class Result, class... Args>
class SwitchBranches {
 public:
  SwitchBranches(std::initializer_list<SwitchBranch<Result, Args...>> branches)  // NOLINT: implicit by design
      : branches_(branches) {}
  template <class F>
  SwitchBranches(const std::vector<F>& branches)  // NOLINT: implicit by design
      : branches_(branches.begin(), branches.end()) {}

  std::vector<TreeFunction> functions() const {
    std::vector<TreeFunction> functions;
    for (const auto& branch : branches_) {
      functions.push_back(tree_function<std::function<Result(const Args&...)>, Args...>(branch.function()));
    }
    return functions;
  }

 private:
  std::vector<SwitchBranch<Result, Args...>> branches_;
};

}  // namespace detail

/// carry, ys[i] = f(carry, xs[i]) for every i, starting from `init`; (final carry, stacked ys). The xs are sliced along
/// their first dimension, and ys stacked along a new one. What starts weak (a C++ number) is carried at its default
/// dtype, or at the one that f returns for it. Differentiable in both modes, any number of times. Throws DtypeError or
/// ShapeError naming component and types where f returns a carry of another type than it takes, StateError for another
/// structure, ShapeError where xs differ in their first extent, ValueError without xs and length. (jax.lax.scan)
template <class F, class Init, class Xs>
auto scan(const F& f, const Init& init, const Xs& xs, const ScanOptions& options = {}) {
  using Carry = detail::Carried<Init>;
  using Body = detail::ScanBody<F, Carry, Xs>;
  auto [carry, ys] = detail::scan(Body::of(f), to_tree(detail::carried(init)), to_tree(xs), options);
  return std::pair<Carry, typename Body::Y>(from_tree<Carry>(carry), from_tree<typename Body::Y>(ys));
}
/// Without xs: carry, ys[i] = f(carry), `options.length` times.
template <class F, class Init>
auto scan(const F& f, const Init& init, const ScanOptions& options) {
  using Carry = detail::Carried<Init>;
  using Body = detail::ScanBody<F, Carry>;
  auto [carry, ys] = detail::scan(Body::of(f), to_tree(detail::carried(init)), Tree(), options);
  return std::pair<Carry, typename Body::Y>(from_tree<Carry>(carry), from_tree<typename Body::Y>(ys));
}

/// carry = body(carry) while cond(carry) holds. Differentiable forward alone (jvp, linearize, jacfwd): reverse mode
/// needs a known number of iterations, so that it throws TraceError and names scan. The linear function of `linearize`
/// runs the loop again for what its tangents are multiplied by. Throws as `scan` does for the carry, and where cond
/// returns anything but one bool scalar. (jax.lax.while_loop)
template <class Cond, class Body, class Init>
auto while_loop(const Cond& cond, const Body& body, const Init& init) {
  using Carry = detail::Carried<Init>;
  return from_tree<Carry>(detail::while_loop(detail::WhileCondition<Cond, Carry>::of(cond),
                                             detail::WhileBody<Body, Carry>::of(body), to_tree(detail::carried(init))));
}

/// carry = body(i, carry) for i in [lower, upper), i an int32 scalar. Bounds that are C++ integers make it a scan,
/// which can be differentiated in reverse; arrays make it a while_loop. (jax.lax.fori_loop)
template <class Lower, class Upper, class Body, class Init>
auto fori_loop(const Lower& lower, const Upper& upper, const Body& body, const Init& init) {
  using Carry = detail::Carried<Init>;
  const auto step = detail::ForiBody<Body, Carry>::of(body);
  const Tree start = to_tree(detail::carried(init));
  if constexpr (std::is_integral_v<Lower> && std::is_integral_v<Upper>) {
    return from_tree<Carry>(
        detail::fori_loop(static_cast<std::int64_t>(lower), static_cast<std::int64_t>(upper), step, start));
  } else {
    return from_tree<Carry>(detail::fori_loop(Operand(lower), Operand(upper), step, start));
  }
}

/// true_fn(operands...) where the predicate, a scalar, holds, else false_fn(operands...); only that one runs. Under
/// vmap with a batch of predicates both run, and no derivative flows through the one not chosen. Throws StateError
/// where the results differ in structure, DtypeError or ShapeError naming both results where they differ in type, but
/// that a weak one takes the other's dtype. (jax.lax.cond)
template <class TrueFn, class FalseFn, class... Args>
auto cond(const Operand& predicate, const TrueFn& true_fn, const FalseFn& false_fn, const Args&... operands) {
  using Call = detail::CallOf<TrueFn, Args...>;
  using Other = detail::CallOf<FalseFn, Args...>;
  static_assert(std::is_same_v<typename Call::Arguments, typename Other::Arguments>,
                "cond: both functions must take an operand that is a number as a number, or both as an Array");
  static_assert(std::is_same_v<typename Call::Result, typename Other::Result>,
                "cond: both functions must return the same C++ type");
  return from_tree<typename Call::Result>(
      detail::cond(predicate, Call::function(true_fn), Other::function(false_fn), Call::trees(operands...)));
}

/// branches[index](operands...), the index clamped: `switch_(i, {f, g, h}, x)`. Other results than Array are named:
/// `switch_<Params>(...)`. Throws as cond does. (jax.lax.switch)
template <class Result = Array, class... Args>
Result switch_(const Operand& index, const std::type_identity_t<detail::SwitchBranches<Result, Args...>>& branches,
               const Args&... operands) {
  return from_tree<Result>(detail::switch_(index, branches.functions(), {to_tree(operands)...}));
}

/// f(xs[i]) for every i, one after the other, stacked: a scan without a carry. (jax.lax.map)
template <class F, class Xs>
requires(!std::is_same_v<Xs, Tree>) auto map(const F& f, const Xs& xs) {
  const TreeFunction function = detail::tree_function<F, Xs>(f);
  const auto body = [&function](const Tree& carry, const Tree& x) { return std::pair(carry, function({x})); };
  return from_tree<detail::ResultOf<F, Xs>>(detail::scan(body, Tree(), to_tree(xs), {}).second);
}

/// Which way an associative_scan goes.
struct AssociativeScanOptions {
  bool reverse = false;   ///< From the last element to the first: element i combines those from i on.
  std::int64_t axis = 0;  ///< Of every leaf.
};
/// All prefixes e[0], fn(e[0], e[1]), fn(fn(e[0], e[1]), e[2]), ... along an axis, in about log2(n) rounds, for a
/// function that is associative and works on many elements at once. (jax.lax.associative_scan; Blelloch, Prefix sums
/// and their applications, 1990)
template <class F, class Elems>
Elems associative_scan(const F& fn, const Elems& elems, const AssociativeScanOptions& options = {}) {
  const TreeFunction combine = detail::tree_function<F, Elems, Elems>(fn);
  return from_tree<Elems>(detail::associative_scan(combine, to_tree(elems), options.reverse, options.axis));
}

}  // namespace lockstep
