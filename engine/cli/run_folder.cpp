#include "engine/cli/run_folder.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include <lockstep/checkpoint_manager.h>
#include <lockstep/error.h>
#include <lockstep/trainer.h>

#include "engine/files/folder_entries.h"
#include "engine/files/json_reader.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

fs::path manifest_of(const fs::path& run) { return run / "manifest.json"; }

/// Whole or not at all: a killed run leaves none that is half written.
void write_manifest(const fs::path& run, const Manifest& manifest) {
  const fs::path beside = run / ".manifest.json.anew";
  std::ofstream file(beside);
  json::Value entries = json::Value::object();
  for (const auto& [name, value] : manifest) entries[name] = value;
  file << entries.to_string(2) << '\n';
  file.close();
  std::error_code error;
  if (file) fs::rename(beside, manifest_of(run), error);
  if (!file || error) {
    throw CheckpointError(fmt::format("[train] {} cannot be written; free the disk, or name another folder in --run",
                                      manifest_of(run).string()));
  }
}

/// Whether nothing is there but what a run makes before its manifest.
bool is_new(const fs::path& run) {
  std::error_code error;
  const std::vector<std::string> names = files::names_in(run, error);
  return !error && std::ranges::all_of(names, [](const std::string& name) {
    return name == "writer.lock" || name == "checkpoints" || name.starts_with(".manifest.json.");
  });
}

}  // namespace

std::optional<Manifest> written_manifest(const fs::path& run) {
  const std::optional<json::Value> read = json::parse_file(manifest_of(run));
  if (!read || read->entries() == nullptr) return std::nullopt;
  Manifest manifest;
  for (const auto& [key, value] : *read->entries()) {
    // Entries are texts; what is none is shown.
    const bool has_parts = value.items() != nullptr || value.entries() != nullptr;
    manifest.emplace(key, value.text() != nullptr ? *value.text()
                          : has_parts             ? std::string(value.type_name())
                                                  : value.to_string());
  }
  return manifest;
}

std::optional<std::string> written_fingerprint(const fs::path& run) {
  const std::optional<json::Value> read = json::parse_file(run / "result.json");
  const json::Value* found = read ? read->find("fingerprint") : nullptr;
  return found == nullptr || found->text() == nullptr ? std::nullopt : std::optional(*found->text());
}

bool write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

RunFolder RunFolder::create(const fs::path& path, const Manifest& manifest) {
  if (fs::exists(path)) {
    throw ValueError("[train] the run folder " + path.string() + " exists already; name a new one, or give --resume");
  }
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw CheckpointError(fmt::format("[train] the run folder {} cannot be made: {}", path.string(), error.message()));
  }
  RunFolder folder(path);
  folder.lock_.emplace(path);
  write_manifest(path, manifest);
  return folder;
}

RunFolder RunFolder::resume(const fs::path& path, const Manifest& manifest, const std::vector<std::string>& accepted,
                            std::int64_t last) {
  RunFolder folder(path);
  const checkpoint::Manager checkpoints(folder.checkpoints());
  const auto latest = checkpoints.latest();
  const std::optional<Manifest> begun = latest ? checkpoints.manifest(*latest) : written_manifest(path);
  if (!begun && !is_new(path)) {
    throw ValueError("[train] " + path.string() + " holds no checkpoint to resume; leave --resume out to start a run");
  }
  // What the folder says of the run would be of another one than it is.
  if (latest && *latest > last) {
    throw ValueError(
        fmt::format("[train] {} stands at step {}, and the run would end with step {}; give --steps {} or "
                    "more",
                    path.string(), *latest, last, *latest));
  }
  folder.lock_.emplace(path);
  if (begun) {
    check_resumes(*begun, manifest, accepted, (latest ? checkpoints.folder_of(*latest) : manifest_of(path)).string(),
                  "--accept-change");
  }
  if (!begun || *begun != manifest) write_manifest(path, manifest);
  return folder;
}

}  // namespace lockstep::cli
