#include "engine/optim/moments.h"

#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/optim/scaled_norm.h"

namespace lockstep::optim {

namespace {

[[noreturn]] void refuse_shapes(const std::string& path, const Array& x, const Array& y) {
  throw ShapeError(
      fmt::format("[optim] leaf '{}' is {} in one tree and {} in the other; expected one shape: give "
                  "gradients of the parameters, and the state that `init` made of them",
                  path, to_string(x.type()), to_string(y.type())));
}

}  // namespace

Tree map_pairs(const std::function<Array(const Array&, const Array&)>& f, const Tree& a, const Tree& b) {
  return map_fitting([](const Array& x, const Array& y) { return x.shape() == y.shape(); }, refuse_shapes, f, a, b);
}

void check_pairs(const Tree& tree, const Tree& other) {
  const auto fits = [](const Array& x, const Array& y) { return y.ndim() == 0 || x.shape() == y.shape(); };
  static_cast<void>(map_fitting(
      fits, refuse_shapes, [](const Array& x, const Array&) { return x; }, tree, other));
}

Tree widened(const Tree& tree) { return map(wide, tree); }

Tree zeros_of(const Tree& params) {
  return map([](const Array& p) { return zeros_like(wide(p)); }, params);
}

Tree real_slots_of(const Tree& params, double value) {
  return map([value](const Array& p) { return full(p.shape(), value, real(wide(p)).dtype()); }, params);
}

Array decaying(const Array& average, Sign sign) {
  if (!is_float(average.dtype())) return average;
  const double smallest_normal = average.dtype() == float64 ? std::numeric_limits<double>::min()
                                                            : static_cast<double>(std::numeric_limits<float>::min());
  return where((sign == Sign::any ? abs(average) : average) < smallest_normal, 0.0, average);
}

Array magnitude_squared(const Array& g) { return is_complex(g.dtype()) ? square(real(g)) + square(imag(g)) : g * g; }

Tree next_averages(double decay, const Tree& averages, const Tree& gradients) {
  return map_pairs(
      [decay](const Array& m, const Array& g) { return decaying(decay * wide(m) + (1.0 - decay) * wide(g)); }, averages,
      gradients);
}

Tree next_square_averages(double decay, const Tree& averages, const Tree& gradients) {
  const auto next = [decay](const Array& v, const Array& g) {
    return decaying(decay * wide(v) + (1.0 - decay) * magnitude_squared(wide(g)), Sign::positive);
  };
  return map_pairs(next, averages, gradients);
}

Array first_count() { return full({}, 0, int32); }

Array correction(double decay, const Array& count) {
  return 1.0 / (1.0 - pow(full({}, decay, float64), convert(count, float64)));
}

Array leaf_norm(const Array& x) { return scaled_norm(x).value(); }
Array leaf_rms(const Array& x) { return scaled_rms(x).value(); }

}  // namespace lockstep::optim
