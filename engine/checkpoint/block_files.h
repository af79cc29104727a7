#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <lockstep/tree.h>

#include "engine/files/json_value.h"

// Checkpoints of arrays that lie cut: files of blocks, one for each process that has some, and an index in the manifest.
// How they are written stands in block_saves.h.
namespace lockstep::checkpoint {

/// What the manifest has for its two lists, as text.
std::string index_digest(const std::string& arrays, const std::string& blocks);

/// The arrays that such a checkpoint holds, read when they are asked for.
class BlockFiles {
 public:
  /// `manifest`: the text of one. Throws CheckpointError where the index is damaged: a digest that is another one, blocks
  /// that overlap, leave a part of their array out, or reach out of it; for a file of another length or header, and for one
  /// that the index does not know.
  BlockFiles(std::filesystem::path folder, const std::string& manifest);

  const std::map<std::string, ArrayType>& types() const { return types_; }
  /// A part of an array, from the blocks that overlap with it. Throws CheckpointError where a file is too short or a block
  /// is not what was written.
  Array read(const std::string& path, const Shape& start, const Shape& shape) const;
  Array read(const std::string& path) const;

 private:
  struct Block {
    Shape start;
    Shape shape;
    std::string file;
    std::uint64_t offset;  // in the file
    std::string sha256;
  };

  void check_cover(const std::string& path) const;
  void check_no_more_files() const;
  void check_files(const json::Value& files) const;
  void check_file(const std::string& file, std::uint64_t size, std::uint64_t header, const std::string& sha256) const;
  std::vector<std::byte> bytes_of(const std::string& path, const Block& block) const;

  std::filesystem::path folder_;
  std::map<std::string, ArrayType> types_;
  std::map<std::string, std::vector<Block>> blocks_;
};

}  // namespace lockstep::checkpoint
