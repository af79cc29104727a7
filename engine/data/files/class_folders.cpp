#include "engine/data/files/class_folders.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/files/folder_entries.h"
#include "engine/files/open_file.h"

namespace lockstep::data {
namespace {

/// Whether an entry is one that file managers, editors or archives of other systems leave: hidden ones, such as "._x.png".
bool is_left_over(const std::string& name) { return name.starts_with('.') || name == "__MACOSX"; }

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, const std::string& who) {
  std::error_code error;
  std::vector<std::filesystem::path> entries;
  for (const std::string& name : files::names_in(folder, error)) {
    if (is_left_over(name)) continue;
    entries.push_back(folder / name);
    const std::string_view kind = files::foreign_kind(entries.back());
    if (kind.empty()) continue;
    throw DataError(
        fmt::format("[{}] {} is {}; put the file or folder itself in its place", who, entries.back().string(), kind));
  }
  if (error) throw DataError(fmt::format("[{}] {} cannot be read: {}", who, folder.string(), error.message()));
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::string ending_of(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return ending;
}

}  // namespace

std::vector<std::string> class_names(const std::filesystem::path& folder, const std::string& who) {
  std::vector<std::string> classes;
  for (const auto& path : entries_of(folder, who)) {
    if (std::filesystem::is_directory(path)) classes.push_back(path.filename().string());
  }
  return classes;
}

std::vector<std::pair<std::filesystem::path, std::int32_t>> labelled_files(const std::filesystem::path& folder,
                                                                           const std::string& who,
                                                                           const std::vector<std::string_view>& endings,
                                                                           const std::string& kind) {
  std::vector<std::pair<std::filesystem::path, std::int32_t>> files;
  const std::vector<std::string> classes = class_names(folder, who);
  for (std::size_t label = 0; label < classes.size(); ++label) {
    for (const auto& path : entries_of(folder / classes[label], who)) {
      if (std::ranges::find(endings, ending_of(path)) == endings.end()) continue;
      files.emplace_back(path, static_cast<std::int32_t>(label));
    }
  }
  if (!files.empty()) return files;
  throw DataError(fmt::format("[{}] {} has no {}; expected a folder for each class, with files ending in {}", who,
                              folder.string(), kind, fmt::join(endings, ", ")));
}

}  // namespace lockstep::data
