#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/convolution.h>
#include <lockstep/ops.h>
#include <lockstep/tree.h>

#include "engine/exchange/stablehlo/mlir.h"

namespace lockstep::exchange {

/// The values of a region while it is traced, and the ops that gave them.
struct Values {
  const Values* outer = nullptr;
  std::map<std::string, std::vector<Array>> arrays;
  std::map<std::string, const mlir::Op*> origins;
};

/// Traces the functions of a module with the ops that there are here.
class Importer {
 public:
  explicit Importer(const std::vector<mlir::Func>& funcs);

  /// The public function, or the only one.
  const mlir::Func& entry() const;
  /// `line` is where the call stands.
  std::vector<Array> call(const mlir::Func& func, const std::vector<Array>& arguments, std::int64_t line);
  std::vector<Array> run(const mlir::Region& region, const std::vector<Array>& arguments, const Values* outer);
  const mlir::Func& func(const std::string& name, const mlir::Op& op) const;

 private:
  std::vector<Array> apply(const mlir::Op& op, const Values& values);
  /// What the ops refuse, with the line.
  std::vector<Array> apply_at_line(const mlir::Op& op, const Values& values);

  const std::vector<mlir::Func>& funcs_;
  std::map<std::string, const mlir::Func*> by_name_;
  int depth_ = 0;
  std::int64_t applied_ = 0;
};

/// One op that is traced: its operands and attributes, under the names of both of MLIR's forms.
struct OpCall {
  Importer& importer;
  const mlir::Op& op;
  const Values& values;
  std::vector<Array> operands;

  [[noreturn]] void refuse(const std::string& what) const;
  /// Throws where there are fewer.
  const Array& operand(std::size_t i) const;
  const ArrayType& result() const;
  /// Null where there is none of these names.
  const mlir::Attribute* find(std::initializer_list<const char*> names) const;
  /// Whole numbers of a list, of a dense attribute, or one alone; `fallback` where there is none.
  Axes integers(std::initializer_list<const char*> names, const Axes& fallback) const;
  std::int64_t integer(std::initializer_list<const char*> names, std::int64_t fallback) const;
  /// Of pad = [[0, 1], [2, 3]] in the form of a list or of dense.
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs(std::initializer_list<const char*> names, int count) const;
  /// The name of the one op in a region of two arguments that is applied to both, "" where the region gives the second one.
  /// On i1 it is the logical op: "stablehlo.or" for add and maximum, "stablehlo.and" for multiply and minimum.
  /// "a function of its own" where it does something else.
  std::string combiner(const mlir::Region& region) const;
};

/// A list of arrays as one tree.
Tree list_of(std::vector<Array> arrays);

Axes integers_of(const mlir::Attribute& attribute, std::int64_t line);

/// What an op of StableHLO is here; empty where it is none of the family.
std::vector<Array> apply_shape_op(const OpCall& call);
std::vector<Array> apply_reduction(const OpCall& call);
std::vector<Array> apply_product(const OpCall& call);
std::vector<Array> apply_linalg(const OpCall& call);
std::vector<Array> apply_indexing(const OpCall& call);
std::vector<Array> apply_control_flow(const OpCall& call);
std::vector<Array> apply_rng(const OpCall& call);

struct Windows;

/// Arrays, and after them as many initial values, reduced by a region of scalars, in the order of their elements.
std::vector<Array> reduced_by_region(const OpCall& call, const mlir::Region& region, const Axes& axes);
/// The same over windows.
std::vector<Array> windows_by_region(const OpCall& call, const mlir::Region& region, const Windows& windows);

/// A region of scalars, computed for each element of arrays of one shape.
std::vector<Array> for_each_element(const OpCall& call, const mlir::Region& region, const std::vector<Array>& arrays);
/// A region of two scalars, which gives one, for each pair of elements of two arrays of one shape.
Array joined_by_region(const OpCall& call, const mlir::Region& region, const Array& a, const Array& b);

struct Comparison {
  std::string direction = {};  ///< "LT".
  std::string type = {};       ///< "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", or "" where the text has none.
  bool is_total() const { return type == "TOTALORDER"; }
};
Comparison comparison_of(const OpCall& call, const mlir::Op& op);
/// Whole numbers that lie as floats do in their total order: -NaN, -inf, ..., -0, 0, ..., inf, NaN.
Array total_order(const Array& x);
/// The float that a constant op of this name gives, where the call stands; nothing for another value.
std::optional<double> constant_float(const OpCall& call, const std::string& name);

/// The values that a region returns, each an expression of its arguments #0, #1, ...: "select(GT(#0,#1),#0,#1)". It has a '?' where
/// there is anything else than ops without attributes, and is empty where the region does not return.
std::vector<std::string> dataflow(const OpCall& call, const mlir::Region& region);

std::vector<Array> sort_call(const OpCall& call);
std::vector<Array> select_and_scatter(const OpCall& call);

/// Whole numbers of a `dense` attribute.
Axes dense_integers(const mlir::Attribute& value, std::int64_t line);
/// The float that all elements of a `dense` attribute are; nothing where they differ.
std::optional<double> dense_float(const mlir::Attribute& value, const ArrayType& type, std::int64_t line);
/// The elements of a `dense` attribute.
Array dense_constant(const mlir::Attribute& value, const ArrayType& type, std::int64_t line);

}  // namespace lockstep::exchange
