#include "engine/ops/control_flow/hoisting.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "engine/core/lists.h"
#include "engine/ir/def_use.h"
#include "engine/ir/primitive.h"
#include "engine/ir/rewrite.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"

namespace lockstep::ops::control_flow {
namespace {

using ir::Builder;
using ir::Equation;
using ir::FunctionPtr;
using ir::Scan;
using ir::Value;
using ir::Var;

/// Whether no kernel runs for it where its reader takes it as it lies.
bool is_view(const Equation& equation) {
  const std::array views = {&primitives::transpose(), &primitives::reshape(), &primitives::slice(),
                            &primitives::broadcast_in_dim()};
  return std::ranges::count(views, equation.primitive) != 0;
}

/// A dot_general of a row with what is the same in each iteration.
struct RowProduct {
  std::size_t x = 0;     ///< Which of the xs the row is.
  std::size_t side = 0;  ///< Of the row.
};

/// What a scan's body need not compute itself.
class Hoistable {
 public:
  Hoistable(const Scan& scan, Hoist hoist)
      : scan_(scan), body_(*scan.body), is_traced_(hoist == Hoist::traced), is_same_(body_.types().size(), false) {
    for (std::size_t i = 0; i < scan.consts; ++i) set_same(body_.inputs()[i]);
    for (const Equation& equation : body_.equations()) visit(equation);
  }

  /// By equation, whether it is computed in front of the loop.
  const std::vector<bool>& moved() const { return moved_; }
  /// By equation, the product of all rows that takes its place, if any.
  const std::vector<std::optional<RowProduct>>& products() const { return products_; }
  bool any() const {
    return std::ranges::count(moved_, true) != 0 ||
           std::ranges::any_of(products_, [](const auto& product) { return product.has_value(); });
  }

 private:
  bool is_same(Var v) const { return is_same_[v.id]; }
  void set_same(Var v) { is_same_[v.id] = true; }

  void visit(const Equation& equation) {
    // Keys and draws stay where they are traced, so that a key which each iteration uses again is found there.
    const auto is_key = [this](Var v) { return body_.type(v).dtype == DType::key; };
    const bool draws =
        is_traced_ && (std::ranges::any_of(equation.inputs, is_key) || std::ranges::any_of(equation.outputs, is_key));
    const bool stays = draws || has_effects(equation) || equation.primitive->traits.typed_axes;
    const bool same = !stays && std::ranges::all_of(equation.inputs, [this](Var v) { return is_same(v); });
    if (same) std::ranges::for_each(equation.outputs, [this](Var v) { set_same(v); });
    // A view costs the loop nothing; nor does what needs no operand, which folds into what reads it.
    moved_.push_back(same && !equation.inputs.empty() && !is_view(equation));
    products_.push_back(stays || !is_traced_ ? std::nullopt : row_product(equation));
  }

  std::optional<RowProduct> row_product(const Equation& equation) const {
    if (equation.primitive != &primitives::dot_general()) return std::nullopt;
    if (!equation.attrs.get<std::vector<Dims>>("batch")[0].empty()) return std::nullopt;
    for (const std::size_t side : {0U, 1U}) {
      const std::optional<std::size_t> x = row(equation.inputs[side]);
      if (x && is_same(equation.inputs[1 - side]) && pays(equation, side)) return RowProduct{*x, side};
    }
    return std::nullopt;
  }

  std::optional<std::size_t> row(Var v) const {
    const auto xs = std::span(body_.inputs()).subspan(scan_.consts + scan_.carries);
    const std::size_t x = place_in(xs, v);
    return x < xs.size() ? std::optional(x) : std::nullopt;
  }

  /// A product of many rows is as fast by itself, and those of all iterations take memory.
  bool pays(const Equation& dot, std::size_t side) const {
    constexpr std::int64_t most_rows = 256;
    const Shape& x = body_.type(dot.inputs[side]).shape;
    const Dims& contracted = dot.attrs.get<std::vector<Dims>>("contract")[side];
    std::int64_t rows = 1;
    for (int d = 0; d < x.rank(); ++d) {
      if (std::ranges::count(contracted, d) == 0) rows *= x[d];
    }
    return rows < most_rows;
  }

  const Scan& scan_;
  const ir::Function& body_;
  bool is_traced_;
  std::vector<bool> is_same_;  // by var: in each iteration
  std::vector<bool> moved_;
  std::vector<std::optional<RowProduct>> products_;
};

/// A scan that is given what `Hoistable` found.
class Hoisting {
 public:
  Hoisting(Builder& builder, const Scan& scan, const Hoistable& found, std::span<const Var> operands)
      : builder_(builder),
        scan_(scan),
        found_(found),
        operands_(operands.begin(), operands.end()),
        chains_(*scan.body) {
    for (std::size_t i = 0; i < scan.consts; ++i) outside_[scan.body->inputs()[i]] = operands_[i];
  }

