#include <optional>
#include <set>
#include <utility>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/tree_of_paths.h>

#include "engine/checkpoint/array_names.h"
#include "engine/checkpoint/block_files.h"
#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

/// Which part of a file that is not what was written is another one, for people.
std::string damaged_part(const std::vector<std::byte>& bytes, const std::filesystem::path& file,
                         const Manifest& manifest) {
  try {
    for (const auto& [name, array] : read_safetensors(bytes, file.string(), Unnamed::in_parts)) {
      const auto sum = manifest.array_sums.find(path_of(name));
      if (sum != manifest.array_sums.end() && sum->second != quick_sum(array.to_bytes())) {
        return "array '" + path_of(name) + "' in it";
      }
    }
    return "its header";
  } catch (const Error& error) {
    return "its header (" + std::string(error.what()) + ")";
  }
}

std::map<std::string, Array> whole_arrays(const std::filesystem::path& folder, const Manifest& manifest) {
  const std::filesystem::path file = folder / arrays_file;
  const std::vector<std::byte> bytes = read_file(file);
  if (const std::string digest = digest_of(bytes); manifest.sha256 != digest) {
    throw CheckpointError("[restore] " + file.string() + " has SHA-256 " + digest + ", the manifest says \"" +
                          manifest.sha256 +
                          "\"; the file was changed or damaged: " + damaged_part(bytes, file, manifest));
  }
  std::map<std::string, Array> arrays;
  for (const auto& [name, array] : read_safetensors(bytes, file.string(), Unnamed::in_parts)) {
    arrays.emplace(path_of(name), array);
  }
  return arrays;
}

/// The arrays of a checkpoint of either format, read when they are asked for.
class SavedArrays {
 public:
  SavedArrays(const std::filesystem::path& folder, const Manifest& manifest) {
    if (manifest.format == block_format) {
      files_.emplace(folder, manifest.text);
      types_ = files_->types();
    } else {
      whole_ = whole_arrays(folder, manifest);
      for (const auto& [path, array] : whole_) types_.emplace(path, array.type());
    }
    check_step(folder, manifest.description);
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
  /// Throws CheckpointError where the leaf that counts the steps has another number than the manifest.
  void check_step(const std::filesystem::path& folder, const Description& description) const {
    if (description.counter.empty()) return;
    const auto found = types_.find(description.counter);
    const bool counts = found != types_.end() && found->second.shape.rank() == 0 && is_integer(found->second.dtype);
    const std::string number = counts ? std::to_string(whole(description.counter).item<std::int64_t>()) : "no number";
    if (number == std::to_string(*description.step)) return;
    throw CheckpointError("[restore] " + folder.string() + ": its manifest is of step " +
                          std::to_string(*description.step) + ", but '" + description.counter + "' in it is " + number +
                          "; its files are of different checkpoints or were changed: take another checkpoint");
  }

  static Array part(const Array& array, const Shape& start, const Shape& shape) {
    std::vector<std::int64_t> last, step(static_cast<std::size_t>(shape.rank()), 1);
    for (int d = 0; d < shape.rank(); ++d) last.push_back(start[d] + shape[d]);
    return slice(array, start.to_vector(), last, step);
  }

  std::optional<BlockFiles> files_;
  std::map<std::string, Array> whole_;
  std::map<std::string, ArrayType> types_;
};

// ---- other paths than those asked for

bool is_at_or_below(const std::string& path, const std::string& top) {
  return top.empty() || path == top || path.starts_with(top + "/");
}

/// Where the checkpoint has what `like` has at a path.
class SavedPaths {
 public:
  SavedPaths(const Named<std::string>& renamed, const std::map<std::string, ArrayType>& saved)
      : renamed_(renamed), saved_(saved) {}

