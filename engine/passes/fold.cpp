#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

// Arithmetic on arrays whose elements are all one known number, by ops that every kernel rounds alike.
namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::ReferenceArray;
using ir::Var;

/// 16-bit floats are computed in float32; a sum of uint64 may be more than an attribute holds.
bool is_foldable(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bool_ ||
         (is_integer(dtype) && dtype != DType::uint64);
}

/// One element, rounded to its dtype.
ReferenceArray rounded(const ReferenceArray& array) {
  return ir::reference_from_bytes(array.type, ir::reference_to_bytes(array));
}

ReferenceArray element(DType dtype, const AttrValue& value) {
  ReferenceArray array = ir::reference_zeros({dtype, {}, {}});
  if (const auto* real = std::get_if<double>(&value)) {
    array.floats()[0] = *real;
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    array.integers()[0] = *truth ? 1 : 0;
  } else {
    array.integers()[0] = std::get<std::int64_t>(value);
  }
  return rounded(array);
}

AttrValue value_of(const ReferenceArray& array) {
  if (is_float(array.type.dtype)) return array.floats()[0];
  if (array.type.dtype == DType::bool_) return array.integers()[0] != 0;
  return array.integers()[0];
}

/// By Var: the number that all elements are.
using Constants = std::map<std::uint32_t, AttrValue>;

/// The number that all elements of the equation's result are. None for NaN, which has many bits.
std::optional<AttrValue> folded(const Draft& draft, const Constants& constants, const Equation& e) {
  std::vector<ReferenceArray> operands;
  for (const Var v : e.inputs) {
    const auto known = constants.find(v.id);
    if (known == constants.end()) return std::nullopt;
    operands.push_back(element(draft.type(v).dtype, known->second));
  }
  std::vector<ReferenceArray> results = {ir::reference_zeros({draft.type(e.outputs[0]).dtype, {}, {}})};
  e.primitive->reference({operands, e.attrs, results});
  const ReferenceArray result = rounded(results[0]);
  if (is_float(result.type.dtype) && std::isnan(result.floats()[0])) return std::nullopt;
  return value_of(result);
}

bool may_fold(const Draft& draft, const Equation& e) {
  const ArrayType& result = draft.type(e.outputs[0]);
  return e.primitive->traits.exact && result.varying.empty() && is_foldable(result.dtype) &&
         std::ranges::all_of(e.inputs, [&](Var v) { return is_foldable(draft.type(v).dtype); });
}

}  // namespace

ir::FunctionPtr fold(const ir::FunctionPtr& function) {
  Draft draft(*function);
  Constants constants;
  for (Equation& e : draft.equations) {
    e = map_sub_functions(e, fold);
    if (e.outputs.size() != 1) continue;
    const Var result = e.outputs[0];
    if (e.primitive == &ops::primitives::full()) {
      constants.emplace(result.id, e.attrs.at("value"));
    } else if (ir::moves_one(e.primitive->traits)) {
      if (const auto known = constants.find(e.inputs[0].id); known != constants.end()) {
        constants.emplace(result.id, AttrValue(known->second));
      }
    } else if (may_fold(draft, e)) {
      const std::optional<AttrValue> value = folded(draft, constants, e);
      if (!value) continue;
      const ArrayType& type = draft.type(result);
      e.primitive = &ops::primitives::full();
      e.attrs = {{"dtype", type.dtype}, {"shape", type.shape.to_vector()}, {"value", *value}};
      e.inputs.clear();
      constants.emplace(result.id, *value);
    }
  }
  return draft.finish();
}

}  // namespace lockstep::passes
