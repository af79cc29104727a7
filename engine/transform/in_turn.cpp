#include "engine/transform/in_turn.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/replay.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Equation;
using ir::Function;
using ir::Value;
using ir::Var;
using ops::Dims;

ArrayType invariant_along(ArrayType type, const std::string& axis) {
  type.varying = type.varying.without({axis});
  return type;
}

bool is_pvary(const Equation& equation) { return equation.primitive == &ops::primitives::pvary(); }

/// An equation inside the sub-functions that communicates along the axis or asks for its index, or null.
const Equation* inner_use(const Equation& equation, const std::string& axis) {
  for (const ir::FunctionPtr& function : ir::sub_functions(equation.attrs)) {
    for (const Equation& inner : function->equations()) {
      if (!is_pvary(inner) && ir::named_axes(inner).contains(axis)) return &inner;
      if (const Equation* found = inner_use(inner, axis)) return found;
    }
  }
  return nullptr;
}

ir::FunctionPtr without_axis(const Function& f, const std::string& axis);

Attrs without_axis(const Attrs& attrs, const std::string& axis) {
  return ir::map_sub_functions(
      attrs, [&](const ir::FunctionPtr& f) { return f->axes().has(axis) ? without_axis(*f, axis) : f; });
}

/// The equation again, under a builder in which the axis is not bound.
std::vector<Var> emit_without_axis(Builder& builder, const Equation& equation, std::span<const Var> operands,
                                   const std::string& axis) {
  builder.set_provenance(equation.provenance);
  if (is_pvary(equation)) {
    const AxisSet rest = ir::named_axes(equation).without({axis}).without(builder.type(operands[0]).varying);
    return {rest.empty() ? operands[0] : builder.pvary(operands[0], rest)};
  }
  return builder.apply(*equation.primitive, operands, without_axis(equation.attrs, axis));
}

/// A sub-function along the types of which the axis no longer varies.
ir::FunctionPtr without_axis(const Function& f, const std::string& axis) {
  Builder builder(f.axes().without(axis));
  VarMap map(f);
  for (const Var v : f.inputs()) map.set(v, builder.input(invariant_along(f.type(v), axis)));
  for (const Equation& equation : f.equations()) {
    map.set(equation.outputs, emit_without_axis(builder, equation, map.at(equation.inputs), axis));
  }
  std::vector<Var> outputs;
  for (const Var v : f.outputs())
    outputs.push_back(as_type(builder, map.at(v), invariant_along(f.type(v), axis), "in_turn"));
  return builder.finish(std::move(outputs));
}

/// Calls whose bodies communicate along the axis, written in place.
ir::FunctionPtr with_collectives_outside(ir::FunctionPtr f, const std::string& axis) {
  const auto is_opened = [&](const Equation& equation) {
    return equation.primitive->traits.call && inner_use(equation, axis) != nullptr;
  };
  while (std::ranges::any_of(f->equations(), is_opened)) {
    f = ir::rewrite(*f, [&](Builder& builder, const Equation& equation, std::span<const Var> inputs) {
      std::optional<std::vector<Var>> results;
      if (is_opened(equation)) results = builder.inline_function(*ir::sub_function(equation.attrs, "body"), inputs);
      return results;
    });
  }
  return f;
}

enum class When : std::uint8_t { before, during, after };

/// What a reduction along the axis becomes: a sum that the scan carries, or rows that it stacks.
struct Reduction {
  const Equation* equation;
  bool is_carried;
};

/// Made in the scan, yet the same for all parts, as its type says: a count of draws, the zeros of an unused cotangent.
bool is_shared(const ArrayType& type, const std::string& axis) { return !type.varying.contains(axis); }

class InTurn {
 public:
  InTurn(const Function& f, std::size_t parts, std::string axis)
      : f_(f),
        parts_(parts),
        axis_(std::move(axis)),
        size_(f.axes().size(axis_, "in_turn")),
        when_(f.types().size(), When::before),
        cause_(f.types().size(), nullptr),
        maker_(f.types().size(), nullptr),
        builder_(f.axes().without(axis_)),
        map_(f) {}

