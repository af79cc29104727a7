#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "engine/core/lists.h"
#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/stacked_products.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops::control_flow {

namespace {

using ir::Builder;
using ir::Scan;
using ir::Tangent;

/// Per output of the body, whether it is a carry that a flag marks.
std::vector<bool> carries_first(const std::vector<bool>& carries, std::size_t outputs) {
  std::vector<bool> flags = carries;
  flags.resize(outputs, false);
  return flags;
}

std::vector<Value> bind_scan(Builder& builder, const Scan& scan, std::span<const Value> operands) {
  return sub_function::apply_to(builder, primitives::scan(), operands, scan.attrs());
}

/// A list in the making, for each of the three groups of a scan's operands.
template <class T>
struct Groups {
  std::vector<T> consts = {};
  std::vector<T> carries = {};
  std::vector<T> xs = {};

  std::vector<T> all() const {
    std::vector<T> list = consts;
    list.insert(list.end(), carries.begin(), carries.end());
    list.insert(list.end(), xs.begin(), xs.end());
    return list;
  }
};

template <class T>
std::vector<T>& group_of(const Scan& scan, std::size_t input, Groups<T>& groups) {
  if (input < scan.consts) return groups.consts;
  return input < scan.consts + scan.carries ? groups.carries : groups.xs;
}

}  // namespace

// ---- jvp

ir::JointTangents scan_tangents(const ir::JvpContext& context) {
  const Scan scan = Scan::of(context.attrs);
  const std::size_t inputs = context.inputs.size(), outputs = scan.body->outputs().size();
  std::vector<bool> active;
  for (const Tangent& tangent : context.tangents) active.push_back(tangent.has_value());
  const auto carry = [&](std::size_t i) { return scan.consts + i; };
  ir::Differentiated d;
  for (bool changed = true; changed;) {
    std::vector<bool> carries;
    for (std::size_t i = 0; i < scan.carries; ++i) carries.push_back(active[carry(i)]);
    d = context.transforms->jvp(scan.body, active, carries_first(carries, outputs));
    changed = false;
    for (std::size_t i = 0; i < scan.carries; ++i) {
      changed = changed || d.active[i] != active[carry(i)];
      active[carry(i)] = d.active[i];
    }
  }
  // The body's tangents stand behind all primals; those of the loop stand behind their group.
  Groups<std::size_t> order;
  Groups<Value> operands;
  std::size_t tangent = inputs;
  for (std::size_t i = 0; i < inputs; ++i) {
    group_of(scan, i, order).push_back(i);
    group_of(scan, i, operands).push_back(context.inputs[i]);
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    if (!active[i]) continue;
    group_of(scan, i, order).push_back(tangent++);
    const Tangent& given = context.tangents[i];
    group_of(scan, i, operands).push_back(given ? *given : zeros_of(context.builder, context.inputs[i].type()));
  }
  Places results = places(0, scan.carries), ys = places(scan.carries, outputs - scan.carries);
  std::vector<std::size_t> place(outputs);  // of each output's tangent among the results
  for (std::size_t k = 0, next = outputs; k < outputs; ++k) {
    if (d.active[k]) (k < scan.carries ? results : ys).push_back(place[k] = next++);
  }
  const Places all = joined(results, ys);
  const Scan differentiated{
      pick(*d.function, order.all(), all), scan.length, order.consts.size(), results.size(), scan.reverse, scan.unroll};
  const std::vector<Value> values = bind_scan(context.builder, differentiated, operands.all());
  ir::JointTangents joint;
  joint.tangents.resize(outputs);
  for (std::size_t k = 0; k < outputs; ++k) {
    const auto value_at = [&](std::size_t which) { return values[place_in(all, which)]; };
    joint.outputs.push_back(value_at(k));
    if (d.active[k]) joint.tangents[k] = value_at(place[k]);
  }
  return joint;
}

// ---- split

