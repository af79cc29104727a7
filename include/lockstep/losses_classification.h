#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/weighted.h>

// Losses of classes: logits or probabilities against integer labels or dense ones. Weights: `weighted` in weighted.h. All
// throw DtypeError for complex numbers.
namespace lockstep {

/// What integer labels mean beside the classes 0 to C - 1. Whatever else is there has no meaning: its row's value is
/// NaN, and so is the gradient by its logits; it is never taken for class 0 or C - 1, and never counted from the end.
struct LabelOptions {
  /// The label of what has none (often -1 or -100): it has weight 0, whatever its logits are. A row of several labels
  /// then weighs as much as the part of them that counts, so that the mean is over the labels that count. Weights of the
  /// labels' shape may hold anything there: `take(class_weights, labels, 0)` does.
  std::optional<std::int64_t> ignore_index = {};
};

/// Options of the cross entropies over classes.
struct CrossEntropyOptions {
  std::optional<std::int64_t> ignore_index = {};  ///< As in LabelOptions; of integer labels.
  /// In [0, 1): labels become (1 - s) labels + s / C. Szegedy et al. 2016.
  double label_smoothing = 0;
  /// false: predictions are probabilities. They are divided by their sum and limited to [1e-7, 1 - 1e-7].
  bool from_logits = true;
};

/// Rows of logits [B, ..., C] against integer labels [B, ...] or dense ones [B, ..., C] (by dtype). Stable for any
/// logits: a class of logit -inf adds nothing where no probability is expected of it, one of +inf leaves nothing to the
/// others, and an almost certain class still has its loss and gradient; float16 and bfloat16 are computed in float32.
/// Throws ShapeError for other shapes, ValueError for an ignore_index with dense labels and for options out of range.
LOCKSTEP_API Weighted softmax_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels,
                                            const Array& weight = {}, const CrossEntropyOptions& options = {});
/// softmax_cross_entropy + epsilon (1 - sum of labels times softmax(logits)). Labels and errors as there. Leng et al.,
/// "PolyLoss", 2022.
LOCKSTEP_API Weighted poly_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels,
                                         const Array& weight = {}, double epsilon = 2.0,
                                         const CrossEntropyOptions& options = {});
/// (1 - p^q) / q of the class's probability p = softmax(logits)[class], which a wrong label moves less than a
/// logarithm. Labels and errors as of softmax_cross_entropy, q in (0, 1]; dense labels weigh the classes. Zhang and
/// Sabuncu 2018.
LOCKSTEP_API Weighted generalized_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels,
                                                const Array& weight = {}, double q = 0.5,
                                                const CrossEntropyOptions& options = {});

/// Options of binary_cross_entropy.
struct BinaryOptions {
  double label_smoothing = 0;  ///< In [0, 1): labels become (1 - s) y + s / 2.
  /// false: predictions are probabilities, limited to [1e-7, 1 - 1e-7].
  bool from_logits = true;
  double positive_weight = 1;  ///< Multiplies what y = 1 costs; above 0.
};
/// -y log(p) - (1 - y) log(1 - p) with p = sigmoid(logits), averaged over each row; logits and labels y in [0, 1] of
/// one shape (else ShapeError). Stable for any logits: an infinite one that is right costs nothing. Throws ValueError
/// for options out of range.
LOCKSTEP_API Weighted binary_cross_entropy(const ArrayOperand& logits, const ArrayOperand& labels,
                                           const Array& weight = {}, const BinaryOptions& options = {});

/// Options of the focal losses.
struct FocalOptions {
  double gamma = 2;  ///< What is almost right counts (1 - p)^gamma; 0: a cross entropy. Not negative.
  /// Of binary ones, what y = 1 counts; y = 0 counts 1 - alpha. Of classes, a factor. In [0, 1].
  std::optional<double> alpha = {};
  double label_smoothing = 0;  ///< As of the cross entropies.
  bool from_logits = true;     ///< false: predictions are probabilities, as of the cross entropies.
};
/// (1 - p)^gamma binary_cross_entropy, p the probability of what is right: y p + (1 - y)(1 - p). Shapes and errors as
/// there. Lin et al. 2017.
LOCKSTEP_API Weighted sigmoid_focal(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight = {},
                                    const FocalOptions& options = {});
