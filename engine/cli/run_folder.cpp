#include "engine/cli/run_folder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/checkpoint_manager.h>
#include <lockstep/error.h>
#include <lockstep/trainer.h>

#include "engine/cli/accepted_changes.h"
#include "engine/cli/given_paths.h"
#include "engine/files/folder_entries.h"
#include "engine/files/json_reader.h"
#include "engine/files/open_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

fs::path manifest_file_of(const fs::path& run) { return run / "manifest.json"; }

std::string manifest_text(const Manifest& manifest) {
  json::Value entries = json::Value::object();
  for (const auto& [name, value] : manifest) entries[name] = value;
  return entries.to_string(2) + '\n';
}

/// All of them or none: each is written before the first one takes its file's place.
void replace_texts(const std::vector<std::pair<fs::path, std::string>>& texts) {
  std::vector<std::unique_ptr<files::Replacement>> written;
  for (const auto& [file, text] : texts) {
    try {
      written.push_back(std::make_unique<files::Replacement>(file));
      written.back()->write(std::as_bytes(std::span(text)));
    } catch (const files::FileError& error) {
      throw CheckpointError(
          fmt::format("[train] {} cannot be written: {}; free the disk, or name another folder in --run", file.string(),
                      error.why()));
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      written[i]->commit();
    } catch (const files::FileError& error) {
      throw CheckpointError(
          fmt::format("[train] {} cannot be replaced: {}; make it a file that may be written, or name "
                      "another folder in --run",
                      texts[i].first.string(), error.why()));
    }
  }
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (!error) return;
  throw CheckpointError(
      fmt::format("[train] {} cannot be removed: {}; it is of another run than what the folder has now, take it away",
                  path.string(), error.message()));
}

/// Throws CheckpointError where something that a run writes anew is no file, or may not be written.
void check_writable(const fs::path& run) {
  const auto refuse = [](const fs::path& path, const std::string& what) {
    throw CheckpointError(
        fmt::format("[train] {} cannot be written: it is {}; take it away, or let it be written", path.string(), what));
  };
  if (::access(run.c_str(), W_OK | X_OK) != 0) refuse(run, "a folder that this user may not write");
  for (const char* name : {"manifest.json", "config.toml", "metrics.csv", "speed.csv", "bits.csv", "result.json",
                           "accepted_changes.json"}) {
    std::error_code error;
    const fs::path path = run / name;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) continue;
    if (!fs::is_regular_file(status)) refuse(path, fs::is_directory(status) ? "a folder" : "no regular file");
    if (::access(path.c_str(), W_OK) != 0) refuse(path, "a file that this user may not write");
  }
}

/// Whether nothing is there but what a run makes before its manifest.
bool is_new(const fs::path& run) {
  std::error_code error;
  const std::vector<std::string> names = files::names_in(run, error);
  return !error && std::ranges::all_of(names, [](const std::string& name) {
    return name == "writer.lock" || name == "checkpoints" || name == "config.toml" || name.ends_with(".anew") ||
           files::is_hidden_name(name, "", false);
  });
}

}  // namespace

std::optional<Manifest> written_manifest(const fs::path& run) {
  const std::optional<json::Value> read = json::parse_file(manifest_file_of(run));
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

std::vector<DifferentEntry> different_entries(const Manifest& left, const Manifest& right) {
  Manifest all = left;
  all.insert(right.begin(), right.end());
  const auto shown = [](const Manifest& manifest, const std::string& name) {
    const auto found = manifest.find(name);
    return found == manifest.end() ? std::string("(none)") : found->second;
  };
  std::vector<DifferentEntry> different;
  for (const auto& [name, unused] : all) {
    DifferentEntry entry{name, shown(left, name), shown(right, name)};
    if (entry.left != entry.right) different.push_back(std::move(entry));
  }
  return different;
}

std::string foreign_in(const fs::path& run) {
  const auto found = files::foreign_entry(run);
  if (!found) return "";
  return fmt::format(
      "{} is {}, which may lead anywhere; a run's folder has only files and folders of its own: take it away, or put "
      "the file itself in its place",
      found->first.string(), found->second);
}

void RunFolder::write(const Manifest& manifest, const std::string& config) const {
  std::vector<std::pair<fs::path, std::string>> texts = {{config_of(path_), config},
                                                         {manifest_file_of(path_), manifest_text(manifest)}};
  if (!changes_.empty()) texts.emplace_back(changes_file(path_), changes_);
  replace_texts(texts);
  if (changes_.empty()) remove_file(changes_file(path_));
}

void RunFolder::remove_result() const { remove_file(result()); }

RunFolder RunFolder::create(const fs::path& path, const Manifest& manifest, const std::string& config) {
  check_new_run(path);
  std::error_code error;
  const bool is_made = fs::create_directories(path, error);
  if (error) {
    throw CheckpointError(fmt::format("[train] the run folder {} cannot be made: {}; name another one in --run",
                                      path.string(), error.message()));
  }
  if (!is_made) check_new_run(path);  // by way of ".." of a folder that was not there
  RunFolder folder(path);
  folder.lock_.emplace(path);
  folder.write(manifest, config);
  return folder;
}

RunFolder RunFolder::resume(const fs::path& path, const Manifest& manifest, const std::vector<std::string>& accepted,
                            std::int64_t last) {
  if (const std::string why = not_a_folder(path); !why.empty()) {
    throw ValueError(fmt::format("[train] {} holds no checkpoint to resume: {}; leave --resume out to start a run",
                                 path.string(), why));
  }
  if (const std::string found = foreign_in(path); !found.empty()) throw CheckpointError("[train] " + found);
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
  check_writable(path);
  folder.lock_.emplace(path);
  if (begun) {
    Manifest now = manifest;
    // Runs of earlier versions do not say what rows they were trained on; the digest of all of them does.
    for (const char* entry : {"classes", "row_shape"}) {
      if (!begun->contains(entry)) now.erase(entry);
    }
    check_resumes(*begun, now, accepted, (latest ? checkpoints.folder_of(*latest) : manifest_file_of(path)).string(),
                  "--accept-change");
    if (latest) {
      const std::vector<AcceptedChange> changes = changes_from(path, *latest, *begun, now);
      if (!changes.empty()) folder.changes_ = text_of(changes);
    }
  }
  return folder;
}

}  // namespace lockstep::cli
