#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/exchange/golden.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// Small modules have the values here that XLA computes of them (tests/golden/exchange/stablehlo_cases.py).

using namespace lockstep;
using tests::expect_error;
using tests::golden;

namespace {

struct SpecCase {
  std::string name, text;
  std::vector<std::string> results;  ///< Elements in row-major order.
};

std::vector<SpecCase> spec_cases() {
  std::istringstream file(tests::file_text(golden / "stablehlo_cases.txt"));
  std::vector<SpecCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", {}});
    } else if (line.starts_with("---")) {
      cases.back().results.push_back(line.substr(3));
    } else {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

void check_elements(const Array& result, const std::string& expected) {
  std::istringstream words(expected);
  std::vector<std::string> elements;
  for (std::string word; words >> word;) elements.push_back(word);
  REQUIRE(static_cast<std::int64_t>(elements.size()) == result.size());
  const Array flat = reshape(result, {-1});
  for (std::size_t i = 0; i < elements.size(); ++i) {
    CAPTURE(i);
    const Array element = flat[static_cast<std::int64_t>(i)];
    if (result.dtype() == uint64) {
      CHECK(element.item<std::uint64_t>() == std::stoull(elements[i]));
    } else if (!is_float(result.dtype())) {
      CHECK(element.astype(int64).item<std::int64_t>() == std::stoll(elements[i]));
    } else {
      const double value = element.astype(float64).item<double>(), wanted = std::stod(elements[i]);
      const bool is_same = std::isnan(wanted)
                               ? std::isnan(value)
                               : std::signbit(value) == std::signbit(wanted) &&
                                     (value == wanted || std::abs(value - wanted) < 1e-6 * std::abs(wanted));
      CAPTURE(value);
      CAPTURE(wanted);
      CHECK(is_same);
    }
  }
}

/// A module of one function of x: f32[4], which gives one array of its type.
std::string module_of_rows(const std::string& body) {
  return "module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n%z = stablehlo.constant dense<0.0> : "
         "tensor<f32>\n" +
         body + "\nreturn %0 : tensor<4xf32> } }";
}

void refuses(const std::string& body, const std::string& error) {
  CAPTURE(body);
  expect_error<IrError>([&] { exchange::from_stablehlo(module_of_rows(body)); }, "[from_stablehlo] line 3: ", error);
}

}  // namespace

TEST_CASE("small modules have the values that XLA computes") {
  int count = 0;
  for (const SpecCase& one : spec_cases()) {
    CAPTURE(one.name);
    ++count;
    try {
      const std::vector<Array> results = exchange::from_stablehlo(one.text)({});
      REQUIRE(results.size() == one.results.size());
      for (std::size_t i = 0; i < results.size(); ++i) check_elements(results[i], one.results[i]);
    } catch (const Error& error) {
      FAIL_CHECK(error.what());
    }
  }
  CHECK(count >= 80);
}

TEST_CASE("a region is matched as it computes or refused") {
  const std::string scalars = "(%a: tensor<f32>, %b: tensor<f32>)", two = "(tensor<f32>, tensor<f32>) -> tensor<i1>";
  const auto sorted = [&](const std::string& comparator) {
    return "%0 = \"stablehlo.sort\"(%x) <{dimension = 0 : i64}> ({ ^bb0" + scalars + ": " + comparator +
           " stablehlo.return %c : tensor<i1> }) : (tensor<4xf32>) -> tensor<4xf32>";
  };
  const std::string no_order = "'stablehlo.sort': a comparator that does not order by its operands; expected LT or GT";
  refuses(sorted("%c = stablehlo.compare LE, %a, %b, FLOAT : " + two), no_order);
  refuses(sorted("%c = stablehlo.compare LT, %a, %a, FLOAT : " + two), no_order);
  refuses(sorted("%c = stablehlo.compare LT, %a, %z, FLOAT : " + two), no_order);
  refuses(sorted("%d = stablehlo.negate %b : tensor<f32> %c = stablehlo.compare LT, %a, %d, FLOAT : " + two), no_order);
  refuses(
      sorted("%d = stablehlo.sine %a : tensor<f32> %e = stablehlo.cosine %b : tensor<f32> %c = stablehlo.compare LT, "
             "%d, %e, FLOAT : " +
             two),
      no_order);
  refuses(sorted("%c = stablehlo.compare LT, %a, %b, LEXICAL : " + two),
          "a comparison of type 'LEXICAL'; there are FLOAT, TOTALORDER, SIGNED and UNSIGNED");
  refuses("%0 = \"stablehlo.select_and_scatter\"(%x, %x, %z) <{window_dimensions = array<i64: 2>}> ({ ^bb0" + scalars +
              ": %c = stablehlo.compare GE, %a, %b, FLOAT : " + two + " stablehlo.return %c : tensor<i1> }, { ^bb0" +
              scalars +
              ": stablehlo.return %b : tensor<f32> }) : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>",
          "its source is f32[4]; expected one element for each of the windows, [3]");
  refuses("%0 = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({ ^bb0" + scalars +
              ": %c = stablehlo.add %a, %b : tensor<f32> stablehlo.return %c : tensor<f32> }) : (tensor<4xf32>) -> "
              "tensor<4xf32>",
          "'stablehlo.all_reduce': it joins values of several devices; expected replica_groups of one device each");
  refuses("%0 = stablehlo.all_to_all %x : tensor<4xf32>", "there is no such op here");
  refuses(
      "%s, %0 = stablehlo.rng_bit_generator %x, algorithm = PHILOX : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)",
      "'stablehlo.rng_bit_generator': a state of f32[4] for PHILOX; expected u64[2] or u64[3]");
  refuses(
      "%s, %0 = stablehlo.rng_bit_generator %x, algorithm = DICE : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)",
      "an algorithm 'DICE'; there are DEFAULT, THREE_FRY and PHILOX");
  refuses("%0 = stablehlo.subtract %z, %x : tensor<4xf32>", "'stablehlo.subtract'");
}
