#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <lockstep/error.h>

// Tables of what the command line names: entries with a member `name`.
namespace lockstep::cli {

template <class Entry, std::size_t count>
std::vector<std::string> names_of(const Entry (&entries)[count]) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

template <class Entry, std::size_t count>
const Entry& entry_of(const Entry (&entries)[count], const char* kind, const std::string& name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
  std::string known;
  for (const std::string& one : names_of(entries)) known += (known.empty() ? "" : ", ") + one;
  throw ValueError("[train] no " + std::string(kind) + " '" + name + "'; known are " + known);
}

}  // namespace lockstep::cli
