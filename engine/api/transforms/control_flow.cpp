#include "engine/ir/control_flow.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/api/transforms/loop_checks.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ops/control_flow/hoisting.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/trace/array_state.h"
#include "engine/trace/cells.h"

namespace lockstep::detail {

namespace {

using api::FlatArguments;
using api::TracedTree;
using ops::control_flow::Places;

std::vector<Array> one_after_another(std::initializer_list<std::span<const Array>> lists) {
  std::vector<Array> all;
  for (const std::span<const Array> list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// The body of a loop: what it captured comes first, and the cells that it replaces are carried behind the carry.
struct LoopBodyParts {
  ir::FunctionPtr function;     ///< (captured..., carry..., cells..., rest...) -> (carry..., cells..., rest...)
  std::vector<Array> captured;  ///< Without those cells.
  std::vector<Array> cells;     ///< Their values before the loop.
};

LoopBodyParts loop_body(const TracedTree& traced, std::size_t carries) {
  const ir::Function& f = *traced.function;
  const std::size_t own = f.inputs().size() - traced.captured.size();
  std::vector<bool> is_carried(traced.captured.size());
  for (const TouchedCell& cell : traced.cells) is_carried[cell.captured] = cell.written;
  LoopBodyParts parts;
  Places consts, cells;
  for (std::size_t i = 0; i < traced.captured.size(); ++i) {
    (is_carried[i] ? cells : consts).push_back(own + i);
    (is_carried[i] ? parts.cells : parts.captured).push_back(traced.captured[i]);
  }
  const auto behind_carry = [&](Places before, const Places& inserted, std::size_t end) {
    Places all = ops::control_flow::joined(std::move(before), ops::control_flow::places(0, carries));
    all = ops::control_flow::joined(std::move(all), inserted);
    return ops::control_flow::joined(std::move(all), ops::control_flow::places(carries, end - carries));
  };
  const Places results = ops::control_flow::places(traced.results(), traced.written());
  parts.function = ops::control_flow::pick(f, behind_carry(std::move(consts), cells, own),
                                           behind_carry({}, results, traced.results()));
  return parts;
}

/// The results of a loop, its carried cells behind the others as `TracedTree::received` takes them.
std::vector<Array> cells_last(std::vector<Array> values, std::size_t carries, std::size_t cells) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(carries);
  std::rotate(first, first + static_cast<std::ptrdiff_t>(cells), values.end());
  return values;
}

/// A scan on operands: the equations that it is traced as.
std::vector<Array> bind_scan(const ir::Scan& loop, const std::vector<Array>& operands) {
  std::vector<ArrayType> types;
  for (const Array& operand : operands) types.push_back(operand.type());
  const ir::FunctionPtr function = ops::control_flow::traced_scan(loop, types);
  std::map<ir::Var, Array> values;
  for (std::size_t i = 0; i < operands.size(); ++i) values.emplace(function->inputs()[i], operands[i]);
  const auto arrays = [&](const std::vector<ir::Var>& vars) {
    std::vector<Array> list;
    for (const ir::Var v : vars) list.push_back(values.at(v));
    return list;
  };
  for (const ir::Equation& equation : function->equations()) {
    const std::vector<Array> results = api::bind(*equation.primitive, arrays(equation.inputs), equation.attrs);
    for (std::size_t k = 0; k < results.size(); ++k) values.emplace(equation.outputs[k], results[k]);
  }
  return arrays(function->outputs());
}

const Tree& carry_of(const TracedTree& traced) { return traced.result.items()[0]; }

/// What a loop starts from: leaves that are weak have their default dtypes, or those that its body returns for them.
class Start {
 public:
  explicit Start(const Tree& init) : tree_(api::strong(init)) {
    for (const Array& leaf : init.leaves()) weak_.push_back(api::is_weak(leaf));
  }
  const Tree& tree() const { return tree_; }

  /// Whether the body, traced at this start, returns other dtypes for weak leaves, which then start with these.
  bool takes_dtypes_of(const TracedTree& body) {
    const std::vector<ArrayType> returned = body.result_types();
    if (carry_of(body).size() != weak_.size()) return false;
    std::vector<Array> leaves = tree_.leaves();
    bool changed = false;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!weak_[i] || returned[i].dtype == leaves[i].dtype()) continue;
      const DType dtype = promote(returned[i].dtype, leaves[i].dtype());
      changed = changed || dtype != leaves[i].dtype();
      leaves[i] = convert(leaves[i], dtype);
    }
    if (changed) tree_ = tree_.unflatten(std::move(leaves));
    return changed;
  }

