#include "engine/checkpoint/block_saves.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>

#include "engine/checkpoint/array_parts.h"
#include "engine/checkpoint/block_files.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/restorable.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/sha256.h"
#include "engine/files/json_reader.h"
#include "engine/files/open_file.h"

namespace lockstep::checkpoint {
namespace {

using json::Value;

// ---- all processes together

/// Does `work` here; throws everywhere what one process throws.
void together(const std::function<void()>& work) {
  std::string failure;
  try {
    const AtWork at_work(*world());
    work();
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "an error without a text";
  }
  const std::vector<std::string> failures = world()->all_gather_text(failure);
  for (std::size_t r = 0; r < failures.size(); ++r) {
    if (failures[r].empty()) continue;
    throw CheckpointError(failures.size() == 1 ? failure : "[save] process " + std::to_string(r) + ": " + failures[r]);
  }
}

// ---- what a process writes

struct OwnBlock {
  std::string path;
  Shape start;
  ArrayType type;
  Array values;
};

/// Those of a leaf that this process writes.
std::vector<OwnBlock> own_blocks(const std::string& path, const Array& leaf) {
  const int rank = world()->rank();
  if (!is_cut(leaf)) {
    if (rank != 0) return {};
    return {{path, Shape(std::vector<std::int64_t>(static_cast<std::size_t>(leaf.ndim()))), leaf.type(), leaf}};
  }
  std::vector<OwnBlock> blocks;
  for (ArrayBlock& block : local_blocks(leaf)) {
    if (block.owner == rank) blocks.push_back({path, block.start, block.values.type(), std::move(block.values)});
  }
  return blocks;
}

/// Calls visit(block) in the order of the file; of the blocks that had to be copied, those of one leaf are there at a time.
void for_each_own_block(const Tree& tree, const std::function<void(const OwnBlock&)>& visit) {
  const std::vector<std::string> paths = checked_paths(tree);
  const std::vector<Array> leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    for (const OwnBlock& block : own_blocks(paths[i], leaves[i])) visit(block);
  }
}

/// Names in the file sort as the blocks follow each other.
std::string block_name(std::size_t block) {
  const std::string number = std::to_string(block);
  return "block" + std::string(8 - std::min<std::size_t>(number.size(), 8), '0') + number;
}

/// Writes this process's file; the index of its blocks, and what the file is known by, as text.
std::string write_own(const std::filesystem::path& temporary, const Tree& tree, Pace* pace = nullptr) {
  std::map<std::string, ArrayType> types;
  for_each_own_block(tree, [&](const OwnBlock& block) { types.emplace(block_name(types.size()), block.type); });
  if (types.empty()) return R"({"blocks": [], "files": []})";
  const std::string file = "blocks-" + std::to_string(world()->rank()) + ".safetensors";
  const std::vector<std::byte> header = safetensors_header(types, Unnamed::in_parts);
  NewFile target(temporary / file, pace);
  target.write(header);
  std::uint64_t offset = header.size();
  Value written;
  for_each_own_block(tree, [&](const OwnBlock& block) {
    Sha256 digest;
    for_each_part(block.values, [&](std::span<const std::byte> bytes) {
      digest.add(bytes.data(), bytes.size());
      target.write(bytes);
    });
    Value entry;
    entry["path"] = block.path;
    entry["start"] = block.start.to_vector();
    entry["shape"] = block.type.shape.to_vector();
    entry["file"] = file;
    entry["offset"] = offset;
    entry["sha256"] = digest.hex();
    written["blocks"].push_back(std::move(entry));
    offset += static_cast<std::uint64_t>(block.type.nbytes());
  });
  target.finish();
  Value known;
  known["file"] = file;
  known["size"] = offset;
  known["header"] = header.size();
  known["sha256"] = digest_of(header);
  written["files"].push_back(std::move(known));
  return written.to_string();
}

std::string arrays_of(const Tree& tree) {
  Value arrays = Value::object();
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    Value& info = arrays[paths[i]];
    info["dtype"] = name(leaves[i].dtype());
    info["shape"] = leaves[i].shape().to_vector();
  }
  return arrays.to_string();
}

// ---- how the processes tell each other in the folder that they write

std::filesystem::path written_file(const std::filesystem::path& temporary, int rank) {
  return temporary / ("written-" + std::to_string(rank));
}
std::filesystem::path failed_file(const std::filesystem::path& temporary, int rank) {
  return temporary / ("failed-" + std::to_string(rank));
}

/// The file appears with all of its text.
void tell(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part = file.string() + ".part";
  write_file(part, std::as_bytes(std::span(text)));
  if (std::rename(part.c_str(), file.c_str()) == 0) return;
  throw CheckpointError("[save] " + file.string() + " cannot be put in place: " + std::strerror(errno));
}

