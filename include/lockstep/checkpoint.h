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

/// A saved tree with a few words of text beside it.
struct Saved {
  Tree tree;
  Named<std::string> manifest;
};

/// For the time of its life this process alone writes the folder: "writer.lock" in it says who does, and goes in the end.
/// A process that was killed holds nothing.
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
};

/// Called by all processes at once: process 0 writes, the others wait for it and throw where it does. A process that does
/// something else meanwhile is a CommunicatorError. Writes `folder` (which must not exist) with arrays.safetensors and manifest.json: into a temporary folder beside it,
/// files and folder synced, then renamed, and the parent synced. Throws CheckpointError naming file and system error.
/// A tree of which an array lies cut is saved by all processes together, each of which must call this: each writes its own
/// blocks (blocks-<rank>.safetensors), process 0 whole arrays and the index, in which each block has a checksum. Where one
/// process fails, no folder appears and all throw, naming it.
LOCKSTEP_API void save(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest);
/// Reads it back; sizes and the stored fingerprint are checked before anything is believed. Dicts and lists come back
/// as dicts; give `like` to restore its structure and to have every leaf's type checked by path. Arrays come back whole,
/// however they lay.
LOCKSTEP_API Saved restore(const std::filesystem::path& folder);
/// As the leaves of `like` lie: of one that lies cut each process reads what its blocks need, whatever the layout, the
/// devices and the processes that saved it. Throws CheckpointError naming the path of a missing or surplus leaf, or of one
/// of another type.
LOCKSTEP_API Tree restore(const std::filesystem::path& folder, const Tree& like);

/// The tensors of a .safetensors file by name ("layers.0.weight"), as Python's safetensors.numpy.load_file. The file's
/// lengths and offsets are checked before they are believed. Throws CheckpointError naming file and tensor.
LOCKSTEP_API std::map<std::string, Array> load_safetensors(const std::filesystem::path& file);
/// Writes such a file, or replaces it as a whole; rows of a matrix lie one after the other. Throws CheckpointError
/// naming file and system error, or a tensor of complex numbers, which have no name there.
LOCKSTEP_API void save_safetensors(const std::filesystem::path& file, const Named<Array>& tensors);

}  // namespace checkpoint
}  // namespace lockstep
