#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/callbacks.h>
#include <lockstep/trainer.h>

namespace lockstep::trainer {

/// Whether larger is better.
bool is_maximised(callbacks::Mode mode, const std::string& monitor);
/// A best value as arrays, to be saved, and back.
Tree saved(const callbacks::BestValue& best);
callbacks::BestValue restored(const Tree& saved);
/// Whether a metric is looked at behind a validation, and not at the end of an epoch.
bool is_of_validation(const std::string& monitor);
/// Throws StateError listing the logs where there is no such one.
double monitored(const char* who, const std::string& monitor, const StepReport& report);
/// Throws ValueError naming a callback, or the checkpoints' keep_best, whose metric the run will not log. `logs`: names that
/// a step logs; none before the first step, when only metrics of a validation that is not made are known to be missing.
void check_monitored(const detail::Callbacks& callbacks, const TrainerOptions& options,
                     const std::optional<std::vector<std::string>>& logs);
/// Throws ValueError for a count below 0.
void check_count(const char* who, const char* what, std::int64_t count, std::int64_t least = 0);

}  // namespace lockstep::trainer
