// The automaton: a trie of reversed words, and links to shorter beginnings.
#include "engine/text/longest_matcher.h"

namespace lockstep::data {

void LongestMatcher::add(std::string_view word, std::int32_t number) {
  std::uint32_t node = 0;
  for (std::size_t i = word.size(); i-- > 0;) {
    const auto byte = static_cast<unsigned char>(word[i]);
    const auto [edge, is_new] = edges_.emplace(key_of(node, byte), static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({.word = -1, .shorter = 0, .parent = node, .byte = byte});
    node = edge->second;
  }
  nodes_[node].word = number;
}

std::uint32_t LongestMatcher::next(std::uint32_t node, unsigned char byte) const {
  for (;; node = nodes_[node].shorter) {
    if (const auto edge = edges_.find(key_of(node, byte)); edge != edges_.end()) return edge->second;
    if (node == 0) return 0;
  }
}

// Nodes by their depth: what one's `shorter` needs is known by then.
void LongestMatcher::finish() {
  std::vector<std::uint32_t> depths(nodes_.size(), 0);
  std::vector<std::vector<std::uint32_t>> levels;
  for (std::uint32_t node = 1; node < nodes_.size(); ++node) {  // a parent has a lower number
    const std::uint32_t depth = depths[node] = depths[nodes_[node].parent] + 1;
    if (levels.size() < depth) levels.emplace_back();
    levels[depth - 1].push_back(node);
  }
  for (const std::vector<std::uint32_t>& level : levels) {
    for (const std::uint32_t node : level) {
      Node& here = nodes_[node];
      here.shorter = here.parent == 0 ? 0 : next(nodes_[here.parent].shorter, here.byte);
      if (here.word < 0) here.word = nodes_[here.shorter].word;
    }
  }
}

std::vector<std::int32_t> LongestMatcher::longest_at(std::string_view text) const {
  std::vector<std::int32_t> longest(text.size());
  std::uint32_t node = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    node = next(node, static_cast<unsigned char>(text[i]));
    longest[i] = nodes_[node].word;
  }
  return longest;
}

}  // namespace lockstep::data
