#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/precision_policy.h>

#include "engine/core/text/text_pattern.h"
#include "engine/nn/precision_in_use.h"
#include "engine/nn/scope_frame.h"

namespace lockstep {
namespace {

constexpr DType widths[] = {float16, bfloat16, float32, float64};
constexpr DType narrow[] = {bfloat16, float16};

PrecisionDTypes kept_in(DType param, DType compute) { return {param, compute, promote(compute, float32)}; }

/// Each policy that has a name.
std::vector<std::pair<std::string, PrecisionDTypes>> named_policies() {
  std::vector<std::pair<std::string, PrecisionDTypes>> all;
  for (const DType dtype : widths) all.emplace_back(name(dtype), kept_in(dtype, dtype));
  for (const DType dtype : narrow) all.emplace_back(fmt::format("mixed_{}", name(dtype)), kept_in(float32, dtype));
  return all;
}

PrecisionDTypes of_name(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& [name, dtypes] : named_policies()) {
    if (name == text) return dtypes;
    names.push_back(name);
  }
  throw ValueError(fmt::format("precision policy: got \"{}\", expected one of {}", text, fmt::join(names, ", ")));
}

void check_float(std::string_view what, DType dtype) {
  if (is_float(dtype)) return;
  throw DtypeError(fmt::format("precision policy: the {} dtype is {}; give a float dtype", what, name(dtype)));
}

/// The rule that is the path, else the one whose pattern matches all of one of its spellings.
std::optional<std::size_t> rule_at(const std::vector<PrecisionPolicy::Rule>& rules, const std::string& path,
                                   bool is_layer) {
  const auto exact = std::ranges::find(rules, path, &PrecisionPolicy::Rule::pattern);
  if (exact != rules.end()) return static_cast<std::size_t>(std::distance(rules.begin(), exact));
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const detail::TextPattern pattern = detail::TextPattern::of_paths("precision policy", rules[i].pattern, "head/.*");
    if (!pattern.matches(path) && !(is_layer && pattern.matches(path + "/"))) continue;
    if (found) {
      throw ValueError(
          fmt::format("precision policy: \"{}\" matches multiple policies: those of \"{}\" and of \"{}\"; expected one "
                      "pattern that "
                      "matches all of the path; narrow one of them, or add the path itself, which goes before patterns",
                      path, rules[*found].pattern, rules[i].pattern));
    }
    found = i;
  }
  return found;
}

Tree in_dtypes(const Tree& tree, const std::function<DType(const std::string&)>& dtype_of) {
  std::vector<Array> leaves = tree.leaves();
  const std::vector<std::string> paths = tree.paths();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (is_float(leaves[i].dtype())) leaves[i] = convert(leaves[i], dtype_of(paths[i]));
  }
  return tree.unflatten(std::move(leaves));
}

void check_used(const PrecisionPolicy& policy, const std::vector<bool>& used, const std::vector<std::string>& paths) {
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    throw ValueError(fmt::format(
        "precision policy: no layer and no variable has the path \"{}\"; expected a pattern that matches all of one of "
        "'{}', or of a layer's; correct it or leave it out",
        policy.rules()[i].pattern, fmt::join(paths, "', '")));
  }
}

/// A conversion of leaves by the dtypes of their paths.
Tree by_variable(const PrecisionPolicy& policy, const Tree& tree, DType PrecisionDTypes::*which) {
  detail::PrecisionInUse use{policy};
  Tree converted = in_dtypes(tree, [&](const std::string& path) { return use.of_variable(path).*which; });
  check_used(policy, use.used, tree.paths());
  return converted;
}

}  // namespace

PrecisionPolicy::PrecisionPolicy(std::string_view name) : dtypes_(of_name(name)) {}
PrecisionPolicy::PrecisionPolicy(const char* name) : PrecisionPolicy(std::string_view(name)) {}
PrecisionPolicy::PrecisionPolicy(const std::string& name) : PrecisionPolicy(std::string_view(name)) {}
PrecisionPolicy::PrecisionPolicy(PrecisionDTypes dtypes) : dtypes_(dtypes) {
  check_float("param", dtypes.param);
  check_float("compute", dtypes.compute);
  check_float("output", dtypes.output);
}

