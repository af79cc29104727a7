#pragma once

#include <string>
#include <vector>

#include <lockstep/error.h>

// Tables of what the command line names: entries with a member `name`.
namespace lockstep::cli {

template <class Entries>
std::vector<std::string> names_of(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

template <class Entries>
const auto& entry_of(const Entries& entries, const char* kind, const std::string& name) {
  for (const auto& entry : entries) {
    if (entry.name == name) return entry;
  }
  std::string known;
  for (const std::string& one : names_of(entries)) known += (known.empty() ? "" : ", ") + one;
  throw ValueError("[train] no " + std::string(kind) + " '" + name + "'; known are " + known);
}

}  // namespace lockstep::cli