/// -sum over classes of labels (1 - p)^gamma log(p), p = softmax(logits). Labels and errors as of
/// softmax_cross_entropy.
LOCKSTEP_API Weighted softmax_focal(const ArrayOperand& logits, const ArrayOperand& labels, const Array& weight = {},
                                    const FocalOptions& options = {}, const LabelOptions& label_options = {});

/// max(margin - y s, 0) of scores s, where y is 1 for labels above 0 and else -1: labels are {-1, 1} or {0, 1}, both of
/// one shape with the scores. Margin 0 makes it the perceptron's loss. Throws ValueError for a negative margin. Cortes and
/// Vapnik 1995.
LOCKSTEP_API Weighted hinge(const ArrayOperand& scores, const ArrayOperand& labels, const Array& weight = {},
                            double margin = 1.0);
/// Its square, which has a derivative everywhere.
LOCKSTEP_API Weighted squared_hinge(const ArrayOperand& scores, const ArrayOperand& labels, const Array& weight = {},
                                    double margin = 1.0);
/// max(1 + the largest other score - the label's, 0) of scores [B, ..., C] and labels as of softmax_cross_entropy,
/// dense ones by their argmax, NaN for a row of zeros. Crammer and Singer 2001.
LOCKSTEP_API Weighted multiclass_hinge(const ArrayOperand& scores, const ArrayOperand& labels, const Array& weight = {},
                                       const LabelOptions& options = {});
/// What sparsemax, the nearest point of the simplex to the scores, has in place of a softmax's cross entropy: 0, with
/// gradient 0, where the label's score is 1 or more above all others. Scores and labels as of multiclass_hinge. Martins
/// and Astudillo 2016.
LOCKSTEP_API Weighted sparsemax_loss(const ArrayOperand& scores, const ArrayOperand& labels, const Array& weight = {},
                                     const LabelOptions& options = {});

/// Options of kl_divergence.
struct KlOptions {
  bool log_predictions = true;  ///< Whether predictions are logarithms, as log_softmax gives; else probabilities.
  bool log_targets = false;     ///< Whether targets are logarithms.
  double epsilon = 1e-7;        ///< Probabilities of the predictions are at least that. Not negative.
};
/// sum over the last dimension of t log(t / p): [B, ..., C] each (else ShapeError). A target of 0 adds 0. Kullback and
/// Leibler 1951.
LOCKSTEP_API Weighted kl_divergence(const ArrayOperand& predictions, const ArrayOperand& targets,
                                    const Array& weight = {}, const KlOptions& options = {});

/// Options of tversky.
struct TverskyOptions {
  double alpha = 0.5;     ///< Of what is predicted and not there,
  double beta = 0.5;      ///< and of what is there and not predicted. Neither is negative.
  double smoothing = 1;   ///< Added above and below: an empty row that is found empty costs 0. Above 0.
  bool per_class = true;  ///< Channels [B, ..., C] each alone, then averaged; false: all of a row together.
};
/// 1 - (I + s) / (I + alpha (sum p - I) + beta (sum y - I) + s), I = sum p y over each row: probabilities p and labels
/// y in [0, 1], both [B, ..., C] (else ShapeError). Salehi et al. 2017.
LOCKSTEP_API Weighted tversky(const ArrayOperand& probabilities, const ArrayOperand& labels, const Array& weight = {},
                              const TverskyOptions& options = {});
/// Options of dice.
struct DiceOptions {
  double smoothing = 1;   ///< As of tversky.
  bool per_class = true;  ///< As of tversky.
  bool squared = false;   ///< sum p^2 + sum y^2 below, as Milletari et al. 2016 have it.
};
/// 1 - (2 I + s) / (sum p + sum y + s); shapes and errors as of tversky.
LOCKSTEP_API Weighted dice(const ArrayOperand& probabilities, const ArrayOperand& labels, const Array& weight = {},
                           const DiceOptions& options = {});

}  // namespace lockstep
