#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/model.h>
#include <lockstep/owned.h>
#include <lockstep/tree.h>

namespace lockstep {

/// The dtypes of a model: of what is kept, of what it computes with, of what it gives.
struct PrecisionDTypes {
  DType param = float32;    ///< Of trainable floats.
  DType compute = float32;  ///< Of a layer's inputs and of the copies of its variables that it computes with.
  DType output = float32;   ///< Of the floats that the whole model gives.
  bool operator==(const PrecisionDTypes&) const = default;
};

/// Which dtypes the parts of a model have, by path: Keras' DTypePolicy and DTypePolicyMap, jmp's Policy.
///
///     const Model narrow = with_precision(model, PrecisionPolicy("mixed_bfloat16").with_rules({{"head/.*", "float32"}}));
///
/// A name is a float dtype ("float32", "bfloat16", "float16", "float64"), in which all is kept and computed, or
/// "mixed_bfloat16" or "mixed_float16": kept in float32, computed in 16 bits. The output is float32 unless it is computed
/// in float64, so that losses are. What is no trainable float keeps its dtype whatever the policy: integers, keys,
/// complex numbers, non-trainable state such as a norm's statistics. Layers take statistics, softmax and long sums in at
/// least float32 whatever they compute in, and losses do.
class LOCKSTEP_API PrecisionPolicy {
 public:
  struct Rule;

  PrecisionPolicy() = default;               ///< All float32.
  PrecisionPolicy(std::string_view name);    // NOLINT: implicit by design. Throws ValueError listing the names.
  PrecisionPolicy(const char* name);         // NOLINT: implicit by design
  PrecisionPolicy(const std::string& name);  // NOLINT: implicit by design
  PrecisionPolicy(PrecisionDTypes dtypes);   // NOLINT: implicit by design. Throws DtypeError for one that is no float.

  /// The same with rules for some paths. A pattern is a path or a regular expression (ECMAScript) that must match all of
  /// the path of a variable ("head/kernel") or of a layer ("head", also as "head/", so that "head/.*" is both the layer
  /// and its variables). A variable takes the rule that is its path, else the one pattern that matches all of it, else
  /// what its layer takes, else what the layer around that takes, and so on. Throws ValueError for a pattern that is no
  /// regular expression or stands there twice.
  PrecisionPolicy with_rules(std::vector<Rule> rules) const;

  const PrecisionDTypes& dtypes() const { return dtypes_; }  ///< Where no rule says otherwise.
  const std::vector<Rule>& rules() const;
  /// The rule of a variable, of the layer with that path, or nothing. Throws ValueError "matches multiple policies" where
  /// two patterns match at one level.
  std::optional<std::size_t> rule_of_variable(std::string_view path) const;
  std::optional<std::size_t> rule_of_layer(std::string_view path) const;
  PrecisionDTypes of_variable(std::string_view path) const;
  PrecisionDTypes of_layer(std::string_view path) const;

  /// Trees of functions that know no Scope: the float leaves in the param, compute and output dtypes of their paths,
  /// others as they are. Their derivatives are those of the given dtypes. With rules, one that is no leaf's throws
  /// ValueError (in_output_dtype has none).
  Tree in_param_dtypes(const Tree& tree) const;
  Tree in_compute_dtypes(const Tree& tree) const;
  Tree in_output_dtype(const Tree& tree) const;

 private:
  PrecisionDTypes dtypes_;
  detail::SharedObject<const std::vector<Rule>> rules_;  // null where there are none
};

/// A pattern of paths and the dtypes of what has them; rules of `policy` itself are not asked.
struct PrecisionPolicy::Rule {
  std::string pattern;
  PrecisionPolicy policy;
};

/// The name of such dtypes, else "param=.. compute=.. output=..".
LOCKSTEP_API std::string name(const PrecisionPolicy& policy);

/// The same model in that precision. Its floats come in the compute dtype and leave in the output dtype; `init` makes
/// variables in their param dtypes, with the values that they have otherwise, rounded; a call gives layers copies in
/// their compute dtypes, whose gradients arrive in the param dtypes. `init` throws ValueError for a rule that no layer
/// and no variable takes. Called with float64 leaves where float32 or less is declared, as check_one_meaning does, it
/// computes in float64 and not in the policy's dtypes.
template <class X, class Y>
Model<X, Y> with_precision(const Model<X, Y>& model, PrecisionPolicy policy) {
  return Model<X, Y>([function = model.function(), policy = std::move(policy)](Scope& scope, const X& x) {
    return from_tree<Y>(detail::call_with_precision(policy, function, scope, to_tree(x)));
  });
}

}  // namespace lockstep
