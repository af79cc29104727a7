#include "engine/nn/losses/class_labels.h"

#include <limits>
#include <string>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "engine/nn/losses/loss_operands.h"

namespace lockstep::nn {
namespace {

bool fits_int32(std::int64_t x) {
  return x >= std::numeric_limits<std::int32_t>::min() && x <= std::numeric_limits<std::int32_t>::max();
}

/// In a signed dtype that holds every label, the number of classes and the label to ignore.
Array widened(const Array& labels, std::int64_t classes, const LabelOptions& options) {
  const bool narrow = size_of(labels.dtype()) < 4 || labels.dtype() == int32;
  if (narrow && fits_int32(classes) && fits_int32(options.ignore_index.value_or(0))) return convert(labels, int32);
  // What int64 cannot hold is no class.
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  return convert(labels.dtype() == uint64 ? minimum(labels, largest) : labels, int64);
}

}  // namespace

ClassLabels class_labels(std::string_view of, const Array& labels, std::int64_t classes, const LabelOptions& options) {
  if (!is_integer(labels.dtype())) {
    throw DtypeError("[" + std::string(of) + "] the labels are " + to_string(labels.type()) + "; give integers");
  }
  const Array wide = widened(labels, classes, options);
  const Array inside = (wide >= 0) & (wide < classes);
  if (!options.ignore_index) return {where(inside, wide, 0), inside, {}};
  const Array ignored = wide == *options.ignore_index;
  return {where(inside, wide, 0), inside | ignored, ~ignored};
}

ClassLabels labels_of(std::string_view of, const Array& labels, const Array& scores, const LabelOptions& options) {
  const Shape rows = scores.shape().erase(scores.ndim() - 1);
  if (is_integer(labels.dtype()) && labels.shape() == rows) return class_labels(of, labels, scores.dim(-1), options);
  check_real(of, "labels", labels);
  if (labels.shape() != scores.shape()) {
    throw ShapeError("[" + std::string(of) + "] logits are " + to_string(scores.type()) + ", labels " +
                     to_string(labels.type()) + "; give integer labels of shape " + to_string(rows) +
                     " (convert, reshape), or dense ones of the logits' shape");
  }
  check_dense(of, labels, options);
  return classes_named_by(labels);
}

ClassLabels classes_named_by(const Array& dense) {
  const Array some = any(dense != 0, Axes{-1});
  return {argmax(dense, -1), is_float(dense.dtype()) ? some & ~any(isnan(dense), Axes{-1}) : some, {}};
}

Array with_unknown_as_nan(const Array& values, const ClassLabels& labels) {
  // A factor, not a choice: the derivative must be NaN as well.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return values * where(labels.known, full({}, 1.0, values.dtype()), full({}, nan, values.dtype()));
}

Weighted weighted_labels(const Array& values, const ClassLabels& labels, const Array& weight) {
  if (!labels.counted.has_value()) return weighted(values, weight);
  // A class's weight, looked up by its label, is anything where the label is none.
  const bool of_labels = weight.has_value() && weight.shape() == labels.counted.shape();
  const Array counting = of_labels ? where(labels.counted, weight, 0) : weight;
  const Array sum = weighted(where(labels.counted, values, 0), counting).sum;
  const Array share = weighted(convert(labels.counted, sum.dtype()), counting).sum;
  return {sum, pvary(share, sum.type().varying.without(share.type().varying))};
}

void check_dense(std::string_view of, const Array& labels, const LabelOptions& options) {
  if (!options.ignore_index) return;
  throw ValueError("[" + std::string(of) + "] ignore_index is " + std::to_string(*options.ignore_index) +
                   ", the labels are " + to_string(labels.type()) +
                   "; it is for integer labels, one for each row of logits. Give dense rows the weight 0 instead");
}

}  // namespace lockstep::nn
