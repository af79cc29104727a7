#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/core/stable_hash.h"
#include "engine/processes/group.h"

// Whether all processes have the same entries, and which one differs where they do not.
namespace lockstep {
namespace {

/// Entries as one text: each length, a space, and as many bytes.
std::string packed(const ProcessEntries& entries) {
  std::string text;
  const auto add = [&](const std::string& part) { text += fmt::format("{} {}", part.size(), part); };
  for (const auto& [name, value] : entries) add(name), add(value);
  return text;
}

ProcessEntries unpacked(const std::string& text) {
  ProcessEntries entries;
  std::size_t at = 0;
  const auto next = [&] {
    const std::size_t space = text.find(' ', at);
    const std::size_t length = std::stoul(text.substr(at, space - at));
    at = space + 1 + length;
    return text.substr(space + 1, length);
  };
  while (at < text.size()) {
    std::string name = next();
    entries.emplace_back(std::move(name), next());
  }
  return entries;
}

std::optional<std::string> value_of(const ProcessEntries& entries, const std::string& name) {
  const auto found = std::ranges::find(entries, name, &ProcessEntries::value_type::first);
  if (found == entries.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Of texts, the first line that is not the same in all of them.
std::vector<std::string> shown(const std::vector<std::optional<std::string>>& values) {
  std::vector<std::vector<std::string>> lines;
  std::size_t longest = 0;
  for (const auto& value : values) {
    lines.push_back(value ? lines_of(*value) : std::vector<std::string>());
    longest = std::max(longest, lines.back().size());
  }
  std::size_t line = 0;
  const auto at = [&](std::size_t p) { return line < lines[p].size() ? lines[p][line] : std::string("nothing"); };
  const auto differs = [&] {
    for (std::size_t p = 1; p < lines.size(); ++p) {
      if (at(p) != at(0)) return true;
    }
    return false;
  };
  while (line < longest && !differs()) ++line;
  std::vector<std::string> texts;
  for (std::size_t p = 0; p < values.size(); ++p) {
    texts.push_back(!values[p]    ? "absent"
                    : longest > 1 ? fmt::format("'{}' in line {}", at(p), line + 1)
                                  : fmt::format("'{}'", *values[p]));
  }
  return texts;
}

/// "'a' in process 0, 2 and 'b' in process 1".
std::string by_process(const std::vector<std::string>& texts) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::size_t>> processes;
  for (std::size_t p = 0; p < texts.size(); ++p) {
    if (!processes.contains(texts[p])) order.push_back(texts[p]);
    processes[texts[p]].push_back(p);
  }
  std::string text;
  for (const std::string& value : order) {
    const auto& those = processes[value];
    text += fmt::format("{}{} in process{} {}", text.empty() ? "" : ", ", value, those.size() == 1 ? "" : "es",
                        fmt::join(those, ", "));
  }
  return text;
}

/// What to say of the first entry that differs, or nothing.
std::string difference(const std::vector<ProcessEntries>& all) {
  for (const ProcessEntries& entries : all) {
    for (const auto& [name, unused] : entries) {
      std::vector<std::optional<std::string>> values;
      for (const ProcessEntries& of_process : all) values.push_back(value_of(of_process, name));
      if (std::ranges::adjacent_find(values, std::ranges::not_equal_to()) == values.end()) continue;
      return fmt::format("{} is {}", name, by_process(shown(values)));
    }
  }
  return {};
}

}  // namespace

void Processes::expect_same(std::string_view what, std::uint64_t hash, const std::function<ProcessEntries()>& entries) {
  if (size() == 1) return;
  const std::string op = fmt::format("comparison of {}", what);
  const std::array<std::uint64_t, 1> own = {hash};
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(size()));
  all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(hashes)), {op});
  if (std::ranges::adjacent_find(hashes, std::ranges::not_equal_to()) == hashes.end()) return;
  std::vector<ProcessEntries> all;
  for (const std::string& text : all_gather_text(packed(entries()), {op})) all.push_back(unpacked(text));
  std::string found = difference(all);
  const std::lock_guard lock(impl_->mutex);
  if (found.empty()) found = "the same entries stand in another order, or some more than once";
  impl_->give_up(
      fmt::format("{}: {}; start all processes with the same one, or they would not train one model", what, found),
      false);
}

void Processes::expect_same(std::string_view what, const ProcessEntries& entries) {
  StableHash hash;
  for (const auto& [name, value] : entries) hash.add(std::string_view(name)), hash.add(std::string_view(value));
  expect_same(what, hash.value(), [&] { return entries; });
}

}  // namespace lockstep
