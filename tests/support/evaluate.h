#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/eval/eval.h"
#include "engine/ir/builder.h"
#include "engine/ir/primitive.h"
#include "engine/ir/value.h"
#include "engine/ir/verify.h"
#include "engine/ops/reference_backend.h"

// Functions written as formulas over ir::Value, and run on plain numbers by the reference backend.
namespace lockstep::tests {

/// The elements of one array, whatever its dtype (integers and bool as doubles).
using Elements = std::vector<double>;

/// A verified function of inputs of the given types.
inline ir::FunctionPtr make_function(
    const std::vector<ArrayType>& types,
    const std::function<std::vector<ir::Value>(ir::Builder&, std::span<const ir::Value>)>& body,
    const ir::AxisSizes& axes = {}) {
  ir::Builder builder(axes);
  std::vector<ir::Value> inputs;
  for (const ArrayType& type : types) inputs.emplace_back(builder, builder.input(type));
  std::vector<ir::Var> outputs;
  for (const ir::Value& v : body(builder, inputs)) outputs.push_back(v.var());
  ir::FunctionPtr f = builder.finish(std::move(outputs));
  ir::verify(*f);
  return f;
}

inline eval::HostArray to_host(const ArrayType& type, const Elements& elements) {
  ir::ReferenceArray array = ir::reference_zeros(type);
  REQUIRE(static_cast<std::int64_t>(elements.size()) == type.size());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (is_float(type.dtype)) {
      array.floats()[i] = elements[i];
    } else {
      array.integers()[i] = static_cast<std::int64_t>(elements[i]);
    }
  }
  return eval::host_array(type, ir::reference_to_bytes(array), *ops::reference_backend());
}

inline Elements from_host(const eval::HostArray& host) {
  const ir::ReferenceArray array = ir::reference_from_bytes(host.type, eval::host_bytes(host));
  if (is_float(host.type.dtype)) return array.floats();
  return {array.integers().begin(), array.integers().end()};
}

/// Verifies and runs a function.
inline std::vector<Elements> evaluate(const ir::FunctionPtr& f, const std::vector<Elements>& inputs) {
  ir::verify(*f);
  const std::vector<ArrayType> types = f->input_types();
  REQUIRE(inputs.size() == types.size());
  std::vector<eval::HostArray> arrays;
  for (std::size_t i = 0; i < types.size(); ++i) arrays.push_back(to_host(types[i], inputs[i]));
  std::vector<Elements> results;
  for (const eval::HostArray& array : eval::eval(*f, arrays, *ops::reference_backend())) {
    results.push_back(from_host(array));
  }
  return results;
}

/// How many equations of an op there are, sub-functions not counted.
inline int count(const ir::Function& f, std::string_view op) {
  int found = 0;
  for (const ir::Equation& equation : f.equations()) found += equation.primitive->name == op ? 1 : 0;
  return found;
}

/// The concatenation of argument lists.
template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace lockstep::tests
