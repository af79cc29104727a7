#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"

namespace lockstep::tests {
namespace {

const Attrs batch = {{"axes", std::vector<std::string>{"batch"}}};
const Attrs rows = {{"axis", std::string("rows")}, {"dim", std::int64_t{0}}};
const ir::AxisSizes mesh({{"batch", 4}});

std::vector<ArrayType> infer(const ir::Primitive& op, const ArrayType& x, const Attrs& attrs,
                             const ir::AxisSizes& axes) {
  return ir::infer_types(op, std::vector<ArrayType>{x}, attrs, axes);
}

}  // namespace

TEST_CASE("reducing twice is an error of types that says what to write") {
  const ArrayType varying{float32, {2}, {"batch"}};
  const ArrayType sum = infer(ops::primitives::psum(), varying, batch, mesh)[0];
  CHECK(sum == ArrayType{float32, {2}, {}});
  CHECK_THROWS_WITH_AS(infer(ops::primitives::psum(), sum, batch, mesh),
                       "psum given f32[2] with axes=batch; expected an operand that varies along batch, but it is "
                       "invariant along batch (every replica holds the same value, and its sum would be that times "
                       "their number); instead use x as it is; for a count use axis_size, for a product x * axis_size",
                       MeshError);
  for (const ir::Primitive* op : {&ops::primitives::pmax(), &ops::primitives::pmin()}) {
    CHECK_THROWS_AS(infer(*op, sum, batch, mesh), MeshError);
  }
  CHECK_THROWS_AS(infer(ops::primitives::pvary(), varying, batch, mesh), MeshError);
}

TEST_CASE("an axis that no map binds is a mesh error") {
  const ArrayType x{float32, {2}, {}};
  for (const ir::Primitive* op :
       {&ops::primitives::psum(), &ops::primitives::pmax(), &ops::primitives::pmin(), &ops::primitives::pvary()}) {
    CAPTURE(op->name);
    CHECK_THROWS_WITH_AS(infer(*op, x, batch, {}), doctest::Contains("unbound axis"), MeshError);
  }
  for (const ir::Primitive* op :
       {&ops::primitives::all_gather(), &ops::primitives::all_gather_invariant(), &ops::primitives::psum_scatter()}) {
    CAPTURE(op->name);
    CHECK_THROWS_WITH_AS(infer(*op, x, rows, mesh), doctest::Contains("unbound axis"), MeshError);
  }
  CHECK_THROWS_WITH_AS(ir::infer_types(ops::primitives::axis_index(), {}, {{"axis", std::string("rows")}}, mesh),
                       doctest::Contains("unbound axis"), MeshError);
}

TEST_CASE("what pmap refuses about meshes and layouts is a mesh error") {
  int mesh_errors = 0;
  for (const ir::ErrorSample& sample : ops::primitives::pmap().error_samples()) {
    CAPTURE(sample.message);
    try {
      ir::infer_types(ops::primitives::pmap(), sample.inputs, sample.attrs, sample.axes);
      FAIL_CHECK("nothing was thrown");
    } catch (const MeshError&) {
      ++mesh_errors;
    } catch (const IrError& error) {
      // A body that was not made for these operands is the engine's fault, not the user's.
      CHECK(std::string(error.what()).find("body") != std::string::npos);
    }
  }
  CHECK(mesh_errors == 10);
}

TEST_CASE("a result that varies where its layout promises otherwise names both") {
  for (const ir::ErrorSample& sample : ops::primitives::pmap().error_samples()) {
    if (sample.message.find("promised") == std::string::npos) continue;
    CHECK_THROWS_WITH_AS(
        ir::infer_types(ops::primitives::pmap(), sample.inputs, sample.attrs, sample.axes),
        "pmap: result 0, f32[2]{batch}, varies along batch (inferred), but its layout cuts it along no axis "
        "(promised); expected every axis it varies along to cut it; instead reduce it inside the map (psum, pmean, "
        "all_gather_invariant) or give it a layout cut along batch",
        MeshError);
  }
}

}  // namespace lockstep::tests