namespace {

/// A scan cut in two: the loop over what is known, which gives residuals, and the loop over the rest.
class ScanSplit {
 public:
  ScanSplit(Builder& builder, const Attrs& attrs, std::vector<bool> unknown, const ir::Transforms& transforms)
      : builder_(builder), scan_(Scan::of(attrs)), unknown_(std::move(unknown)) {
    const std::size_t outputs = scan_.body->outputs().size();
    for (bool changed = true; changed;) {
      std::vector<bool> carries;
      for (std::size_t i = 0; i < scan_.carries; ++i) carries.push_back(unknown_[scan_.consts + i]);
      parts_ = transforms.partition(scan_.body, unknown_, carries_first(carries, outputs));
      changed = false;
      for (std::size_t i = 0; i < scan_.carries; ++i) {
        changed = changed || parts_.unknown_outputs[i] != carries[i];
        unknown_[scan_.consts + i] = parts_.unknown_outputs[i];
      }
    }
  }

  const Scan& scan() const { return scan_; }
  const std::vector<bool>& unknown_outputs() const { return parts_.unknown_outputs; }
  const std::vector<bool>& unknown_inputs() const { return unknown_; }

  /// Emits the loop over what is known. `inputs` has a value for each known operand.
  void emit_known(std::span<const Tangent> inputs) {
    Groups<Value> operands;
    std::vector<bool> varies;  // per input of the known body: whether it changes from one iteration to the next
    for (const std::size_t i : places_of(unknown_, false)) {
      group_of(scan_, i, operands).push_back(*inputs[i]);
      varies.push_back(i >= scan_.consts);
    }
    sort_residuals(operands, varies);
    const Places outputs = joined(places(0, known_outputs()), stacked_);
    if (!outputs.empty()) {
      Scan known = scan_;
      known.body = pick(*parts_.known, places(0, varies.size()), outputs);
      known.consts = operands.consts.size();
      known.carries = operands.carries.size();
      known_results_ = bind_scan(builder_, known, operands.all());
    }
    for (std::size_t k = 0; k < stacked_.size(); ++k) residual_xs_.push_back(known_results_[known_outputs() + k]);
  }

  /// The loop over the rest: its body with the residuals in their groups, consts and xs, in front.
  Scan unknown() const {
    const std::size_t residuals = static_cast<std::size_t>(parts_.residuals);
    const auto places_of_group = [&](std::vector<std::size_t> own) {
      for (std::size_t& i : own) i -= known_outputs();  // from outputs of the known body to inputs of the unknown one
      return own;
    };
    Groups<std::size_t> order;
    order.consts = places_of_group(constant_);
    order.xs = joined(places_of_group(passed_), places_of_group(stacked_));
    std::size_t next = residuals;
    for (const std::size_t i : places_of(unknown_, true)) group_of(scan_, i, order).push_back(next++);
    Scan unknown = scan_;
    unknown.body = pick(*parts_.unknown, order.all(), places(0, parts_.unknown->outputs().size()));
    unknown.consts = order.consts.size();
    unknown.carries = order.carries.size();
    return unknown;
  }
  const std::vector<Value>& residual_consts() const { return residual_consts_; }
  const std::vector<Value>& residual_xs() const { return residual_xs_; }
  const std::vector<Value>& known_results() const { return known_results_; }

 private:
  std::size_t known_outputs() const {
    return parts_.known->outputs().size() - static_cast<std::size_t>(parts_.residuals);
  }

  /// Residuals that no iteration changes are computed once, those that are xs passed on; the others are stacked.
  void sort_residuals(const Groups<Value>& operands, const std::vector<bool>& varies) {
    const ir::Function& known = *parts_.known;
    const std::vector<bool> changing = dependent_vars(known, varies);
    for (std::size_t k = known_outputs(); k < known.outputs().size(); ++k) {
      const ir::Var v = known.outputs()[k];
      const auto x = std::ranges::find(known.inputs(), v);
      const auto first_x = static_cast<std::ptrdiff_t>(operands.consts.size() + operands.carries.size());
      if (!changing[v.id]) {
        constant_.push_back(k);
      } else if (x != known.inputs().end() && x - known.inputs().begin() >= first_x) {
        passed_.push_back(k);
        residual_xs_.push_back(nth(operands.xs, x - known.inputs().begin() - first_x));
      } else {
        stacked_.push_back(k);
      }
    }
    const FunctionPtr once = pick(known, places(0, operands.consts.size()), constant_, Effects::left_out);
    residual_consts_ = call(builder_, *once, operands.consts);
  }

