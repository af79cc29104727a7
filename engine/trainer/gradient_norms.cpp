#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/callbacks.h>

#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {

GradientNorms::GradientNorms(GradientNormsOptions options) : options_(std::move(options)) {
  trainer::check_count("gradient_norms", "every", options_.every, 1);
  trainer::check_count("gradient_norms", "window", static_cast<std::int64_t>(options_.window), 1);
}

double GradientNorms::mean() const {
  if (norms_.empty()) return 0;
  return std::accumulate(norms_.begin(), norms_.end(), 0.0) / static_cast<double>(norms_.size());
}

void GradientNorms::on_step(const StepReport& report, const Tree&, Requests&) {
  const double norm = trainer::monitored("gradient_norms", "grad_norm", report);
  const double before = mean();
  // Written so that a NaN is one.
  if (norms_.size() == options_.window && !(norm <= options_.spike * before)) {
    spikes_.push_back(report.step);
    if (options_.on_spike) options_.on_spike(report, norm, before);
  }
  largest_ = std::max(largest_, norm);
  norms_.push_back(norm);
  if (norms_.size() > options_.window) norms_.pop_front();
}

}  // namespace lockstep::callbacks
