#include "engine/trainer/monitor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

namespace lockstep::trainer {

using callbacks::Mode;

bool is_maximised(Mode mode, const std::string& monitor) {
  if (mode != Mode::automatic) return mode == Mode::max;
  return monitor.ends_with("acc") || monitor.ends_with("accuracy") || monitor.ends_with("auc");
}

Tree saved(const callbacks::BestValue& best) {
  return Tree::dict({{"value", Tree(array(best.value))}, {"is_known", Tree(array(best.is_known))}});
}

callbacks::BestValue restored(const Tree& saved) {
  return {saved.at("value").array().item<double>(), saved.at("is_known").array().item<bool>()};
}

bool is_of_validation(const std::string& monitor) { return monitor.starts_with("val_"); }

double monitored(const char* who, const std::string& monitor, const StepReport& report) {
  const auto found = report.logs.find(monitor);
  if (found != report.logs.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : report.logs) names.push_back(name);
  throw StateError(
      fmt::format("[{}] the run logs no '{}'; it logs {}. What starts with val_ comes from TrainerOptions::validate",
                  who, monitor, names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "))));
}

void check_monitored(const detail::Callbacks& callbacks, const TrainerOptions& options,
                     const std::optional<std::vector<std::string>>& logs) {
  const auto check = [&](const std::string& who, const std::string& metric) {
    if (metric.empty()) return;
    if (is_of_validation(metric)) {
      if (options.validate) return;  // its names are known when it is made
      throw ValueError(
          fmt::format("[fit] {} reads '{}', and the run makes no validation; give TrainerOptions::validate, or name a "
                      "log of the step",
                      who, metric));
    }
    if (!logs || std::ranges::find(*logs, metric) != logs->end()) return;
    throw ValueError(fmt::format("[fit] {} reads '{}', which no step logs; a step logs {}", who, metric,
                                 logs->empty() ? "nothing" : fmt::format("{}", fmt::join(*logs, ", "))));
  };
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    const std::string name = callbacks[i]->name();
    check("callback " + (name.empty() ? std::to_string(i) : "'" + name + "'"), callbacks[i]->monitored());
  }
  if (options.checkpoints == nullptr || options.checkpoints->options().keep_best == 0) return;
  check("keep_best of the checkpoints", options.checkpoints->options().best_metric);
}

void check_count(const char* who, const char* what, std::int64_t count, std::int64_t least) {
  if (count < least) throw ValueError(fmt::format("[{}] {} is {}; it must be at least {}", who, what, count, least));
}

}  // namespace lockstep::trainer

namespace lockstep::callbacks {

bool BestValue::is_beaten_by(double other, bool is_maximised, double min_delta) const {
  if (!is_known) return true;
  if (std::isnan(value)) return !std::isnan(other);
  return is_maximised ? other - min_delta > value : other + min_delta < value;
}

}  // namespace lockstep::callbacks
