#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/callbacks.h>
#include <lockstep/error.h>

#include "engine/trainer/monitor.h"

// As keras.callbacks.EarlyStopping (3.x): the same comparisons in the same order.
namespace lockstep::callbacks {
namespace {

/// What Keras' get_weights has, by path in the state.
std::map<std::string, Tree> weights_of(const Tree& state) {
  if (state.kind() != Tree::Kind::dict || !state.contains("trainable")) return {{"", state}};
  std::map<std::string, Tree> weights;
  for (const char* path : {"trainable", "non_trainable"}) {
    if (state.contains(path)) weights.emplace(path, state.at(path));
  }
  return weights;
}

}  // namespace

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  trainer::check_count("early_stopping", "patience", options_.patience);
  trainer::check_count("early_stopping", "start_from_epoch", options_.start_from_epoch);
  options_.min_delta = std::abs(options_.min_delta);
}

void EarlyStopping::on_validation(const StepReport& report, const Tree& state, Requests& requests) {
  if (trainer::is_of_validation(options_.monitor)) look(report, state, requests);
}

void EarlyStopping::on_epoch(const StepReport& report, const Tree& state, Requests& requests) {
  if (!trainer::is_of_validation(options_.monitor)) look(report, state, requests);
}

void EarlyStopping::look(const StepReport& report, const Tree& state, Requests& requests) {
  if (report.epoch < options_.start_from_epoch) return;
  const double current = trainer::monitored("early_stopping", options_.monitor, report);
  if (options_.restore_best_weights && best_weights_.empty()) {
    best_weights_ = weights_of(state);
    best_step_ = report.step;
  }
  ++looks_;
  ++wait_;
  const bool is_maximised = trainer::is_maximised(options_.mode, options_.monitor);
  if (best_.is_beaten_by(current, is_maximised, options_.min_delta)) {
    best_ = {current, true};
    best_step_ = report.step;
    if (options_.restore_best_weights) best_weights_ = weights_of(state);
    const BestValue baseline{options_.baseline.value_or(0), options_.baseline.has_value()};
    if (baseline.is_beaten_by(current, is_maximised, options_.min_delta)) wait_ = 0;
    return;
  }
  if (wait_ < options_.patience || (report.epoch == 0 && looks_ == 1)) return;
  stopped_step_ = report.step;
  stop(requests);
}

void EarlyStopping::stop(Requests& requests) const {
  requests.stop(fmt::format("early_stopping: {} has not improved on {} since step {}", options_.monitor, best_.value,
                            best_step_));
}

void EarlyStopping::on_resume(const StepReport& report, const Tree&, Requests& requests) {
  if (stopped_step_ != 0 && stopped_step_ == report.step && wait_ >= options_.patience) stop(requests);
}

void EarlyStopping::on_end(const StepReport&, const Tree&, Requests& requests) {
  for (const auto& [path, weights] : best_weights_) requests.replace(path, weights);
}

Tree EarlyStopping::saved_state(const Tree& state) const {
  std::map<std::string, Tree> saved = {{"best", trainer::saved(best_)},
                                       {"wait", Tree(array(wait_))},
                                       {"looks", Tree(array(looks_))},
                                       {"best_step", Tree(array(best_step_))},
                                       {"stopped_step", Tree(array(stopped_step_))}};
  if (options_.restore_best_weights) {
    saved.emplace("has_weights", Tree(array(!best_weights_.empty())));
    const auto weights = best_weights_.empty() ? weights_of(state) : best_weights_;
    saved.emplace("weights", Tree::dict(weights));
  }
  return Tree::dict(std::move(saved));
}

void EarlyStopping::restore(const Tree& saved) {
  best_ = trainer::restored(saved.at("best"));
  wait_ = saved.at("wait").array().item<std::int64_t>();
  looks_ = saved.at("looks").array().item<std::int64_t>();
  best_step_ = saved.at("best_step").array().item<std::int64_t>();
  stopped_step_ = saved.at("stopped_step").array().item<std::int64_t>();
  best_weights_.clear();
  if (!options_.restore_best_weights || !saved.at("has_weights").array().item<bool>()) return;
  for (const auto& [path, weights] : saved.at("weights").entries()) best_weights_.emplace(path, weights);
}

}  // namespace lockstep::callbacks
