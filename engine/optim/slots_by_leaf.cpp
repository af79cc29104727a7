#include "engine/optim/slots_by_leaf.h"

#include <string>
#include <utility>

#include <lockstep/tree_of_paths.h>

namespace lockstep::optim {

Tree slots_by_leaf(const Tree& params, const std::vector<Tree>& slots) {
  if (params.is_leaf()) return slots.at(0);
  const std::vector<std::string> paths = params.paths();
  std::vector<std::pair<std::string, Tree>> all;
  for (std::size_t i = 0; i < paths.size(); ++i) all.emplace_back(paths[i], slots.at(i));
  return all.empty() ? Tree() : tree_of_paths(std::move(all));
}

std::vector<Tree> slots_of_leaves(const Tree& params, const Tree& slots) {
  if (params.is_leaf()) return {slots};
  std::vector<Tree> each;
  for (const std::string& path : params.paths()) each.push_back(slots.at(path));
  return each;
}

}  // namespace lockstep::optim