  Builder& builder_;
  Scan scan_;
  std::vector<bool> unknown_;  // per operand
  ir::Partitioned parts_;
  Places constant_, passed_, stacked_;  // residuals, as outputs of the known body
  std::vector<Value> residual_consts_, residual_xs_, known_results_;
};

}  // namespace

ir::SplitResult split_scan(const ir::SplitContext& context) {
  ScanSplit split(context.builder, context.attrs, context.unknown, *context.transforms);
  const std::vector<Tangent> inputs(context.inputs.begin(), context.inputs.end());
  split.emit_known(inputs);
  Groups<Value> operands;
  operands.consts = split.residual_consts();
  operands.xs = split.residual_xs();
  for (const std::size_t i : places_of(split.unknown_inputs(), true)) {
    group_of(split.scan(), i, operands).push_back(context.inputs[i]);
  }
  const std::vector<Value> unknown = bind_scan(context.builder, split.unknown(), operands.all());
  ir::SplitResult result{{}, split.unknown_outputs()};
  std::size_t next_known = 0, next_unknown = 0;
  for (const bool late : result.unknown) {
    result.outputs.push_back(late ? unknown[next_unknown++] : split.known_results()[next_known++]);
  }
  return result;
}

// ---- transpose

namespace {

/// The loop over the cotangents of a linear loop, in the other direction.
class ScanTranspose {
 public:
  /// `linear`: the first `consts` consts and the first `xs` of its xs are not linear.
  ScanTranspose(Builder& builder, const Scan& linear, std::size_t consts, std::size_t xs,
                const ir::Transforms& transforms)
      : builder_(builder), scan_(linear), consts_(consts), xs_(xs), transforms_(transforms) {}

  /// Cotangents of the linear consts, the carries and the linear xs, given those of the results.
  std::vector<Value> run(std::span<const Value> residual_consts, std::span<const Value> residual_xs,
                         std::span<const Tangent> cotangents) {
    for (std::size_t k = 0; k < cotangents.size(); ++k) {
      if (k < scan_.carries || cotangents[k]) outputs_.push_back(k);
    }
    transpose_body();
    stack_products();
    const ir::Function& body = *scan_.body;
    Groups<Value> operands;
    operands.consts.assign(residual_consts.begin(), residual_consts.end());
    operands.xs.assign(residual_xs.begin(), residual_xs.end());
    for (const std::size_t i : summed_) operands.carries.push_back(zeros_of(builder_, type_of_sum(i)));
    for (const std::size_t k : outputs_) {
      if (k < scan_.carries) {
        const ArrayType& type = body.type(body.outputs()[k]);
        operands.carries.push_back(cotangents[k] ? *cotangents[k] : zeros_of(builder_, type));
      } else {
        operands.xs.push_back(*cotangents[k]);
      }
    }
    Scan backward = scan_;
    backward.body = backward_body(operands);
    backward.consts = operands.consts.size();
    backward.carries = operands.carries.size();
    backward.reverse = !scan_.reverse;
    return with_products(bind_scan(builder_, backward, operands.all()), residual_xs);
  }

 private:
  std::size_t linear_consts() const { return scan_.consts - consts_; }

  const ArrayType& linear_const(std::size_t i) const { return scan_.body->type(scan_.body->inputs()[consts_ + i]); }
  /// 16-bit floats are added up as float32: one after the other they would soon be too small beside their sum.
  ArrayType type_of_sum(std::size_t i) const {
    ArrayType type = linear_const(i);
    if (is_float(type.dtype) && size_of(type.dtype) < size_of(DType::float32)) type.dtype = DType::float32;
    return type;
  }

  /// (residual..., cotangent of each output that has one...) -> (cotangent of each linear input...).
  void transpose_body() {
    const std::size_t first_x = scan_.consts + scan_.carries;
    Places order = joined(places(0, consts_), places(first_x, xs_));
    order = joined(order, places(consts_, linear_consts() + scan_.carries));
    order = joined(order, places(first_x + xs_, scan_.xs() - xs_));
    transposed_ = transforms_.transpose(pick(*scan_.body, order, outputs_), static_cast<int>(consts_ + xs_));
  }

