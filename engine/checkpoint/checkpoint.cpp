#include <span>
#include <utility>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/checkpoint/array_names.h"
#include "engine/checkpoint/array_parts.h"
#include "engine/checkpoint/block_saves.h"
#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/restorable.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/sha256.h"
#include "engine/checkpoint/write.h"

namespace lockstep::checkpoint {

void write_whole(const std::filesystem::path& folder, const Tree& tree, const Description& description, Target target,
                 Pace* pace) {
  const std::vector<std::string> paths = checked_paths(tree);
  const std::vector<Array> leaves = tree.leaves();
  std::map<std::string, Array> named;
  std::map<std::string, ArrayType> types;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    types.emplace(name_of(paths[i]), leaves[i].type());
    named.emplace(name_of(paths[i]), leaves[i]);
  }
  CommittedFolder committed(folder, target);
  NewFile file(committed.temporary() / arrays_file, pace);
  Sha256 digest;
  const auto put = [&](std::span<const std::byte> bytes) {
    digest.add(bytes.data(), bytes.size());
    file.write(bytes);
  };
  put(safetensors_header(types, Unnamed::in_parts));
  Manifest described;
  for (const auto& [name, array] : named) {
    QuickSum sum(static_cast<std::uint64_t>(array.type().nbytes()));
    for_each_part(array, [&](std::span<const std::byte> bytes) {
      sum.add(bytes);
      put(bytes);
    });
    described.array_sums.emplace(path_of(name), sum.hex());
  }
  file.finish();
  described.sha256 = digest.hex();
  described.description = description;
  write_manifest(committed, described);
  committed.commit();
}

double writing_seconds(const Tree& tree) {
  constexpr double slowest_bytes_per_second = 1e7;
  double bytes = 0;
  for (const Array& leaf : tree.leaves()) {
    if (leaf.has_value()) bytes += static_cast<double>(leaf.type().nbytes());
  }
  return bytes / slowest_bytes_per_second;
}

void save_together(const std::filesystem::path& folder, const Tree& tree, const Description& description,
                   Target target) {
  if (has_cut_leaves(tree)) return BlockSave(folder, description, target).write_together(tree);
  world()->run_on_first(
      "checkpoint::save of " + folder.string(), [&] { write_whole(folder, tree, description, target); },
      writing_seconds(tree));
}

void save(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest) {
  save_together(folder, tree, {manifest, {}});
}

std::map<std::string, Array> load_safetensors(const std::filesystem::path& file) {
  return read_safetensors(read_file(file, files::Links::followed), file.string());
}

void save_safetensors(const std::filesystem::path& file, const Named<Array>& tensors) {
  replace_file(file, write_safetensors(tensors));
}

}  // namespace lockstep::checkpoint