  std::vector<Var> run() {
    ir::Draft body(*scan_.body);
    std::vector<Var> consts, xs, const_operands, x_operands;
    std::vector<Equation> kept;
    for (std::size_t e = 0; e < body.equations.size(); ++e) {
      Equation& equation = body.equations[e];
      if (found_.moved()[e]) {
        for (const Var v : equation.outputs) {
          consts.push_back(v);
          const_operands.push_back(outside(v));
        }
      } else if (found_.products()[e]) {
        xs.push_back(equation.outputs[0]);
        x_operands.push_back(product_of_all(equation, *found_.products()[e]));
      } else {
        kept.push_back(std::move(equation));
      }
    }
    body.equations = std::move(kept);
    const auto add = [&](const std::vector<Var>& inputs, std::vector<Var>& to, std::size_t at) {
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(at), inputs.begin(), inputs.end());
    };
    add(xs, body.inputs, body.inputs.size());
    add(x_operands, operands_, operands_.size());
    add(consts, body.inputs, scan_.consts);
    add(const_operands, operands_, scan_.consts);
    Scan scan = scan_;
    scan.consts += consts.size();
    scan.body = body.finish();
    return builder_.apply(primitives::scan(), operands_, scan.attrs());
  }

 private:
  /// What is the same in each iteration, computed in front of the loop.
  Var outside(Var v) {
    if (const auto it = outside_.find(v); it != outside_.end()) return it->second;
    const Equation& equation = nth(scan_.body->equations(), chains_.definition(v));
    std::vector<Var> inputs;
    for (const Var input : equation.inputs) inputs.push_back(outside(input));
    const std::vector<Var> results = apply(equation, inputs, equation.attrs);
    for (std::size_t k = 0; k < results.size(); ++k) outside_[equation.outputs[k]] = results[k];
    return outside_.at(v);
  }

  /// The product of the rows of all iterations, which lie along its first dimension.
  Var product_of_all(const Equation& dot, const RowProduct& product) {
    const std::size_t first_x = scan_.consts + scan_.carries;
    auto contract = dot.attrs.get<std::vector<Dims>>("contract");
    for (std::int64_t& d : contract[product.side]) ++d;
    std::array<Var, 2> factors;
    factors[product.side] = operands_[first_x + product.x];
    factors[1 - product.side] = outside(dot.inputs[1 - product.side]);
    const Attrs attrs = dot.attrs.with("contract", contract);
    const Value result(builder_, apply(dot, factors, attrs)[0]);
    if (product.side == 0) return result.var();
    // The iterations stand behind the other factor's dimensions.
    const Var other = dot.inputs[0];
    const auto before =
        static_cast<std::int64_t>(scan_.body->type(other).shape.rank()) - static_cast<std::int64_t>(contract[0].size());
    Dims order = {before};
    for (std::int64_t d = 0; d < result.rank(); ++d) {
      if (d != before) order.push_back(d);
    }
    return transpose(result, order).var();
  }

  /// The equation on other operands, named as it was.
  std::vector<Var> apply(const Equation& equation, std::span<const Var> inputs, const Attrs& attrs) {
    const ir::Provenance of_scan = builder_.provenance();
    builder_.set_provenance(equation.provenance);
    std::vector<Var> results = builder_.apply(*equation.primitive, inputs, attrs);
    builder_.set_provenance(of_scan);
    return results;
  }

  Builder& builder_;
  const Scan& scan_;
  const Hoistable& found_;
  std::vector<Var> operands_;
  ir::DefUse chains_;  // of the body
  std::map<Var, Var> outside_;
};

}  // namespace

std::optional<std::vector<Var>> hoisted_scan(Builder& builder, const Scan& scan, std::span<const Var> operands,
                                             Hoist hoist) {
  if (scan.length == 0) return std::nullopt;
  const Hoistable found(scan, hoist);
  if (!found.any()) return std::nullopt;
  return Hoisting(builder, scan, found, operands).run();
}

FunctionPtr traced_scan(const Scan& scan, std::span<const ArrayType> operands) {
  Builder builder(scan.body->axes());
  std::vector<Var> inputs;
  for (const ArrayType& type : operands) inputs.push_back(builder.input(type));
  const FunctionPtr alone = builder.finish(builder.apply(primitives::scan(), inputs, scan.attrs()));
  return ir::rewrite_each(alone, primitives::scan(), [](auto& inner, const Equation& equation, auto given) {
    return hoisted_scan(inner, Scan::of(equation.attrs), given, Hoist::traced);
  });
}

}  // namespace lockstep::ops::control_flow
