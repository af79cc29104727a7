#pragma once

#include <filesystem>
#include <string>

#include <lockstep/tree.h>

#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/manifest.h"

namespace lockstep::checkpoint {

/// Writes a checkpoint of whole arrays, by this process alone, on any thread.
void write_whole(const std::filesystem::path& folder, const Tree& tree, const Description& description, Target target,
                 Pace* pace = nullptr);
/// Saves a tree of either kind, every process together with the others.
void save_together(const std::filesystem::path& folder, const Tree& tree, const Description& description,
                   Target target = Target::free);
/// For how long the others wait for process 0 beyond the time limit: a slow disk's time for these bytes.
double writing_seconds(const Tree& tree);

}  // namespace lockstep::checkpoint
