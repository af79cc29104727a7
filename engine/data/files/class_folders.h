#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/export.h>

// A folder with one folder for each class, whose files are that class's examples. Hidden entries (".git", "._x.png") and
// "__MACOSX" are neither.
namespace lockstep::data {

/// Names of the folders in it, sorted: the order that the system gives is another on each machine. Throws DataError naming
/// `who` where it cannot be read.
LOCKSTEP_API std::vector<std::string> class_names(const std::filesystem::path& folder, const std::string& who);

/// Files whose names end so (in any case), sorted within the classes, each with its class's place. Throws DataError where
/// there is none; `kind` is what they are called.
LOCKSTEP_API std::vector<std::pair<std::filesystem::path, std::int32_t>> labelled_files(
    const std::filesystem::path& folder, const std::string& who, const std::vector<std::string_view>& endings,
    const std::string& kind);

}  // namespace lockstep::data
