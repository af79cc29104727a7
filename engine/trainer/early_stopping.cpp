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

void EarlyStopping::reset() {
  best_ = {};
  wait_ = looks_ = best_step_ = stopped_step_ = 0;
  best_weights_.clear();
  last_weights_.clear();
}

void EarlyStopping::on_validation(const StepReport& report, const Tree& state, Requests& requests) {
  if (trainer::is_of_validation(options_.monitor)) look(report, state, requests);
}

void EarlyStopping::on_epoch(const StepReport& report, const Tree& state, Requests& requests) {
  if (!trainer::is_of_validation(options_.monitor)) look(report, state, requests);
}

void EarlyStopping::look(const StepReport& report, const Tree& state, Requests& requests) {
  if (report.is_extra || report.epoch < options_.start_from_epoch) return;
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

void EarlyStopping::on_resume(const StepReport& report, const Tree& state, Requests& requests) {
  if (!last_weights_.empty()) best_weights_ = weights_of(state);
  for (const auto& [path, weights] : last_weights_) requests.replace(path, weights);
  last_weights_.clear();
  if (stopped_step_ != 0 && stopped_step_ == report.step && wait_ >= options_.patience) stop(requests);
}

void EarlyStopping::on_end(const StepReport&, const Tree& state, Requests& requests) {
  if (!best_weights_.empty()) last_weights_ = weights_of(state);
  for (const auto& [path, weights] : best_weights_) requests.replace(path, weights);
}

Tree EarlyStopping::saved_state(const Tree& state) const {
  std::map<std::string, Tree> saved = {{"best", trainer::saved(best_)},
                                       {"wait", Tree(array(wait_))},
                                       {"looks", Tree(array(looks_))},
                                       {"best_step", Tree(array(best_step_))},
                                       {"stopped_step", Tree(array(stopped_step_))}};
  if (options_.restore_best_weights) {
    // At the end the best ones are the state's, and what is kept beside them are those that they have replaced.
    saved.emplace("has_weights", Tree(array(!best_weights_.empty())));
    saved.emplace("is_replaced", Tree(array(!last_weights_.empty())));
    const auto& kept = last_weights_.empty() ? best_weights_ : last_weights_;
    saved.emplace("weights", Tree::dict(kept.empty() ? weights_of(state) : kept));
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
  last_weights_.clear();
  if (!options_.restore_best_weights || !saved.at("has_weights").array().item<bool>()) return;
  auto& kept = saved.at("is_replaced").array().item<bool>() ? last_weights_ : best_weights_;
  for (const auto& [path, weights] : saved.at("weights").entries()) kept.emplace(path, weights);
}

EarlyStopping::~EarlyStopping() = default;

void EarlyStopping::close() { last_weights_.clear(); }

std::string EarlyStopping::monitored() const { return options_.monitor; }

std::string EarlyStopping::name() const {
  return options_.name.empty() ? "early_stopping " + options_.monitor : options_.name;
}

}  // namespace lockstep::callbacks
