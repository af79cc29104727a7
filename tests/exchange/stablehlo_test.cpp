#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/exchange/golden.h"
#include "tests/fuzz/mutations.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// Functions that JAX exported (tests/golden/exchange/jax_programs.py) run here with its values.

using namespace lockstep;
using tests::expect_error;
using tests::golden;

namespace {

const std::vector<std::string> names = {
    "mlp",      "conv_grad", "attention", "scan",    "newton",  "sorting",       "scattering", "reductions", "slices",
    "branches", "norm_grad", "pool_grad", "spectra", "factors", "own_functions", "narrow",     "widened"};

std::vector<Array> stored(const std::map<std::string, Array>& values, const std::string& prefix) {
  std::vector<Array> arrays;
  while (values.contains(prefix + std::to_string(arrays.size()))) {
    arrays.push_back(values.at(prefix + std::to_string(arrays.size())));
  }
  return arrays;
}

void check_equal(const std::vector<Array>& results, const std::vector<Array>& expected) {
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    REQUIRE(results[i].dtype() == expected[i].dtype());
    REQUIRE(results[i].shape() == expected[i].shape());
    if (!is_float(expected[i].dtype())) {
      CHECK(results[i].to_bytes() == expected[i].to_bytes());
      continue;
    }
    const Array wide = expected[i].astype(float64);
    const Array difference = abs(results[i].astype(float64) - wide);
    if (wide.size() == 0) continue;
    CHECK(max(difference).item<double>() < 1e-6 * std::max(1.0, max(abs(wide)).item<double>()));
  }
}

/// A module of one function of two matrices f32[2,3], whose body is given.
std::string module_of(const std::string& body) {
  return "module @m {\n  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) -> tensor<2x3xf32> "
         "{\n" +
         body + "\n  }\n}\n";
}

template <class... Parts>
void refused(const std::string& body, const Parts&... parts) {
  expect_error<IrError>([&] { exchange::from_stablehlo(module_of(body)); }, "[from_stablehlo] line 3: ", parts...);
}

}  // namespace

TEST_CASE("functions that JAX exported have its values here") {
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto values = exchange::load_npz(golden / (name + ".npz"));
    const Function function = exchange::from_stablehlo(tests::file_text(golden / (name + ".mlir")));
    check_equal(function(stored(values, "in")), stored(values, "out"));
  }
}

TEST_CASE("MLIR's generic form is read too") {
  for (const std::string name : {"conv_grad", "scan"}) {
    CAPTURE(name);
    const auto values = exchange::load_npz(golden / (name + ".npz"));
    const Function function = exchange::from_stablehlo(tests::file_text(golden / ("generic_" + name + ".mlir")));
    check_equal(function(stored(values, "in")), stored(values, "out"));
  }
}

