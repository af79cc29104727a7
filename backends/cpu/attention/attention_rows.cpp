#include "backends/cpu/attention/attention_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A row is reduced in so many parts, whatever the vector width; these go by halves to row_width, and from there by
/// pairs, for a group of rows at a time.
constexpr std::int64_t parts = 64;
constexpr std::int64_t group = 8;

constexpr std::int64_t whole(std::int64_t count) { return round_up<std::int64_t>(count, row_width); }

/// e^x within 1 unit in the last place for -87.3 <= x <= 88.3. Below -87.7 it is 0, above 88.4 infinite. Cody and
/// Waite's reduction by multiples of log 2, then a polynomial.
inline float exponential(float x) {
  constexpr float log2_e = 1.44269504F, log_2_high = 0.693359375F, log_2_low = -2.12194440e-4F;
  // A sum with it is rounded to an integer k; the exponent's bits of 2^k are then the lowest of the sum.
  constexpr float shift = 0x1.8p23F + 127.0F;
  const float most = x > 88.7F ? 88.7F : x;
  const float within = most < -88.0F ? -88.0F : most;
  const float shifted = std::fma(within, log2_e, shift);
  const float k = shifted - shift;
  const float r = std::fma(k, -log_2_low, std::fma(k, -log_2_high, within));
  float p = 1.9875691500e-4F;
  p = std::fma(p, r, 1.3981999507e-3F);
  p = std::fma(p, r, 8.3334519073e-3F);
  p = std::fma(p, r, 4.1665795894e-2F);
  p = std::fma(p, r, 1.6666665459e-1F);
  p = std::fma(p, r, 5.0000001201e-1F);
  return (std::fma(r * r, p, r) + 1.0F) * std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
}

/// What a group of rows is reduced to.
template <class Join>
class Reduced {
 public:
  Reduced(float none, Join join) : none_(none), join_(join) {
    for (float& x : rows_) x = none;
  }

  /// Joins value(0), ..., value(count - 1) for row i.
  template <class Value>
  void row(std::int64_t i, std::int64_t count, Value value) {
    float joined[parts];
    for (float& x : joined) x = none_;
    for (std::int64_t j = 0; j < count; j += parts) {
      const std::int64_t rest = std::min(parts, count - j);
      for (std::int64_t k = 0; k < rest; ++k) joined[k] = join_(joined[k], value(j + k));
    }
    for (std::int64_t half = parts / 2; half >= row_width; half /= 2) {
      for (std::int64_t k = 0; k < half; ++k) joined[k] = join_(joined[k], joined[k + half]);
    }
    for (std::int64_t k = 0; k < row_width; ++k) rows_[i * row_width + k] = joined[k];
  }

  /// The rows' results.
  void finish(float* results) const {
    float a[group * 8], b[group * 4], c[group * 2];
    for (std::int64_t k = 0; k < group * 8; ++k) a[k] = join_(rows_[2 * k], rows_[2 * k + 1]);
    for (std::int64_t k = 0; k < group * 4; ++k) b[k] = join_(a[2 * k], a[2 * k + 1]);
    for (std::int64_t k = 0; k < group * 2; ++k) c[k] = join_(b[2 * k], b[2 * k + 1]);
    for (std::int64_t k = 0; k < group; ++k) results[k] = join_(c[2 * k], c[2 * k + 1]);
  }

 private:
  float none_;
  Join join_;
  float rows_[group * row_width];
};

/// NaN counts as nothing.
inline auto largest() {
  return Reduced(-infinity, [](float a, float b) { return b > a ? b : a; });
}
inline auto sums() {
  return Reduced(0.0F, [](float a, float b) { return a + b; });
}

/// The keys [begin, end) of a row's range that the window shows, within whole vectors [first, last).
struct Span {
  std::int64_t begin = 0, end = 0, first = 0, last = 0;

  Span() = default;
  Span(const AttentionRows& block, std::int64_t i) {
    const std::int64_t query = block.first_query + i - block.first_key;
    begin = block.left < 0 ? 0 : std::clamp<std::int64_t>(query - block.left, 0, block.keys);
    end = block.right < 0 ? block.keys : std::clamp<std::int64_t>(query + block.right + 1, 0, block.keys);
    first = begin / row_width * row_width;
    last = whole(end);
  }
  bool empty() const { return begin >= end; }

  /// Puts x beside what is shown, within the whole vectors.
  void fill_edges(float* row, float x) const {
    for (std::int64_t j = first; j < begin; ++j) row[j] = x;
    for (std::int64_t j = end; j < last; ++j) row[j] = x;
  }
  /// Puts 0 outside of the whole vectors.
  void clear_rest(const AttentionRows& block, float* row) const {
    std::fill(row, row + first, 0.0F);
    std::fill(row + last, row + whole(block.keys), 0.0F);
  }
};

