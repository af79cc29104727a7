// Finds the longest of many words at each place of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::data {

/// Aho and Corasick's automaton of the words read backwards, which goes through a text from its end: the longest word that
/// ends there backwards is the longest that begins there. Time grows as text and words do, whatever these are.
class LongestMatcher {
 public:
  void add(std::string_view word, std::int32_t number);
  /// When all are there.
  void finish();
  /// For each place the number of the longest word that begins there, or -1.
  std::vector<std::int32_t> longest_at(std::string_view text) const;

 private:
  struct Node {
    std::int32_t word = -1;     ///< The longest that ends here: its own, or that of `shorter`.
    std::uint32_t shorter = 0;  ///< The longest other beginning that ends what this stands for.
    std::uint32_t parent = 0;
    unsigned char byte = 0;
  };
  static std::uint64_t key_of(std::uint32_t node, unsigned char byte) { return std::uint64_t{node} << 8U | byte; }
  /// The node behind `node` and a byte.
  std::uint32_t next(std::uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
};

}  // namespace lockstep::data
