#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/export.h>
#include <lockstep/owned.h>
#include <lockstep/transforms.h>
#include <lockstep/tree.h>

namespace lockstep {

/// A derivative that differs from differences of the function.
class LOCKSTEP_API DerivativeError : public Error {
 public:
  using Error::Error;
  ~DerivativeError() override;
};

/// When a rule is compared with differences of its function: at a drawn point, the first time it is used on types. A
/// rule that means another derivative than the function's (a straight-through estimator, a clipped gradient) says
/// never.
enum class RuleCheck : std::uint8_t { in_debug_builds, always, never };

/// When a rule is checked.
struct CustomOptions {
  RuleCheck check = RuleCheck::in_debug_builds;
};

namespace detail {

/// Which rules were compared already. Inside a map none is: one replica alone cannot run it.
class LOCKSTEP_API RuleChecks {
 public:
  explicit RuleChecks(CustomOptions options);
  /// Whether to compare the rules with this hash now.
  bool is_due(std::uint64_t hash) const;

 private:
  struct Impl;
  SharedObject<Impl> impl_;
};

/// `rule`: (list of primals, list of tangents) -> (result, tangent).
LOCKSTEP_API Tree custom_jvp(const TreeFunction& function, const TreeFunction& rule, const std::vector<Tree>& arguments,
                             const RuleChecks& checks);
/// `fwd`: arguments -> (result, residuals); `bwd`: (residuals, cotangent) -> list of cotangents.
LOCKSTEP_API Tree custom_vjp(const TreeFunction& function, const TreeFunction& fwd, const TreeFunction& bwd,
                             const std::vector<Tree>& arguments, const RuleChecks& checks);
}  // namespace detail

/// The function with a derivative of its own. `rule` takes the tuple of arguments and the tuple of their tangents and
/// returns the pair of the result and its tangent, which must be linear in the tangents (reverse mode transposes it).
/// Tangents of integer leaves are zeros, of result leaves that are no floats ignored. Throws StateError, DtypeError or
/// ShapeError where the rule's results are not of the function's types, TraceError where a value that either function
/// closes over is being differentiated.
template <class F, class Rule>
auto custom_jvp(F function, Rule rule, CustomOptions options = {}) {
  auto call = [function = std::move(function), rule = std::move(rule),
               checks = detail::RuleChecks(options)]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    using Result = typename Call::Result;
    using Arguments = typename Call::Arguments;
    static_assert(
        detail::takes<Rule, Arguments, Arguments>,
        "custom_jvp: the rule must take the std::tuple of the arguments and the std::tuple of their tangents");
    static_assert(
        !detail::takes<Rule, Arguments, Arguments> || detail::is_tree<detail::Returned<Rule, Arguments, Arguments>>,
        "custom_jvp: the rule must return std::pair(result, tangent of the result)");
    return from_tree<Result>(detail::custom_jvp(Call::function(function),
                                                detail::rule_function<Rule, Arguments, Arguments>(rule),
                                                Call::trees(args...), checks));
  };
  return detail::transformed<F>(std::move(call));
}

/// The function with a backward pass of its own. `fwd` takes the arguments and returns the pair of the result and the
/// residuals, `bwd` takes residuals and the result's cotangent and returns the tuple of the arguments' cotangents: each
/// of its argument's structure, an empty Tree where it is zero; those of integer leaves are ignored. A cotangent that
/// varies along a mesh axis its argument does not vary along is summed over it. Reverse mode alone: jvp is a
/// TraceError. Throws StateError, DtypeError or ShapeError where the rules' results do not fit ("bwd rule must produce
/// ..."), TraceError where a value that the functions close over is being differentiated, DerivativeError where a check
/// finds the rule wrong.
template <class F, class Forward, class Backward>
auto custom_vjp(F function, Forward fwd, Backward bwd, CustomOptions options = {}) {
  auto call = [function = std::move(function), fwd = std::move(fwd), bwd = std::move(bwd),
               checks = detail::RuleChecks(options)]<class... Args>(const Args&... args) {
    using Call = detail::CallOf<F, Args...>;
    using Result = typename Call::Result;
    using Kept = detail::TreePair<typename Call::Whole::template RuleResult<Forward>>;
    using Residuals = typename Kept::Second;
    constexpr bool taken = Call::Whole::template taken_by<Forward>;
    static_assert(taken, "custom_vjp: fwd must take the function's own arguments");
    static_assert(!taken || Kept::value,
                  "custom_vjp: fwd must return std::pair(result, residuals), the residuals a tree");
    static_assert(
        !Kept::value || detail::takes<Backward, Residuals, Result>,
        "custom_vjp: bwd must take (const Residuals&, const Result&), what fwd kept and the result's cotangent");
    static_assert(
        !detail::takes<Backward, Residuals, Result> || detail::is_tree<detail::Returned<Backward, Residuals, Result>>,
        "custom_vjp: bwd must return a std::tuple with a cotangent, a tree, for each argument");
    return from_tree<Result>(detail::custom_vjp(Call::function(function), Call::Whole::rule(fwd),
                                                detail::rule_function<Backward, Residuals, Result>(bwd),
                                                Call::trees(args...), checks));
  };
  return detail::transformed<F>(std::move(call));
}

}  // namespace lockstep
