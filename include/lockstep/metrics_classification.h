#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/losses_classification.h>
#include <lockstep/weighted.h>

// Metrics of classes, see metrics.h.
namespace lockstep {

/// Share of rows whose largest logit is the label's (integer labels [B, ...], or dense ones by their argmax). Labels
/// that are no class are NaN or ignored as in softmax_cross_entropy (`LabelOptions`), and so are dense rows of zeros
/// NaN, as one_hot makes of such labels. Throws ShapeError for logits without rows and for labels of another
/// shape, ValueError for an ignore_index with dense labels.
LOCKSTEP_API Weighted accuracy(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight = {},
                               const LabelOptions& options = {});
/// Share of rows whose label is among the k largest logits; labels and errors as of accuracy, ValueError for a k below 1.
LOCKSTEP_API Weighted top_k_accuracy(const ArrayOperand& logits, const ArrayOperand& labels, std::int64_t k,
                                     const Array& weight = {}, const LabelOptions& options = {});
/// exp of the mean of a cross entropy.
LOCKSTEP_API Array perplexity(const Weighted& cross_entropy);

// Of two classes: predictions above the threshold are positive, and so are labels above 0.5; both of one shape (else
// ShapeError). Ratios of counts: TP, FP, TN and FN are true and false positives and negatives, 0 / 0 is 0.
/// (TP + TN) / all.
LOCKSTEP_API Weighted binary_accuracy(const ArrayOperand& predictions, const ArrayOperand& labels,
                                      const Array& weight = {}, double threshold = 0.5);
/// TP / (TP + FP).
LOCKSTEP_API Weighted precision(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight = {},
                                double threshold = 0.5);
/// TP / (TP + FN), also called sensitivity.
LOCKSTEP_API Weighted recall(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight = {},
                             double threshold = 0.5);
/// TN / (TN + FP).
LOCKSTEP_API Weighted specificity(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight = {},
                                  double threshold = 0.5);
/// (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP); b = 1 makes it F1. Throws ValueError unless beta is above 0.
LOCKSTEP_API Weighted f_score(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight = {},
                              double threshold = 0.5, double beta = 1.0);
/// TP / (TP + FP + FN), the intersection of what is predicted and what is there over their union.
LOCKSTEP_API Weighted binary_iou(const ArrayOperand& predictions, const ArrayOperand& labels, const Array& weight = {},
                                 double threshold = 0.5);

/// Weighted counts [C, C] of (label, predicted class) as `sum`: logits [B, ..., C], whose largest one is the
/// prediction, and labels as of accuracy.
LOCKSTEP_API Weighted confusion_matrix(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight = {},
                                       const LabelOptions& options = {});

// Of a confusion matrix's sums, in float64; one number for each class, 0 where a class has none. All throw ShapeError
// for what is no confusion matrix.
/// Of what is predicted as the class, the share that is it.
LOCKSTEP_API Array class_precision(const Weighted& confusion);
LOCKSTEP_API Array class_recall(const Weighted& confusion);  ///< Of the class, the share that is predicted as it.
LOCKSTEP_API Array class_f1(const Weighted& confusion);      ///< The harmonic mean of the two above.
LOCKSTEP_API Array class_iou(const Weighted& confusion);     ///< Intersection over union.
/// The mean of class_iou over the classes that are labelled or predicted at all.
LOCKSTEP_API Array mean_iou(const Weighted& confusion);
/// Agreement beyond what chance gives, with the same class sizes: 1 is perfect, 0 chance. Cohen 1960.
LOCKSTEP_API Array cohen_kappa(const Weighted& confusion);
/// The correlation of labels and predictions, of any number of classes. Gorodkin 2004.
LOCKSTEP_API Array matthews_correlation(const Weighted& confusion);

}  // namespace lockstep
