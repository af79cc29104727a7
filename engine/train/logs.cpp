#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/train.h>

namespace lockstep {

Logs::Logs(Tree values) : values_(std::move(values)) {
  const auto is_array = [](const TreeEntries::Entry& entry) { return entry.second.is_leaf(); };
  const TreeEntries all = entries();
  if (std::all_of(all.begin(), all.end(), is_array)) return;
  throw StateError("[logs] given " + to_string(values_) + "; expected a dict of arrays, {\"loss\": f32[]}");
}

Logs::Entry Logs::Iterator::operator*() const { return {at_->first, at_->second.array()}; }

Tree TreeTraits<Logs>::to_tree(Logs logs) { return std::move(logs.values_); }
Logs TreeTraits<Logs>::from_tree(Tree tree) { return Logs(std::move(tree)); }

TreeEntries Logs::entries() const {
  if (values_.kind() == Tree::Kind::none) return {{}, {}};
  return values_.entries();
}

const Array& Logs::at(std::string_view name) const {
  const TreeEntries all = entries();
  if (const auto found = all.find(name); found != all.end()) return found->second.array();
  std::string names;
  for (const auto& [one, value] : all) names += (names.empty() ? "" : ", ") + one;
  throw StateError("[logs] there is no '" + std::string(name) + "'; this step has: " + names);
}

}  // namespace lockstep