TEST_CASE("what there is not here is refused by name") {
  const std::string type = "tensor<2x3xf32>", types = "(" + type + ", " + type + ")";
  refused("%0 = stablehlo.custom_call @LAPACK(%arg0) : (" + type + ") -> " + type,
          "'stablehlo.custom_call': custom_call @LAPACK is code that the text does not hold");
  refused("%0 = stablehlo.fft %arg0, type = FFT, length = [3] : (" + type + ") -> " + type,
          "'stablehlo.fft': fft given f32[2,3]", "expected complex64 or complex128 for fft");
  refused("%0 = stablehlo.fft %arg0, type = DCT, length = [3] : (" + type + ") -> " + type,
          "one of the kinds fft, ifft, rfft and irfft");
  refused("%0 = stablehlo.cholesky %arg0, lower = true : " + type, "'stablehlo.cholesky': ", "square");
  refused("%0 = \"stablehlo.triangular_solve\"(%arg0, %arg1) <{transpose_a = #stablehlo<transpose SIDEWAYS>}> : " +
              types + " -> " + type,
          "transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT, not SIDEWAYS");
  refused("%0 = stablehlo.dynamic_reshape %arg0, %arg1 : " + types + " -> " + type,
          "'stablehlo.dynamic_reshape': there is no such op here");
  refused("%0 = stablehlo.add %arg0, %x : " + type, "%x is used before it is defined");
  refused("%0 = stablehlo.add %arg0, %arg1#1 : " + type, "%arg1 has no result 1");
  refused("%0 = stablehlo.add %arg0, %arg1 : tensor<3x2xf32>",
          "'stablehlo.add' gives f32[2,3], the text says f32[3,2]");
  refused("%0 = stablehlo.add %arg0, %arg1 : tensor<?x3xf32>",
          "has a dimension that is no number; export at fixed shapes");
  refused("%0 = stablehlo.add %arg0, %arg1 : tensor<99999999999x999999999xf32>", "has too many elements");
  refused("%0 = stablehlo.add %arg0 %arg1 ; : " + type, "is written in a form that is not known here");
  refused("%0 = call @f(%arg0) : (" + type + ") -> " + type, "the module has no function @f");
  refused("%0 = call @main(%arg0, %arg1) : " + types + " -> " + type, "is called more than 100 deep, or by itself");
  refused("%0 = stablehlo.compare XX, %arg0, %arg1, FLOAT : " + types + " -> tensor<2x3xi1>", "a comparison 'XX'");
  refused("%0 = stablehlo.constant dense_resource<r> : " + type, "its value is not in the text (dense<...>)");
  refused("%0 = stablehlo.constant dense<[1.0, 2.0]> : " + type, "an element in 1 lists; expected 2 for f32[2,3]");
  refused("%0 = stablehlo.constant dense<one> : " + type, "'one' is no number");
  refused("%0 = stablehlo.constant dense<\"0xZZ\"> : " + type, "no hexadecimal digits");
  refused("%0 = stablehlo.constant dense<1.0> : tensor<2x3xf8E5M2>", "there is");
  refused("%0 = stablehlo.composite \"my.op\" %arg0 {version = 1 : i32} : (" + type + ") -> " + type,
          "there is no op 'my.op' here, and it has no decomposition");
  refused(
      "%0 = \"stablehlo.sort\"(%arg0) <{dimension = 0 : i64}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %1 = "
      "stablehlo.compare LE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %1 : "
      "tensor<i1> }) : (" +
          type + ") -> " + type,
      "a comparator that does not order by its operands");
  refused(
      "%0 = \"stablehlo.reduce_window\"(%arg0, %arg1) <{window_dimensions = array<i64: 2, 1>}> ({ ^bb0(%a: "
      "tensor<f32>, %b: tensor<f32>): stablehlo.return %a : tensor<f32> }) : " +
          types + " -> " + type,
      "'stablehlo.reduce_window': the initial value of \"0\" is f32[2,3]; expected a scalar");
  refused("%0 = \"stablehlo.reduce_window\"(%arg0, %arg1) <{window_dimensions = array<i64: 2, 1>}> : " + types +
              " -> " + type,
          "the function that joins two elements is missing");
  refused(
      "%0 = \"stablehlo.reduce\"(%arg0, %arg1, %arg1) <{dimensions = array<i64: 1>}> ({ ^bb0(%a: tensor<f32>, %b: "
      "tensor<f32>): stablehlo.return %a : tensor<f32> }) : (" +
          type + ", " + type + ", " + type + ") -> " + type,
      "it takes arrays and as many initial values");
  refused("%0 = stablehlo.reduce_precision %arg0, format = half : " + type,
          "its format must be such as e5m10, not half");
  refused(
      "%0 = \"stablehlo.scatter\"(%arg0, %arg1, %arg0) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %1 = "
      "stablehlo.subtract %b, %a : tensor<f32> stablehlo.return %1 : tensor<f32> }) : (" +
          type + ", " + type + ", " + type + ") -> " + type,
      "'stablehlo.scatter': its update_window_dims do not fit its operand");
  refused("%output_state, %output = stablehlo.rng_bit_generator %arg0, algorithm = PHILOX : (" + type + ") -> (" +
              type + ", " + type + ")",
          "'stablehlo.rng_bit_generator': a state of f32[2,3] for PHILOX; expected u64[2] or u64[3]");
  refused(
      "%0 = stablehlo.custom_call @lapack_sgeqrf_ffi(%arg0) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>]} : "
      "(" +
          type + ") -> " + type,
      "custom_call @lapack_sgeqrf_ffi is code that the text does not hold");
  refused("%0:2 = stablehlo.add %arg0, %arg1 : " + type, "'stablehlo.add' gives 1 values, the text says 2");
  refused("%0 = stablehlo.reshape %arg0", "'stablehlo.reshape': its type is missing");
  refused("%0 = stablehlo.iota dim = [0, 1] : " + type, "dim is no one number");
  refused("%0 = stablehlo.iota dim = x : " + type, "'x' is no whole number");
  refused("%0 = stablehlo.slice %arg0 [0, 1] : (" + type + ") -> " + type, "a range must be start:limit");
  refused("%0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (" + type + ") -> " + type,
          "dims must name a place for each");
  refused("%0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] : " + types + " -> " + type,
          "contracting_dims must be [...] x [...]");
  refused("%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, b, 0]x[i, o, 0]->[b, f, 0] : " + types + " -> " +
              type,
          "its dim_numbers must name b, f and each spatial dimension");
  refused("%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 1]x[i, o, 0]->[b, f, 0] : " + types + " -> " +
              type,
          "its dim_numbers name a dimension that there is not");
  refused("%0 = stablehlo.convolution(%arg0, %arg1) window = {} : " + types + " -> " + type,
          "its dim_numbers are missing");
  refused("%0 = \"stablehlo.case\"(%arg0) : (" + type + ") -> " + type, "it has no branch");
  refused("%0 = \"stablehlo.add\"(%arg0) ({ stablehlo.return }) %arg1 : (" + type + ") -> " + type, "expected ':'");
  refused("%0 = stablehlo.constant dense<\"0x00000000> : " + type, "a '<' is not closed");
  refused("%0 = stablehlo.add %arg0, %arg1 : " + type, "a region does not return");
  refused("%0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.subtract across dimensions = [1] : " + types +
              " -> " + type,
          "a reduction by stablehlo.subtract; there are those by add");
  refused("%0 = \"stablehlo.scatter\"(%arg0, %arg1) : " + types + " -> " + type,
          "it takes one array, indices and updates");
  refused("%0 = stablehlo.dot_general: () -> ()", "operand 0 is missing");  // no type where one is expected
  const std::string body = "(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> } ";
  expect_error<IrError>([&] { exchange::from_stablehlo("module { func.func @f" + body + "func.func @g" + body + "}"); },
                        "several public functions, and none is called main; name one so");
  expect_error<IrError>([] { exchange::from_stablehlo("module { func.func @f() -> tensor<f32> }"); },
                        "function @f has no body");
  expect_error<IrError>([] { exchange::from_stablehlo("module { stablehlo.add }"); },
                        "'stablehlo.add' stands in a module, where functions are expected");
  expect_error<IrError>([] { exchange::from_stablehlo("module {"); }, "line 1: expected 'a name', found ''");
  // What is expected may stand there in so many letters.
  expect_error<IrError>([] { exchange::from_stablehlo("f %x# a number"); }, "expected 'a number', found");
  expect_error<IrError>([] { exchange::from_stablehlo(""); }, "no public function; expected the text of a module");
}

TEST_CASE("arguments of any size take no memory to read") {
  const Function read = exchange::from_stablehlo(
      "module { func.func public @main(%a: tensor<4x3777777777xf32>) -> tensor<4x3777777777xf32> { return %a : "
      "tensor<4x3777777777xf32> } }");
  CHECK(read.input_types()[0].shape == Shape{4, 3777777777});
}

TEST_CASE("damaged modules") {
  int refused_ones = 0;
  for (const std::string name : {"scan", "branches", "generic_conv_grad"}) {
    const std::string good = tests::file_text(golden / (name + ".mlir"));
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      CAPTURE(name);
      CAPTURE(seed);
      try {
        exchange::from_stablehlo(tests::mutated(good, seed));
      } catch (const Error&) {
        ++refused_ones;
      }
    }
  }
  CHECK(refused_ones > 0);
}
