#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/losses.h>

namespace lockstep {

/// Mean of values [B] under row weights.
LOCKSTEP_API Weighted mean_metric(const ArrayOperand& values, const Array& weight = {});
/// Share of rows whose largest logit is the label's (integer labels [B, ...], or dense ones by their argmax). Labels that
/// are no class are NaN or ignored as in softmax_cross_entropy (`LabelOptions`), and so are dense rows of zeros NaN, as
/// one_hot makes of such labels. Throws ShapeError for logits without rows, ValueError for an ignore_index with dense
/// labels.
LOCKSTEP_API Weighted accuracy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight = {},
                               const LabelOptions& options = {});
/// Share of rows whose label is among the k largest logits; labels and errors as of accuracy.
LOCKSTEP_API Weighted top_k_accuracy(const ArrayOperand& logits, const ArrayOperand& labels, std::int64_t k,
                                     const Array& weight = {}, const LabelOptions& options = {});

/// sum / weight in at least float32, 0 where the weight is 0; inside a map reduced over the batch axes first. Throws
/// MeshError where one of the two is reduced and the other is not.
LOCKSTEP_API Array value(const Weighted& weighted);

/// A running metric on the host: batches' sums and weights in double.
class LOCKSTEP_API Mean {
 public:
  void update(const Weighted& batch);
  double result() const;
  void reset();

 private:
  double sum_ = 0;
  double weight_ = 0;
};

}  // namespace lockstep
