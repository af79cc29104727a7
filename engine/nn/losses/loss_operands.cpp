#include "engine/nn/losses/loss_operands.h"

#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/parallel.h>

namespace lockstep::nn {
namespace {

bool leads(const Array& weight, const Array& x) {
  if (!weight.has_value() || weight.ndim() == 0 || weight.ndim() > x.ndim()) return false;
  for (int i = 0; i < weight.ndim(); ++i) {
    if (weight.dim(i) != x.dim(i)) return false;
  }
  return true;
}

/// With dimensions of extent 1 behind, so that it broadcasts to x.
Array in_front_of(const Array& leading, const Array& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.ndim()), 1);
  for (int i = 0; i < leading.ndim(); ++i) shape[static_cast<std::size_t>(i)] = leading.dim(i);
  return reshape(leading, shape);
}

}  // namespace

Array wide(const Array& x) {
  if (is_complex(x.dtype())) return x;
  return convert(x, is_float(x.dtype()) ? promote(x.dtype(), float32) : float32);
}

void check_real(std::string_view of, std::string_view what, const Array& x) {
  if (!is_complex(x.dtype())) return;
  throw DtypeError("[" + std::string(of) + "] the " + std::string(what) + " are " + to_string(x.type()) +
                   "; give real numbers, abs(x), real(x) or imag(x)");
}

Array counting(const Array& x, const Array& weight) {
  if (!leads(weight, x)) return {};
  return in_front_of(stop_gradient(weight) != 0, x);
}

Array counted(const Array& x, const Array& weight) {
  const Array counts = counting(x, weight);
  return counts.has_value() ? where(counts, x, zeros({}, x.dtype())) : x;
}

Array element_weights(const LossCall& of, const Array& x) {
  const DType dtype = is_float(x.dtype()) ? promote(x.dtype(), float32) : float32;
  if (of.weight.has_value()) check_real(of.name, "weights", of.weight);
  if (!of.weight.has_value()) return pvary(ones(x.shape(), dtype), x.type().varying);
  if (!leads(of.weight, x)) {
    throw ShapeError("[" + std::string(of.name) + "] the operands have shape " + to_string(x.shape()) +
                     ", the weights " + to_string(of.weight.shape()) +
                     "; give one weight per row, or weights of another leading part of that shape");
  }
  return broadcast_to(in_front_of(stop_gradient(convert(of.weight, dtype)), x), x.shape());
}

void check_equal_shapes(std::string_view of, const Array& predictions, const Array& targets) {
  if (predictions.shape() == targets.shape()) return;
  throw ShapeError("[" + std::string(of) + "] predictions are " + to_string(predictions.type()) + ", targets " +
                   to_string(targets.type()) + "; give both one shape");
}

std::pair<Array, Array> number_operands(const LossCall& of, const Array& predictions, const Array& targets) {
  check_equal_shapes(of.name, predictions, targets);
  check_real(of.name, "predictions", predictions);
  check_real(of.name, "targets", targets);
  const DType dtype = is_float(predictions.dtype()) ? predictions.dtype()
                      : is_float(targets.dtype())   ? targets.dtype()
                                                    : float32;
  const Array x = wide(convert(predictions, dtype));
  return {counted(x, of.weight), counted(convert(targets, x.dtype()), of.weight)};
}

Array by_label(const Array& labels, const Array& above, const Array& others) {
  const Array chosen = where(labels > 0, above, others);
  if (!is_float(labels.dtype())) return chosen;
  // A factor, not a choice: the derivative must be NaN as well.
  return chosen * where(isnan(labels), full({}, std::numeric_limits<double>::quiet_NaN(), chosen.dtype()), 1);
}

void check_option(bool holds, std::string_view of, std::string_view what, double value, std::string_view expected) {
  if (holds) return;
  throw ValueError(fmt::format("[{}] {} is {}; it must be {}", of, what, value, expected));
}

Axes all_but_first(const Array& x) {
  Axes axes;
  for (int i = 1; i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

}  // namespace lockstep::nn
