#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include <lockstep/checkpoint.h>
#include <lockstep/data.h>
#include <lockstep/train.h>

namespace lockstep::cli {

using Manifest = std::map<std::string, std::string>;

/// A run's folder: manifest.json, metrics.csv, checkpoints/step-N.
class RunFolder {
 public:
  /// Makes it, to be written by this process alone. Throws ValueError where it exists.
  static RunFolder create(const std::filesystem::path& path, const Manifest& manifest);
  /// Opens one to go on with, likewise. Throws ValueError where it does not exist or holds no checkpoint, CheckpointError where
  /// an entry that bits depend on differs, naming it, and where another process writes the folder.
  static RunFolder resume(const std::filesystem::path& path, const Manifest& manifest);

  /// One that process 0 makes or opens, and writes.
  static RunFolder elsewhere(const std::filesystem::path& path) { return RunFolder(path); }

  void append_metrics(const std::map<std::string, double>& row);
  /// Called by all processes.
  void save(const TrainState& state, const data::Position& position, const Manifest& manifest);
  /// The newest checkpoint, in the structure of `like`.
  std::pair<TrainState, data::Position> latest(const TrainState& like);

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::optional<std::filesystem::path> newest_checkpoint() const;

  std::filesystem::path path_;
  std::optional<checkpoint::WriterLock> lock_ = std::nullopt;
  std::int64_t saved_step_ = -1;  ///< Of the last checkpoint.
};

}  // namespace lockstep::cli
