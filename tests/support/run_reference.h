#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"

// One op on plain numbers, by its reference alone.
namespace lockstep::tests {

/// The array of a type with the given elements, rounded to its dtype.
inline ir::ReferenceArray reference_array(const ArrayType& type, const std::vector<double>& elements) {
  ir::ReferenceArray array = ir::reference_zeros(type);
  REQUIRE(static_cast<std::int64_t>(elements.size()) == type.size());
  if (is_float(type.dtype)) {
    array.floats() = elements;
  } else {
    array.integers().assign(elements.begin(), elements.end());
  }
  return ir::reference_from_bytes(type, ir::reference_to_bytes(array));
}

/// The results of an op that is no collective, rounded to their dtypes.
inline std::vector<ir::ReferenceArray> run_reference(std::string_view op, const std::vector<ir::ReferenceArray>& inputs,
                                                     const Attrs& attrs) {
  const ir::Primitive* primitive = ops::find_primitive(op);
  REQUIRE(primitive != nullptr);
  std::vector<ArrayType> types;
  for (const ir::ReferenceArray& input : inputs) types.push_back(input.type);
  std::vector<ir::ReferenceArray> outputs;
  for (const ArrayType& type : ir::infer_types(*primitive, types, attrs, {})) {
    outputs.push_back(ir::reference_zeros(type));
  }
  primitive->reference({inputs, attrs, outputs});
  for (ir::ReferenceArray& output : outputs) {
    output = ir::reference_from_bytes(output.type, ir::reference_to_bytes(output));
  }
  return outputs;
}

/// The same of a collective for a group of replicas: operands and results carry a leading dimension of the group's
/// size, `results` are the types of one replica's.
inline std::vector<ir::ReferenceArray> run_collective(std::string_view op, std::int64_t group,
                                                      const std::vector<ir::ReferenceArray>& inputs,
                                                      const std::vector<ArrayType>& results, const Attrs& attrs) {
  std::vector<ir::ReferenceArray> outputs;
  for (const ArrayType& type : results) {
    outputs.push_back(ir::reference_zeros({type.dtype, type.shape.insert(0, group), {}}));
  }
  ops::find_primitive(op)->reference({inputs, attrs, outputs});
  for (ir::ReferenceArray& output : outputs) {
    output = ir::reference_from_bytes(output.type, ir::reference_to_bytes(output));
  }
  return outputs;
}

}  // namespace lockstep::tests
