#include <cmath>
#include <string>

#include "engine/core/lists.h"
#include "engine/ops/index/windows.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

std::vector<ArrayType> infer_moves(const ir::InferContext& context) {
  return {{context.inputs[0].dtype, moves_of_scatter(context).operand, {}}};
}

template <const infer::DtypeClass& allowed>
std::vector<ArrayType> scatter_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 3);
  infer::expect_dtype(context, 0, allowed);
  return infer_moves(context);
}

std::vector<Value> scatter_batch(const ir::BatchContext& context, PrimitiveGetter self) {
  const bool indices = context.batched[1];
  return {apply_one(self(), {batch::batched(context, 0), context.inputs[1], batch::batched(context, 2)},
                    batched_attrs(context.attrs, scatter_names, indices))};
}

template <PrimitiveGetter self>
std::vector<Value> batch_by(const ir::BatchContext& context) {
  return scatter_batch(context, self);
}

// ---- what derivatives are made of ----------------------------------------------------------------------------------

/// Gather of what the windows of a scatter met; 0 where they were left out.
Value met(const Value& operand, const Value& indices, const Shape& windows, const Attrs& attrs) {
  const std::vector<ArrayType> types = {operand.type(), indices.type(), {operand.dtype(), windows, {}}};
  const WindowMoves moves = moves_of_scatter({"scatter", types, attrs, {}});
  return apply_one(primitives::gather(), {operand, indices},
                   renamed(attrs, scatter_names, gather_names).with("slice_sizes", moves.sizes));
}

Value added_at(const Value& operand, const Value& indices, const Value& updates, const Attrs& attrs) {
  return apply_one(primitives::scatter_add(), {operand, indices, updates}, attrs);
}

Value differs_from_zero(const Value& x) { return not_equal(x, full_like(x, 0)); }

/// The tangents of operand and updates, zeros where absent.
std::pair<Value, Value> both_tangents(const JvpContext& context) {
  const auto tangent = [&](std::size_t i) {
    return derivative::or_zeros(context.builder, context.tangents[i], context.inputs[i].type());
  };
  return {tangent(0), tangent(2)};
}

template <PrimitiveGetter self>
std::vector<Tangent> linear_jvp(const JvpContext& context) {
  const auto [operand, updates] = both_tangents(context);
  return {apply_one(self(), {operand, context.inputs[1], updates}, context.attrs)};
}

std::vector<Tangent> add_transpose(const TransposeContext& context) {
  const Value& ct = *context.cotangents[0];
  return {ct, std::nullopt, met(ct, *context.inputs[1], context.input_types[2].shape, context.attrs)};
}

/// Which updates are still there in the end: each element is numbered, and looks which number its place holds.
Value survivors(ir::Builder& builder, const Value& indices, const ArrayType& operand, const ArrayType& updates,
                const Attrs& attrs) {
  const std::int64_t count = updates.size();
  const Value numbers = reshape(iota(builder, DType::int64, Shape{count}, 0) + 1.0, updates.shape);
  const Value places =
      apply_one(primitives::scatter(), {full(builder, DType::int64, operand.shape, 0), indices, numbers}, attrs);
  return equal(met(places, indices, updates.shape, attrs), numbers);
}

std::vector<Tangent> set_transpose(const TransposeContext& context) {
  const Value& ct = *context.cotangents[0];
  const Value& indices = *context.inputs[1];
  const ArrayType& updates = context.input_types[2];
  std::vector<Tangent> result(3);
  if (!context.inputs[0]) {
    result[0] = apply_one(primitives::scatter(), {ct, indices, zeros(context.builder, updates)}, context.attrs);
  }
  if (!context.inputs[2]) {
    const Value reached = met(ct, indices, updates.shape, context.attrs);
    const Value kept = survivors(context.builder, indices, context.input_types[0], updates, context.attrs);
    result[2] = select(kept, reached, full_like(reached, 0));
  }
  return result;
}

/// Where x is the extremum; NaN always is.
Value attains(const Value& x, const Value& extremum) {
  return apply_one(primitives::bitwise_or(), {equal(x, extremum), not_equal(x, x)}, {});
}

/// The share of a tangent that goes through a minimum or maximum is split evenly among all that attain it.
std::vector<Tangent> scatter_extremum_jvp(const JvpContext& context) {
  const Value &operand = context.inputs[0], &indices = context.inputs[1], &updates = context.inputs[2];
  const Value& result = context.outputs[0];
  const auto chosen = [](const Value& which, const Value& x) { return select(which, x, full_like(x, 0)); };
  const Value kept = attains(operand, result);
  const Value hit = attains(updates, met(result, indices, updates.shape(), context.attrs));
  const Value attained =
      added_at(chosen(kept, full_like(operand, 1)), indices, chosen(hit, full_like(updates, 1)), context.attrs);
  // Of an absent tangent a plain zero, no choice of zeros: that would depend on the primals and look like a residual.
  const auto share = [&](const Value& which, std::size_t i) {
    return context.tangents[i] ? chosen(which, *context.tangents[i]) : full_like(context.inputs[i], 0);
  };
  const Value sum = added_at(share(kept, 0), indices, share(hit, 2), context.attrs);
  return {sum / maximum(attained, full_like(attained, 1))};
}

