#pragma once

#include <cstdint>

// What attention does row by row between its products: one row holds what one query makes of a range of keys.
namespace lockstep::backend::cpu {

/// Matrices of rows are as many floats wide as whole vectors of this width need, so that no loop has a remainder.
constexpr std::int64_t row_width = 16;
constexpr std::int64_t most_rows = 128;

/// Rows of consecutive queries of one head, over a range of keys. Bias and mask point at the first row's place of key 0.
struct AttentionRows {
  std::int64_t rows, first_query, keys, first_key;
  std::int64_t stride;       ///< From row to row, a multiple of row_width.
  std::int64_t left, right;  ///< Of the window; -1: no bound.
  float scale;
  const float* bias;
  std::int64_t bias_row, bias_key;  ///< Steps from query to query and from key to key; the latter is 0 or 1.
  const bool* mask;
  std::int64_t mask_row, mask_key;
  std::int64_t saved_row;  ///< From query to query in the log-sum-exps.
  float* weights;          ///< The rows; products of queries with keys when a function below begins.
};

/// How many keys of the range there are up to the last one that the mask shows any of the rows.
std::int64_t keys_up_to_last_seen(const AttentionRows& block);

/// Products become weights e^(logit - largest logit), 0 for what is not seen. `inverse` gets 1 / their sum for each row;
/// 0 where nothing of the range is seen, and `saved` is left alone there. Else it gets the log-sum-exps.
void soften(const AttentionRows& block, float* inverse, float* saved);

/// Products become weights e^(logit - saved), 0 for what is not seen, divided by the row's sum: beside large logits the
/// saved log-sum-exp has lost it. `seen` says for each row whether there is any.
void weigh(const AttentionRows& block, const float* saved, bool* seen);

/// `products`, of cotangents with values, become scale * weight * (product + constant of the row), the cotangents of the
/// products of queries with keys, 0 for what is not seen. Without the scale they are added to `bias`, laid out like the
/// bias.
void differentiate(const AttentionRows& block, float* products, const float* constants, float* bias);

/// rows[i] *= factors[i], rows of `count` floats.
void scale_rows(float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, const float* factors);

/// sums[i] = the product of a row of a with that of b, added up in 64 parts, these by halves and pairs.
void multiply_rows(const float* a, const float* b, std::int64_t number, std::int64_t stride, std::int64_t count,
                   float* sums);

/// sum = the rows' sum, one after the other.
void add_up_rows(const float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, float* sum);

/// Each row += factor * x.
void add_to_rows(float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, const float* x,
                 float factor);

}  // namespace lockstep::backend::cpu
