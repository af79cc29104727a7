#pragma once

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

// What tests of pages and headers read of them.
namespace lockstep::tests {

/// Of a file of the sources.
inline std::string text_of(const std::string& path) {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / ".." / path);
  REQUIRE_MESSAGE(file.good(), path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The first group of each place where the pattern is found.
inline void add_found(std::set<std::string>& names, const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) names.insert((*it)[1]);
}

}  // namespace lockstep::tests
