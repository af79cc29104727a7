#include <string>
#include <string_view>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "engine/nn/metrics/metric_sums.h"

namespace lockstep {
namespace nn {

Array reduced(std::string_view of, const Array& x) {
  const AxisSet axes = x.type().varying;
  detail::check_no_mapped_rows(
      of, axes,
      "give local_value for the mean of one row, or where the vmap is over models reduce before it: "
      "value(Weighted{psum(sum, axes), psum(weight, axes)})");
  return axes.empty() ? x : psum(x, axes);
}

Array total_sums(std::string_view of, const Weighted& sums, std::int64_t rows, std::string_view made_by) {
  check_reduced_alike(of, sums);
  const Array& sum = sums.sum;
  if (sum.ndim() != 2 || sum.dim(0) != (rows == 0 ? sum.dim(1) : rows)) {
    throw ShapeError("[" + std::string(of) + "] the sums are " + to_string(sum.type()) + "; give those of " +
                     std::string(made_by));
  }
  return reduced(of, convert(sum, float64));
}

Array ratio(const Array& a, const Array& b) { return where(b == 0, 0, a / where(b == 0, 1, b)); }

}  // namespace nn

namespace {

/// Narrower dtypes cannot hold a sum over many rows.
Array in_float32(const Array& x) { return convert(x, promote(x.dtype(), float32)); }

}  // namespace

Weighted mean_metric(const ArrayOperand& values, const Array& weight) { return weighted(values, weight); }

Array value(const Weighted& weighted) {
  check_reduced_alike("value", weighted);
  const Array weight = nn::reduced("value", in_float32(weighted.weight));
  const Array total = nn::reduced("value", in_float32(weighted.sum));
  return nn::ratio(total, weight);
}

Array local_value(const Weighted& weighted) {
  check_reduced_alike("local_value", weighted);
  return nn::ratio(in_float32(weighted.sum), in_float32(weighted.weight));
}

Weighted merged(const Weighted& a, const Weighted& b) {
  if (a.sum.shape() != b.sum.shape() || a.weight.shape() != b.weight.shape()) {
    throw ShapeError("[merged] the sums are " + to_string(a.sum.type()) + " and " + to_string(b.sum.type()) +
                     "; give those of one metric");
  }
  const auto total = [](const Array& x, const Array& y) { return convert(x, float64) + convert(y, float64); };
  return {total(a.sum, b.sum), total(a.weight, b.weight)};
}

void Mean::update(const Weighted& batch) {
  sum_ += batch.sum.item<double>();
  weight_ += batch.weight.item<double>();
}

double Mean::result() const { return weight_ == 0 ? 0 : sum_ / weight_; }

void Mean::reset() {
  sum_ = 0;
  weight_ = 0;
}

}  // namespace lockstep
