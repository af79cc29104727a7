#include <cstdint>
#include <map>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "engine/checkpoint/sha256.h"

namespace lockstep {

using checkpoint::Sha256;

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string fingerprint(const Tree& tree) {
  Sha256 hash;
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  // By the path's bytes, whether its parts are list indices or keys: what is restored as dicts hashes alike.
  std::map<std::string_view, const Array*> by_path;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].has_value()) {
      throw StateError("[fingerprint] leaf '" + paths[i] +
                       "' holds nothing; expected arrays that still have their value");
    }
    by_path.emplace(paths[i], &leaves[i]);
  }
  if (leaves.empty()) {
    throw StateError(
        "[fingerprint] the tree has no leaf, as one has that std::move took away; expected at least one array");
  }
  for (const auto& [path, leaf] : by_path) {
    hash.add_terminated(path);
    hash.add_terminated(name(leaf->dtype()));
    hash.add(static_cast<std::uint64_t>(leaf->ndim()));
    for (const std::int64_t extent : leaf->shape()) hash.add(static_cast<std::uint64_t>(extent));
    const std::vector<std::byte> bytes = gather(*leaf).to_bytes();
    hash.add(bytes.data(), bytes.size());
  }
  return hash.hex();
}

}  // namespace lockstep
