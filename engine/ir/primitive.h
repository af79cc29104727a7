#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/ir/builder.h"
#include "engine/ir/exchange.h"
#include "engine/ir/function.h"
#include "engine/ir/layout.h"
#include "engine/ir/sub_function_rules.h"
#include "engine/ir/sub_functions.h"
#include "engine/ir/value.h"

namespace lockstep::ir {

// ---- shapes and dtypes --------------------------------------------------------------------------------------------

struct InferContext {
  std::string_view op;
  std::span<const ArrayType> inputs;
  const Attrs& attrs;
  const AxisSizes& axes;
};

/// Result types; throws ShapeError, DtypeError or MeshError. `varying` of the results is filled in by the caller as the
/// join of the operands', except for primitives with Traits::typed_axes, whose rule states it.
using Infer = std::function<std::vector<ArrayType>(const InferContext&)>;

// ---- what a rule may do to sub-functions -----------------------------------------------------------------------------

/// (x..., tangent of each active x...) -> (y..., tangent of each y marked in `active`).
struct Differentiated {
  FunctionPtr function;
  std::vector<bool> active;
};

/// A function cut at the inputs marked unknown. known: (known x...) -> (known y..., residual...); unknown: (residual...,
/// unknown x...) -> (unknown y...). `unknown_outputs` marks the y that depend on an unknown x.
struct Partitioned {
  FunctionPtr known;
  FunctionPtr unknown;
  int residuals = 0;
  std::vector<bool> unknown_outputs;
};

/// The inputs and outputs marked in `batched` carry the batch as dimension 0.
struct Batched {
  FunctionPtr function;
  std::vector<bool> batched;
};

/// The transforms, a stage above the ops, as they hand themselves down to the rules of higher-order ops. In each,
/// `forced` marks outputs that must come out active, unknown or batched even where they need not be.
struct Transforms {
  Differentiated (*jvp)(const FunctionPtr& f, const std::vector<bool>& active, const std::vector<bool>& forced);
  Partitioned (*partition)(const FunctionPtr& f, const std::vector<bool>& unknown, const std::vector<bool>& forced);
  /// (residual..., t...) -> (u...), linear in t, becomes (residual..., cotangent of each u...) -> (cotangent of each t...).
  FunctionPtr (*transpose)(const FunctionPtr& linear, int residuals);
  /// `axis` names the batch for collectives inside, or is empty.
  Batched (*vmap)(const FunctionPtr& f, const std::vector<bool>& batched, const std::vector<bool>& forced,
                  std::int64_t size, const std::string& axis);
};

// ---- derivatives --------------------------------------------------------------------------------------------------

/// A tangent or cotangent; absent means zero.
using Tangent = std::optional<Value>;

struct JvpContext {
  Builder& builder;
  const Attrs& attrs;
  std::span<const Value> inputs;
  std::span<const Value> outputs;
  std::span<const Tangent> tangents;  ///< One per input; at least one is present.
  const Transforms* transforms = nullptr;
};
/// Tangents of the outputs. May emit only linear equations in the tangents (and any equation in the primals).
using JvpRule = std::function<std::vector<Tangent>(const JvpContext&)>;

/// For ops with sub-functions: outputs and their tangents together, so that neither is computed twice. `outputs` of the
/// context is empty.
struct JointTangents {
  std::vector<Value> outputs;
  std::vector<Tangent> tangents;
};
using JointJvpRule = std::function<JointTangents(const JvpContext&)>;

struct TransposeContext {
  Builder& builder;
  const Attrs& attrs;
  std::span<const Tangent> inputs;         ///< Present for non-linear operands, absent for linear ones.
  std::span<const ArrayType> input_types;  ///< Of all operands.
  std::span<const ArrayType> output_types;
  std::span<const Tangent> cotangents;  ///< One per output; at least one is present.
  const Transforms* transforms = nullptr;
};
/// Cotangents of the inputs; those of non-linear operands are ignored.
using TransposeRule = std::function<std::vector<Tangent>(const TransposeContext&)>;

/// How an op differentiates. Exactly one `kind`:
///  - zero: no derivative flows (comparisons, integers, random bits).
///  - linear: linear in the operands `linear_in` names jointly; the jvp is the op itself on their tangents.
///  - bilinear: linear in each of operands 0 and 1 alone.
///  - jvp: a rule. It may add a `transpose` where the op is linear in some operands alone (div in its numerator).
///  - joint: an op with sub-functions, `joint` and `transpose`; which operands it is linear in, its sub-functions decide.
struct Derivative {
  enum class Kind : std::uint8_t { zero, linear, bilinear, jvp, joint };
  Kind kind = Kind::zero;
  JvpRule jvp;              ///< kind jvp; optional for linear, where absent tangents need care (add, sub, concatenate).
  TransposeRule transpose;  ///< linear, bilinear, and optional for jvp.
  std::vector<int> linear_in;  ///< linear: operand indices, empty = all. jvp with transpose: operands it may transpose.
  JointJvpRule joint;
};

struct SplitContext {
  Builder& builder;
  const Attrs& attrs;
  std::span<const Value> inputs;
  std::vector<bool> unknown;  ///< Per input; at least one is true.
  const Transforms* transforms = nullptr;
};
struct SplitResult {
  std::vector<Value> outputs;
  std::vector<bool> unknown;  ///< Per output: whether it depends on an unknown input.
};
/// For ops with sub-functions: the outputs, from one equation in what is known, which also gives residuals, and one in
/// the residuals and what is unknown. The second is linear in the unknown inputs where the op came from a jvp.
using SplitRule = std::function<SplitResult(const SplitContext&)>;

// ---- varying axes of sub-functions -------------------------------------------------------------------------------------

/// Operands and attributes of one equation.
struct Aligned {
  std::vector<Var> operands;
  Attrs attrs;
};
/// For ops with sub-functions: makes these fit operands that vary along more axes than they were written for, and the
/// operands fit them, so that such an op may be applied to whatever its sub-functions would take when called. Leaves alone
/// what does not fit for other reasons: `infer` says so.
using AlignRule = std::function<Aligned(Builder&, std::span<const Var> operands, const Attrs&)>;

// ---- batching -----------------------------------------------------------------------------------------------------

/// Whether values of that type are one for a whole batch along `axis`: what does not vary along a named axis.
inline bool is_same_for_all(const ArrayType& type, const std::string& axis) {
  return !axis.empty() && !type.varying.contains(axis);
}

struct BatchContext {
  Builder& builder;
  const Attrs& attrs;
  std::span<const Value> inputs;  ///< A batched operand carries the batch as dimension 0.
  std::vector<bool> batched;      ///< At least one is true, or the op or a sub-function names `axis`.
  std::int64_t size;
  /// The mesh axis that becomes the batch, or empty: ops over it and sub-functions under it lose it. An operand that
  /// varies along it but is the same for the whole batch may come without a batch.
  std::string axis = {};
  const Transforms* transforms = nullptr;

