#include "engine/exchange/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep::exchange {
namespace {

constexpr std::size_t longest_compared = 200;

bool alike(char a, char b) { return a == b || ((a == '.' || a == '/') && (b == '.' || b == '/')); }

/// Levenshtein's distance.
std::size_t distance(std::string_view a, std::string_view b) {
  a = a.substr(0, longest_compared);
  b = b.substr(0, longest_compared);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (alike(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view name, std::span<const std::string> names) {
  const auto found =
      std::ranges::min_element(names, {}, [&](const std::string& other) { return distance(name, other); });
  return found == names.end() ? "" : " (nearest: '" + *found + "')";
}

}  // namespace lockstep::exchange