/// Or without, where the disk takes no more, or there is no memory.
void tell_failure(const std::filesystem::path& file, const std::string& text) noexcept {
  try {
    tell(file, text);
  } catch (...) {
    try {
      static_cast<void>(files::create_file(file));
    } catch (...) {  // the others wait for their time limit
    }
  }
}

bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

using Clock = std::chrono::steady_clock;

/// The index of what a process has written; throws what that one has told, or where nothing comes.
std::string index_from(const std::filesystem::path& temporary, int rank, Clock::time_point deadline) {
  constexpr auto pause = std::chrono::milliseconds(2);
  for (;; std::this_thread::sleep_for(pause)) {
    if (is_there(written_file(temporary, rank))) return read_text(written_file(temporary, rank));
    if (is_there(failed_file(temporary, rank))) {
      const std::string text = read_text(failed_file(temporary, rank));
      throw CheckpointError(
          fmt::format("[save] process {}: {}", rank, text.empty() ? "cannot write its blocks" : text));
    }
    if (world()->has_failed()) {
      throw CheckpointError(fmt::format(
          "[save] process {} has not written its blocks, and the processes communicate no more; resume from the "
          "checkpoint before",
          rank));
    }
    if (Clock::now() > deadline) {
      throw CheckpointError(fmt::format(
          "[save] process {} has not written its blocks in time; all processes must see one folder, or need a longer "
          "time limit (LOCKSTEP_COLLECTIVE_TIMEOUT)",
          rank));
    }
  }
}

/// Of all processes, in order, `own` in place of what this one has told nobody. Waits for each before it throws, so that
/// none still writes into a folder that is taken away.
std::vector<std::string> indices(const std::filesystem::path& temporary, const std::string& own,
                                 Clock::time_point deadline) {
  std::vector<std::string> all = {own};
  std::exception_ptr failure;
  for (int rank = 1; rank < world()->size(); ++rank) {
    try {
      all.push_back(index_from(temporary, rank, deadline));
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  return all;
}

/// Writes the manifest of all that was written, and puts the folder in its place.
void commit(CommittedFolder& committed, const std::string& arrays, const std::vector<std::string>& written,
            const Description& description) {
  Value more;
  more["arrays"] = json::parse(arrays).value.value();
  for (const char* list : {"blocks", "files"}) more[list] = Value::list();
  for (const std::string& text : written) {
    Value own_part = json::parse(text).value.value();
    for (const char* list : {"blocks", "files"}) {
      for (Value& entry : *own_part[list].items()) more[list].push_back(std::move(entry));
    }
  }
  write_manifest(committed, {.format = block_format,
                             .sha256 = index_digest(arrays, more["blocks"].to_string()),
                             .description = description,
                             .array_sums = {},
                             .more = more.to_string(),
                             .text = {}});
  committed.commit();
}

}  // namespace

bool has_cut_leaves(const Tree& tree) {
  return std::ranges::any_of(tree.leaves(), [](const Array& leaf) { return is_cut(leaf); });
}

BlockSave::BlockSave(const std::filesystem::path& folder, Description description, Target target)
    : description_(std::move(description)) {
  const bool is_first = world()->rank() == 0;
  together([&] {
    if (is_first) committed_.emplace(folder, target);
  });
  temporary_ = world()->all_gather_text(is_first ? committed_->temporary().string() : "").front();
}

void BlockSave::write_together(const Tree& tree) {
  std::string own;
  together([&] { own = write_own(temporary_, tree); });
  const std::vector<std::string> written = world()->all_gather_text(own);
  together([&] {
    if (committed_) commit(*committed_, arrays_of(tree), written, description_);
  });
}

void BlockSave::write_alone(const Tree& tree, double seconds, Pace& pace) {
  const int rank = world()->rank();
  if (rank != 0) {
    try {
      tell(written_file(temporary_, rank), write_own(temporary_, tree, &pace));
    } catch (const std::exception& error) {
      tell_failure(failed_file(temporary_, rank), error.what());
      throw;
    }
    return;
  }
  const auto wait = [&] {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  std::string own;
  try {
    own = write_own(temporary_, tree, &pace);
  } catch (...) {
    try {
      static_cast<void>(indices(temporary_, own, wait()));
    } catch (const std::exception&) {  // the first error is the one to be told
    }
    throw;
  }
  const std::vector<std::string> written = indices(temporary_, own, wait());
  for (int other = 1; other < world()->size(); ++other) {
    std::error_code ignored;
    std::filesystem::remove(written_file(temporary_, other), ignored);
  }
  commit(*committed_, arrays_of(tree), written, description_);
}

}  // namespace lockstep::checkpoint
