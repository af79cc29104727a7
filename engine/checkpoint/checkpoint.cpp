#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>

#include "engine/checkpoint/block_files.h"
#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t format_version = 1;
const std::string arrays_file = "arrays.safetensors";

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
  if (manifest["format"] != format_version && manifest["format"] != block_format) {
    throw CheckpointError("[restore] " + (folder / manifest_file).string() + " has format " +
                          manifest["format"].dump() + "; this version reads " + std::to_string(format_version) +
                          " and " + std::to_string(block_format));
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
  if (has_cut_leaves(tree)) return save_blocks(folder, tree, manifest);
  world()->run_on_first(
      "checkpoint::save of " + folder.string(), [&] { write(folder, tree, manifest); }, writing_seconds(tree));
}

namespace {

Named<std::string> entries_of(const Json& manifest) {
  Named<std::string> entries;
  for (const auto& [key, value] : manifest["entries"].items()) {
    if (!value.is_string()) throw CheckpointError("[restore] manifest entry '" + key + "' is no text");
    entries.emplace(key, value.get<std::string>());
  }
  return entries;
}

std::map<std::string, Array> whole_arrays(const std::filesystem::path& folder, const Json& manifest) {
  const std::vector<std::byte> bytes = read_file(folder / arrays_file);
  const std::string digest = sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (manifest["sha256"] != digest) {
    throw CheckpointError("[restore] " + (folder / arrays_file).string() + " has SHA-256 " + digest +
                          ", the manifest says " + manifest["sha256"].dump() + "; the file was changed or damaged");
  }
  std::map<std::string, Array> arrays;
  for (const auto& [name, array] : read_safetensors(bytes, (folder / arrays_file).string())) {
    arrays.emplace(path_of(name), array);
  }
  return arrays;
}

/// The arrays of a checkpoint of either format, read when they are asked for.
class SavedArrays {
 public:
  SavedArrays(const std::filesystem::path& folder, const Json& manifest) {
    if (manifest["format"] == block_format) {
      files_.emplace(folder, manifest.dump());
      types_ = files_->types();
      return;
    }
    whole_ = whole_arrays(folder, manifest);
    for (const auto& [path, array] : whole_) types_.emplace(path, array.type());
  }

  const std::map<std::string, ArrayType>& types() const { return types_; }
  Array whole(const std::string& path) const { return files_ ? files_->read(path) : whole_.at(path); }
  Array like(const std::string& path, const Array& expected) const {
    if (!is_cut(expected)) return whole(path);
    return cut_array(expected.type(), mesh_of(expected), layout_of(expected),
                     [&](const Shape& start, const Shape& shape) {
                       return files_ ? files_->read(path, start, shape) : part(whole_.at(path), start, shape);
                     });
  }

 private:
  static Array part(const Array& array, const Shape& start, const Shape& shape) {
    std::vector<std::int64_t> last, step(static_cast<std::size_t>(shape.rank()), 1);
    for (int d = 0; d < shape.rank(); ++d) last.push_back(start[d] + shape[d]);
    return slice(array, start.to_vector(), last, step);
  }

  std::optional<BlockFiles> files_;
  std::map<std::string, Array> whole_;
  std::map<std::string, ArrayType> types_;
};

}  // namespace

Saved restore(const std::filesystem::path& folder) {
  const Json manifest = read_manifest(folder);
  const SavedArrays arrays(folder, manifest);
  Saved saved{.tree = Tree::dict({}), .manifest = {}};
  for (const auto& [path, type] : arrays.types()) saved.tree = saved.tree.with(path, Tree(arrays.whole(path)));
  saved.manifest = entries_of(manifest);
  return saved;
}

Tree restore(const std::filesystem::path& folder, const Tree& like) {
  const SavedArrays arrays(folder, read_manifest(folder));
  const std::map<std::string, ArrayType>& saved = arrays.types();
  const std::vector<std::string> paths = like.paths();
  const std::vector<Array> expected = like.leaves();
  std::vector<Array> leaves;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto found = saved.find(paths[i]);
    if (found == saved.end()) {
      throw CheckpointError("[restore] " + folder.string() + " holds no array '" + paths[i] +
                            "'; it was saved from another model or optimizer");
    }
    if (found->second != expected[i].type()) {
      throw CheckpointError("[restore] '" + paths[i] + "' is " + to_string(found->second) + " in " + folder.string() +
                            ", expected " + to_string(expected[i].type()));
    }
    leaves.push_back(arrays.like(paths[i], expected[i]));
  }
  if (saved.size() != paths.size()) {
    for (const auto& [path, type] : saved) {
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