 private:
  Tree tree_;
  std::vector<bool> weak_;
};

/// The body of a scan at types of its carry and slices.
TracedTree traced_body(const LoopBody& body, const FlatArguments& flat, const ir::Scan& loop,
                       std::vector<ArrayType> types) {
  Mapping slices{.size = loop.length, .axis = {}, .rows = true, .varying = {}, .in_turn = true};
  for (std::size_t i = loop.carries; i < types.size(); ++i) {
    types[i].shape = types[i].shape.erase(0);
    slices.varying = slices.varying.joined(types[i].varying);
  }
  return api::trace_tree(
      [&](const std::vector<Tree>& arguments) {
        auto [carry, y] = body(arguments[0], arguments[1]);
        return Tree::list({std::move(carry), std::move(y)});
      },
      flat, types, {}, std::move(slices));
}

}  // namespace

std::function<Tree(const Tree&)> of_one(TreeFunction function) {
  return [function = std::move(function)](const Tree& tree) { return function({tree}); };
}

LoopBody scan_body(TreeFunction function, bool takes_x) {
  return [function = std::move(function), takes_x](const Tree& carry, const Tree& x) {
    const Tree result = takes_x ? function({carry, x}) : function({carry});
    return std::pair(result.items()[0], result.items()[1]);
  };
}

std::function<Tree(const Array&, const Tree&)> fori_body(TreeFunction function) {
  return [function = std::move(function)](const Array& i, const Tree& carry) { return function({Tree(i), carry}); };
}

std::pair<Tree, Tree> scan(const LoopBody& body, const Tree& init, const Tree& xs, const ScanOptions& options) {
  Start start(init);
  const Tree rows = api::strong(xs);
  FlatArguments flat({start.tree(), rows});
  std::vector<ArrayType> types = flat.types();
  ir::Scan loop;
  loop.carries = init.size();
  loop.length = api::loop_length(xs, std::span(types).subspan(loop.carries), options.length);
  loop.reverse = options.reverse;
  loop.unroll = options.unroll;
  if (loop.unroll < 1) {
    throw ValueError(fmt::format("scan: unroll is {}; expected 1 or more iterations at once", loop.unroll));
  }
  TracedTree traced = traced_body(body, flat, loop, types);
  while (start.takes_dtypes_of(traced)) {
    flat = FlatArguments({start.tree(), rows});
    types = flat.types();
    traced = traced_body(body, flat, loop, types);
  }
  api::check_carry(__func__, init, types, carry_of(traced), traced.result_types());
  const std::size_t carries = loop.carries;
  const LoopBodyParts parts = loop_body(traced, carries);
  loop.body = parts.function;
  loop.consts = parts.captured.size();
  loop.carries += parts.cells.size();
  const std::span<const Array> given(flat.leaves());
  const std::vector<Array> values =
      bind_scan(loop, one_after_another({parts.captured, given.first(carries), parts.cells, given.subspan(carries)}));
  const Tree both = traced.received(cells_last(values, carries, parts.cells.size()));
  return {both.items()[0], both.items()[1]};
}

// ---- while_loop and fori_loop