  std::string of(const std::string& path) {
    const std::pair<const std::string, std::string>* best = nullptr;
    for (const auto& entry : renamed_) {
      if (is_at_or_below(path, entry.first) && (best == nullptr || entry.first.size() > best->first.size())) {
        best = &entry;
      }
    }
    if (best == nullptr) return path;
    std::string other = renamed_path(path, *best);
    asked_.insert(best->first);
    if (saved_.contains(other)) found_.insert(best->first);
    return other;
  }
  /// Throws CheckpointError for a name that nothing was asked for by, or that nothing was saved under.
  void check_used() const {
    for (const auto& [path, saved] : renamed_) {
      if (found_.contains(path)) continue;
      const std::string entry =
          "[restore] renamed has '" + path + "' (saved as '" + saved + "'), but nothing of what is ";
      throw CheckpointError(asked_.contains(path) ? entry + "saved is there; name paths of the checkpoint"
                                                  : entry + "asked for is there; name paths of `like`");
    }
  }

 private:
  static std::string renamed_path(const std::string& path, const std::pair<const std::string, std::string>& entry) {
    std::string rest = entry.first.empty() ? (path.empty() ? "" : "/" + path) : path.substr(entry.first.size());
    if (entry.second.empty() && !rest.empty()) rest = rest.substr(1);
    return entry.second + rest;
  }

  const Named<std::string>& renamed_;
  const std::map<std::string, ArrayType>& saved_;
  std::set<std::string> asked_, found_;
};

/// All arrays, in dicts.
Tree tree_of(const std::filesystem::path& folder, const SavedArrays& arrays) {
  std::vector<std::pair<std::string, Tree>> entries;
  for (const auto& [path, type] : arrays.types()) entries.emplace_back(path, arrays.whole(path));
  try {
    return tree_of_paths(std::move(entries));
  } catch (const StateError& error) {
    throw CheckpointError("[restore] " + folder.string() + " was not written by checkpoint::save: " + error.what());
  }
}

void check_surplus(const std::filesystem::path& folder, const SavedArrays& arrays, const std::set<std::string>& taken) {
  for (const auto& [path, type] : arrays.types()) {
    if (taken.contains(path)) continue;
    throw CheckpointError("[restore] " + folder.string() + " holds '" + path +
                          "', which is not expected; it was saved from another model or optimizer, or ignore_surplus "
                          "leaves it out");
  }
}

}  // namespace

Saved restore(const std::filesystem::path& folder) {
  const Manifest manifest = read_manifest(folder);
  const SavedArrays arrays(folder, manifest);
  Saved saved{
      .tree = Tree::dict({}), .manifest = manifest.description.entries, .metrics = manifest.description.metrics};
  saved.tree = tree_of(folder, arrays);
  return saved;
}

Tree restore(const std::filesystem::path& folder, const Tree& like, const RestoreOptions& options) {
  const SavedArrays arrays(folder, read_manifest(folder));
  const std::map<std::string, ArrayType>& saved = arrays.types();
  const std::vector<std::string> paths = like.paths();
  const std::vector<Array> expected = like.leaves();
  SavedPaths saved_paths(options.renamed, saved);
  std::set<std::string> taken;
  std::vector<Array> leaves;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string path = saved_paths.of(paths[i]);
    const std::string shown = path == paths[i] ? "'" + path + "'" : "'" + path + "' (for '" + paths[i] + "')";
    const auto found = saved.find(path);
    if (found == saved.end() && options.keep_missing) {
      leaves.push_back(expected[i]);
      continue;
    }
    if (found == saved.end()) {
      throw CheckpointError("[restore] " + folder.string() + " holds no array " + shown +
                            "; it was saved from another model or optimizer, or keep_missing leaves it as it is");
    }
    if (found->second != expected[i].type()) {
      throw CheckpointError("[restore] " + shown + " is " + to_string(found->second) + " in " + folder.string() +
                            ", expected " + to_string(expected[i].type()));
    }
    taken.insert(path);
    leaves.push_back(arrays.like(path, expected[i]));
  }
  saved_paths.check_used();
  if (!options.ignore_surplus) check_surplus(folder, arrays, taken);
  return like.unflatten(std::move(leaves));
}

}  // namespace lockstep::checkpoint
