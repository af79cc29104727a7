#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/golden/functions/table.h"
#include "tests/golden/losses/cases.h"
#include "tests/golden/optax/cases.h"

// No public function is forgotten: each has a line in the table, or stands here with the reason why not.
namespace lockstep::tests::functions {
namespace {

constexpr std::array<std::string_view, 42> headers = {"activations",
                                                      "attention",
                                                      "control_flow",
                                                      "convolution",
                                                      "einsum",
                                                      "elementwise",
                                                      "fft",
                                                      "indexing",
                                                      "initializers",
                                                      "linalg",
                                                      "weighted",
                                                      "losses_classification",
                                                      "losses_regression",
                                                      "losses_sequence",
                                                      "losses_similarity",
                                                      "metrics_classification",
                                                      "metrics_regression",
                                                      "metrics_threshold",
                                                      "manipulation",
                                                      "ops",
                                                      "optim",
                                                      "reductions",
                                                      "schedules",
                                                      "metrics",
                                                      "gradient_transformations",
                                                      "optimizers",
                                                      "optimizer_wrappers",
                                                      "optim_contrib/second_order",
                                                      "products",
                                                      "grids",
                                                      "reduce",
                                                      "vision/image",
                                                      "scientific/signal",
                                                      "scientific/solvers",
                                                      "scientific/odeint",
                                                      "scientific/minimize",
                                                      "scientific/polynomials",
                                                      "vision/image_filters",
                                                      "vision/bounding_boxes",
                                                      "arithmetic",
                                                      "implicit_differentiation",
                                                      "optim_contrib/optimizers"};

struct Untested {
  std::string_view function;
  std::string_view reason;
};
constexpr std::array untested = {
    Untested{"resolve_padding", "pairs of numbers; every convolution with a padding by name goes through it"},
    Untested{"optim::update", "what trajectories of tests/golden/optax are made with"},
    Untested{"optim::monitor", "updates as they come; tests/optim holds what it measures"},
    Untested{"optim::average_parameters", "Optax has none; tests/train holds Keras' numbers"},
    Untested{"optim::moments_dtype", "Optax has mu_dtype, of one moment; tests/optim holds it against float32"},
    Untested{"optim::stochastic_rounding", "Optax has none; tests/optim and tests/train hold its mean and its bits"},
    Untested{"optim::value_and_grad_from_state", "two lines around a condition; tests/optim holds it in a loop"},
    Untested{"nnls", "Optax has it, JAX has none; tests/optim holds its values"},
    Untested{"linear_sum_assignment", "JAX has none; tests/api holds it against all orders"},
    Untested{"optim::below", "a predicate of paths, no array"},
    Untested{"optim::optional", "a predicate of paths, no array"},
    Untested{"at", "makes a Place, whose members have lines"},
    Untested{"mean_metric", "weighted of losses.h under another name"},
    Untested{"local_value", "a metric; tests/nn counts by hand"},
    Untested{"value", "a metric; tests/nn counts by hand"},
    Untested{"merged", "a sum; tests/nn holds it"},
    Untested{"perplexity", "exp of a loss; tests/nn holds it"},
    Untested{"class_precision", "a row of the confusion matrix; tests/nn counts by hand"},
    Untested{"class_recall", "a row of the confusion matrix; tests/nn counts by hand"},
    Untested{"class_iou", "what mean_iou is the mean of; tests/nn counts by hand"},
    Untested{"cohen_kappa", "neither library has it; tests/nn counts by hand"},
    Untested{"matthews_correlation", "neither library has it; tests/nn counts by hand"},
    Untested{"explained_variance", "neither library has it; tests/nn counts by hand"},
    Untested{"ctc_greedy_decode", "JAX has none; tests/golden/keras holds Keras' values"},
    Untested{"ctc_beam_search", "JAX has none; tests/golden/keras holds Keras' values"},
    Untested{"check_reduced_alike", "a check of types; tests/train holds it"},
    Untested{"image::elastic_transform", "draws; tests/api holds it"},
    Untested{"image::mix_up", "draws; tests/api holds it"},
    Untested{"image::cut_mix", "draws; tests/api holds it"},
    Untested{"bounding_boxes::limit_number", "a slice and a pad; tests/api holds it"},
    Untested{"operator%", "remainder under another name; tests/api holds it"},
    Untested{"operator+=", "x = x + y; tests/api holds it"},
    Untested{"operator-=", "x = x - y; tests/api holds it"},
    Untested{"operator*=", "x = x * y; tests/api holds it"},
    Untested{"operator/=", "x = x / y; tests/api holds it"},
    Untested{"operator%=", "x = x % y; tests/api holds it"},
    Untested{"fill_masked_rows", "JAX has none; tests/train holds it against rows left out"},
};

/// The lines of a header, without those of its namespaces `detail` and `lax`, which are no composites.
std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "namespace detail {" || line == "namespace lockstep::detail {" || line == "namespace lax {" ||
        line == "namespace special {")
      inside = true;
    if (!inside) lines.push_back(line);
    if (line.rfind("}  // namespace ", 0) == 0) inside = false;
  }
  return lines;
}

/// Every function declared at the beginning of a line, as a user calls it.
std::set<std::string> functions_of(std::string_view header) {
  static const std::regex space("namespace (?:lockstep::)?(\\w+) \\{");
  static const std::regex declaration(
      "(?:LOCKSTEP_API )?[A-Za-z_](?:[\\w:<>, &*]*[\\w>&*])? (operator[^\\s(]+|\\w+)\\(.*");
  static const std::regex other("(struct|class|template|using|inline|enum|requires|namespace|static|constexpr) ?.*");
  std::set<std::string> functions;
  std::string prefix;
  const std::filesystem::path include = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "../include/lockstep";
  for (const std::string& line : lines_of(include / (std::string(header) + ".h"))) {
    std::smatch match;
    if (std::regex_match(line, match, space) && match[1] != "lockstep") prefix = match[1].str() + "::";
    if (std::regex_match(line, other) || !std::regex_match(line, match, declaration)) continue;
    functions.insert(prefix + match[1].str());
  }
  return functions;
}

}  // namespace

TEST_CASE("every public function is held against JAX, or has a reason why not") {
  std::set<std::string> held, declared;
  for (const Line& line : table()) held.insert(std::string(line.function));
  for (const optax::Case& c : optax::cases()) held.insert(c.functions.begin(), c.functions.end());
  for (const losses::Case& c : losses::cases()) held.insert(c.function);
  for (const losses::MetricCase& c : losses::metric_cases()) held.insert(c.functions.begin(), c.functions.end());
  for (const optax::ScheduleCase& c : optax::schedule_cases()) held.insert(c.functions.begin(), c.functions.end());
  for (const std::string_view header : headers) declared.merge(functions_of(header));
  for (const std::string& function : declared) {
    const bool excused = std::ranges::any_of(untested, [&](const Untested& u) { return u.function == function; });
    CHECK_MESSAGE((held.contains(function) || excused),
                  function << " has no line in tests/golden/functions and no reason in coverage_test.cpp");
    CHECK_MESSAGE(!(held.contains(function) && excused), function << " has a line: take its reason out");
  }
  for (const Untested& u : untested) {
    CHECK_MESSAGE(declared.contains(std::string(u.function)), u.function << " is no public function");
    CHECK(u.reason.size() > 10);
  }
  CHECK(declared.size() > 300);
  MESSAGE(declared.size() << " functions declared, " << untested.size() << " of them with a reason");
}

}  // namespace lockstep::tests::functions