  ir::FunctionPtr run() {
    classify();
    for (std::size_t i = 1; i < f_.inputs().size(); ++i) {
      ArrayType type = invariant_along(f_.type(f_.inputs()[i]), axis_);
      const bool is_part = i <= parts_;
      if (is_part) type.shape = type.shape.insert(0, size_);
      const Var v = builder_.input(type);
      if (is_part) {
        stacked_.push_back(v);
      } else {
        map_.set(f_.inputs()[i], v);
      }
    }
    emit(When::before);
    write_loop();
    emit(When::after);
    builder_.set_provenance({});
    std::vector<Var> outputs;
    for (const Var v : f_.outputs()) outputs.push_back(map_.at(v));
    return builder_.finish(std::move(outputs));
  }

 private:
  When& when(Var v) { return when_[v.id]; }

  bool is_reduction(const Equation& equation) const {
    if (is_pvary(equation) || !ir::named_axes(equation).contains(axis_)) return false;
    const ir::Primitive* op = equation.primitive;
    if (op == &ops::primitives::psum() || op == &ops::primitives::pmax() || op == &ops::primitives::pmin() ||
        op == &ops::primitives::all_gather_invariant()) {
      return true;
    }
    throw MeshError(
        "in_turn: " + describe(equation) + " along '" + axis_ +
        "' needs another replica's values, but these replicas run one after the other; only psum, pmax, pmin "
        "and all_gather_invariant can be made of them");
  }

  void classify() {
    for (std::size_t i = 0; i <= parts_; ++i) when(f_.inputs()[i]) = When::during;
    for (const Equation& equation : f_.equations()) {
      const bool reduces = is_reduction(equation);
      if (const Equation* inner = inner_use(equation, axis_)) {
        throw MeshError("in_turn: " + describe(*inner) + " inside of " + describe(equation) + " communicates along '" +
                        axis_ + "', whose replicas run one after the other; move it out of the loop or branch");
      }
      bool is_during = false, is_own = false;
      const Equation* cause = nullptr;
      for (const Var& v : equation.inputs) {
        is_during = is_during || when(v) == When::during;
        is_own = is_own || (when(v) == When::during && !is_shared(f_.type(v), axis_));
        if (when(v) == When::after) cause = cause_[v.id];
      }
      if (cause != nullptr && (reduces || is_own)) throw_needs_all(equation, *cause);
      const When result = reduces || cause != nullptr ? When::after : is_during ? When::during : When::before;
      if (result == When::after && !reduces) std::ranges::for_each(equation.inputs, [&](Var v) { keep(v); });
      if (reduces) {
        reductions_.push_back({&equation, equation.primitive == &ops::primitives::psum()});
        reducing_.insert(&equation);
      }
      for (const Var v : equation.outputs) {
        when(v) = result;
        cause_[v.id] = reduces ? &equation : cause;
        maker_[v.id] = &equation;
      }
    }
    for (const Var v : f_.outputs()) {
      keep(v);
      if (when(v) != When::during || is_shared(f_.type(v), axis_)) continue;
      throw MeshError("in_turn: a result is " + to_string(f_.type(v)) + " and differs along '" + axis_ +
                      "'; reduce it with psum");
    }
  }

  /// A shared value that is read behind the scan comes out of it.
  void keep(Var v) {
    if (when(v) != When::during || !is_shared(f_.type(v), axis_)) return;
    if (std::ranges::none_of(kept_, [&](Var other) { return other.id == v.id; })) kept_.push_back(v);
  }

  [[noreturn]] void throw_needs_all(const Equation& reader, const Equation& cause) const {
    throw MeshError(
        "in_turn: " + describe(reader) + " needs what " + describe(cause) + " makes of all parts along '" + axis_ +
        "', but the parts run one after the other, and the first is gone when the last has come. Use one "
        "part (microbatches = 1), or compute it of each part alone: batch_norm takes per_microbatch = true, "
        "a layer of your own may leave '" +
        axis_ + "' out of the axes it reduces over");
  }

  /// The equations of that time, in the function around the scan.
  void emit(When time) {
    for (const Equation& equation : f_.equations()) {
      const bool is_its_time = equation.outputs.empty() ? time_of(equation) == time : when(equation.outputs[0]) == time;
      if (!is_its_time || reducing_.contains(&equation)) continue;
      map_.set(equation.outputs, emit_without_axis(builder_, equation, map_.at(equation.inputs), axis_));
    }
  }