/// The factor of an update's tangent is the product of everything else at its place: the product without zeros, divided
/// by the update, where no other factor is zero.
std::vector<Tangent> mul_jvp(const JvpContext& context) {
  const Value &operand = context.inputs[0], &indices = context.inputs[1], &updates = context.inputs[2];
  const auto multiplied = [&](const Value& to, const Value& by) {
    return apply_one(primitives::scatter_mul(), {to, indices, by}, context.attrs);
  };
  Tangent sum;
  if (context.tangents[0]) sum = *context.tangents[0] * multiplied(full_like(operand, 1), updates);
  if (!context.tangents[2]) return {sum};
  const Value ones = full_like(updates, 1), none = full_like(updates, 0);
  const Value regular = differs_from_zero(updates);
  const Value factors = select(regular, updates, ones);
  const Value product = met(multiplied(operand, factors), indices, updates.shape(), context.attrs);
  const Value zeros_there = added_at(full_like(operand, 0), indices, select(regular, none, ones), context.attrs);
  const Value others = met(zeros_there, indices, updates.shape(), context.attrs) - select(regular, none, ones);
  const Value factor = select(differs_from_zero(others), none, product / factors);
  const Value term = added_at(full_like(operand, 0), indices, *context.tangents[2] * factor, context.attrs);
  return {sum ? *sum + term : term};
}

// ---- oracles -------------------------------------------------------------------------------------------------------

/// result = operand, then result[place] = combine(result[place], update) in order.
template <class... Ts, class Combine>
ir::Reference combines(Combine combine) {
  return [combine](const ir::ReferenceContext& context) {
    std::vector<ArrayType> types;
    for (const ir::ReferenceArray& input : context.inputs) types.push_back(input.type);
    reference::copies()(context);
    ir::ReferenceArray& result = context.outputs[0];
    for_each_move(moves_of_scatter({"scatter", types, context.attrs, {}}), context.inputs[1],
                  [&](std::int64_t place, std::int64_t from) {
                    if (place < 0) return;
                    reference::dispatch<Ts...>(result.type.dtype, [&]<class T>() {
                      const T update = reference::load<T>(context.inputs[2], from);
                      reference::store(result, place, combine(reference::load<T>(result, place), update));
                    });
                  });
  };
}

/// Integers wrap, which unsigned arithmetic does by definition.
template <class Combine>
ir::Reference combines_wrapping(Combine combine) {
  return [combine](const ir::ReferenceContext& context) {
    if (is_integer(context.outputs[0].type.dtype)) {
      std::vector<ArrayType> types;
      for (const ir::ReferenceArray& input : context.inputs) types.push_back(input.type);
      reference::copies()(context);
      auto& result = context.outputs[0].integers();
      for_each_move(moves_of_scatter({"scatter", types, context.attrs, {}}), context.inputs[1],
                    [&](std::int64_t place, std::int64_t from) {
                      if (place < 0) return;
                      std::int64_t& at = nth(result, place);
                      at = static_cast<std::int64_t>(combine(static_cast<std::uint64_t>(at),
                                                             reference::load<std::uint64_t>(context.inputs[2], from)));
                    });
      return;
    }
    combines<double, Complex>(combine)(context);
  };
}

void set_reference(const ir::ReferenceContext& context) {
  std::vector<ArrayType> types;
  for (const ir::ReferenceArray& input : context.inputs) types.push_back(input.type);
  reference::copies()(context);
  for_each_move(moves_of_scatter({"scatter", types, context.attrs, {}}), context.inputs[1],
                [&](std::int64_t place, std::int64_t from) {
                  if (place >= 0) reference::copy_element(context.inputs[2], from, context.outputs[0], place);
                });
}

// ---- samples -------------------------------------------------------------------------------------------------------

ir::Sample scatter_sample(const MoveCase& c, DType dtype, const samples::Range& range) {
  const std::vector<ArrayType> types = {{dtype, c.operand, {}}, {c.index, c.indices, {}}};
  const Shape windows = moves_of_gather({"gather", types, c.attrs, {}}).windows;
  return {{samples::input(dtype, c.operand, range), window_indices(c), samples::input(dtype, windows, range)},
          renamed(c.attrs, gather_names, scatter_names),
          {}};
}

samples::Samples scatter_samples(std::vector<DType> dtypes, samples::Range range) {
  return [dtypes = std::move(dtypes), range] {
    std::vector<ir::Sample> list;
    for (const DType dtype : dtypes) {
      for (const MoveCase& c : move_cases()) {
        // Operand and updates without ties between them, where a tie is a kink.
        ir::Sample sample = scatter_sample(c, dtype, range);
        if (range.distinct) {
          sample.inputs[2].low += 0.01;
          sample.inputs[2].high += 0.01;
        }
        list.push_back(std::move(sample));
      }
    }
    return list;
  };
}