PrecisionPolicy PrecisionPolicy::with_rules(std::vector<Rule> rules) const {
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    detail::TextPattern::of_paths("precision policy", rule->pattern, "head/.*");
    if (std::find_if(rules.begin(), rule, [&](const Rule& r) { return r.pattern == rule->pattern; }) == rule) continue;
    throw ValueError(fmt::format(
        "precision policy: \"{}\" stands there twice; expected each pattern once; leave one out", rule->pattern));
  }
  PrecisionPolicy policy = *this;
  policy.rules_ = std::make_shared<const std::vector<Rule>>(std::move(rules));
  return policy;
}

const std::vector<PrecisionPolicy::Rule>& PrecisionPolicy::rules() const {
  static const std::vector<Rule> none;
  return rules_ ? *rules_ : none;
}

std::optional<std::size_t> PrecisionPolicy::rule_of_variable(std::string_view path) const {
  if (rules().empty()) return std::nullopt;
  if (const auto own = rule_at(rules(), std::string(path), false)) return own;
  const std::size_t slash = path.rfind('/');
  return rule_of_layer(slash == std::string_view::npos ? std::string_view() : path.substr(0, slash));
}

std::optional<std::size_t> PrecisionPolicy::rule_of_layer(std::string_view path) const {
  if (rules().empty()) return std::nullopt;
  for (std::string_view at = path; !at.empty();) {
    if (const auto own = rule_at(rules(), std::string(at), true)) return own;
    const std::size_t slash = at.rfind('/');
    at = slash == std::string_view::npos ? std::string_view() : at.substr(0, slash);
  }
  return std::nullopt;
}

PrecisionDTypes PrecisionPolicy::of_variable(std::string_view path) const {
  const auto rule = rule_of_variable(path);
  return rule ? rules()[*rule].policy.dtypes() : dtypes_;
}

PrecisionDTypes PrecisionPolicy::of_layer(std::string_view path) const {
  const auto rule = rule_of_layer(path);
  return rule ? rules()[*rule].policy.dtypes() : dtypes_;
}

Tree PrecisionPolicy::in_param_dtypes(const Tree& tree) const {
  return by_variable(*this, tree, &PrecisionDTypes::param);
}
Tree PrecisionPolicy::in_compute_dtypes(const Tree& tree) const {
  return by_variable(*this, tree, &PrecisionDTypes::compute);
}
Tree PrecisionPolicy::in_output_dtype(const Tree& tree) const {
  return in_dtypes(tree, [&](const std::string&) { return dtypes_.output; });
}

std::string name(const PrecisionPolicy& policy) {
  const PrecisionDTypes& dtypes = policy.dtypes();
  for (const auto& [text, known] : named_policies()) {
    if (known == dtypes) return text;
  }
  return fmt::format("param={} compute={} output={}", name(dtypes.param), name(dtypes.compute), name(dtypes.output));
}

namespace detail {

Tree call_with_precision(const PrecisionPolicy& policy, const ModelFunction& function, const Scope& scope,
                         const Tree& x) {
  Scope inside = scope.with_precision(policy);
  const Tree y = function(inside, map([&](const Array& leaf) { return inside.in_compute_dtype(leaf); }, x));
  if (inside.is_init()) {
    std::vector<std::string> paths;
    for (const auto& [path, variable] : inside.frame_->declared()) paths.push_back(path);
    check_used(policy, inside.precision_->used, paths);
  }
  return inside.frame_->is_widened(policy.dtypes().param) ? y : policy.in_output_dtype(y);
}

PrecisionDTypes PrecisionInUse::of_variable(const std::string& path) {
  const auto rule = policy.rule_of_variable(path);
  if (!rule) return policy.dtypes();
  used[*rule] = true;
  return policy.rules()[*rule].policy.dtypes();
}

PrecisionDTypes PrecisionInUse::of_layer(const std::string& path) {
  const auto rule = policy.rule_of_layer(path);
  if (!rule) return policy.dtypes();
  used[*rule] = true;
  return policy.rules()[*rule].policy.dtypes();
}

}  // namespace detail
}  // namespace lockstep