/// Products become logits, -inf where nothing is seen. False, and undefined logits, where nothing at all is.
inline bool make_logits(const AttentionRows& block, std::int64_t i, const Span& span, float* row) {
  if (span.empty()) return false;
  const float* bias = block.bias + i * block.bias_row + block.first_key * block.bias_key;
  const bool* mask = block.mask + i * block.mask_row + block.first_key * block.mask_key;
  const float scale = block.scale;
  bool any = false;
  if (block.mask_key == 0) {
    any = *mask;
  } else {
    for (std::int64_t j = span.begin; j < span.end; ++j) any |= mask[j];
  }
  if (!any) return false;
  if (block.bias_key == 0) {
    const float offset = *bias;
    for (std::int64_t j = span.first; j < span.last; ++j) row[j] = row[j] * scale + offset;
  } else {
    for (std::int64_t j = span.begin; j < span.end; ++j) row[j] = row[j] * scale + bias[j];
  }
  if (block.mask_key != 0) {
    for (std::int64_t j = span.begin; j < span.end; ++j) row[j] = mask[j] ? row[j] : -infinity;
  }
  span.fill_edges(row, -infinity);
  return true;
}

void soften_rows(const AttentionRows& block, float* inverse, float* saved) {
  for (std::int64_t first = 0; first < block.rows; first += group) {
    const std::int64_t count = std::min(group, block.rows - first);
    bool seen[group];
    float most[group], totals[group];
    auto maxima = largest();
    for (std::int64_t i = 0; i < count; ++i) {
      float* row = block.weights + (first + i) * block.stride;
      const Span span(block, first + i);
      seen[i] = make_logits(block, first + i, span, row);
      if (!seen[i]) continue;
      row += span.first;
      maxima.row(i, span.last - span.first, [row](std::int64_t j) { return row[j]; });
    }
    maxima.finish(most);
    auto weights = sums();
    for (std::int64_t i = 0; i < count; ++i) {
      float* row = block.weights + (first + i) * block.stride;
      const Span span(block, first + i);
      if (!seen[i]) {
        std::fill(row, row + whole(block.keys), 0.0F);
        continue;
      }
      span.clear_rest(block, row);
      row += span.first;
      const float subtracted = most[i];
      for (std::int64_t j = 0; j < span.last - span.first; ++j) row[j] = exponential(row[j] - subtracted);
      weights.row(i, span.last - span.first, [row](std::int64_t j) { return row[j]; });
    }
    weights.finish(totals);
    for (std::int64_t i = 0; i < count; ++i) {
      inverse[first + i] = seen[i] ? 1 / totals[i] : 0;
      if (seen[i]) saved[(first + i) * block.saved_row] = most[i] + std::log(totals[i]);
    }
  }
}

void weigh_rows(const AttentionRows& block, const float* saved, bool* seen) {
  for (std::int64_t first = 0; first < block.rows; first += group) {
    const std::int64_t count = std::min(group, block.rows - first);
    auto weights = sums();
    for (std::int64_t i = 0; i < count; ++i) {
      float* row = block.weights + (first + i) * block.stride;
      const Span span(block, first + i);
      seen[first + i] = make_logits(block, first + i, span, row);
      if (!seen[first + i]) {
        std::fill(row, row + whole(block.keys), 0.0F);
        continue;
      }
      span.clear_rest(block, row);
      row += span.first;
      const float subtracted = saved[(first + i) * block.saved_row];
      for (std::int64_t j = 0; j < span.last - span.first; ++j) row[j] = exponential(row[j] - subtracted);
      weights.row(i, span.last - span.first, [row](std::int64_t j) { return row[j]; });
    }
    float totals[group];
    weights.finish(totals);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!seen[first + i]) continue;
      float* row = block.weights + (first + i) * block.stride;
      const Span span(block, first + i);
      const float inverse = 1 / totals[i];
      for (std::int64_t j = span.first; j < span.last; ++j) row[j] *= inverse;
    }
  }
}

/// Row i of `differentiate` without the scale, and what of it is seen.
inline Span cotangents_of_row(const AttentionRows& block, std::int64_t i, float* __restrict row, float constant) {
  const float* weights = block.weights + i * block.stride;
  Span span(block, i);
  const bool* mask = block.mask + i * block.mask_row + block.first_key * block.mask_key;
  if (span.empty() || (block.mask_key == 0 && !*mask)) span = {};
  for (std::int64_t j = span.first; j < span.last; ++j) row[j] = weights[j] * (row[j] + constant);
  if (block.mask_key != 0) {
    for (std::int64_t j = span.begin; j < span.end; ++j) row[j] = mask[j] ? row[j] : 0.0F;
  }
  span.fill_edges(row, 0.0F);
  span.clear_rest(block, row);
  return span;
}

