#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <lockstep/array.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>

#include "engine/api/transforms/runtime.h"
#include "engine/core/content_hash.h"
#include "engine/core/stable_hash.h"

namespace lockstep {
namespace {

/// Of what lies cut each process has other values: how it lies is compared.
std::uint64_t hash_of_leaf(const Array& leaf) {
  if (is_cut(leaf)) {
    StableHash hash;
    hash.add(std::string_view(to_string(leaf)));
    return hash.value();
  }
  const eval::HostArray host = api::host_array(leaf);
  return content_hash(
      {static_cast<const std::byte*>(host.buffer->data()), static_cast<std::size_t>(host.type.nbytes())});
}

std::string kind_of(const Array& leaf) { return is_cut(leaf) ? to_string(leaf) : to_string(leaf.type()); }

}  // namespace

void check_replicas(std::string_view what, const Tree& tree) {
  if (world()->size() == 1) return;
  const std::vector<Array> leaves = tree.leaves();
  std::vector<std::uint64_t> hashes;
  StableHash all;
  for (const Array& leaf : leaves) {
    hashes.push_back(hash_of_leaf(leaf));
    all.add(std::string_view(kind_of(leaf)));
    all.add(hashes.back());
  }
  world()->expect_same(what, all.value(), [&] {
    ProcessEntries entries;
    const std::vector<std::string> paths = tree.paths();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      entries.emplace_back("'" + paths[i] + "'",
                           fmt::format("{} with the hash {:016x}", kind_of(leaves[i]), hashes[i]));
    }
    return entries;
  });
}

}  // namespace lockstep
