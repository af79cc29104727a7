#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/control_flow.h>
#include <lockstep/einsum.h>
#include <lockstep/elementwise.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/parallel_layers.h>
#include <lockstep/remat.h>

#include "engine/nn/parallel/sequence_blocks.h"

namespace lockstep {

namespace {

/// What a query has summed over some keys: the largest logit, the sum of exponentials below it, and that of values
/// under these; [B, K, G, T], the last with H.
using Sums = std::tuple<Array, Array, Array>;

/// As dot_product_attention has it, so that both forms agree where no key is seen.
constexpr double masked_logit = -0.7 * static_cast<double>(std::numeric_limits<float>::max());

/// The largest logit scales sums and cancels in their quotient, so it has no derivative of its own.
Sums sums_of_block(const Array& q, const Array& k, const Array& v, const Array& seen, double scale) {
  const Array logits = where(seen, einsum("btkgh,bskh->bkgts", {q, k}) * scale, masked_logit);
  const Array largest = stop_gradient(max(logits, Axes{-1}));
  const Array p = exp(logits - expand_dims(largest, -1));
  return {largest, sum(p, Axes{-1}), einsum("bkgts,bskh->bkgth", {p, v})};
}

Sums merged_sums(const Sums& a, const Sums& b) {
  const auto& [largest_a, total_a, values_a] = a;
  const auto& [largest_b, total_b, values_b] = b;
  const Array largest = stop_gradient(maximum(largest_a, largest_b));
  const Array scale_a = exp(stop_gradient(largest_a) - largest), scale_b = exp(stop_gradient(largest_b) - largest);
  return {largest, total_a * scale_a + total_b * scale_b,
          values_a * expand_dims(scale_a, -1) + values_b * expand_dims(scale_b, -1)};
}

/// bool, broadcast to [B, K, G, T, S]: which keys of replica `from` this replica's queries see.
Array seen_keys(const nn::SequenceBlocks& blocks, const Array& from, const Array& key_mask) {
  const std::int64_t batch = blocks.key.dim(0), keys = blocks.key.dim(1), queries = blocks.query.dim(1);
  const Array of_mask = reshape(key_mask, {batch, 1, 1, 1, keys});
  if (!blocks.is_causal) return of_mask;
  const Array t = axis_index(blocks.axis) * queries + iota({queries, keys}, 0);
  const Array s = from * keys + iota({queries, keys}, 1);
  return of_mask & reshape(less_equal(s, t), {1, 1, 1, queries, keys});
}

}  // namespace

Array ring_attention(const Array& query, const Array& key, const Array& value,
                     const SequenceAttentionOptions& options) {
  const nn::SequenceBlocks blocks = nn::sequence_blocks("ring_attention", query, key, value, options);
  const std::int64_t n = axis_size(blocks.axis), groups = blocks.query.dim(2) / blocks.key.dim(2);
  const Array q = reshape(blocks.query, {query.dim(0), query.dim(1), key.dim(2), groups, query.dim(3)});
  const auto attended = [&](const std::vector<Array>& moving, const Array& from) {
    const auto sums = [&](const Array& a, const Array& k, const Array& v, const Array& mask, const Array& place) {
      return sums_of_block(a, k, v, seen_keys(blocks, place, mask), blocks.scale);
    };
    return remat(sums)(q, moving[0], moving[1], moving[2], from);
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> ring;
  for (std::int64_t i = 0; i < n; ++i) ring.emplace_back(i, (i + 1) % n);

  using State = std::pair<std::vector<Array>, Sums>;
  const Array own = axis_index(blocks.axis);
  const std::vector<Array> start = {blocks.key, blocks.value, blocks.key_mask};
  const auto step = [&](const Array& i, const State& state) {
    std::vector<Array> moved;
    for (const Array& block : state.first) moved.push_back(ppermute(block, blocks.axis, ring));
    return State(moved, merged_sums(state.second, attended(moved, remainder(own - i + n, n))));
  };
  const State end = fori_loop(1, n, step, State(start, attended(start, own)));
  const auto& [largest, total, values] = end.second;
  const Array y = transpose(values / expand_dims(total, -1), Axes{0, 3, 1, 2, 4});
  return convert(reshape(y, query.shape().to_vector()), query.dtype());
}

}  // namespace lockstep
