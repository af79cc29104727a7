#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <lockstep/tree.h>

#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/manifest.h"

// How arrays that lie cut are saved: each process its blocks, process 0 the index of all.
namespace lockstep::checkpoint {

class Pace;

/// Whether a leaf lies cut.
bool has_cut_leaves(const Tree& tree);

/// A checkpoint of such a tree on its way. Every process makes one, together with the others, and then writes.
class BlockSave {
 public:
  /// Communicates: process 0 makes the folder that all write into. Throws everywhere where that fails.
  BlockSave(const std::filesystem::path& folder, Description description, Target target);

  /// Communicates. Throws everywhere what one process throws.
  void write_together(const Tree& tree);
  /// On any thread, beside whatever the processes communicate: they tell each other by small files in the folder that they
  /// write. Process 0 waits so many seconds for the others, and throws what one of them throws.
  void write_alone(const Tree& tree, double seconds, Pace& pace);

 private:
  std::optional<CommittedFolder> committed_;  // in process 0
  std::filesystem::path temporary_;
  Description description_;
};

}  // namespace lockstep::checkpoint
