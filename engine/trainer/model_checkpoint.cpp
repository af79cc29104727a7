#include <utility>

#include <lockstep/callbacks.h>

#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {

ModelCheckpoint::ModelCheckpoint(ModelCheckpointOptions options) : options_(std::move(options)) {
  trainer::check_count("model_checkpoint", "save_freq", options_.save_freq);
}

void ModelCheckpoint::on_step(const StepReport& report, const Tree&, Requests& requests) {
  const bool is_due = options_.save_freq > 0 && report.step % options_.save_freq == 0;
  if (is_due && !options_.save_best_only) requests.save();
}

void ModelCheckpoint::on_validation(const StepReport& report, const Tree&, Requests& requests) {
  if (options_.save_best_only && trainer::is_of_validation(options_.monitor)) look(report, requests);
}

void ModelCheckpoint::on_epoch(const StepReport& report, const Tree&, Requests& requests) {
  if (!options_.save_best_only) {
    if (options_.save_freq == 0) requests.save();
  } else if (!trainer::is_of_validation(options_.monitor)) {
    look(report, requests);
  }
}

void ModelCheckpoint::look(const StepReport& report, Requests& requests) {
  if (report.is_extra) return;  // it is saved in any case
  const double current = trainer::monitored("model_checkpoint", options_.monitor, report);
  if (!best_.is_beaten_by(current, trainer::is_maximised(options_.mode, options_.monitor), 0)) return;
  best_ = {current, true};
  requests.save();
}

std::string ModelCheckpoint::monitored() const { return options_.save_best_only ? options_.monitor : std::string(); }

std::string ModelCheckpoint::name() const {
  return options_.save_best_only ? "model_checkpoint " + options_.monitor
                                 : std::string();  // what it has to keep is the best
}

Tree ModelCheckpoint::saved_state(const Tree&) const { return trainer::saved(best_); }

void ModelCheckpoint::restore(const Tree& saved) { best_ = trainer::restored(saved); }

ModelCheckpoint::~ModelCheckpoint() = default;

void ModelCheckpoint::reset() { best_ = {}; }

}  // namespace lockstep::callbacks