void differentiate_rows(const AttentionRows& block, float* products, const float* constants, float* bias) {
  for (std::int64_t first = 0; first < block.rows; first += group) {
    const std::int64_t count = std::min(group, block.rows - first);
    auto added = sums();
    for (std::int64_t i = 0; i < count; ++i) {
      float* row = products + (first + i) * block.stride;
      const Span span = cotangents_of_row(block, first + i, row, constants[first + i]);
      if (block.bias_key == 0) {
        added.row(i, span.last - span.first, [from = row + span.first](std::int64_t j) { return from[j]; });
      } else {
        float* to = bias + (first + i) * block.bias_row + block.first_key;
        for (std::int64_t j = span.begin; j < span.end; ++j) to[j] += row[j];
      }
      const float scale = block.scale;
      for (std::int64_t j = span.first; j < span.last; ++j) row[j] *= scale;
    }
    if (block.bias_key != 0) continue;
    float totals[group];
    added.finish(totals);
    for (std::int64_t i = 0; i < count; ++i) bias[(first + i) * block.bias_row] += totals[i];
  }
}

void scale_each_row(float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, const float* factors) {
  for (std::int64_t i = 0; i < number; ++i) {
    float* row = rows + i * stride;
    const float factor = factors[i];
    for (std::int64_t j = 0; j < count; ++j) row[j] *= factor;
  }
}

void multiply_each_row(const float* a, const float* b, std::int64_t number, std::int64_t stride, std::int64_t count,
                       float* results) {
  for (std::int64_t first = 0; first < number; first += group) {
    const std::int64_t rows = std::min(group, number - first);
    auto products = sums();
    for (std::int64_t i = 0; i < rows; ++i, a += stride, b += stride) {
      products.row(i, count, [a, b](std::int64_t j) { return a[j] * b[j]; });
    }
    float totals[group];
    products.finish(totals);
    for (std::int64_t i = 0; i < rows; ++i) results[first + i] = totals[i];
  }
}

void add_up_each_row(const float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, float* sum) {
  std::fill(sum, sum + count, 0.0F);
  for (std::int64_t i = 0; i < number; ++i) {
    for (std::int64_t j = 0; j < count; ++j) sum[j] += rows[i * stride + j];
  }
}

void add_to_each_row(float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, const float* x,
                     float factor) {
  for (std::int64_t i = 0; i < number; ++i) {
    float* row = rows + i * stride;
    for (std::int64_t j = 0; j < count; ++j) row[j] += factor * x[j];
  }
}

}  // namespace

std::int64_t keys_up_to_last_seen(const AttentionRows& block) {
  if (block.mask_key == 0) return block.keys;
  constexpr std::int64_t some = 64;
  std::int64_t seen = 0;
  for (std::int64_t i = 0; i < (block.mask_row == 0 ? 1 : block.rows); ++i) {
    const bool* row = block.mask + i * block.mask_row + block.first_key;
    std::int64_t last = block.keys;
    const auto any = [row](std::int64_t first, std::int64_t end) {
      bool is_seen = false;
      for (std::int64_t j = first; j < end; ++j) is_seen |= row[j];
      return is_seen;
    };
    while (last - some >= seen && !any(last - some, last)) last -= some;
    while (last > seen && !row[last - 1]) --last;
    seen = std::max(seen, last);
  }
  return seen;
}

void soften(const AttentionRows& block, float* inverse, float* saved) {
  static const auto widest = VectorVariants<soften_rows>::chosen();
  widest(block, inverse, saved);
}
void weigh(const AttentionRows& block, const float* saved, bool* seen) {
  static const auto widest = VectorVariants<weigh_rows>::chosen();
  widest(block, saved, seen);
}
void differentiate(const AttentionRows& block, float* products, const float* constants, float* bias) {
  static const auto widest = VectorVariants<differentiate_rows>::chosen();
  widest(block, products, constants, bias);
}
void scale_rows(float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, const float* factors) {
  static const auto widest = VectorVariants<scale_each_row>::chosen();
  widest(rows, number, stride, count, factors);
}
void multiply_rows(const float* a, const float* b, std::int64_t number, std::int64_t stride, std::int64_t count,
                   float* sums) {
  static const auto widest = VectorVariants<multiply_each_row>::chosen();
  widest(a, b, number, stride, count, sums);
}
void add_up_rows(const float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, float* sum) {
  static const auto widest = VectorVariants<add_up_each_row>::chosen();
  widest(rows, number, stride, count, sum);
}
void add_to_rows(float* rows, std::int64_t number, std::int64_t stride, std::int64_t count, const float* x,
                 float factor) {
  static const auto widest = VectorVariants<add_to_each_row>::chosen();
  widest(rows, number, stride, count, x, factor);
}

}  // namespace lockstep::backend::cpu
