#include <string>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/losses_similarity.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/reductions.h>
#include <lockstep/sequential_map.h>
#include <lockstep/weighted.h>

#include "engine/nn/losses/cosine.h"
#include "engine/nn/losses/loss_operands.h"

namespace lockstep {
namespace {

/// What pairs cost that belong together by their labels, and what others.
Array by_pair(const nn::LossCall& of, const Array& labels, const Array& together, const Array& apart) {
  const Array& values = together;
  nn::check_real(of.name, "labels", labels);
  if (labels.shape() != values.shape()) {
    throw ShapeError("[" + std::string(of.name) + "] there are pairs of shape " + to_string(values.shape()) +
                     ", labels are " + to_string(labels.type()) + "; give one label for each pair");
  }
  return nn::by_label(nn::counted(labels, of.weight), together, apart);
}

Array above_zero(const Array& x) { return maximum(x, 0); }

/// The rows of the batch and those of all shards.
struct ComparedRows {
  Array cosines;  ///< [own, all]
  Array same;     ///< bool: of one label, and not the same row.
  Array other;    ///< bool: of two labels.
  Array counts;   ///< bool [own, 1]
};

Array of_all_shards(const Array& x) {
  Array all = x;
  for (const std::string& axis : x.type().varying.names()) all = all_gather(all, axis);
  return all;
}

/// Numbers of this shard's rows in the order of `of_all_shards`.
Array row_numbers(const Array& x) {
  Array first = full({}, 0, int32);
  std::int64_t block = x.dim(0);
  for (const std::string& axis : x.type().varying.names()) {
    first = first + axis_index(axis) * block;
    block *= axis_size(axis);
  }
  return first + arange(x.dim(0));
}

void check_rows(const nn::LossCall& of, const Array& embeddings, const Array& labels) {
  nn::check_real(of.name, "embeddings", embeddings);
  if (of.weight.has_value()) nn::check_real(of.name, "weights", of.weight);
  if (embeddings.ndim() != 2 || labels.ndim() != 1 || labels.dim(0) != embeddings.dim(0) ||
      !is_integer(labels.dtype())) {
    throw ShapeError("[" + std::string(of.name) + "] embeddings are " + to_string(embeddings.type()) + ", labels " +
                     to_string(labels.type()) + "; give floats [B, D] and integers [B]");
  }
  if (of.weight.has_value() && of.weight.shape() != labels.shape()) {
    throw ShapeError("[" + std::string(of.name) + "] the weights are " + to_string(of.weight.type()) +
                     "; give one weight per row");
  }
  detail::check_no_mapped_rows(of.name, embeddings.type().varying,
                               "rows are compared with those of all shards: call it outside of the vmap");
  if (embeddings.type().varying.contains(microbatch_axis)) {
    throw MeshError("[" + std::string(of.name) +
                    "] the step cuts the batch into microbatches, which run one after the other, so rows cannot be "
                    "compared with those of the others; give microbatches = 1");
  }
}

ComparedRows compared(const nn::LossCall& of, const Array& given, const Array& given_labels) {
  check_rows(of, given, given_labels);
  const AxisSet axes = given.type().varying;
  const auto varying = [&](const Array& x) { return pvary(x, axes.without(x.type().varying)); };
  const Array embeddings = nn::unit_vectors(nn::counted(nn::wide(given), of.weight));
  const Array labels = varying(nn::counted(given_labels, of.weight));
  const Array counts =
      of.weight.has_value() ? varying(stop_gradient(of.weight) != 0) : varying(full(labels.shape(), true, bool_));
  const Array all_count = of_all_shards(counts), all_labels = of_all_shards(labels);
  const Array cosines = dot_general(embeddings, of_all_shards(embeddings), {{1}, {1}});
  const Array pairs = expand_dims(counts, 1) & expand_dims(all_count, 0);
  const Array alike = expand_dims(labels, 1) == expand_dims(all_labels, 0);
  const Array itself = expand_dims(row_numbers(labels), 1) == expand_dims(arange(all_labels.dim(0)), 0);
  return {cosines, pairs & alike & ~itself, pairs & ~alike, expand_dims(counts, 1)};
}

/// The sum of values where `held`, under weights [own], and the number of them under these weights.
Weighted sum_of_held(const Array& values, const Array& held, const Array& weight) {
  const Array w = weight.has_value() ? expand_dims(stop_gradient(convert(weight, values.dtype())), 1)
                                     : ones({1, 1}, values.dtype());
  return {sum(where(held, values, 0) * w), sum(convert(held, values.dtype()) * w)};
}

}  // namespace

Weighted cosine_distance(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  return weighted(1 - nn::cosine_of({"cosine_distance", weight}, predictions, targets), weight);
}

Weighted cosine_embedding(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& labels, const Array& weight,
                          double margin) {
  const nn::LossCall of{"cosine_embedding", weight};
  const Array cosine = nn::cosine_of(of, a, b);
  return weighted(by_pair(of, labels, 1 - cosine, above_zero(cosine - margin)), weight);
}

Weighted contrastive(const ArrayOperand& distances, const ArrayOperand& labels, const Array& weight, double margin) {
  const nn::LossCall of{"contrastive", weight};
  nn::check_real(of.name, "distances", distances);
  nn::check_option(margin >= 0, of.name, "margin", margin, "0 or more");
  const Array d = nn::counted(nn::wide(distances), weight);
  return weighted(by_pair(of, labels, square(d), square(above_zero(margin - d))), weight);
}

Weighted triplet_margin(const ArrayOperand& anchors, const ArrayOperand& positives, const ArrayOperand& negatives,
                        const Array& weight, double margin) {
  nn::check_option(margin >= 0, "triplet_margin", "margin", margin, "0 or more");
  const auto distance = [&](const Array& from) {
    const auto [a, b] = nn::number_operands({"triplet_margin", weight}, anchors, from);
    if (a.ndim() < 2) throw ShapeError("[triplet_margin] anchors are " + to_string(a.type()) + "; give [B, ..., D]");
    return sqrt(sum(square(a - b), Axes{-1}) + 1e-6);
  };
  return weighted(above_zero(distance(positives) - distance(negatives) + margin), weight);
}

Weighted margin_ranking(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& labels, const Array& weight,
                        double margin) {
  const nn::LossCall of{"margin_ranking", weight};
  const auto [x, y] = nn::number_operands(of, a, b);
  const Array ahead = x - y;
  return weighted(above_zero(margin - by_pair(of, labels, ahead, -ahead)), weight);
}

Weighted ntxent(const ArrayOperand& embeddings, const ArrayOperand& labels, const Array& weight, double temperature) {
  nn::check_option(temperature > 0, "ntxent", "temperature", temperature, "above 0");
  const ComparedRows rows = compared({"ntxent", weight}, embeddings, labels);
  const Array s = rows.cosines / temperature;
  // log(1 + the others' part of what the pair has), whose sums are relative to the pair: no overflow.
  const Array others = logsumexp(s, Where(rows.other), Axes{1}, true);
  const Array none = ~any(rows.other, Axes{1}, true);
  const Array losses = softplus(where(none, 0, others) - s);
  return sum_of_held(where(none, 0, losses), rows.same, weight);
}

Weighted circle(const ArrayOperand& embeddings, const ArrayOperand& labels, const Array& weight,
                const CircleOptions& options) {
  nn::check_option(options.gamma > 0, "circle", "gamma", options.gamma, "above 0");
  const ComparedRows rows = compared({"circle", weight}, embeddings, labels);
  const double m = options.margin;
  const Array s = rows.cosines, still = stop_gradient(s);
  const Array near = -options.gamma * above_zero(1 + m - still) * (s - (1 - m));
  const Array far = options.gamma * above_zero(still + m) * (s - m);
  const Array both = any(rows.same, Axes{1}, true) & any(rows.other, Axes{1}, true);
  const auto total = [&](const Array& x, const Array& held) {
    return where(both, logsumexp(x, Where(held | ~both), Axes{1}, true), 0);
  };
  return sum_of_held(softplus(total(near, rows.same) + total(far, rows.other)), both, weight);
}

}  // namespace lockstep
