#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/owned.h>
#include <lockstep/parallel.h>

namespace lockstep {

/// Layouts of a tree's leaves, by path: Keras' LayoutMap, with full matches.
///
///     LayoutMap({{".*/dense_0/kernel", sharded("model", 1)}, {"head/kernel", sharded("model", 0)}})
class LOCKSTEP_API LayoutMap {
 public:
  /// A path, or a regular expression (ECMAScript) that must match all of a path: "dense" is not a pattern of
  /// "dense_1/kernel", "dense.*" is.
  struct Rule {
    std::string pattern;
    Layout layout;
  };

  LayoutMap();
  LayoutMap(const LayoutMap& other);
  LayoutMap(LayoutMap&& other) noexcept;
  LayoutMap& operator=(const LayoutMap& other);
  LayoutMap& operator=(LayoutMap&& other) noexcept;
  ~LayoutMap();
  /// One layout for every leaf; leaves of rank 0 are replicated.
  LayoutMap(Layout all);  // NOLINT: implicit by design
  /// Throws ValueError for a pattern that is no regular expression or stands there twice.
  LayoutMap(std::initializer_list<Rule> rules);
  explicit LayoutMap(std::vector<Rule> rules);

  const std::vector<Rule>& rules() const;
  /// The rule of a path: the one that is the path, or else the one pattern that matches all of it. Throws MeshError
  /// "matches multiple layouts" where two do.
  std::optional<std::size_t> find(std::string_view path) const;
  /// Its layout; replicated where there is no rule.
  Layout at(std::string_view path) const;
  bool holds_for_all() const;

 private:
  struct Rules;
  detail::SharedObject<const Rules> rules_;  // null where there are none
};

}  // namespace lockstep
