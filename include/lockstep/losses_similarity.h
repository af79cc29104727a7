#pragma once

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/weighted.h>

// Losses of embeddings, vectors along the last dimension. Weights: `weighted` in weighted.h. All throw ShapeError where
// operands do not fit, DtypeError for complex numbers. A label that is NaN makes its pair NaN.
namespace lockstep {

/// 1 - cos of the angle between predictions and targets [B, ..., D]: one value for each pair of vectors. A vector
/// shorter than 1e-6 counts as that long: its cosine with all others is close to 0, and so is its gradient finite.
LOCKSTEP_API Weighted cosine_distance(const ArrayOperand& predictions, const ArrayOperand& targets,
                                      const Array& weight = {});
/// Of pairs with labels [B, ...] above 0 their cosine distance, of others max(cos - margin, 0).
LOCKSTEP_API Weighted cosine_embedding(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& labels,
                                       const Array& weight = {}, double margin = 0.0);
/// Of distances d [B, ...] and labels: d^2 where a label is above 0 (the pair belongs together), else max(margin - d,
/// 0)^2. Throws ValueError for a negative margin. Hadsell, Chopra and LeCun 2006.
LOCKSTEP_API Weighted contrastive(const ArrayOperand& distances, const ArrayOperand& labels, const Array& weight = {},
                                  double margin = 1.0);
/// max(|anchor - positive| - |anchor - negative| + margin, 0) of vectors [B, ..., D], |x| = sqrt(sum x^2 + 1e-6).
/// Throws ValueError for a negative margin. Schroff et al. 2015.
LOCKSTEP_API Weighted triplet_margin(const ArrayOperand& anchors, const ArrayOperand& positives,
                                     const ArrayOperand& negatives, const Array& weight = {}, double margin = 1.0);
/// max(margin - y (a - b), 0), y = 1 where labels are above 0 (a should be the larger one), else -1.
LOCKSTEP_API Weighted margin_ranking(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& labels,
                                     const Array& weight = {}, double margin = 0.0);

// The two below compare each row with all rows of the batch, of all shards: rows and labels of the others are gathered,
// so that the loss does not depend on how the batch is cut. Rows of weight 0 are compared with nothing. Microbatches do
// not see one another: a MeshError says so.

/// For each pair of rows with one label, -log(exp(s / t) / (exp(s / t) + the sum over rows of other labels)), s their
/// cosine: embeddings [B, D], integer labels [B]; the mean is over pairs. Throws ValueError unless the temperature is
/// above 0. Chen et al., "A simple framework for contrastive learning", 2020.
LOCKSTEP_API Weighted ntxent(const ArrayOperand& embeddings, const ArrayOperand& labels, const Array& weight = {},
                             double temperature = 0.07);

/// Options of circle.
struct CircleOptions {
  double gamma = 80;    ///< Scale of cosines; above 0.
  double margin = 0.4;  ///< How far from 1 and 0 cosines may be.
};
/// log(1 + sum over rows of other labels of exp(l_n) * sum over rows of its label of exp(l_p)) for each row that has
/// both, l_n = gamma max(s + m, 0) (s - m), l_p = -gamma max(1 + m - s, 0) (s - 1 + m): embeddings [B, D], integer
/// labels [B]. The factors in front pass no derivative. Sun et al. 2020.
LOCKSTEP_API Weighted circle(const ArrayOperand& embeddings, const ArrayOperand& labels, const Array& weight = {},
                             const CircleOptions& options = {});

}  // namespace lockstep
