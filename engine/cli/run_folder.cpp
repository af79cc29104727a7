#include "engine/cli/run_folder.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/tree.h>

namespace lockstep::cli {
namespace {

Tree saved_tree(const TrainState& state, const data::Position& position) {
  return Tree::dict(
      {{"state", to_tree(state)},
       {"data", Tree::dict({{"epoch", Tree(array(position.epoch))}, {"row", Tree(array(position.row))}})}});
}

std::int64_t step_of(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  std::int64_t step = -1;
  if (name.starts_with("step-")) std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return step;
}

std::string shown(const Manifest& manifest, const std::string& key) {
  const auto found = manifest.find(key);
  return found == manifest.end() ? "absent" : "'" + found->second + "'";
}

void check_manifest(const Manifest& saved, const Manifest& now, const std::filesystem::path& path) {
  Manifest keys = saved;
  keys.insert(now.begin(), now.end());
  for (const auto& [key, unused] : keys) {
    if (shown(saved, key) != shown(now, key)) {
      throw CheckpointError("[resume] " + path.string() + ": '" + key + "' was " + shown(saved, key) +
                            " when the run was saved and is " + shown(now, key) +
                            " now; the run's bits depend on it, so go on under the saved one or start a new run");
    }
  }
}

}  // namespace

RunFolder RunFolder::create(const std::filesystem::path& path, const Manifest& manifest) {
  if (std::filesystem::exists(path)) {
    throw ValueError("[train] the run folder " + path.string() + " exists already; name a new one, or give --resume");
  }
  std::filesystem::create_directories(path / "checkpoints");
  std::ofstream(path / "manifest.json") << nlohmann::json(manifest).dump(2) << '\n';
  RunFolder folder(path);
  folder.lock_.emplace(path);
  return folder;
}

RunFolder RunFolder::resume(const std::filesystem::path& path, const Manifest& manifest) {
  RunFolder folder(path);
  const auto newest = std::filesystem::exists(path) ? folder.newest_checkpoint() : std::nullopt;
  if (!newest) {
    throw ValueError("[train] " + path.string() + " holds no checkpoint to resume; leave --resume out to start a run");
  }
  check_manifest(checkpoint::restore(*newest).manifest, manifest, *newest);
  folder.lock_.emplace(path);
  return folder;
}

std::optional<std::filesystem::path> RunFolder::newest_checkpoint() const {
  std::optional<std::filesystem::path> newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_ / "checkpoints", error)) {
    if (step_of(entry.path()) >= 0 && (!newest || step_of(entry.path()) > step_of(*newest))) newest = entry.path();
  }
  return newest;
}

void RunFolder::append_metrics(const std::map<std::string, double>& row) {
  const std::filesystem::path path = path_ / "metrics.csv";
  const bool fresh = !std::filesystem::exists(path);
  std::ofstream file(path, std::ios::app);
  std::string names;
  std::string values;
  for (const auto& [name, value] : row) {
    names += (names.empty() ? "" : ",") + name;
    values += (values.empty() ? "" : ",") + fmt::format("{}", value);
  }
  if (fresh) file << names << '\n';
  file << values << '\n';
  if (!file.flush()) throw CheckpointError("[train] " + path.string() + " cannot be written");
}

void RunFolder::save(const TrainState& state, const data::Position& position, const Manifest& manifest) {
  const auto step = state.step.item<std::int64_t>();
  if (step == saved_step_) return;
  checkpoint::save(path_ / "checkpoints" / fmt::format("step-{}", step), saved_tree(state, position), manifest);
  saved_step_ = step;
}

std::pair<TrainState, data::Position> RunFolder::latest(const TrainState& like) {
  const std::filesystem::path newest = *newest_checkpoint();
  saved_step_ = step_of(newest);
  const Tree tree = checkpoint::restore(newest, saved_tree(like, {}));
  return {from_tree<TrainState>(tree.at("state")),
          {tree.at("data/epoch").array().item<std::int64_t>(), tree.at("data/row").array().item<std::int64_t>()}};
}

}  // namespace lockstep::cli
