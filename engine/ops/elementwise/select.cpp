#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

bool selects_in_loops(DType operand, DType result) {
  const bool is_predicate = operand == DType::bool_;
  return loops::class_of(result) != 0 &&
         (is_predicate || loops::same<loops::floating | loops::word | loops::truth>(operand, result));
}

std::vector<ArrayType> select_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 3);
  if (context.inputs[0].dtype != DType::bool_) {
    infer::dtype_error(context, "a bool predicate", "compare: not_equal(predicate, zeros)");
  }
  infer::expect_same_dtype(context, 1);
  infer::expect_same_shape(context);
  return {{context.inputs[1].dtype, context.inputs[1].shape, {}}};
}

std::vector<Tangent> select_jvp(const JvpContext& context) {
  ir::Builder& builder = context.builder;
  const ArrayType& type = context.outputs[0].type();
  return {select(context.inputs[0], derivative::or_zeros(builder, context.tangents[1], type),
                 derivative::or_zeros(builder, context.tangents[2], type))};
}

std::vector<Tangent> select_transpose(const TransposeContext& context) {
  const Value& ct = *context.cotangents[0];
  const Value& predicate = *context.inputs[0];
  const Value none = full_like(ct, 0);
  return {std::nullopt, select(predicate, ct, none), select(predicate, none, ct)};
}

std::vector<ir::Sample> select_samples() {
  std::vector<ir::Sample> result;
  for (const DType dtype :
       {DType::float64, DType::float32, DType::bfloat16, DType::int32, DType::bool_, DType::key, DType::complex64}) {
    for (const Shape& shape : samples::small_shapes()) {
      result.push_back({{samples::input(DType::bool_, shape, {0, 2}), samples::input(dtype, shape, {0, 2}),
                         samples::input(dtype, shape, {0, 2})},
                        {},
                        {}});
    }
  }
  return result;
}

const ArrayType predicate_type{DType::bool_, Shape{2}, {}};
const ArrayType operand_type{DType::float32, Shape{2}, {}};

/// One branch for both, or a predicate that is known.
std::optional<ir::Var> chosen(const ir::AlgebraContext& context) {
  if (context.inputs[1] == context.inputs[2]) return context.inputs[1];
  const AttrValue* predicate = context.constant(context.inputs[0]);
  const bool* holds = predicate == nullptr ? nullptr : std::get_if<bool>(predicate);
  if (holds == nullptr) return std::nullopt;
  return context.inputs[*holds ? 1 : 2];
}

}  // namespace

const Primitive& primitives::select() {
  static const Primitive op{
      .name = "select",
      .infer = select_infer,
      .derivative = derivative::linear(select_transpose, {1, 2}, select_jvp),
      .batch = batch::pointwise(select),
      .reference =
          [](const ir::ReferenceContext& context) {
            for (std::int64_t i = 0; i < context.outputs[0].type.size(); ++i) {
              const bool holds = reference::load<bool>(context.inputs[0], i);
              reference::copy_element(context.inputs[holds ? 1 : 2], i, context.outputs[0], i);
            }
          },
      .samples = select_samples,
      .error_samples = samples::errors(
          {{{{DType::int32, Shape{2}, {}}, operand_type, operand_type}, {}, "expected a bool predicate", {}},
           {{predicate_type, operand_type, {DType::int32, Shape{2}, {}}}, {}, "operands of one dtype", {}},
           {{predicate_type, operand_type, {DType::float32, Shape{3}, {}}}, {}, "operands of one shape", {}},
           {{{DType::bool_, Shape{}, {}}, operand_type, operand_type}, {}, "operands of one shape", {}},
           {{predicate_type, operand_type}, {}, "expected 3 operands", {}}}),
      .traits = loops::with(exact_traits, selects_in_loops),
      .equal_to = chosen};
  return op;
}

}  // namespace lockstep::ops
