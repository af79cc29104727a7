#include "engine/ir/control_flow.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>

#include "engine/api/bind.h"
#include "engine/api/loop_checks.h"
#include "engine/api/tree_trace.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/passes/pass.h"
#include "engine/trace/array_state.h"
#include "engine/trace/cells.h"

namespace lockstep::detail {

namespace {

using api::FlatArguments;
using api::TracedTree;
using ops::control_flow::Places;

std::vector<Array> list_of(std::initializer_list<std::span<const Array>> lists) {
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

/// A scan on operands, with what its body need not compute in each iteration computed in front of it. Here and not when
/// it is compiled, so that derivatives do so too, and one scan has one value wherever it runs.
std::vector<Array> bind_scan(const ir::Scan& loop, const std::vector<Array>& operands) {
  ir::Builder builder(loop.body->axes());
  std::vector<ir::Var> inputs;
  for (const Array& operand : operands) inputs.push_back(builder.input(operand.type()));
  const ir::FunctionPtr plain = builder.finish(builder.apply(ops::primitives::scan(), inputs, loop.attrs()));
  const ir::FunctionPtr function = passes::hoist_with_products(plain);
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

}  // namespace

std::pair<Tree, Tree> scan(const LoopBody& body, const Tree& init, const Tree& xs, const ScanOptions& options) {
  const FlatArguments flat({init, xs});
  std::vector<ArrayType> types = flat.types();
  ir::Scan loop;
  loop.carries = init.size();
  loop.length = api::loop_length(xs, std::span(types).subspan(loop.carries), options.length);
  loop.reverse = options.reverse;
  loop.unroll = options.unroll;
  if (loop.unroll < 1) {
    throw ValueError(fmt::format("scan: unroll is {}; expected 1 or more iterations at once", loop.unroll));
  }
  Mapping slices{.size = loop.length, .axis = {}, .rows = true, .varying = {}, .in_turn = true};
  for (std::size_t i = loop.carries; i < types.size(); ++i) {
    types[i].shape = types[i].shape.erase(0);
    slices.varying = slices.varying.joined(types[i].varying);
  }
  const TracedTree traced = api::trace_tree(
      [&](const std::vector<Tree>& arguments) {
        auto [carry, y] = body(arguments[0], arguments[1]);
        return Tree::list({std::move(carry), std::move(y)});
      },
      flat, types, {}, std::move(slices));
  api::check_carry("scan", init, types, carry_of(traced), traced.result_types());
  const std::size_t carries = loop.carries;
  const LoopBodyParts parts = loop_body(traced, carries);
  loop.body = parts.function;
  loop.consts = parts.captured.size();
  loop.carries += parts.cells.size();
  const std::span<const Array> given(flat.leaves());
  const std::vector<Array> values =
      bind_scan(loop, list_of({parts.captured, given.first(carries), parts.cells, given.subspan(carries)}));
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
  const FlatArguments flat({init});
  const std::vector<ArrayType> types = flat.types();
  const TracedTree predicate =
      api::trace_tree([&](const std::vector<Tree>& arguments) { return Tree(cond(arguments[0])); }, flat, types);
  trace::refuse_written(predicate.cells,
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
  const TracedTree step = api::trace_tree(
      [&](const std::vector<Tree>& arguments) { return Tree::list({body(arguments[0])}); }, flat, types);
  api::check_carry("while_loop", init, types, carry_of(step), step.result_types());
  const LoopBodyParts parts = loop_body(step, types.size());
  const auto [test, captured] = loop_test(predicate, step, types);
  const ir::WhileLoop loop{test, parts.function, captured.size(), parts.captured.size()};
  const std::vector<Array> values = api::bind(
      ops::primitives::while_loop(), list_of({captured, parts.captured, flat.leaves(), parts.cells}), loop.attrs());
  return step.received(values).items()[0];
}

Tree fori_loop(std::int64_t lower, std::int64_t upper, const std::function<Tree(const Array&, const Tree&)>& body,
               const Tree& init) {
  const std::int64_t length = std::max<std::int64_t>(upper - lower, 0);
  const auto step = [&](const Tree& carry, const Tree& i) { return std::pair(body(i.array(), carry), Tree()); };
  return scan(step, init, Tree(arange(length) + lower), {.length = length}).first;
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

Branches traced_branches(std::string_view op, const std::vector<TreeFunction>& functions,
                         const std::vector<std::string>& names, const FlatArguments& flat) {
  const std::vector<ArrayType> types = flat.types();
  std::vector<TracedTree> traced;
  Branches all;
  for (const TreeFunction& function : functions) {
    traced.push_back(api::trace_tree(function, flat, types));
    for (const Array& array : traced.back().captured) all.place(array);
    all.note_cells(traced.back());
    const TracedTree &first = traced.front(), &last = traced.back();
    api::check_branches(op, {names.front(), names[traced.size() - 1]}, first.result, first.result_types(), last.result,
                        last.result_types());
  }
  Places untouched;
  for (const auto& cell : all.cells) untouched.push_back(types.size() + all.place(trace::read(cell)));
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
  all.result = traced.front().result;
  return all;
}

Tree choose(std::string_view op, const Array& index, const std::vector<TreeFunction>& functions,
            const std::vector<std::string>& names, const std::vector<Tree>& operands) {
  const FlatArguments flat(operands);
  const Branches branches = traced_branches(op, functions, names, flat);
  std::vector<Array> results = api::bind(
      ops::primitives::cond(), list_of({{&index, 1}, flat.leaves(), branches.captured}), branches.cond.attrs());
  const std::size_t own = results.size() - branches.cells.size();
  for (std::size_t i = 0; i < branches.cells.size(); ++i) trace::replace(branches.cells[i], results[own + i]);
  results.resize(own);
  return branches.result.unflatten(std::move(results));
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
  return choose("cond", index, {false_fn, true_fn}, {"false_fn", "true_fn"}, operands);
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
  return choose("switch_", convert(inside, int32), branches, names, operands);
}

// ---- associative_scan

namespace {

/// Every second element from `start` on, of `count` of them.
Array every_second(const Array& x, std::int64_t start, std::int64_t count, std::int64_t axis) {
  const auto rank = static_cast<std::size_t>(x.ndim());
  Axes first(rank, 0), limit = x.shape().to_vector(), strides(rank, 1);
  const auto at = static_cast<std::size_t>(axis);
  first[at] = start;
  limit[at] = count == 0 ? start : start + 2 * count - 1;
  strides[at] = 2;
  return slice(x, first, limit, strides);
}

/// even[0], odd[0], even[1], ...; as many of both, or one more of the even ones.
Array interleaved(const Array& even, const Array& odd, std::int64_t axis) {
  const std::int64_t pairs = odd.dim(static_cast<int>(axis));
  const Array both = stack(std::vector<Array>{slice_in_dim(even, 0, pairs, axis), odd}, axis + 1);
  Shape shape = odd.shape();
  shape = shape.with(static_cast<int>(axis), 2 * pairs);
  const Array joined = reshape(both, shape.to_vector());
  const std::int64_t evens = even.dim(static_cast<int>(axis));
  return evens == pairs ? joined : concatenate({joined, slice_in_dim(even, pairs, evens, axis)}, axis);
}

class AssociativeScan {
 public:
  AssociativeScan(const TreeFunction& combine, std::int64_t axis) : combine_(combine), axis_(axis) {}

  /// Pairs are combined, their prefixes found, and those between filled in.
  Tree run(const Tree& elems, std::int64_t count) const {
    if (count < 2) return elems;
    const std::int64_t pairs = count / 2, evens = count - pairs;
    const Tree odd = run(combined(second(elems, 0, pairs), second(elems, 1, pairs)), pairs);
    const Tree before = map([&](const Array& x) { return slice_in_dim(x, 0, evens - 1, axis_); }, odd);
    const Tree inner = combined(before, second(elems, 2, evens - 1));
    const Tree even = map(
        [&](const Array& x, const Array& rest) {
          return concatenate({slice_in_dim(x, 0, 1, axis_), rest}, axis_);
        },
        elems, inner);
    return map([&](const Array& e, const Array& o) { return interleaved(e, o, axis_); }, even, odd);
  }

 private:
  Tree second(const Tree& elems, std::int64_t start, std::int64_t count) const {
    return map([&](const Array& x) { return every_second(x, start, count, axis_); }, elems);
  }

  Tree combined(const Tree& a, const Tree& b) const {
    Tree result = combine_({a, b});
    check_same_types(a, result, "associative_scan: the function's result");
    return result;
  }

  const TreeFunction& combine_;
  std::int64_t axis_;
};

}  // namespace

Tree associative_scan(const TreeFunction& combine, const Tree& elems, bool reverse, std::int64_t axis) {
  const std::vector<Array> leaves = elems.leaves();
  if (leaves.empty()) throw ValueError("associative_scan: there are no elements; give at least one array");
  const std::int64_t along = normalize_axis(axis, leaves[0].ndim(), "associative_scan");
  const std::vector<std::string> paths = elems.paths();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].ndim() > along && leaves[i].dim(static_cast<int>(along)) == leaves[0].dim(static_cast<int>(along))) {
      continue;
    }
    throw ShapeError(fmt::format("associative_scan: \"{}\" is {}, \"{}\" is {}; expected one extent along axis {}",
                                 paths[0], to_string(leaves[0].type()), paths[i], to_string(leaves[i].type()), along));
  }
  const auto turned = [&](const Tree& tree) {
    return reverse ? map([&](const Array& x) { return lockstep::reverse(x, {along}); }, tree) : tree;
  };
  const AssociativeScan scan(combine, along);
  return turned(scan.run(turned(elems), leaves[0].dim(static_cast<int>(along))));
}

}  // namespace lockstep::detail
