#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/golden/named_values.h"

// Our losses and metrics under the names of Optax' and Keras' in values.txt.
namespace lockstep::tests::losses {

/// The rows that values.txt begins with, by name.
using Given = std::map<std::string, Array>;

struct Case {
  std::string name;
  std::string function;  ///< The public function that it holds.
  /// Of the rows and their weights.
  std::function<Weighted(const Given&, const Array& weight)> loss;
  std::vector<std::string> operands;  ///< What is differentiated first, then what else has a row for each weight.
  bool compares_rows = false;         ///< Whether a row's value depends on the others.
  std::string weights = "weight";     ///< Those of the stored values; "": none.
};
const std::vector<Case>& cases();

struct MetricCase {
  std::string name;
  std::vector<std::string> functions;
  std::function<Weighted(const Given&, const Array& weight)> sums;
  std::function<Array(const Weighted&)> value;
  std::vector<std::string> operands;
  double tolerance = 1e-6;  ///< Keras' sums are float32.
};
const std::vector<MetricCase>& metric_cases();

struct Stored {
  Given given;
  std::map<std::string, NamedValues> lines;  ///< "metrics/auc" and so on.
};
const Stored& stored();

}  // namespace lockstep::tests::losses
