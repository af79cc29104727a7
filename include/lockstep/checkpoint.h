#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/named.h>
#include <lockstep/tree.h>

namespace lockstep {

/// SHA-256 over all leaves in the byte order of their paths; 64 hex digits. For each leaf the hash takes: the path's
/// bytes, a zero byte, the long dtype name, a zero byte, the rank as one uint64, each extent as one uint64
/// (little-endian), then the data, row-major and little-endian. Of a struct of arrays, such as a TrainState:
/// fingerprint(to_tree(state)). Throws StateError for a tree without leaves and for a leaf that holds nothing: what was
/// moved away has no fingerprint. Arrays that lie cut are gathered one by one: then every process must call it.
LOCKSTEP_API std::string fingerprint(const Tree& tree);
/// 64 hex digits.
LOCKSTEP_API std::string sha256(std::string_view bytes);

namespace checkpoint {

/// A saved tree with a few words of text and numbers beside it.
struct Saved {
  Tree tree;
  Named<std::string> manifest;
  Named<double> metrics = {};
};

/// How a checkpoint may differ from what is asked for.
struct RestoreOptions {
  /// Leaves of `like` that the checkpoint does not have stay as they are in `like`.
  bool keep_missing = false;
  /// Arrays of the checkpoint that `like` does not have are left out.
  bool ignore_surplus = false;
  /// Paths of `like`, of leaves or of all below, and where the checkpoint has them: {{"encoder", "model/old_encoder"}}.
  /// The longest path that fits counts. "" is the whole tree.
  Named<std::string> renamed = {};
};

/// For the time of its life this process alone writes the folder: "writer.lock" in it says who does, and goes in the end.
/// A process that was killed holds nothing, and one that was forked from it gives nothing up.
class LOCKSTEP_API WriterLock {
 public:
  /// Throws CheckpointError naming the process that writes it already, or the system error.
  explicit WriterLock(const std::filesystem::path& folder);
  ~WriterLock();
  WriterLock(WriterLock&& other) noexcept;
  WriterLock& operator=(WriterLock&& other) noexcept;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int owner_ = -1;  // the process
};

/// Called by all processes at once: process 0 writes, the others wait for it and throw where it does. A process that does
/// something else meanwhile is a CommunicatorError. Writes `folder` (which must not exist; parents are made) with
/// arrays.safetensors, manifest.json and SHA256SUMS, which `sha256sum -c` reads: into a temporary folder beside it, files
/// and folder synced, then renamed, and the parent synced. What a killed save of this name has left there is removed.
/// Random keys and complex numbers are written as their parts, with a last dimension of 2. Throws CheckpointError naming
/// file and system error.
/// A tree of which an array lies cut is saved by all processes together, each of which must call this: each writes its own
/// blocks (blocks-<rank>.safetensors), process 0 whole arrays and the index, in which each block has a checksum. Where one
/// process fails, no folder appears and all throw, naming it.
LOCKSTEP_API void save(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest);
/// Reads it back; sizes and checksums are checked before anything is believed: a byte that was changed anywhere in the
/// folder, or is missing, is a CheckpointError naming file and array, and so is a folder without SHA256SUMS, or one that is
/// named "step-<n>" after another step than its manager saved. Dicts and lists come back as dicts; give `like` to
/// restore its structure and to have every leaf's type checked by path. Arrays come back whole, however they lay.
LOCKSTEP_API Saved restore(const std::filesystem::path& folder);
/// As the leaves of `like` lie: of one that lies cut each process reads what its blocks need, whatever the layout, the
/// devices and the processes that saved it. Throws CheckpointError naming the path of a missing or surplus leaf, or of one
/// of another type, and a path of `renamed` that names nothing.
LOCKSTEP_API Tree restore(const std::filesystem::path& folder, const Tree& like, const RestoreOptions& options = {});

/// The tensors of a .safetensors file by name ("layers.0.weight"), as Python's safetensors.numpy.load_file. The file's
/// lengths and offsets are checked before they are believed. Throws CheckpointError naming file and tensor.
LOCKSTEP_API std::map<std::string, Array> load_safetensors(const std::filesystem::path& file);
/// Writes such a file, or replaces it as a whole; rows of a matrix lie one after the other. Throws CheckpointError
/// naming file and system error, or a tensor of keys or complex numbers, which have no name there: a checkpoint, or their
/// parts, can be saved.
LOCKSTEP_API void save_safetensors(const std::filesystem::path& file, const Named<Array>& tensors);

}  // namespace checkpoint
}  // namespace lockstep