namespace {

/// The condition on what the body carries, its cells too: (captured..., carry..., cells...) -> bool; and what it captured.
std::pair<ir::FunctionPtr, std::vector<Array>> loop_test(const TracedTree& predicate, const TracedTree& step,
                                                         const std::vector<ArrayType>& carry) {
  const auto carried = [&](std::size_t captured) -> std::optional<std::size_t> {
    const auto read = std::ranges::find(predicate.cells, captured, &TouchedCell::captured);
    if (read == predicate.cells.end()) return std::nullopt;
    std::size_t place = 0;
    for (const TouchedCell& cell : step.cells) {
      if (cell.written && cell.cell == read->cell) return place;
      place += cell.written ? 1 : 0;
    }
    return std::nullopt;
  };
  std::vector<Array> consts;
  for (std::size_t i = 0; i < predicate.captured.size(); ++i) {
    if (!carried(i)) consts.push_back(predicate.captured[i]);
  }
  std::vector<ArrayType> types;
  for (const Array& array : consts) types.push_back(array.type());
  types.insert(types.end(), carry.begin(), carry.end());
  for (const TouchedCell& cell : step.cells) {
    if (cell.written) types.push_back(step.captured[cell.captured].type());
  }
  const auto body = [&](ir::Builder& builder, std::span<const ops::Value> in) {
    Places taken = ops::control_flow::places(consts.size(), carry.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < predicate.captured.size(); ++i) {
      const auto place = carried(i);
      taken.push_back(place ? consts.size() + carry.size() + *place : next++);
    }
    return ops::control_flow::call(builder, *predicate.function, ops::control_flow::at(in, taken));
  };
  return {ops::control_flow::write(predicate.function->axes(), types, body), std::move(consts)};
}

}  // namespace

Tree while_loop(const std::function<Array(const Tree&)>& cond, const std::function<Tree(const Tree&)>& body,
                const Tree& init) {
  Start start(init);
  const auto next = [&](const FlatArguments& flat) {
    return api::trace_tree([&](const std::vector<Tree>& arguments) { return Tree::list({body(arguments[0])}); }, flat,
                           flat.types());
  };
  FlatArguments flat({start.tree()});
  TracedTree step = next(flat);
  while (start.takes_dtypes_of(step)) {
    flat = FlatArguments({start.tree()});
    step = next(flat);
  }
  const std::vector<ArrayType> types = flat.types();
  const TracedTree predicate =
      api::trace_tree([&](const std::vector<Tree>& arguments) { return Tree(cond(arguments[0])); }, flat, types);
  tracing::refuse_written(
      predicate.cells,
      "while_loop: cond changes state, which it cannot hand on: draw and update in the body, and let "
      "cond read the carry");
  const ArrayType truth = predicate.function->output_types()[0];
  if (truth.dtype != bool_) {
    throw DtypeError(
        fmt::format("while_loop: cond returned {}; expected one bool scalar: compare it", to_string(truth)));
  }
  if (truth.shape.rank() != 0) {
    throw ShapeError(fmt::format("while_loop: cond returned {}; expected one bool scalar: reduce it with any or all",
                                 to_string(truth)));
  }
  api::check_carry(__func__, init, types, carry_of(step), step.result_types());
  const LoopBodyParts parts = loop_body(step, types.size());
  const auto [test, captured] = loop_test(predicate, step, types);
  const ir::WhileLoop loop{test, parts.function, captured.size(), parts.captured.size()};
  const std::vector<Array> values =
      api::bind(ops::primitives::while_loop(),
                one_after_another({captured, parts.captured, flat.leaves(), parts.cells}), loop.attrs());
  return step.received(values).items()[0];
}

Tree fori_loop(std::int64_t lower, std::int64_t upper, const std::function<Tree(const Array&, const Tree&)>& body,
               const Tree& init) {
  const std::int64_t length = std::max<std::int64_t>(upper - lower, 0);
  const auto step = [&](const Tree& carry, const Tree& i) { return std::pair(body(i.array(), carry), Tree()); };
  return scan(step, init, Tree(lockstep::arange(length) + lower), {.length = length}).first;
}

Tree fori_loop(const Operand& lower, const Operand& upper, const std::function<Tree(const Array&, const Tree&)>& body,
               const Tree& init) {
  const auto bound = [](const Operand& operand) {
    return operand.is_scalar() ? full({}, operand, int32) : convert(operand.array(), int32);
  };
  const Array last = bound(upper);
  const auto go_on = [&](const Tree& state) { return state.items()[0].array() < last; };
  const auto step = [&](const Tree& state) {
    const Array& i = state.items()[0].array();
    return Tree::list({i + 1, body(i, state.items()[1])});
  };
  return while_loop(go_on, step, Tree::list({bound(lower), init})).items()[1];
}

// ---- cond and switch

