#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/activations.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/parallel_layers.h>
#include <lockstep/reductions.h>

#include "engine/nn/parallel/sequence_blocks.h"

namespace lockstep::detail {

namespace {

/// Extents of a mixture: rows, tokens of each, experts in all, choices of a token, tokens an expert takes of a row.
struct Extents {
  std::int64_t rows = 0, tokens = 0, experts = 0, choices = 0, room = 0;
};

Extents mixture_extents(const Array& x, const Array& logits, const MixtureOptions& options) {
  if (x.ndim() != 3 || logits.ndim() != 3 || x.dim(0) != logits.dim(0) || x.dim(1) != logits.dim(1) ||
      !is_float(x.dtype()) || !is_float(logits.dtype())) {
    throw ShapeError(
        fmt::format("mixture_of_experts: tokens {} do not go with logits {}; give floats [N, T, features] "
                    "and [N, T, experts]",
                    to_string(x.type()), to_string(logits.type())));
  }
  const std::int64_t experts = logits.dim(2), tokens = x.dim(1);
  if (options.top_k < 1 || options.top_k > experts) {
    throw ValueError(
        fmt::format("mixture_of_experts: top_k is {}; give 1 to {}, the number of experts", options.top_k, experts));
  }
  if (!(options.capacity_factor > 0)) {
    throw ValueError(
        fmt::format("mixture_of_experts: capacity_factor is {}; it must be above 0", options.capacity_factor));
  }
  const double share =
      options.capacity_factor * static_cast<double>(options.top_k * tokens) / static_cast<double>(experts);
  const auto room = static_cast<std::int64_t>(std::min(std::ceil(share), static_cast<double>(tokens)));
  return {x.dim(0), tokens, experts, options.top_k, std::max<std::int64_t>(room, 1)};
}

void check_experts(const Tree& experts, const Extents& extents, const MixtureOptions& options) {
  const std::int64_t n = options.axis.empty() ? 1 : axis_size(options.axis);
  static_cast<void>(map_with_path(
      [&](const std::string& path, const Array& leaf) {
        if (leaf.ndim() == 0 || leaf.dim(0) * n != extents.experts) {
          throw ShapeError(fmt::format(
              "mixture_of_experts: the experts' '{}' is {} on each of {} replicas, but the logits are of {} "
              "experts; stack them along dimension 0 and cut that along the axis",
              path, to_string(leaf.type()), n, extents.experts));
        }
        return leaf;
      },
      experts));
}

/// Where each choice goes. All [N, k T], the first choices of all tokens before the second ones.
struct Routes {
  Array slot;   ///< expert * room + place; outside of all of them where there is no place.
  Array gate;   ///< Weight of the expert's result; 0 where there is no place.
  Array taken;  ///< bool: whether there is.
};

/// [N, T, k] -> [N, k T].
Array by_choice(const Array& x, const Extents& e) {
  return reshape(transpose(x, Axes{0, 2, 1}), {e.rows, e.choices * e.tokens});
}

Routes routes_of(const Array& gates, const Array& chosen, const Array& counts, const Extents& e) {
  const Array expert = by_choice(chosen, e);
  const Array counted = tile(counts, {1, e.choices});
  const Array is_chosen = one_hot(expert, e.experts, int32) * expand_dims(convert(counted, int32), -1);
  const Array before = cumsum(is_chosen, 1) - is_chosen;
  const Array place = sum(before * is_chosen, Axes{-1});
  const Array taken = counted & less(place, e.room);
  const Array slot = where(taken, expert * e.room + place, e.experts * e.room);
  return {slot, where(taken, by_choice(gates, e), 0), taken};
}

/// The token in each slot, [N, experts * room]; the first one that counts in those that are free.
Array tokens_in_slots(const Routes& routes, const Array& counts, const Extents& e) {
  const Array first = argmax(convert(counts, int32), 1);
  const Array free = broadcast_to(expand_dims(first, -1), {e.rows, e.experts * e.room});
  const Array row = iota({e.rows, e.choices * e.tokens}, 0);
  const Array token = remainder(iota({e.rows, e.choices * e.tokens}, 1), e.tokens);
  return at(free, row, routes.slot).set(token);
}

/// Tokens of all experts [N, experts * room, features] through those, on whatever replica they are.
Array through_experts(const Array& tokens, const ExpertFunction& function, const Extents& e, const std::string& axis) {
  const std::int64_t features = tokens.dim(2);
  Array sent = transpose(reshape(tokens, {e.rows, e.experts, e.room, features}), Axes{1, 0, 2, 3});
  sent = reshape(sent, {e.experts, e.rows * e.room, features});
  const Array there = axis.empty() ? sent : all_to_all(sent, axis, 0, 1);
  const Array made = function(there);
  if (made.ndim() != 3 || made.dim(0) != there.dim(0) || made.dim(1) != there.dim(1)) {
    throw ShapeError(
        fmt::format("mixture_of_experts: an expert is given [{}, {}] and returns, for all, {}; it must return "
                    "one row for each",
                    there.dim(1), there.dim(2), to_string(made.type())));
  }
  const Array back = axis.empty() ? made : all_to_all(made, axis, 1, 0);
  const Array by_row = transpose(reshape(back, {e.experts, e.rows, e.room, made.dim(2)}), Axes{1, 0, 2, 3});
  return reshape(by_row, {e.rows, e.experts * e.room, made.dim(2)});
}

/// Rows table[n, indices[n, i]] of each n.
Array rows_at(const Array& table, const Array& indices) {
  return at(table, iota(indices.shape(), 0), indices).get(IndexMode::promise_in_bounds);
}

Array load_balance_of(const Array& probabilities, const Array& chosen, const Array& counts, const Extents& e) {
  const Array counted = convert(counts, probabilities.dtype());
  const Array total = maximum(sum(counted, Axes{1}, true), 1);
  const Array first = one_hot(squeeze(slice_in_dim(chosen, 0, 1, 2), {2}), e.experts, probabilities.dtype());
  const auto mean_of = [&](const Array& x) { return sum(x * expand_dims(counted, -1), Axes{1}) / total; };
  return sum(stop_gradient(mean_of(first)) * mean_of(probabilities), Axes{-1}) * static_cast<double>(e.experts);
}

}  // namespace

MixtureResult mixture_of_experts(const Array& x, const Array& logits, const Tree& experts,
                                 const ExpertFunction& function, const MixtureOptions& options) {
  const Extents e = mixture_extents(x, logits, options);
  if (!options.axis.empty()) nn::check_cut("mixture_of_experts", "batch", x, options.axis);
  check_experts(experts, e, options);
  if (options.mask && (options.mask->dtype() != DType::bool_ || !(options.mask->shape() == Shape{e.rows, e.tokens}))) {
    throw ShapeError(fmt::format("mixture_of_experts: mask is {}; give bool[{}, {}], one for each token",
                                 to_string(options.mask->type()), e.rows, e.tokens));
  }
  const Array counts = options.mask ? *options.mask : full({e.rows, e.tokens}, true, DType::bool_);
  const DType wide = logits.dtype() == DType::float64 ? DType::float64 : DType::float32;
  const Array probabilities = softmax(where(expand_dims(counts, -1), convert(logits, wide), 0), -1);
  const auto [largest, chosen] = top_k(probabilities, e.choices);
  const Array gates = e.choices > 1 ? largest / sum(largest, Axes{-1}, true) : largest;

  const Routes routes = routes_of(gates, convert(chosen, int32), counts, e);
  Array tokens = rows_at(x, tokens_in_slots(routes, counts, e));
  // A row of which no token counts has none to fill room with.
  if (options.mask) tokens = where(reshape(lockstep::any(counts, Axes{1}), {e.rows, 1, 1}), tokens, 0);
  const Array made = through_experts(tokens, function, e, options.axis);
  const Array slot = minimum(routes.slot, e.experts * e.room - 1);
  const Array found_rows = where(expand_dims(routes.taken, -1), rows_at(made, slot), 0);
  const Array of_choices = found_rows * expand_dims(convert(routes.gate, made.dtype()), -1);
  const Array y = sum(reshape(of_choices, {e.rows, e.choices, e.tokens, made.dim(2)}), Axes{1});
  const Array asked = maximum(sum(convert(counts, wide), Axes{1}) * static_cast<double>(e.choices), 1);
  const Array found = sum(convert(routes.taken, wide), Axes{1});
  const Array any = convert(lockstep::any(counts, Axes{1}), wide);
  return {y, load_balance_of(probabilities, convert(chosen, int32), counts, e), any - found / asked};
}

}  // namespace lockstep::detail