  /// Of an equation without results.
  When time_of(const Equation& equation) {
    When latest = When::before;
    for (const Var v : equation.inputs) latest = std::max(latest, when(v));
    return latest;
  }

  bool is_in_loop(const Equation& equation) {
    return equation.outputs.empty() ? time_of(equation) == When::during : when(equation.outputs[0]) == When::during;
  }

  /// Of what stands before the scan, what costs it nothing inside: a constant, or another view of a value.
  bool is_light(Var v) const {
    static const std::array views = {&ops::primitives::transpose(), &ops::primitives::reshape(),
                                     &ops::primitives::slice(), &ops::primitives::broadcast_in_dim(),
                                     &ops::primitives::pvary()};
    const Equation* maker = maker_[v.id];
    if (maker == nullptr || maker->primitive->traits.effect) return false;
    return maker->inputs.empty() || std::ranges::count(views, maker->primitive) != 0;
  }

  /// What the scan reads of what stands before it.
  std::vector<Var> constants() {
    std::vector<Var> found;
    std::vector<bool> known(f_.types().size());
    const std::function<void(Var)> add = [&](Var v) {
      if (when(v) != When::before || known[v.id]) return;
      known[v.id] = true;
      if (!is_light(v)) return found.push_back(v);
      std::ranges::for_each(maker_[v.id]->inputs, add);
    };
    for (const Equation& equation : f_.equations()) {
      if (is_in_loop(equation)) std::ranges::for_each(equation.inputs, add);
    }
    for (const Reduction& reduction : reductions_) add(reduction.equation->inputs[0]);
    return found;
  }

  /// Makes what is light and not there yet.
  void emit_light(Builder& body, VarMap& map, std::span<const Var> vars) {
    for (const Var v : vars) {
      if (map.has(v)) continue;
      const Equation& maker = *maker_[v.id];
      emit_light(body, map, maker.inputs);
      map.set(maker.outputs, emit_without_axis(body, maker, map.at(maker.inputs), axis_));
    }
  }

  /// Of a reduction's operand, as the scan adds it up.
  ArrayType accumulated(const Reduction& reduction) const {
    ArrayType type = invariant_along(f_.type(reduction.equation->inputs[0]), axis_);
    if (is_narrow_float(type.dtype)) type.dtype = DType::float32;
    return type;
  }

  void write_loop() {
    const std::vector<Var> consts = constants();
    Builder body(builder_.axes());
    VarMap map(f_);
    ir::Scan scan;
    scan.length = size_;
    scan.consts = consts.size();
    std::vector<Var> operands;
    for (const Var v : consts) {
      operands.push_back(map_.at(v));
      map.set(v, body.input(builder_.type(operands.back())));
    }
    std::vector<Var> carries;
    for (const Reduction& reduction : reductions_) {
      if (!reduction.is_carried) continue;
      operands.push_back(emit_zeros(builder_, accumulated(reduction)));
      carries.push_back(body.input(accumulated(reduction)));
    }
    for (const Var v : kept_) {
      operands.push_back(emit_zeros(builder_, f_.type(v)));
      body.input(f_.type(v));
    }
    scan.carries = carries.size() + kept_.size();
    operands.push_back(ops::iota(builder_, DType::int32, Shape{size_}, 0).var());
    operands.insert(operands.end(), stacked_.begin(), stacked_.end());
    for (std::size_t i = 0; i <= parts_; ++i) {
      const Var v = f_.inputs()[i];
      map.set(v, body.input(invariant_along(f_.type(v), axis_)));
    }
    for (const Equation& equation : f_.equations()) {
      if (!is_in_loop(equation)) continue;
      emit_light(body, map, equation.inputs);
      map.set(equation.outputs, emit_without_axis(body, equation, map.at(equation.inputs), axis_));
    }
    scan.body = body.finish(loop_results(body, map, carries));
    builder_.set_provenance({});
    const std::vector<Var> results = builder_.apply(ops::primitives::scan(), operands, scan.attrs());
    for (std::size_t i = 0; i < kept_.size(); ++i) map_.set(kept_[i], results[carries.size() + i]);
    set_reduced(results, carries.size());
  }

