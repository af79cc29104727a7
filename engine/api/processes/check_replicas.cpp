#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <lockstep/array.h>
#include <lockstep/processes.h>

#include "engine/api/transforms/runtime.h"
#include "engine/core/content_hash.h"
#include "engine/core/stable_hash.h"

namespace lockstep {

void check_replicas(std::string_view what, const Tree& tree) {
  if (world()->size() == 1) return;
  const std::vector<Array> leaves = tree.leaves();
  std::vector<std::uint64_t> hashes;
  StableHash all;
  for (const Array& leaf : leaves) {
    const eval::HostArray host = api::host_array(leaf);
    const auto* data = static_cast<const std::byte*>(host.buffer->data());
    hashes.push_back(content_hash({data, static_cast<std::size_t>(host.type.nbytes())}));
    all.add(std::string_view(to_string(host.type)));
    all.add(hashes.back());
  }
  world()->expect_same(what, all.value(), [&] {
    ProcessEntries entries;
    const std::vector<std::string> paths = tree.paths();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      entries.emplace_back("'" + paths[i] + "'",
                           fmt::format("{} with the hash {:016x}", to_string(leaves[i].type()), hashes[i]));
    }
    return entries;
  });
}

}  // namespace lockstep
