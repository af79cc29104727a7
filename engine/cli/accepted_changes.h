#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/cli/run_folder.h"

namespace lockstep::cli {

/// An entry of the manifest that a run has had otherwise up to a step.
struct AcceptedChange {
  std::int64_t step = 0;
  std::string entry;
  std::string was;
  std::string now;
};

/// In a run's folder, where it was gone on with under another manifest than it was begun with.
std::filesystem::path changes_file(const std::filesystem::path& run);
/// What stands there, in the order in which it came; nothing where no change was accepted, or the file is damaged.
std::vector<AcceptedChange> accepted_changes(const std::filesystem::path& run);
std::string text_of(const std::vector<AcceptedChange>& changes);

/// The changes of a run that goes on from a step: those that came before it, and what differs now. A run that begins anew has
/// one manifest from its first step on, and none.
std::vector<AcceptedChange> changes_from(const std::filesystem::path& run, std::int64_t step, const Manifest& saved,
                                         const Manifest& now);

}  // namespace lockstep::cli
