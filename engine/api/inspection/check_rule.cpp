#include "engine/api/inspection/check_rule.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <lockstep/array.h>
#include <lockstep/custom_derivatives.h>

#include "engine/api/transforms/runtime.h"
#include "engine/ir/primitive.h"
#include "engine/transform/transforms.h"

namespace lockstep::api {

namespace {

using Numbers = std::vector<ir::ReferenceArray>;

bool is_single(DType dtype) { return dtype == DType::float32 || dtype == DType::complex64; }

bool can_check(const ir::Function& f) {
  if (!f.axes().empty()) return false;
  std::vector<ArrayType> types = f.input_types();
  const std::vector<ArrayType> results = f.output_types();
  types.insert(types.end(), results.begin(), results.end());
  return std::ranges::all_of(types, [](const ArrayType& type) {
    return !is_inexact(type.dtype) || is_single(type.dtype) || type.dtype == DType::float64 ||
           type.dtype == DType::complex128;
  });
}

/// The real numbers of an array of floats or complex numbers, of these both parts; none elsewhere.
std::span<double> parts(ir::ReferenceArray& x) {
  if (is_float(x.type.dtype)) return x.floats();
  if (!is_complex(x.type.dtype)) return {};
  return {reinterpret_cast<double*>(x.complexes().data()), 2 * x.complexes().size()};
}

/// Runs outside of the open traces.
Numbers run_on(const ir::FunctionPtr& f, const Numbers& inputs) {
  std::vector<Array> arrays;
  for (const ir::ReferenceArray& x : inputs) arrays.push_back(from_bytes(x.type, ir::reference_to_bytes(x)));
  Numbers results;
  for (const Array& y : run(*compiled(f), std::move(arrays))) {
    results.push_back(ir::reference_from_bytes(y.type(), y.to_bytes()));
  }
  return results;
}

/// Uniform where floats or parts of complex numbers, zero elsewhere.
Numbers drawn_numbers(const std::vector<ArrayType>& types, std::mt19937_64& bits, double low, double high) {
  Numbers numbers;
  for (const ArrayType& type : types) {
    numbers.push_back(ir::reference_zeros(type));
    for (double& x : parts(numbers.back())) {
      x = low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
      if (is_single(type.dtype)) x = static_cast<double>(static_cast<float>(x));
    }
  }
  return numbers;
}

/// The last numbers are what was closed over.
Numbers with_closed(Numbers numbers, std::span<const Array> closed) {
  const std::size_t first = numbers.size() - closed.size();
  for (std::size_t i = 0; i < closed.size(); ++i) {
    const Array& array = closed[i];
    if (!array.is_traced() && array.dtype() != DType::key) {
      numbers[first + i] = ir::reference_from_bytes(array.type(), array.to_bytes());
    }
    const auto same = std::ranges::find_if(closed, [&](const Array& other) { return other.state() == array.state(); });
    const auto j = static_cast<std::size_t>(same - closed.begin());
    if (j < i) numbers[first + i] = numbers[first + j];
  }
  return numbers;
}

/// The real part, as cotangents pair with tangents.
double product(const Numbers& a, const Numbers& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_complex(a[i].type.dtype)) {
      for (std::size_t k = 0; k < a[i].complexes().size(); ++k) {
        total += (a[i].complexes()[k] * b[i].complexes()[k]).real();
      }
      continue;
    }
    for (std::size_t k = 0; k < a[i].floats().size(); ++k) total += a[i].floats()[k] * b[i].floats()[k];
  }
  return total;
}

Numbers only_inexact(Numbers numbers) {
  std::erase_if(numbers, [](const ir::ReferenceArray& x) { return !is_inexact(x.type.dtype); });
  return numbers;
}

Numbers followed_by(Numbers a, const Numbers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

void check_rule(std::string_view op, const ir::FunctionPtr& function, std::span<const Array> closed, bool forward) {
  if (!can_check(*function)) return;
  const std::size_t arguments = function->inputs().size() - closed.size();
  std::vector<bool> active;
  bool fine = true;
  const std::vector<ArrayType> types = function->input_types();
  std::vector<ArrayType> direction_types;
  for (std::size_t i = 0; i < types.size(); ++i) {
    active.push_back(i < arguments && is_inexact(types[i].dtype));
    if (active[i]) direction_types.push_back(types[i]);
    fine = fine && !is_single(types[i].dtype);
  }
  if (direction_types.empty()) return;
  std::mt19937_64 bits(1);
  const Numbers x = with_closed(drawn_numbers(types, bits, 0.25, 1), closed);
  const Numbers dx = drawn_numbers(direction_types, bits, -1, 1);
  const double step = fine ? 1e-5 : 1e-2;
  const auto at = [&](double h) {
    Numbers moved = x;
    std::size_t next = 0;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      if (!active[i]) continue;
      ir::ReferenceArray direction = dx[next++];
      const std::span<double> to = parts(moved[i]), by = parts(direction);
      for (std::size_t k = 0; k < by.size(); ++k) to[k] += h * by[k];
    }
    return only_inexact(run_on(function, moved));
  };
  const Numbers up = at(step), down = at(-step);
  std::vector<ArrayType> result_types;
  for (const ir::ReferenceArray& y : up) result_types.push_back(y.type);
  const Numbers weights = drawn_numbers(result_types, bits, -1, 1);
  const double expected = (product(weights, up) - product(weights, down)) / (2 * step);
  double given = 0;
  if (forward) {
    const Numbers all = run_on(transform::jvp(function, active), followed_by(x, dx));
    given = product(weights, {all.end() - static_cast<std::ptrdiff_t>(weights.size()), all.end()});
  } else {
    const Numbers all = run_on(transform::vjp(function, active), followed_by(x, weights));
    given = product(dx, {all.end() - static_cast<std::ptrdiff_t>(dx.size()), all.end()});
  }
  const double allowed = (fine ? 1e-5 : 5e-2) * std::max({1.0, std::abs(expected), std::abs(given)});
  if (!std::isfinite(expected) || std::abs(given - expected) <= allowed) return;
  throw DerivativeError(
      fmt::format("{}: the rule gives {} along a random direction where differences of the function give {}, more than "
                  "the {} allowed "
                  "apart. Correct the rule, or, where it means another derivative, pass {{.check = RuleCheck::never}}",
                  op, given, expected, allowed));
}

}  // namespace lockstep::api