namespace {

/// Branches that all take the operands and then whatever any of them captured.
struct Branches {
  ir::Cond cond;
  std::vector<Array> captured;
  Tree result;
  std::vector<WeakType> weak;                     ///< Of the result's leaves.
  std::vector<std::shared_ptr<CellState>> cells;  ///< That any branch replaces: each returns the values of all, last.

  void note_cells(const TracedTree& branch) {
    for (const TouchedCell& touched : branch.cells) {
      if (touched.written && std::ranges::find(cells, touched.cell) == cells.end()) cells.push_back(touched.cell);
    }
  }

  /// Where a captured array stands among them.
  std::size_t place(const Array& array) {
    const ArrayState& a = *array.state();
    const auto same = [&](const Array& other) {
      const ArrayState& b = *other.state();
      return a.trace == b.trace && a.var == b.var && a.buffer == b.buffer && a.type == b.type;
    };
    const auto found = std::ranges::find_if(captured, same);
    const auto position = static_cast<std::size_t>(found - captured.begin());
    if (found == captured.end()) captured.push_back(array);
    return position;
  }
};

/// Which result of a branch is the cell's value, where the branch replaces it.
std::optional<std::size_t> place_of(const TracedTree& branch, const std::shared_ptr<CellState>& cell) {
  std::size_t place = branch.results();
  for (const TouchedCell& touched : branch.cells) {
    if (touched.written && touched.cell == cell) return place;
    place += touched.written ? 1 : 0;
  }
  return std::nullopt;
}

/// The dtype and weak type that a result has from every branch, where it is weak in some of them and they differ.
std::optional<std::pair<DType, WeakType>> common_result(const std::vector<TracedTree>& traced, std::size_t leaf) {
  std::vector<DType> dtypes;
  bool same = true;
  for (const TracedTree& branch : traced) {
    dtypes.push_back(branch.result_types()[leaf].dtype);
    same = same && branch.weak[leaf] == traced.front().weak[leaf] && dtypes.back() == dtypes.front();
  }
  if (same) return std::nullopt;
  api::CommonDType common;
  bool has_strong = false;
  for (std::size_t i = 0; i < traced.size(); ++i) {
    const bool is_weak = traced[i].weak[leaf] != WeakType::strong;
    if (!is_weak && std::exchange(has_strong, true)) continue;
    common.add(dtypes[i], is_weak);
  }
  return std::pair(common.dtype(), has_strong ? WeakType::strong : WeakType::weak);
}

/// The branches, weak results at the dtypes of the others'.
std::vector<TracedTree> traced_alike(const std::vector<TreeFunction>& functions, const FlatArguments& flat) {
  const std::vector<ArrayType> types = flat.types();
  std::vector<TracedTree> traced;
  for (const TreeFunction& function : functions) traced.push_back(api::trace_tree(function, flat, types));
  std::vector<std::optional<std::pair<DType, WeakType>>> common;
  for (std::size_t i = 0; i < traced.front().results(); ++i) {
    const auto lacks = [&](const TracedTree& branch) { return branch.results() <= i; };
    common.push_back(std::ranges::any_of(traced, lacks) ? std::nullopt : common_result(traced, i));
  }
  const auto differs = [&](const TracedTree& branch, std::size_t i) {
    return common[i] && (branch.weak[i] != common[i]->second || branch.result_types()[i].dtype != common[i]->first);
  };
  for (std::size_t b = 0; b < traced.size(); ++b) {
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < std::min(common.size(), traced[b].results()); ++i) {
      if (differs(traced[b], i) && (traced[b].weak[i] != WeakType::strong)) changed.push_back(i);
    }
    if (changed.empty()) continue;
    const auto converted = [&](const std::vector<Tree>& arguments) {
      const Tree result = functions[b](arguments);
      std::vector<Array> leaves = result.leaves();
      for (const std::size_t i : changed) {
        leaves[i] = convert(leaves[i], common[i]->first);
        if (common[i]->second == WeakType::weak) leaves[i] = api::weakened(leaves[i]);
      }
      return result.unflatten(std::move(leaves));
    };
    traced[b] = api::trace_tree(converted, flat, types);
  }
  return traced;
}