  /// Sums for linear consts that are products become one product behind the loop, which stacks the factors, where those
  /// are no larger than what adding to the sum in each iteration would read and write.
  void stack_products() {
    std::vector<ir::Var> outputs;
    for (std::size_t i = 0; i < linear_consts(); ++i) {
      const ir::Var sum = transposed_->outputs()[i];
      std::optional<std::vector<Product>> products = as_products(*transposed_, sum);
      if (products && stacked_size(*products) <= 2 * transposed_->type(sum).size()) {
        products_.push_back(std::move(*products));
      } else {
        products_.emplace_back();
        summed_.push_back(i);
        outputs.push_back(sum);
      }
    }
    const auto& all = transposed_->outputs();
    outputs.insert(outputs.end(), all.begin() + static_cast<std::ptrdiff_t>(linear_consts()), all.end());
    for (const std::vector<Product>& products : products_) {
      for (const Product& product : products) {
        for (const ir::Var factor : {product.left(), product.right()}) {
          if (!residual_x(factor) && std::ranges::count(factors_, factor) == 0) factors_.push_back(factor);
        }
      }
    }
    outputs.insert(outputs.end(), factors_.begin(), factors_.end());
    const ir::Function whole(transposed_->axes(), transposed_->types(), transposed_->inputs(), transposed_->equations(),
                             outputs);
    loop_ = pick(whole, places(0, whole.inputs().size()), places(0, outputs.size()));
  }

  /// Which of the residual xs the value is.
  std::optional<std::size_t> residual_x(ir::Var v) const {
    for (std::size_t k = 0; k < xs_; ++k) {
      if (transposed_->inputs()[consts_ + k] == v) return k;
    }
    return std::nullopt;
  }

  /// Elements of the factors that are not stacked yet; more than there may be where a factor is the same each time.
  std::int64_t stacked_size(const std::vector<Product>& products) const {
    const auto constants = std::span(transposed_->inputs()).first(consts_);
    std::int64_t sum = 0;
    for (const Product& product : products) {
      for (const ir::Var factor : {product.left(), product.right()}) {
        if (std::ranges::count(constants, factor) != 0) return std::numeric_limits<std::int64_t>::max();
        if (!residual_x(factor)) sum += transposed_->type(factor).size();
      }
    }
    return sum;
  }

  /// The loop's results, sums and products in their places, stacked factors left out.
  std::vector<Value> with_products(const std::vector<Value>& results, std::span<const Value> residual_xs) {
    const std::size_t first_factor = results.size() - factors_.size();
    const auto stacked = [&](ir::Var factor) {
      if (const auto k = residual_x(factor)) return residual_xs[*k];
      return results[first_factor + place_in(factors_, factor)];
    };
    std::vector<Value> all;
    auto next = results.begin();
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const std::vector<Product>& products = products_[i];
      std::optional<Value> sum;
      for (const Product& product : products) {
        const Value term = product.sum(builder_, stacked(product.left()), stacked(product.right()));
        sum = sum ? *sum + term : term;
      }
      all.push_back(sum ? *sum : convert(*next++, linear_const(i).dtype));
    }
    all.insert(all.end(), next, results.begin() + static_cast<std::ptrdiff_t>(first_factor));
    return all;
  }

  /// Body of (residual consts, [sums for linear consts, cotangents of the carry], [residual xs, cotangents of ys]).
  FunctionPtr backward_body(const Groups<Value>& operands) const {
    std::vector<ArrayType> types = types_of(operands.consts);
    const std::size_t carries = types.size();
    for (const std::size_t i : summed_) types.push_back(type_of_sum(i));
    for (std::size_t i = scan_.consts; i < scan_.consts + scan_.carries; ++i) {
      types.push_back(scan_.body->type(scan_.body->inputs()[i]));
    }
    const std::size_t xs = types.size();
    for (const Value& x : operands.xs) {
      types.push_back(x.type());
      types.back().shape = types.back().shape.erase(0);
    }
    return write(builder_.axes(), types, [&](Builder& inner, std::span<const Value> in) {
      std::vector<Value> arguments(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(carries));
      const std::size_t ys = xs + xs_;
      arguments.insert(arguments.end(), in.begin() + static_cast<std::ptrdiff_t>(xs),
                       in.begin() + static_cast<std::ptrdiff_t>(ys));
      arguments.insert(arguments.end(), in.begin() + static_cast<std::ptrdiff_t>(carries + summed_.size()),
                       in.begin() + static_cast<std::ptrdiff_t>(xs));
      arguments.insert(arguments.end(), in.begin() + static_cast<std::ptrdiff_t>(ys), in.end());
      std::vector<Value> results = call(inner, *loop_, arguments);
      for (std::size_t i = 0; i < summed_.size(); ++i) {
        results[i] = in[carries + i] + convert(results[i], in[carries + i].dtype());
      }
      return results;
    });
  }

