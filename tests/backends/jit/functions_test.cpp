#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "tests/backends/jit/loops.h"

// The functions of one float, over every 251st float there is, and all those that stand out.
namespace lockstep::tests {
namespace {

struct Function {
  const char* op;
  double (*exact)(double);
  double most_units;  ///< As functions.h promises.
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

constexpr std::array functions = {
    Function{"exp", std::exp, 1},      Function{"exp2", std::exp2, 1},   Function{"expm1", std::expm1, 2},
    Function{"log", std::log, 1},      Function{"log1p", std::log1p, 1}, Function{"tanh", std::tanh, 3},
    Function{"logistic", logistic, 3}, Function{"erf", std::erf, 2},     Function{"erfc", std::erfc, 4}};

std::vector<float> floats_of_all_kinds() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 251) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (const float x : {0.0F,        -0.0F,        INFINITY,       -INFINITY,     NAN,        1.0F,      -1.0F,
                        1e-45F,      -1e-45F,      1.1754944e-38F, 3.4028235e38F, 88.722839F, 88.72284F, -87.33655F,
                        -103.97207F, -103.972084F, 128.0F,         127.99999F,    -126.0F,    -149.0F,   -149.99998F,
                        -150.0F,     0.5F,         2.0F,           0.70710677F,   1.4142135F}) {
    values.push_back(x);
  }
  return values;
}

/// The distance in units of the last place of the exact value, no smaller than the least float.
double units_between(float given, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(given) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(given)) return given == rounded ? 0 : INFINITY;
  if (exact == 0) return std::bit_cast<std::uint32_t>(given) == std::bit_cast<std::uint32_t>(rounded) ? 0 : INFINITY;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(exact) - 23, -149));
  return std::abs(static_cast<double>(given) - exact) / unit;
}

std::vector<float> computed_by(const backend::Backend& backend, const char* op, const std::vector<float>& x) {
  const ArrayType type{DType::float32, Shape{static_cast<std::int64_t>(x.size())}, {}};
  const Attrs attrs;
  const auto kernel = backend.make_kernel({op, attrs, {&type, 1}, {&type, 1}, {}});
  REQUIRE(kernel != nullptr);
  std::vector<float> result(x.size());
  const ArrayView in = contiguous_view(const_cast<float*>(x.data()), type.dtype, type.shape);
  const ArrayView out = contiguous_view(result.data(), type.dtype, type.shape);
  kernel->run({{&in, 1}, {&out, 1}, nullptr});
  return result;
}

}  // namespace

TEST_CASE("functions keep their bounds, with equal bits on every instruction set") {
  const std::vector<float> x = floats_of_all_kinds();
  for (const Function& function : functions) {
    CAPTURE(function.op);
    std::vector<float> first;
    for (const backend::Isa isa : usable_sets()) {
      const std::vector<float> y = computed_by(*backend::jit::make_backend(isa), function.op, x);
      if (!first.empty()) {
        std::size_t different = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
          different += same_float(std::bit_cast<std::uint32_t>(first[i]), std::bit_cast<std::uint32_t>(y[i])) ? 0 : 1;
        }
        CHECK(different == 0);
        continue;
      }
      double worst = 0;
      float at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double units = units_between(y[i], function.exact(x[i]));
        if (units > worst) {
          worst = units;
          at = x[i];
        }
      }
      MESSAGE(std::string(function.op) << ": " << worst << " units at " << at);
      CHECK(worst <= function.most_units);
      first = y;
    }
  }
}

}  // namespace lockstep::tests
