#pragma once

#include <filesystem>
#include <string>

#include <lockstep/named.h>
#include <lockstep/tree.h>

#include "engine/checkpoint/committed_folder.h"

namespace lockstep::checkpoint {

/// Writes a checkpoint of whole arrays, by this process alone, on any thread.
void write_whole(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest,
                 const Named<double>& metrics, Target target, Pace* pace = nullptr);
/// Saves a tree of either kind, every process together with the others.
void save_together(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest,
                   const Named<double>& metrics, Target target = Target::free);
/// For how long the others wait for process 0 beyond the time limit: a slow disk's time for these bytes.
double writing_seconds(const Tree& tree);

}  // namespace lockstep::checkpoint