  bool is_same_for_all(const ArrayType& type) const { return ir::is_same_for_all(type, axis); }
};
/// The outputs, batched along dimension 0; one that is the same for the whole batch may be given without by ops of
/// typed_axes, call and loop.
using BatchRule = std::function<std::vector<Value>(const BatchContext&)>;

// ---- the oracle ---------------------------------------------------------------------------------------------------

/// Row-major elements in the widest type of their kind: floats as double, integers, bool and keys as int64 (uint64 and
/// keys by bit pattern; a key's first word is the high half), complex as complex<double>.
struct ReferenceArray {
  ArrayType type;
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::complex<double>>> values;

  std::vector<double>& floats() { return std::get<std::vector<double>>(values); }
  const std::vector<double>& floats() const { return std::get<std::vector<double>>(values); }
  std::vector<std::int64_t>& integers() { return std::get<std::vector<std::int64_t>>(values); }
  const std::vector<std::int64_t>& integers() const { return std::get<std::vector<std::int64_t>>(values); }
  std::vector<std::complex<double>>& complexes() { return std::get<std::vector<std::complex<double>>>(values); }
  const std::vector<std::complex<double>>& complexes() const {
    return std::get<std::vector<std::complex<double>>>(values);
  }
};
/// Zeros of a type.
ReferenceArray reference_zeros(const ArrayType& type);
/// From and to the bytes of a row-major array; `to_bytes` rounds to the dtype and wraps integers.
ReferenceArray reference_from_bytes(const ArrayType& type, std::span<const std::byte> bytes);
std::vector<std::byte> reference_to_bytes(const ReferenceArray& array);

struct ReferenceContext {
  std::span<const ReferenceArray> inputs;
  const Attrs& attrs;
  std::span<ReferenceArray> outputs;  ///< Typed and zero-filled.
};
/// Plain loops. A collective's operands and results are stacked over the replicas of one group: its reference sees a
/// leading dimension of the group's size on every operand and writes one on every result.
using Reference = std::function<void(const ReferenceContext&)>;

// ---- cost ---------------------------------------------------------------------------------------------------------

struct CostContext {
  std::span<const ArrayType> inputs;
  std::span<const ArrayType> outputs;
  const Attrs& attrs;
};
/// Arithmetic operations of one evaluation; a multiply-add counts as two.
using Flops = std::function<double(const CostContext&)>;

// ---- samples ------------------------------------------------------------------------------------------------------

/// One operand of a sample: drawn uniformly from [low, high) (integers and bool too).
struct SampleInput {
  ArrayType type;
  double low = -2;
  double high = 2;
  bool distinct = false;  ///< A random permutation of evenly spaced values: no ties, no kinks near by.
  double diagonal = 0;    ///< i + 1 times this is added to element (i, i) of the last two dimensions.
};
struct Sample {
  std::vector<SampleInput> inputs;
  Attrs attrs;
  AxisSizes axes;  ///< For collectives: the mesh the sample is run under; varying comes from the input types.
};
struct ErrorSample {
  std::vector<ArrayType> inputs;
  Attrs attrs;
  std::string message;  ///< A part of the text that must appear.
  AxisSizes axes;
};

// ---- the whole op -------------------------------------------------------------------------------------------------

/// Ops whose results are elements of their operands, bit by bit.
enum class Moves : std::uint8_t {
  none,      ///< It computes.
  in_place,  ///< Element i is operand 0's element i in row-major order, so its memory may be returned (reshape, pvary).
  elsewhere,  ///< Each element of operand 0 at most once (transpose, slice).
  repeated,   ///< Elements of operand 0 any number of times (broadcast_in_dim).
  apart,      ///< Every result has some of operand 0 (split).
  together,   ///< The result has those of all operands (concatenate).
};

/// Whether fused loops (`ElementLoop`) are made of a pointwise op, or end in a sum, from an operand to a result of these
/// dtypes. A backend that says that it has fused loops takes them all.
using LoopRule = bool (*)(DType operand, DType result);

struct Traits {
  bool pointwise = false;   ///< Result element i depends on element i of each operand alone; all shapes equal.
  bool collective = false;  ///< Communicates between replicas.
  bool typed_axes = false;  ///< `infer` states `varying` itself (collectives, pvary, axis_index, pmap).
  bool call = false;        ///< Its value is that of its sub-function `body` on its operands.
  bool loop = false;        ///< Runs sub-functions in a way of its own (scan, while_loop, cond).
  bool draws = false;       ///< Uses up the random keys of operand 0.
  bool effect = false;      ///< Does something beside its results: never removed, merged or put in another order.
  bool exact = false;  ///< Every kernel gives the same bits: IEEE's own operations, and those on integers and bools.
  bool keeps_integers = false;  ///< Its numpy-like function gives integers back: it rounds, or stops.
  Moves moves = Moves::none;
  double steps = 20;            ///< Of a pointwise op: roughly, how many instructions of a loop compute an element.
  LoopRule in_loops = nullptr;  ///< Null: never.
  /// Adds up, along the attribute `axes`, what a fused loop computes, which gives the sum then (ElementLoop::Result).
  bool loop_sum = false;
};

/// Whether the one result of an op holds elements of its one moved operand alone.
constexpr bool moves_one(const Traits& traits) {
  return traits.moves == Moves::in_place || traits.moves == Moves::elsewhere || traits.moves == Moves::repeated;
}

// ---- algebra ------------------------------------------------------------------------------------------------------

/// An equation among those that define its operands.
struct AlgebraContext {
  const Attrs& attrs;
  std::span<const Var> inputs;
  std::function<const AttrValue*(Var)> constant;   ///< The number that all elements are, or null.
  std::function<const Equation*(Var)> definition;  ///< Of an operand, or null.
};
/// A value that the equation's one result is equal to wherever their types are: an identity (x * 1, a slice of all), an
/// involution (-(-x)).
using EqualTo = std::function<std::optional<Var>(const AlgebraContext&)>;
/// The attributes of the one equation that does what two of the op do, `inner` first.
using Compose = std::function<Attrs(const Attrs& outer, const Attrs& inner)>;

// ---- views --------------------------------------------------------------------------------------------------------

/// Where the elements of a result lie in the memory of operand 0, in elements.
struct View {
  std::array<std::int64_t, Shape::max_rank> strides{};
  std::int64_t offset = 0;
};
/// Of ops that move elements elsewhere or repeat them, where no copy is needed to read them.
using ViewRule = std::function<View(const Attrs&, const Shape& operand, std::span<const std::int64_t> strides)>;

// ---- several at once ----------------------------------------------------------------------------------------------

/// What backends are asked for instead of kernels of the op for each shard, or "" (lockstep/backend/grouped_kernels.h).
struct Grouped {
  std::string sum = {};        ///< The sum of what the op gives for several pairs of operands.
  std::string of_shards = {};  ///< What it gives for several first operands and one second.
};

/// All facts of an op.
struct Primitive {
  std::string name;
  Infer infer;
  Derivative derivative;
  SplitRule split = {};  ///< Ops with sub-functions alone.
  AlignRule align = {};  ///< Likewise; called by Builder::apply.
  BatchRule batch = {};
  Reference reference = {};
  Flops flops = {};  ///< Where the default of `flops_of` is wrong.
  std::function<std::vector<Sample>()> samples;
  std::function<std::vector<ErrorSample>()> error_samples;
  Traits traits;
  const Primitive& (*of_truths)() = nullptr;  ///< What stands for it on truth values: for a sum, `or`, as in numpy.
  EqualTo equal_to = {};
  Compose compose = {};
  ViewRule view = {};
  Collective collective = {};
  Grouped grouped = {};
  SubFunctionRules sub_functions = {};
  LayoutRule layout = {};
};

/// Whether the op is a sum that a fused loop may end in. Null is no op; a sum that is asked for in an order of its own is
/// none.
inline bool is_loop_sum(const Primitive* op, const Attrs& attrs) {
  return op != nullptr && op->traits.loop_sum && !attrs.has("sum_blocks");
}

/// Whether the equation, or one inside its sub-functions, has an effect.
bool has_effects(const Equation& equation);

/// The op `pvary`, which Builder inserts. Defined in engine/ops: the IR knows no op but needs this one.
const Primitive& pvary_primitive();

/// Arithmetic operations of one evaluation, and of an op with sub-functions none of theirs: the primitive's own rule, else
/// one for each element of a pointwise op's results and none for all others, which move elements.
double flops_of(const Primitive& primitive, const CostContext& context);

/// Result types with `varying` filled in.
std::vector<ArrayType> infer_types(const Primitive& primitive, std::span<const ArrayType> inputs, const Attrs& attrs,
                                   const AxisSizes& axes);

}  // namespace lockstep::ir
