#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ir/text/parse.h"
#include "tests/ops/numbers.h"
#include "tests/support/op_functions.h"

// The loop over ops.def: an op without a rule or without samples fails here.
namespace lockstep::tests {
namespace {

bool has_size(const ir::Primitive& op, std::int64_t size) {
  for (const ir::Sample& sample : op.samples()) {
    for (const ArrayType& type : input_types(sample)) {
      if (type.size() == size) return true;
    }
    for (const ArrayType& type : output_types(op, sample)) {
      if (type.size() == size) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("every op of ops.def has its rules and samples") {
  CHECK(ops::all_primitives().size() > 80);
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    CAPTURE(op.name);
    CHECK(ops::find_primitive(op.name) == &op);
    CHECK(bool(op.infer));
    CHECK(bool(op.batch));
    CHECK((bool(op.reference) || has_sub_functions(op) || !has_value(op)));
    REQUIRE(bool(op.samples));
    REQUIRE(bool(op.error_samples));
    CHECK(op.samples().size() >= 3);
    CHECK(!op.error_samples().empty());
    CHECK((has_size(op, 0) || op.name == "axis_index"));
    CHECK(has_size(op, 1));
  }
  CHECK(ops::find_primitive("no_such_op") == nullptr);
}

TEST_CASE("every op has float64 and float32 samples where it takes floats") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    CAPTURE(op.name);
    bool has_double = false, has_single = false, has_float = false;
    for (const ir::Sample& sample : op.samples()) {
      for (const ArrayType& type : input_types(sample)) {
        has_float = has_float || is_float(type.dtype);
        has_double = has_double || type.dtype == DType::float64;
        has_single = has_single || type.dtype == DType::float32;
      }
    }
    CHECK(has_double == has_float);
    CHECK((has_single == has_float || op.name == "collective_start"));
  }
}

TEST_CASE("every derivative is of one consistent kind") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    const ir::Derivative& derivative = op.derivative;
    CAPTURE(op.name);
    CHECK((derivative.kind == Kind::joint) == bool(derivative.joint));
    // What is cut has a transpose of its own; custom rules leave no equation of theirs to cut.
    CHECK((!op.split || bool(derivative.transpose)));
    CHECK((derivative.kind != Kind::jvp || bool(derivative.jvp)));
    CHECK((derivative.kind != Kind::linear || bool(derivative.transpose)));
    CHECK((derivative.kind != Kind::bilinear || bool(derivative.transpose)));
    CHECK((derivative.kind != Kind::bilinear || !derivative.jvp));
    // A transpose of what has no derivative gives nothing back: stop_gradient's lets linear functions be transposed.
    CHECK((derivative.kind != Kind::zero || !derivative.jvp));
    CHECK((derivative.kind != Kind::jvp || bool(derivative.transpose) == !derivative.linear_in.empty()));
    for (const ir::Sample& sample : op.samples()) {
      if (derivative.kind == Kind::bilinear) CHECK(sample.inputs.size() == 2);
      for (const int i : derivative.linear_in) CHECK(static_cast<std::size_t>(i) < sample.inputs.size());
    }
  }
}

TEST_CASE("every reference fills results of the inferred types") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (op.traits.collective || has_sub_functions(op) || !has_value(op) || op.name == "axis_index")
      continue;  // Their references see a group: tests/ops/collective.
    for (const ir::Sample& sample : op.samples()) {
      CAPTURE(text(op, sample));
      ir::Sample replica = sample;  // One replica's operands.
      replica.axes = {};
      const std::vector<ir::ReferenceArray> inputs = draw(replica, 1);
      std::vector<ir::ReferenceArray> outputs;
      const std::vector<ArrayType> types = output_types(op, sample);
      for (const ArrayType& type : types) outputs.push_back(ir::reference_zeros(type));
      op.reference({inputs, sample.attrs, outputs});
      REQUIRE(outputs.size() == types.size());
      for (std::size_t i = 0; i < types.size(); ++i) {
        const std::size_t held = std::visit([](const auto& values) { return values.size(); }, outputs[i].values);
        CHECK(outputs[i].type.dtype == types[i].dtype);
        CHECK(outputs[i].type.shape == types[i].shape);
        CHECK(static_cast<std::int64_t>(held) == types[i].size());
        CHECK(outputs[i].values.index() == ir::reference_zeros(types[i]).values.index());
      }
      if (op.traits.pointwise) {
        for (const ArrayType& type : input_types(sample)) CHECK(type.shape == types[0].shape);
      }
      if (op.traits.moves == ir::Moves::in_place)
        CHECK(ir::reference_to_bytes(outputs[0]) == ir::reference_to_bytes(inputs[0]));
    }
  }
}

TEST_CASE("every op evaluates, alone and over a mesh") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (!has_value(op)) continue;
    for (const ir::Sample& sample : op.samples()) {
      CAPTURE(text(op, sample));
      const FunctionPtr local = primal_function(op, sample);
      const std::vector<ir::ReferenceArray> results = run(over_mesh(local), draw(sample, 2));
      const std::vector<ArrayType> types = output_types(op, sample);
      REQUIRE(results.size() == types.size());
      for (std::size_t i = 0; i < types.size(); ++i) CHECK(results[i].type == whole_type(types[i], sample.axes));
    }
  }
}

TEST_CASE("every op prints as text that parses back") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    for (const ir::Sample& sample : op.samples()) {
      CAPTURE(text(op, sample));
      const FunctionPtr function = over_mesh(primal_function(op, sample));
      const std::string printed = function->print(0);
      const FunctionPtr parsed = ir::parse(printed, ops::find_primitive);
      CHECK(parsed->print(0) == printed);
      CHECK(parsed->equals(*function));
    }
  }
}

TEST_CASE("every op refuses what it cannot take, and says so") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    for (const ir::ErrorSample& sample : op.error_samples()) {
      CAPTURE(op.name);
      CAPTURE(sample.message);
      std::string said;
      try {
        ir::infer_types(op, sample.inputs, sample.attrs, sample.axes);
      } catch (const Error& error) {
        said = error.what();
      }
      CAPTURE(said);
      CHECK(said.find(sample.message) != std::string::npos);
      CHECK((said.find(op.name) != std::string::npos || op.name == "collective_wait"));
      CHECK((said.find("expected") != std::string::npos || said.find("unbound axis") != std::string::npos));
    }
  }
}

}  // namespace lockstep::tests
