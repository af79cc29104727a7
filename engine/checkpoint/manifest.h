#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/named.h>

#include "engine/checkpoint/committed_folder.h"

// The file manifest.json of a checkpoint, and SHA256SUMS, which vouches for it.
namespace lockstep::checkpoint {

inline constexpr std::int64_t whole_format = 1;  ///< All arrays in one file.
inline constexpr std::int64_t block_format = 2;
inline const std::string manifest_file = "manifest.json";
inline const std::string arrays_file = "arrays.safetensors";

inline const std::string step_prefix = "step-";  ///< Of the folders that a manager saves.
/// The step of such a folder's name; nothing where it has another, "step-0009" for one.
std::optional<std::int64_t> step_in(std::string_view name);

/// What a checkpoint says of itself.
struct Description {
  Named<std::string> entries;
  Named<double> metrics;
  /// Of a manager's checkpoint.
  std::optional<std::int64_t> step = {};
  /// The path of the leaf that counts the steps, where there is one, or nothing.
  std::string counter = {};
};

struct Manifest {
  std::int64_t format = whole_format;
  std::string sha256;  ///< Of the file of arrays, or of the index of blocks.
  Description description;
  /// By path of an array, what tells that its bytes were changed.
  Named<std::string> array_sums;
  std::string more;  ///< Fields of a format of its own: a JSON object, or nothing.
  std::string text;  ///< As it was read.
};

/// Throws CheckpointError for text that is no UTF-8.
void write_manifest(CommittedFolder& folder, const Manifest& manifest);
/// Of the file's text alone, whatever is said of it elsewhere. Throws CheckpointError naming the file and what in it is
/// none or of another format.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& file);
/// Throws CheckpointError naming the file that is missing, damaged or of another format, and where a folder has the name
/// of another step than its manifest has.
Manifest read_manifest(const std::filesystem::path& folder);

std::string digest_of(std::span<const std::byte> bytes);
/// Quickly made of so many bytes, given in parts, all but the last of which are multiples of 8; another one where a few of
/// the bytes are others.
class QuickSum {
 public:
  explicit QuickSum(std::uint64_t bytes) : sum_(bytes) {}
  void add(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  std::uint64_t sum_;
};
/// That of all bytes.
std::string quick_sum(std::span<const std::byte> bytes);

}  // namespace lockstep::checkpoint
