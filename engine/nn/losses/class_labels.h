#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/losses_classification.h>

// What losses and metrics make of integer class labels.
namespace lockstep::nn {

struct ClassLabels {
  Array classes;  ///< int32 or int64 in [0, C); 0 in place of what is no class.
  Array known;    ///< bool: whether it is a class, or one to ignore.
  Array counted;  ///< bool: whether it is none to ignore. Empty where the caller names none.
};

/// Labels among `classes` of any integer dtype. Throws DtypeError for labels that are no integers.
ClassLabels class_labels(std::string_view of, const Array& labels, std::int64_t classes, const LabelOptions& options);

/// The largest of each row of dense labels [B, ..., C]; rows of zeros, and those with a NaN, name none.
ClassLabels classes_named_by(const Array& dense);

/// The classes that integer labels [B, ...] or dense ones [B, ..., C] name. Throws ShapeError for labels of another
/// shape, which would be repeated over the scores' rows.
ClassLabels labels_of(std::string_view of, const Array& labels, const Array& scores, const LabelOptions& options);

/// Values of the labels, NaN where a label is unknown (so is the derivative by what the values are made of).
Array with_unknown_as_nan(const Array& values, const ClassLabels& labels);

/// As weighted(values, weight), with weight 0 for labels to ignore: a row of several labels weighs as much as the part
/// of them that counts.
Weighted weighted_labels(const Array& values, const ClassLabels& labels, const Array& weight);

/// Throws ValueError where options for integer labels come with dense ones.
void check_dense(std::string_view of, const Array& labels, const LabelOptions& options);

}  // namespace lockstep::nn