samples::ErrorSamples scatter_errors(DType illegal) {
  return [illegal] {
    const ArrayType x{DType::float32, {4, 3}, {}}, updates{DType::float32, {5, 3}, {}};
    const ArrayType indices{DType::int32, {5, 1}, {}};
    const Attrs attrs = renamed(gather_attrs({1}, {0}, {0}, {1, 3}), gather_names, scatter_names);
    std::vector<ir::ErrorSample> list = {
        {{x, indices}, attrs, "expected 3 operands", {}},
        {{x, {DType::float32, {5, 1}, {}}, updates}, attrs, "an integer dtype for operand 1", {}},
        {{x, indices, {DType::float64, {5, 3}, {}}}, attrs, "updates of the operand's dtype", {}},
        {{x, indices, {DType::float32, {4, 3}, {}}}, attrs, "updates with the extents of the indices'", {}},
        {{x, indices, {DType::float32, {5}, {}}}, attrs, "distinct update_window_dims in [0, 1)", {}},
        {{x, indices, {DType::float32, {5, 4}, {}}}, attrs, "windows of at most 3 in dimension 1", {}},
        {{x, indices, updates}, attrs.with("inserted_window_dims", Dims{1, 0}), "ascending inserted_window_dims", {}},
        {{x, indices, updates}, attrs.with("mode", std::string("drop")), "mode clip, fill or promise_in_bounds", {}},
    };
    if (illegal != DType::float32) {
      list.push_back({{{illegal, {4, 3}, {}}, indices, {illegal, {5, 3}, {}}}, attrs, "dtype for operand 0", {}});
    }
    return list;
  };
}

const std::vector<DType> summed = {DType::float64, DType::float32, DType::bfloat16,
                                   DType::int32,   DType::uint8,   DType::complex64};
const std::vector<DType> ordered = {DType::float64, DType::float32, DType::float16,
                                    DType::int8,    DType::uint64,  DType::bool_};

}  // namespace

const Primitive& primitives::scatter() {
  static const Primitive op{.name = "scatter",
                            .infer = scatter_infer<infer::any>,
                            .derivative = derivative::linear(set_transpose, {0, 2}, linear_jvp<primitives::scatter>),
                            .batch = batch_by<primitives::scatter>,
                            .reference = set_reference,
                            .samples = scatter_samples({DType::float64, DType::float32, DType::bfloat16, DType::int32,
                                                        DType::bool_, DType::key, DType::complex128},
                                                       {0, 2}),
                            .error_samples = scatter_errors(DType::float32),
                            .traits = {}};
  return op;
}

const Primitive& primitives::scatter_add() {
  static const Primitive op{
      .name = "scatter_add",
      .infer = scatter_infer<infer::numeric>,
      .derivative = derivative::linear(add_transpose, {0, 2}, linear_jvp<primitives::scatter_add>),
      .batch = batch_by<primitives::scatter_add>,
      .reference = combines_wrapping([](auto a, auto b) { return a + b; }),
      .flops = flops::per_element(2),
      .samples = scatter_samples(summed, {0, 2}),
      .error_samples = scatter_errors(DType::bool_),
      .traits = {}};
  return op;
}

const Primitive& primitives::scatter_mul() {
  static const Primitive op{.name = "scatter_mul",
                            .infer = scatter_infer<infer::numeric>,
                            .derivative = derivative::jvp(mul_jvp),
                            .batch = batch_by<primitives::scatter_mul>,
                            .reference = combines_wrapping([](auto a, auto b) { return a * b; }),
                            .flops = flops::per_element(2),
                            .samples = scatter_samples(summed, {0.5, 2}),
                            .error_samples = scatter_errors(DType::bool_),
                            .traits = {}};
  return op;
}

const Primitive& primitives::scatter_min() {
  static const Primitive op{.name = "scatter_min",
                            .infer = scatter_infer<infer::ordered>,
                            .derivative = derivative::jvp(scatter_extremum_jvp),
                            .batch = batch_by<primitives::scatter_min>,
                            .reference = combines<double, std::int64_t, std::uint64_t, bool>(
                                [](auto a, auto b) { return b < a || b != b ? b : a; }),
                            .flops = flops::per_element(2),
                            .samples = scatter_samples(ordered, {0, 4, true}),
                            .error_samples = scatter_errors(DType::complex64),
                            .traits = {}};
  return op;
}

const Primitive& primitives::scatter_max() {
  static const Primitive op{.name = "scatter_max",
                            .infer = scatter_infer<infer::ordered>,
                            .derivative = derivative::jvp(scatter_extremum_jvp),
                            .batch = batch_by<primitives::scatter_max>,
                            .reference = combines<double, std::int64_t, std::uint64_t, bool>(
                                [](auto a, auto b) { return b > a || b != b ? b : a; }),
                            .flops = flops::per_element(2),
                            .samples = scatter_samples(ordered, {0, 4, true}),
                            .error_samples = scatter_errors(DType::complex64),
                            .traits = {}};
  return op;
}

}  // namespace lockstep::ops