Branches traced_branches(std::string_view op, const std::vector<TreeFunction>& functions,
                         const std::vector<std::string>& names, const FlatArguments& flat) {
  const std::vector<ArrayType> types = flat.types();
  const std::vector<TracedTree> traced = traced_alike(functions, flat);
  Branches all;
  const TracedTree& first = traced.front();
  for (std::size_t i = 0; i < traced.size(); ++i) {
    const TracedTree& branch = traced[i];
    for (const Array& array : branch.captured) all.place(array);
    all.note_cells(branch);
    api::check_branches(op, {names.front(), names[i]}, first.result, first.result_types(), branch.result,
                        branch.result_types());
  }
  Places untouched;
  for (const auto& cell : all.cells) untouched.push_back(types.size() + all.place(tracing::read(cell)));
  std::vector<ArrayType> inputs = types;
  for (const Array& array : all.captured) inputs.push_back(array.type());
  for (const TracedTree& branch : traced) {
    Places taken = ops::control_flow::places(0, types.size());
    for (const Array& array : branch.captured) taken.push_back(types.size() + all.place(array));
    all.cond.branches.push_back(ops::control_flow::write(
        branch.function->axes(), inputs, [&](ir::Builder& builder, std::span<const ir::Value> in) {
          const auto values = ops::control_flow::call(builder, *branch.function, ops::control_flow::at(in, taken));
          std::vector<ops::Value> results(values.begin(),
                                          values.begin() + static_cast<std::ptrdiff_t>(branch.results()));
          for (std::size_t i = 0; i < all.cells.size(); ++i) {
            const auto place = place_of(branch, all.cells[i]);
            results.push_back(place ? values[*place] : in[untouched[i]]);
          }
          return results;
        }));
  }
  all.result = first.result;
  all.weak = first.weak;
  return all;
}

Tree run_chosen(std::string_view op, const Array& index, const std::vector<TreeFunction>& functions,
                const std::vector<std::string>& names, const std::vector<Tree>& operands) {
  const FlatArguments flat(operands);
  const Branches branches = traced_branches(op, functions, names, flat);
  std::vector<Array> results =
      api::bind(ops::primitives::cond(), one_after_another({{&index, 1}, flat.leaves(), branches.captured}),
                branches.cond.attrs());
  const std::size_t own = results.size() - branches.cells.size();
  for (std::size_t i = 0; i < branches.cells.size(); ++i) tracing::replace(branches.cells[i], results[own + i]);
  results.resize(own);
  return api::unflattened(branches.result, results, branches.weak);
}

Array scalar(std::string_view what, const Operand& operand) {
  if (operand.is_scalar()) return full({}, operand, operand.kind() == ScalarKind::boolean ? bool_ : int32);
  if (operand.array().ndim() == 0) return operand.array();
  throw ShapeError(fmt::format("{} is {}; expected a scalar: for one choice per element use where, or vmap", what,
                               to_string(operand.array().type())));
}

}  // namespace

Tree cond(const Operand& predicate, const TreeFunction& true_fn, const TreeFunction& false_fn,
          const std::vector<Tree>& operands) {
  const Array truth = scalar("cond: the predicate", predicate);
  const Array index = convert(truth.dtype() == bool_ ? truth : truth != 0, int32);
  return run_chosen(__func__, index, {false_fn, true_fn}, {"false_fn", "true_fn"}, operands);
}

Tree switch_(const Operand& index, const std::vector<TreeFunction>& branches, const std::vector<Tree>& operands) {
  if (branches.empty()) throw ValueError("switch_: there are no branches; give at least one");
  const Array number = scalar("switch_: the index", index);
  if (!is_integer(number.dtype())) {
    throw DtypeError(fmt::format("switch_: the index is {}; expected an integer: convert it, or use cond for a bool",
                                 to_string(number.type())));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < branches.size(); ++i) names.push_back(fmt::format("branch {}", i));
  // Clamped before it is narrowed, so that no wide index wraps around.
  const bool wide = number.dtype() == int64 || number.dtype() == uint32 || number.dtype() == uint64;
  const Array inside = wide ? clip(number, 0, static_cast<std::int64_t>(branches.size()) - 1) : number;
  return run_chosen("switch_", convert(inside, int32), branches, names, operands);
}

}  // namespace lockstep::detail