  std::vector<Var> loop_results(Builder& body, VarMap& map, const std::vector<Var>& carries) {
    std::vector<Var> sums;
    std::vector<Var> rows;
    for (const Reduction& reduction : reductions_) {
      body.set_provenance(reduction.equation->provenance);
      const Var operand = reduction.equation->inputs[0];
      emit_light(body, map, reduction.equation->inputs);
      const Var own =
          as_type(body, map.at(operand), invariant_along(f_.type(operand), axis_), describe(*reduction.equation));
      if (!reduction.is_carried) {
        rows.push_back(own);
        continue;
      }
      const ArrayType type = accumulated(reduction);
      const Value sum = ops::add(Value(body, carries[sums.size()]), ops::convert(Value(body, own), type.dtype));
      sums.push_back(sum.var());
    }
    for (const Var v : kept_) sums.push_back(as_type(body, map.at(v), f_.type(v), "in_turn"));
    sums.insert(sums.end(), rows.begin(), rows.end());
    return sums;
  }

  /// What the reductions give, out of what the scan returned.
  void set_reduced(const std::vector<Var>& results, std::size_t carries) {
    std::size_t carried = 0;
    std::size_t stacked = carries + kept_.size();
    for (const Reduction& reduction : reductions_) {
      const Equation& equation = *reduction.equation;
      builder_.set_provenance(equation.provenance);
      const Value result(builder_, results[reduction.is_carried ? carried++ : stacked++]);
      const Value whole = reduction.is_carried ? summed(equation, result) : joined(equation, result);
      map_.set(equation.outputs[0], whole.var());
    }
  }

  Value summed(const Equation& equation, const Value& sum) {
    const AxisSet rest = ir::named_axes(equation).without({axis_});
    const Value total = rest.empty() ? sum : ops::psum(sum, rest);
    return ops::convert(total, f_.type(equation.outputs[0]).dtype);
  }

  Value joined(const Equation& equation, const Value& rows) {
    if (equation.primitive == &ops::primitives::all_gather_invariant()) return gathered(equation, rows);
    const bool largest = equation.primitive == &ops::primitives::pmax();
    const ir::Primitive& reduce = largest ? ops::primitives::reduce_max() : ops::primitives::reduce_min();
    const Value own = ops::apply_one(reduce, {rows}, {{"axes", Dims{0}}});
    const AxisSet rest = ir::named_axes(equation).without({axis_});
    return rest.empty() ? own : ops::apply_one(*equation.primitive, {own}, {{"axes", rest.names()}});
  }

  /// The blocks of all replicas joined along the dimension that the equation names.
  Value gathered(const Equation& equation, const Value& rows) {
    const auto dim = static_cast<std::size_t>(equation.attrs.get<std::int64_t>("dim"));
    Dims order;
    for (std::size_t i = 1; i <= dim; ++i) order.push_back(static_cast<std::int64_t>(i));
    order.push_back(0);
    for (std::size_t i = dim + 1; i < static_cast<std::size_t>(rows.rank()); ++i) {
      order.push_back(static_cast<std::int64_t>(i));
    }
    return ops::reshape(ops::transpose(rows, order), f_.type(equation.outputs[0]).shape);
  }

  const Function& f_;
  std::size_t parts_;
  std::string axis_;
  std::int64_t size_;
  std::vector<When> when_;
  std::vector<const Equation*> cause_;  ///< Of what stands behind the scan: a reduction it needs.
  std::vector<const Equation*> maker_;
  std::vector<Reduction> reductions_;
  std::vector<Var> kept_;  ///< What is shared and comes out of the scan: each part overwrites it with the same.
  std::set<const Equation*> reducing_;
  Builder builder_;
  VarMap map_;
  std::vector<Var> stacked_;
};

}  // namespace

ir::FunctionPtr in_turn(const ir::FunctionPtr& f, std::size_t parts, const std::string& axis) {
  const ir::FunctionPtr opened = with_collectives_outside(f, axis);
  return InTurn(*opened, parts, axis).run();
}

}  // namespace lockstep::transform
