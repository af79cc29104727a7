#include <utility>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/checkpoint/array_names.h"
#include "engine/checkpoint/block_files.h"
#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/write.h"

namespace lockstep::checkpoint {

void write_whole(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest,
                 const Named<double>& metrics) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  std::map<std::string, Array> named;
  std::size_t total = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    named.emplace(name_of(paths[i]), leaves[i]);
    total += static_cast<std::size_t>(leaves[i].type().nbytes());
  }
  const std::vector<std::byte> arrays = write_safetensors(named, Unnamed::in_parts);
  Manifest described;
  described.sha256 = digest_of(arrays);
  described.entries = manifest;
  described.metrics = metrics;
  std::span<const std::byte> data = std::span(arrays).last(total);  // one after the other, in order of name
  for (const auto& [name, array] : named) {
    const auto bytes = static_cast<std::size_t>(array.type().nbytes());
    described.array_sums.emplace(path_of(name), quick_sum(data.first(bytes)));
    data = data.subspan(bytes);
  }
  CommittedFolder committed(folder);
  committed.write(arrays_file, arrays);
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

void save_together(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest,
                   const Named<double>& metrics) {
  if (has_cut_leaves(tree)) return save_blocks(folder, tree, manifest, metrics);
  world()->run_on_first(
      "checkpoint::save of " + folder.string(), [&] { write_whole(folder, tree, manifest, metrics); },
      writing_seconds(tree));
}

void save(const std::filesystem::path& folder, const Tree& tree, const Named<std::string>& manifest) {
  save_together(folder, tree, manifest, {});
}

std::map<std::string, Array> load_safetensors(const std::filesystem::path& file) {
  return read_safetensors(read_file(file), file.string());
}

void save_safetensors(const std::filesystem::path& file, const Named<Array>& tensors) {
  replace_file(file, write_safetensors(tensors));
}

}  // namespace lockstep::checkpoint
