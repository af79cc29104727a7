#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/callbacks.h>
#include <lockstep/error.h>

#include "engine/trainer/monitor.h"

// As keras.callbacks.ReduceLROnPlateau (3.x): the same comparisons in the same order.
namespace lockstep::callbacks {

ReduceLROnPlateau::ReduceLROnPlateau(ReduceLROnPlateauOptions options) : options_(std::move(options)) {
  if (!(options_.factor > 0 && options_.factor < 1)) {
    throw ValueError(
        fmt::format("[reduce_lr_on_plateau] factor is {}; it must be above 0 and below 1", options_.factor));
  }
  trainer::check_count("reduce_lr_on_plateau", "patience", options_.patience);
  trainer::check_count("reduce_lr_on_plateau", "cooldown", options_.cooldown);
}

void ReduceLROnPlateau::reset() {
  best_ = {};
  wait_ = cooldown_ = 0;
}

void ReduceLROnPlateau::on_validation(const StepReport& report, const Tree& state, Requests& requests) {
  if (trainer::is_of_validation(options_.monitor)) look(report, state, requests);
}

void ReduceLROnPlateau::on_epoch(const StepReport& report, const Tree& state, Requests& requests) {
  if (!trainer::is_of_validation(options_.monitor)) look(report, state, requests);
}

void ReduceLROnPlateau::look(const StepReport& report, const Tree& state, Requests& requests) {
  if (report.is_extra) return;
  const double current = trainer::monitored("reduce_lr_on_plateau", options_.monitor, report);
  if (cooldown_ > 0) {
    --cooldown_;
    wait_ = 0;
  }
  if (best_.is_beaten_by(current, trainer::is_maximised(options_.mode, options_.monitor), options_.min_delta)) {
    best_ = {current, true};
    wait_ = 0;
    return;
  }
  if (cooldown_ > 0) return;
  ++wait_;
  if (wait_ < options_.patience) return;
  const std::map<std::string, double> standing = hyperparameters(state);
  const auto found = standing.find(options_.hyperparameter);
  if (found == standing.end()) {
    throw StateError(
        fmt::format("[reduce_lr_on_plateau] the state has no hyper-parameter '{}'; make the optimizer with "
                    "optim::inject_hyperparams(..., {{{{\"{}\", 0.001}}}}), or name one that there is",
                    options_.hyperparameter, options_.hyperparameter));
  }
  if (found->second <= options_.min_lr) return;
  requests.set_hyperparameter(options_.hyperparameter, std::max(found->second * options_.factor, options_.min_lr));
  cooldown_ = options_.cooldown;
  wait_ = 0;
}

Tree ReduceLROnPlateau::saved_state(const Tree&) const {
  return Tree::dict(
      {{"best", trainer::saved(best_)}, {"wait", Tree(array(wait_))}, {"cooldown", Tree(array(cooldown_))}});
}

void ReduceLROnPlateau::restore(const Tree& saved) {
  best_ = trainer::restored(saved.at("best"));
  wait_ = saved.at("wait").array().item<std::int64_t>();
  cooldown_ = saved.at("cooldown").array().item<std::int64_t>();
}

ReduceLROnPlateau::~ReduceLROnPlateau() = default;

std::string ReduceLROnPlateau::monitored() const { return options_.monitor; }

std::string ReduceLROnPlateau::name() const {
  return options_.name.empty() ? "reduce_lr_on_plateau " + options_.monitor : options_.name;
}

}  // namespace lockstep::callbacks