  Builder& builder_;
  Scan scan_;
  std::size_t consts_, xs_;  // not linear
  const ir::Transforms& transforms_;
  Places outputs_;  // carries, and ys that have a cotangent
  FunctionPtr transposed_;
  FunctionPtr loop_;                            // the same with other outputs: factors for products
  Places summed_;                               // linear consts that the loop adds up
  std::vector<std::vector<Product>> products_;  // by linear const; none where it is summed
  std::vector<ir::Var> factors_;                // of transposed_, stacked by the loop
};

}  // namespace

std::vector<Tangent> transpose_scan(const ir::TransposeContext& context) {
  std::vector<bool> linear;
  for (const Tangent& input : context.inputs) linear.push_back(!input.has_value());
  // What does not depend on the linear operands (a counter in the carry) goes into a loop of its own first.
  ScanSplit split(context.builder, context.attrs, linear, *context.transforms);
  split.emit_known(context.inputs);
  std::vector<Tangent> cotangents;
  for (std::size_t k = 0; k < context.cotangents.size(); ++k) {
    if (split.unknown_outputs()[k]) cotangents.push_back(context.cotangents[k]);
  }
  ScanTranspose transposed(context.builder, split.unknown(), split.residual_consts().size(), split.residual_xs().size(),
                           *context.transforms);
  const std::vector<Value> results = transposed.run(split.residual_consts(), split.residual_xs(), cotangents);
  std::vector<Tangent> answer(context.inputs.size());
  std::size_t next = 0;
  for (const std::size_t i : places_of(split.unknown_inputs(), true)) answer[i] = results[next++];
  return answer;
}

// ---- batch

namespace {

/// The first two dimensions exchanged.
Value swapped(const Value& x) {
  Dims permutation = {1, 0};
  for (std::int64_t d = 2; d < x.rank(); ++d) permutation.push_back(d);
  return transpose(x, permutation);
}

}  // namespace

std::vector<Value> batch_scan(const ir::BatchContext& context) {
  Scan scan = Scan::of(context.attrs);
  const std::vector<ArrayType> types = scan.body->output_types();
  const std::size_t outputs = types.size();
  std::vector<bool> batched = context.batched;
  ir::Batched body;
  for (bool changed = true; changed;) {
    std::vector<bool> carries;
    for (std::size_t i = 0; i < scan.carries; ++i) carries.push_back(batched[scan.consts + i]);
    body = context.transforms->vmap(scan.body, batched, carries_first(carries, outputs), context.size, context.axis);
    changed = false;
    for (std::size_t i = 0; i < scan.carries; ++i) {
      changed = changed || body.batched[i] != carries[i];
      batched[scan.consts + i] = body.batched[i];
    }
  }
  std::vector<Value> operands;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    Value operand = context.inputs[i];
    if (batched[i] && !context.batched[i]) operand = broadcast_leading(operand, context.size);
    if (batched[i] && i >= scan.consts + scan.carries) operand = swapped(operand);
    operands.push_back(operand);
  }
  scan.body = body.function;
  std::vector<Value> results = bind_scan(context.builder, scan, operands);
  for (std::size_t k = 0; k < outputs; ++k) {
    if (!body.batched[k]) {
      if (!context.is_same_for_all(types[k])) results[k] = broadcast_leading(results[k], context.size);
    } else if (k >= scan.carries) {
      results[k] = swapped(results[k]);
    }
  }
  return results;
}

}  // namespace lockstep::ops::control_flow
