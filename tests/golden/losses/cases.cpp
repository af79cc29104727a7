#include "tests/golden/losses/cases.h"

namespace lockstep::tests::losses {
namespace {

using G = const Given&;
using W = const Array&;

Array given_rows(G g, const std::string& name) { return g.at(name); }

std::vector<Case> of_classes() {
  const auto cross_entropy = [](const std::string& variant, const std::string& x, const std::string& labels,
                                const CrossEntropyOptions& options) {
    return Case{"softmax_cross_entropy" + variant,
                "softmax_cross_entropy",
                [=](G g, W w) { return softmax_cross_entropy(given_rows(g, x), given_rows(g, labels), w, options); },
                {x, labels}};
  };
  return {
      cross_entropy("", "x", "classes", {}),
      cross_entropy("/dense", "x", "dense", {}),
      cross_entropy("/smoothed", "x", "classes", {.label_smoothing = 0.1}),
      cross_entropy("/smoothed_dense", "x", "dense", {.label_smoothing = 0.1}),
      cross_entropy("/probabilities", "p", "dense", {.from_logits = false}),
      cross_entropy("/sparse_probabilities", "p", "classes", {.from_logits = false}),
      cross_entropy("/ignored", "x", "classes", {.ignore_index = 1}),
      {"poly_cross_entropy",
       "poly_cross_entropy",
       [](G g, W w) { return poly_cross_entropy(given_rows(g, "x"), given_rows(g, "dense"), w, 1.5); },
       {"x", "dense"}},
      {"generalized_cross_entropy",
       "generalized_cross_entropy",
       [](G g, W w) { return generalized_cross_entropy(given_rows(g, "x"), given_rows(g, "classes"), w, 0.7); },
       {"x", "classes"}},
      {"softmax_focal",
       "softmax_focal",
       [](G g, W w) {
         return softmax_focal(given_rows(g, "x"), given_rows(g, "dense"), w, {.gamma = 1.5, .alpha = 0.4});
       },
       {"x", "dense"}},
      {"softmax_focal/probabilities",
       "softmax_focal",
       [](G g, W w) {
         return softmax_focal(given_rows(g, "p"), given_rows(g, "classes"), w,
                              {.alpha = 0.25, .label_smoothing = 0.1, .from_logits = false});
       },
       {"p", "classes"}},
      {"multiclass_hinge",
       "multiclass_hinge",
       [](G g, W w) { return multiclass_hinge(given_rows(g, "x"), given_rows(g, "classes"), w); },
       {"x", "classes"}},
      {"sparsemax_loss",
       "sparsemax_loss",
       [](G g, W w) { return sparsemax_loss(given_rows(g, "x"), given_rows(g, "classes"), w); },
       {"x", "classes"}},
      {"kl_divergence",
       "kl_divergence",
       [](G g, W w) { return kl_divergence(given_rows(g, "logs"), given_rows(g, "dense"), w); },
       {"logs", "dense"}},
      {"kl_divergence/log_targets",
       "kl_divergence",
       [](G g, W w) { return kl_divergence(given_rows(g, "logs"), given_rows(g, "others"), w, {.log_targets = true}); },
       {"logs", "others"}},
      {"kl_divergence/probabilities",
       "kl_divergence",
       [](G g, W w) {
         return kl_divergence(given_rows(g, "other"), given_rows(g, "dense"), w, {.log_predictions = false});
       },
       {"other", "dense"}},
  };
}

std::vector<Case> of_bits() {
  const auto binary = [](const std::string& variant, const std::string& x, const std::string& labels,
                         const BinaryOptions& options) {
    return Case{"binary_cross_entropy" + variant,
                "binary_cross_entropy",
                [=](G g, W w) { return binary_cross_entropy(given_rows(g, x), given_rows(g, labels), w, options); },
                {x, labels}};
  };
  const auto focal = [](const std::string& variant, const std::string& x, const std::string& labels,
                        const FocalOptions& options) {
    return Case{"sigmoid_focal" + variant,
                "sigmoid_focal",
                [=](G g, W w) { return sigmoid_focal(given_rows(g, x), given_rows(g, labels), w, options); },
                {x, labels}};
  };
  return {
      binary("", "x", "p", {}),
      binary("/smoothed", "x", "bits", {.label_smoothing = 0.2}),
      binary("/probabilities", "p", "bits", {.from_logits = false}),
      binary("/positive_weight", "x", "bits", {.positive_weight = 2.5}),
      focal("", "x", "p", {.gamma = 1.5, .alpha = 0.3}),
      focal("/plain", "x", "bits", {}),
      focal("/probabilities", "p", "bits", {.alpha = 0.3, .label_smoothing = 0.1, .from_logits = false}),
      {"hinge", "hinge", [](G g, W w) { return hinge(given_rows(g, "x"), given_rows(g, "bits"), w); }, {"x", "bits"}},
      {"hinge/perceptron",
       "hinge",
       [](G g, W w) { return hinge(given_rows(g, "x"), given_rows(g, "bits"), w, 0); },
       {"x", "bits"}},
      {"squared_hinge",
       "squared_hinge",
       [](G g, W w) { return squared_hinge(given_rows(g, "x"), given_rows(g, "bits"), w); },
       {"x", "bits"}},
      {"tversky",
       "tversky",
       [](G g, W w) {
         return tversky(given_rows(g, "areas"), given_rows(g, "marks"), w,
                        {.alpha = 0.3, .beta = 0.7, .smoothing = 0.5});
       },
       {"areas", "marks"}},
      {"tversky/whole",
       "tversky",
       [](G g, W w) {
         return tversky(given_rows(g, "areas"), given_rows(g, "marks"), w,
                        {.alpha = 0.3, .beta = 0.7, .smoothing = 1e-14, .per_class = false});
       },
       {"areas", "marks"}},
      {"dice",
       "dice",
       [](G g, W w) { return dice(given_rows(g, "shares"), given_rows(g, "marks"), w, {.smoothing = 2}); },
       {"shares", "marks"}},
      {"dice/whole",
       "dice",
       [](G g, W w) {
         return dice(given_rows(g, "areas"), given_rows(g, "marks"), w, {.smoothing = 1e-14, .per_class = false});
       },
       {"areas", "marks"}},
  };
}

std::vector<Case> of_numbers() {
  return {
      {"mean_squared_error",
       "mean_squared_error",
       [](G g, W w) { return mean_squared_error(given_rows(g, "x"), given_rows(g, "y"), w); },
       {"x", "y"}},
      {"mean_absolute_error",
       "mean_absolute_error",
       [](G g, W w) { return mean_absolute_error(given_rows(g, "x"), given_rows(g, "y"), w); },
       {"x", "y"}},
      {"mean_absolute_percentage_error",
       "mean_absolute_percentage_error",
       [](G g, W w) { return mean_absolute_percentage_error(given_rows(g, "x"), given_rows(g, "y"), w); },
       {"x", "y"}},
      {"mean_squared_logarithmic_error",
       "mean_squared_logarithmic_error",
       [](G g, W w) { return mean_squared_logarithmic_error(given_rows(g, "q"), given_rows(g, "p"), w); },
       {"q", "p"}},
      {"huber", "huber", [](G g, W w) { return huber(given_rows(g, "x"), given_rows(g, "y"), w, 0.7); }, {"x", "y"}},
      {"log_cosh",
       "log_cosh",
       [](G g, W w) { return log_cosh(given_rows(g, "x"), given_rows(g, "y"), w); },
       {"x", "y"}},
      {"quantile_loss",
       "quantile_loss",
       [](G g, W w) { return quantile_loss(given_rows(g, "x"), given_rows(g, "y"), 0.3, w); },
       {"x", "y"}},
      {"poisson",
       "poisson",
       [](G g, W w) { return poisson(given_rows(g, "q"), given_rows(g, "counts"), w); },
       {"q", "counts"}},
      {"poisson/log_rate",
       "poisson",
       [](G g, W w) { return poisson(given_rows(g, "x"), given_rows(g, "counts"), w, {.log_rate = true}); },
       {"x", "counts"}},
      {"gaussian_negative_log_likelihood",
       "gaussian_negative_log_likelihood",
       [](G g, W w) {
         return gaussian_negative_log_likelihood(given_rows(g, "x"), given_rows(g, "q"), given_rows(g, "y"), w);
       },
       {"x", "q", "y"}},
  };
}

std::vector<Case> of_vectors() {
  return {
      {"cosine_distance",
       "cosine_distance",
       [](G g, W w) { return cosine_distance(given_rows(g, "a"), given_rows(g, "b"), w); },
       {"a", "b"}},
      {"cosine_embedding",
       "cosine_embedding",
       [](G g, W w) {
         return cosine_embedding(given_rows(g, "a"), given_rows(g, "b"), given_rows(g, "pairs"), w, 0.1);
       },
       {"a", "b", "pairs"}},
      {"contrastive",
       "contrastive",
       [](G g, W w) { return contrastive(given_rows(g, "distances"), given_rows(g, "pairs"), w); },
       {"distances", "pairs"}},
      {"triplet_margin",
       "triplet_margin",
       [](G g, W w) { return triplet_margin(given_rows(g, "a"), given_rows(g, "b"), given_rows(g, "c"), w, 0.7); },
       {"a", "b", "c"}},
      {"margin_ranking",
       "margin_ranking",
       [](G g, W w) { return margin_ranking(given_rows(g, "x"), given_rows(g, "y"), given_rows(g, "bits"), w, 0.2); },
       {"x", "y", "bits"}},
      {"ntxent",
       "ntxent",
       [](G g, W w) { return ntxent(given_rows(g, "a"), given_rows(g, "groups"), w, 0.5); },
       {"a", "groups"},
       true,
       "ones"},
      {"circle",
       "circle",
       [](G g, W w) { return circle(given_rows(g, "a"), given_rows(g, "groups"), w, {.gamma = 8}); },
       {"a", "groups"},
       true,
       ""},
      {"ctc",
       "ctc",
       [](G g, W w) {
         return ctc(given_rows(g, "spoken"), given_rows(g, "frames"), given_rows(g, "words"), given_rows(g, "lengths"),
                    w);
       },
       {"spoken", "frames", "words", "lengths"}},
      {"ctc/last_blank",
       "ctc",
       [](G g, W w) {
         const Array words = given_rows(g, "words");
         return ctc(given_rows(g, "spoken"), given_rows(g, "frames"), where(words == 0, 3, words - 1),
                    given_rows(g, "lengths"), w, {.blank = 3});
       },
       {"spoken", "frames", "words", "lengths"}},
  };
}

using Sums = std::function<Weighted(W, W, W)>;
using Value = std::function<Array(const Weighted&)>;

Array ratio(const Weighted& sums) { return value(sums); }

MetricCase of_many(const std::string& name, std::vector<std::string> functions, const Sums& sums,
                   const Value& value_of = ratio) {
  return {name,
          std::move(functions),
          [sums](G g, W w) { return sums(g.at("many"), g.at("truth"), w); },
          value_of,
          {"many", "truth"}};
}

MetricCase of_scores(const std::string& name, std::vector<std::string> functions, const Sums& sums,
                     const Value& value_of = ratio) {
  return {name,
          std::move(functions),
          [sums](G g, W w) { return sums(g.at("scores"), g.at("labels"), w); },
          value_of,
          {"scores", "labels"}};
}

MetricCase of_found(const std::string& name, std::vector<std::string> functions, const Sums& sums,
                    const Value& value_of = ratio) {
  return {name,
          std::move(functions),
          [sums](G g, W w) { return sums(g.at("found"), g.at("wanted"), w); },
          value_of,
          {"found", "wanted"}};
}

Weighted hits_by_threshold(W p, W y, W w) { return threshold_counts(p, y, w); }
Weighted confusion(W p, W y, W w) { return confusion_matrix(p, y, w); }
Weighted moments(W p, W y, W w) { return regression_sums(p, y, w); }

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> joined;
    for (const auto& part : {of_classes(), of_bits(), of_numbers(), of_vectors()}) {
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }();
  return all;
}

const std::vector<MetricCase>& metric_cases() {
  static const std::vector<MetricCase> all = {
      of_scores("accuracy", {"accuracy"}, [](W p, W y, W w) { return accuracy(p, y, w); }),
      of_scores("top_k_accuracy", {"top_k_accuracy"}, [](W p, W y, W w) { return top_k_accuracy(p, y, 2, w); }),
      of_many("binary_accuracy", {"binary_accuracy"}, [](W p, W y, W w) { return binary_accuracy(p, y, w, 0.4); }),
      of_many("precision", {"precision"}, [](W p, W y, W w) { return precision(p, y, w); }),
      of_many("recall", {"recall"}, [](W p, W y, W w) { return recall(p, y, w, 0.3); }),
      of_many("specificity", {"specificity"}, [](W p, W y, W w) { return specificity(p, y, w, 0.4); }),
      of_many("f_score", {"f_score"}, [](W p, W y, W w) { return f_score(p, y, w, 0.5, 0.5); }),
      of_many("binary_iou", {"binary_iou"}, [](W p, W y, W w) { return binary_iou(p, y, w); }),
      of_scores("mean_iou", {"confusion_matrix", "mean_iou"}, confusion, mean_iou),
      of_scores("class_f1", {"class_f1"}, confusion, class_f1),
      of_many("auc", {"threshold_counts", "auc"}, hits_by_threshold, [](const Weighted& n) { return auc(n); }),
      of_many(
          "auc/precision_recall", {"auc"}, [](W p, W y, W w) { return threshold_counts(p, y, w, 50); },
          [](const Weighted& n) { return auc(n, Curve::precision_recall); }),
      of_many("precision_at_recall", {"precision_at_recall"}, hits_by_threshold,
              [](const Weighted& n) { return precision_at_recall(n, 0.7); }),
      of_many("recall_at_precision", {"recall_at_precision"}, hits_by_threshold,
              [](const Weighted& n) { return recall_at_precision(n, 0.8); }),
      of_many("sensitivity_at_specificity", {"sensitivity_at_specificity"}, hits_by_threshold,
              [](const Weighted& n) { return sensitivity_at_specificity(n, 0.6); }),
      of_many("specificity_at_sensitivity", {"specificity_at_sensitivity"}, hits_by_threshold,
              [](const Weighted& n) { return specificity_at_sensitivity(n, 0.9); }),
      of_found(
          "root_mean_squared_error", {"root_mean_squared_error"},
          [](W p, W y, W w) { return mean_squared_error(p, y, w); }, root_mean_squared_error),
      of_found("cosine_similarity", {"cosine_similarity"}, [](W p, W y, W w) { return cosine_similarity(p, y, w); }),
      of_found("r2_score", {"regression_sums", "r2_score"}, moments, r2_score),
      of_found(
          "pearson_correlation", {"pearson_correlation"}, [](W p, W y, W) { return regression_sums(p, y); },
          pearson_correlation),
      of_found(
          "concordance_correlation", {"concordance_correlation"}, [](W p, W y, W) { return regression_sums(p, y); },
          concordance_correlation),
  };
  return all;
}

}  // namespace lockstep::tests::losses
