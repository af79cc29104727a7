#include <utility>

#include <nlohmann/json.hpp>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t format_version = 1;
const std::string arrays_file = "arrays.safetensors";
const std::string manifest_file = "manifest.json";

// The file format keeps this name for itself.
const std::string reserved_name = "__metadata__";
const std::string escaped_name = "~2__metadata__";  // no path begins so: trees escape '~' before a 2

/// A leaf's name in the file, and its path again.
std::string name_of(const std::string& path) { return path == reserved_name ? escaped_name : path; }
std::string path_of(const std::string& name) { return name == escaped_name ? reserved_name : name; }

std::map<std::string, Array> by_path(const Tree& tree) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  std::map<std::string, Array> arrays;
  for (std::size_t i = 0; i < paths.size(); ++i) arrays.emplace(paths[i], leaves[i]);
  return arrays;
}

Json read_manifest(const std::filesystem::path& folder) {
  const std::vector<std::byte> bytes = read_file(folder / manifest_file);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const Json manifest = Json::parse(text, text + bytes.size(), nullptr, false);
  if (!manifest.is_object() || !manifest.contains("format") || !manifest.contains("sha256") ||
      !manifest.contains("entries") || !manifest["entries"].is_object()) {
    throw CheckpointError("[restore] " + (folder / manifest_file).string() +
                          " is no manifest; expected a JSON object with format, sha256 and entries");
  }
  if (manifest["format"] != format_version) {
    throw CheckpointError("[restore] " + (folder / manifest_file).string() + " has format " +
                          manifest["format"].dump() + "; this version reads " + std::to_string(format_version));
  }
  return manifest;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void write(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest) {
  std::map<std::string, Array> named;
  for (auto& [path, array] : by_path(tree)) named.emplace(name_of(path), array);
  const std::vector<std::byte> arrays = write_safetensors(named);
  const std::string digest = sha256({reinterpret_cast<const char*>(arrays.data()), arrays.size()});
  const Named<std::string>::Map& entries = manifest;
  const Json described = {{"format", format_version}, {"sha256", digest}, {"entries", entries}};
  const std::string text = [&] {
    try {
      return described.dump(2) + "\n";
    } catch (const Json::type_error&) {
      throw CheckpointError("[save] the manifest holds what is no UTF-8 text; write its entries so");
    }
  }();
  CommittedFolder committed(folder);
  committed.write(arrays_file, arrays);
  committed.write(manifest_file, bytes_of(text));
  committed.commit();
}

/// For how long the others wait for process 0 beyond the time limit: a slow disk's time for these bytes.
double writing_seconds(const Tree& tree) {
  constexpr double slowest_bytes_per_second = 1e7;
  double bytes = 0;
  for (const Array& leaf : tree.leaves()) {
    if (leaf.has_value()) bytes += static_cast<double>(leaf.type().nbytes());
  }
  return bytes / slowest_bytes_per_second;
}

}  // namespace

void save(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest) {
  world()->run_on_first(
      "checkpoint::save of " + folder.string(), [&] { write(folder, tree, manifest); }, writing_seconds(tree));
}

Saved restore(const std::filesystem::path& folder) {
  const Json manifest = read_manifest(folder);
  const std::vector<std::byte> bytes = read_file(folder / arrays_file);
  const std::string digest = sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (manifest["sha256"] != digest) {
    throw CheckpointError("[restore] " + (folder / arrays_file).string() + " has SHA-256 " + digest +
                          ", the manifest says " + manifest["sha256"].dump() + "; the file was changed or damaged");
  }
  Saved saved{.tree = Tree::dict({}), .manifest = {}};
  for (const auto& [name, array] : read_safetensors(bytes, (folder / arrays_file).string())) {
    saved.tree = saved.tree.with(path_of(name), Tree(array));
  }
  for (const auto& [key, value] : manifest["entries"].items()) {
    if (!value.is_string()) throw CheckpointError("[restore] manifest entry '" + key + "' is no text");
    saved.manifest.emplace(key, value.get<std::string>());
  }
  return saved;
}

Tree restore(const std::filesystem::path& folder, const Tree& like) {
  const std::map<std::string, Array> saved = by_path(restore(folder).tree);
  const std::vector<std::string> paths = like.paths();
  const std::vector<Array> expected = like.leaves();
  std::vector<Array> leaves;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto found = saved.find(paths[i]);
    if (found == saved.end()) {
      throw CheckpointError("[restore] " + folder.string() + " holds no array '" + paths[i] +
                            "'; it was saved from another model or optimizer");
    }
    if (found->second.type() != expected[i].type()) {
      throw CheckpointError("[restore] '" + paths[i] + "' is " + to_string(found->second.type()) + " in " +
                            folder.string() + ", expected " + to_string(expected[i].type()));
    }
    leaves.push_back(found->second);
  }
  if (saved.size() != paths.size()) {
    for (const auto& [path, array] : saved) {
      if (!like.contains(path)) {
        throw CheckpointError("[restore] " + folder.string() + " holds '" + path +
                              "', which is not expected; it was saved from another model or optimizer");
      }
    }
  }
  return like.unflatten(std::move(leaves));
}

std::map<std::string, Array> load_safetensors(const std::filesystem::path& file) {
  return read_safetensors(read_file(file), file.string());
}

void save_safetensors(const std::filesystem::path& file, const Named<Array>& tensors) {
  replace_file(file, write_safetensors(tensors));
}

}  // namespace lockstep::checkpoint
