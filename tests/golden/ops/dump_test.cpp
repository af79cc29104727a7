#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "engine/ops/primitives.h"
#include "tests/golden/ops/cases.h"
#include "tests/golden/stored_values.h"

// What jax_ops.py reads: all cases with their operands, as JSON.
namespace lockstep::tests::golden {
namespace {

using nlohmann::json;

json op_type_json(const ArrayType& type) {
  return {{"dtype", name(type.dtype)},
          {"shape", type.shape.to_vector()},
          {"varying", to_string(type.varying)},
          {"type", to_string(ArrayType{type.dtype, type.shape, {}})}};
}

json function_json(const ir::Function& f);

/// A kind and a value, since JSON has neither dtypes nor infinities, and takes an empty list for any list.
struct AttrJson {
  json operator()(bool value) const { return value; }
  json operator()(std::int64_t value) const { return value; }
  json operator()(double value) const { return {{"double", to_string(AttrValue(value))}}; }
  json operator()(const std::string& value) const { return value; }
  json operator()(DType value) const { return {{"dtype", name(value)}}; }
  json operator()(const std::shared_ptr<const AttrObject>& value) const {
    const auto function = std::dynamic_pointer_cast<const ir::Function>(value);
    REQUIRE(function != nullptr);
    return {{"function", function_json(*function)}};
  }
  template <class T>
  json operator()(const std::vector<T>& list) const {
    return list;
  }
};

json attrs_json(const Attrs& attrs) {
  json object = json::object();
  for (const Attrs::Entry& entry : attrs.entries()) object[entry.name] = std::visit(AttrJson{}, entry.value);
  return object;
}

json ids(const std::vector<ir::Var>& vars) {
  json list = json::array();
  for (const ir::Var var : vars) list.push_back(var.id);
  return list;
}

json function_json(const ir::Function& f) {
  json equations = json::array();
  for (const ir::Equation& equation : f.equations()) {
    equations.push_back({{"op", equation.primitive->name},
                         {"attrs", attrs_json(equation.attrs)},
                         {"inputs", ids(equation.inputs)},
                         {"outputs", ids(equation.outputs)}});
  }
  return {{"inputs", ids(f.inputs())}, {"outputs", ids(f.outputs())}, {"equations", equations}};
}

json op_run_json(const Run& run) {
  json inputs = json::array();
  for (const ir::ReferenceArray& input : run.inputs) {
    json array = op_type_json(input.type);
    array["hex"] = hex(ir::reference_to_bytes(input));
    inputs.push_back(array);
  }
  json results = json::array();
  const std::vector<ArrayType> types = run.function->output_types();
  for (std::size_t i = run.first; i < types.size(); ++i) results.push_back(op_type_json(types[i]));
  return {{"way", name(run.way)},
          {"label", run.label()},
          {"batched", run.batched},
          {"inputs", inputs},
          {"results", results}};
}

json case_json(const Case& c) {
  json axes = json::array();
  for (const auto& axis : c.sample.axes.axes()) axes.push_back({axis.name, axis.size});
  std::vector<ArrayType> types;
  json inputs = json::array(), outputs = json::array(), runs = json::array();
  for (const ir::SampleInput& input : c.sample.inputs) {
    types.push_back(input.type);
    inputs.push_back(op_type_json(input.type));
  }
  for (const ArrayType& type : ir::infer_types(*c.op, types, c.sample.attrs, c.sample.axes)) {
    outputs.push_back(op_type_json(type));
  }
  for (const Run& run : c.runs) runs.push_back(op_run_json(run));
  return {{"name", c.name},
          {"op", c.op->name},
          {"attrs", attrs_json(c.sample.attrs)},
          {"axes", axes},
          {"inputs", inputs},
          {"outputs", outputs},
          {"active", c.active},
          {"hash", hash_text(c.hash())},
          {"runs", runs}};
}

}  // namespace

TEST_CASE("write the samples of every op for jax_ops.py to LOCKSTEP_DUMP" * doctest::skip()) {
  const char* path = std::getenv("LOCKSTEP_DUMP");
  REQUIRE_MESSAGE(path != nullptr, "set LOCKSTEP_DUMP to the file to write");
  json cases = json::array();
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    for (const Case& c : cases_of(get())) cases.push_back(case_json(c));
  }
  std::ofstream file(path);
  file << cases.dump() << '\n';
  REQUIRE(file.good());
}

}  // namespace lockstep::tests::golden
