#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <lockstep/callbacks.h>
#include <lockstep/trainer.h>
#include <lockstep/tree.h>

// What of a run is in a checkpoint: {"state", "data": {"epoch", "row"}, "callbacks": {name: ...}}.
namespace lockstep::trainer {

/// Throws ValueError where two have one name.
void check_names(const detail::Callbacks& callbacks);

/// What a checkpoint of it holds now.
Tree saved_run(const Tree& state, const data::Position& position, const detail::Callbacks& callbacks);

struct ResumedRun {
  std::int64_t step = 0;
  Tree state;
  data::Position position;
  std::map<std::string, double> metrics;  ///< Saved beside it.
};
/// The latest checkpoint, whose callbacks are restored; nothing where there is none. Throws CheckpointError where the
/// manifest is another one.
std::optional<ResumedRun> resumed_run(const Tree& like, const TrainerOptions& options,
                                      const detail::Callbacks& callbacks);

/// Whether the checkpoint of a step holds this state, bit for bit; the same in all processes.
bool is_saved(const Tree& state, checkpoint::Manager& manager, std::int64_t step);

}  // namespace lockstep::trainer
