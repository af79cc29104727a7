#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint.h>

namespace lockstep::cli {

using Manifest = std::map<std::string, std::string>;

/// An entry that two manifests have otherwise; "(none)" where one has none.
struct DifferentEntry {
  std::string name;
  std::string left;
  std::string right;
};
/// In the order of their names.
std::vector<DifferentEntry> different_entries(const Manifest& left, const Manifest& right);

/// Where it stands what a run was asked for.
inline std::filesystem::path config_of(const std::filesystem::path& run) { return run / "config.toml"; }
/// What stands in a manifest.json; nothing where there is none or it is damaged.
std::optional<Manifest> written_manifest(const std::filesystem::path& run);
/// The fingerprint in a result.json; nothing where there is none: the run has not come to its end.
std::optional<std::string> written_fingerprint(const std::filesystem::path& run);
/// What in a run's folder is a link, a FIFO, a device or a socket, and what to do; "" where nothing is: a folder that comes
/// from elsewhere must not lead to other files.
std::string foreign_in(const std::filesystem::path& run);

/// A run's folder: manifest.json, config.toml, metrics.csv, speed.csv, checkpoints/step-N.
class RunFolder {
 public:
  /// Makes it, to be written by this process alone. Throws ValueError where it exists.
  static RunFolder create(const std::filesystem::path& path, const Manifest& manifest, const std::string& config);
  /// Opens one to go on with, likewise: from its latest checkpoint, or from the beginning where a run was cut off before
  /// its first one, to the step `last`. Nothing in it changes before `write`. Throws ValueError where it does not exist, no run was there or it is beyond that
  /// step, CheckpointError where an entry that bits depend on differs and is not accepted, naming it, and where another
  /// process writes the folder or this one may not.
  static RunFolder resume(const std::filesystem::path& path, const Manifest& manifest,
                          const std::vector<std::string>& accepted, std::int64_t last);

  /// One that process 0 makes or opens, and writes.
  static RunFolder elsewhere(const std::filesystem::path& path) { return RunFolder(path); }

  /// What bits depend on, what was asked for, and the changes that were accepted: all or none. Throws CheckpointError where the disk takes them not.
  void write(const Manifest& manifest, const std::string& config) const;

  std::filesystem::path metrics() const { return path_ / "metrics.csv"; }
  /// Apart from the metrics, which two runs of the same bits have alike to the last byte.
  std::filesystem::path speed() const { return path_ / "speed.csv"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path events() const { return path_ / "events"; }
  /// There once the run has come to its end.
  std::filesystem::path result() const { return path_ / "result.json"; }
  /// Of a run that goes on. Throws CheckpointError.
  void remove_result() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::string changes_;  ///< What stands in their file; empty: none were accepted, and there is none.
  std::optional<checkpoint::WriterLock> lock_ = std::nullopt;
};

}  // namespace lockstep::cli
