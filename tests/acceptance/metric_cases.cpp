#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"

// Metrics of several sums, and losses that compare rows of all shards, beside one device.
namespace lockstep::tests {
namespace {

struct Rows {
  Array scores, labels, weight;
};
LOCKSTEP_TREE(Rows, scores, labels, weight);

/// Sixteen rows, of which those of weight 0 hold NaN and no class.
Rows sixteen() {
  const Array weight = convert(remainder(arange(16), 4), float64);
  const Array scores = random::normal(random::key(5), {16, 4}, float64);
  return {where(expand_dims(weight != 0, 1), scores, std::numeric_limits<double>::quiet_NaN()),
          where(weight != 0, remainder(arange(16) * 7, 3), 99), weight};
}

Array first_class(const Rows& rows) { return sigmoid(squeeze(slice_in_dim(rows.scores, 0, 1, 1), 1)); }

std::vector<Array> measured(const Rows& rows) {
  const Weighted confusion = confusion_matrix(rows.scores, rows.labels, rows.weight);
  const Array is_first = convert(rows.labels == 0, float64);
  const Weighted counts = threshold_counts(first_class(rows), is_first, rows.weight);
  return {mean_iou(confusion),
          cohen_kappa(confusion),
          auc(counts),
          auc(counts, Curve::precision_recall),
          value(f_score(first_class(rows), is_first, rows.weight)),
          value(top_k_accuracy(rows.scores, rows.labels, 2, rows.weight)),
          r2_score(regression_sums(first_class(rows), is_first, rows.weight))};
}

Tree metrics(const Replicas& replicas) {
  const Rows rows = sixteen();
  const std::vector<Array> found =
      pmap(measured, {.mesh = mesh_of(replicas), .in = {sharded("batch")}, .out = {replicated}})(rows);
  const std::vector<Array> expected = measured(rows);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].item<double>() == doctest::Approx(expected[i].item<double>()).epsilon(1e-12));
  }
  return to_tree(found);
}

Tree compared_rows(const Replicas& replicas) {
  const Rows rows = sixteen();
  std::vector<Tree> results;
  for (const bool pairs : {true, false}) {
    const auto mean_of = [pairs](const Rows& own) {
      return pairs ? value(ntxent(own.scores, own.labels, own.weight, 0.5))
                   : value(circle(own.scores, own.labels, own.weight));
    };
    const auto by_scores = [mean_of](const Rows& own) {
      return value_and_grad([&](const Array& x) { return mean_of({x, own.labels, own.weight}); })(own.scores);
    };
    const auto [v, g] = pmap(
        by_scores, {.mesh = mesh_of(replicas), .in = {sharded("batch")}, .out = {replicated, sharded("batch")}})(rows);
    const auto [expected, slope] = by_scores(rows);
    CHECK(v.item<double>() == doctest::Approx(expected.item<double>()).epsilon(1e-12));
    CHECK(max(abs(g - slope)).item<double>() < 1e-11);
    results.push_back(Tree::list({Tree(v), Tree(g)}));
  }
  return Tree::list(results);
}

}  // namespace

std::vector<AcceptanceCase> metric_cases() {
  return {{"metrics of several sums are those of all rows at once", metrics},
          {"losses that compare rows see those of all shards", compared_rows}};
}

}  // namespace lockstep::tests
