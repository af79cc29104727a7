#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

// By the system's own calls: std::filesystem's iterators end the process where they find no memory.
namespace lockstep::files {

/// What is in a folder, in no order, but for "." and ".."; nothing where no folder is there. Throws FileError where it cannot
/// be read: who took that for an empty folder would begin anew what is there. Throws std::bad_alloc.
std::vector<std::string> names_in(const std::filesystem::path& folder);
/// The same, or what of it can be read; `error` says why no more can be.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error);

/// Removes a file, or a folder and all in it, and follows no link. 0, or the system's error. Throws std::bad_alloc.
int remove_tree(const std::filesystem::path& path);

}  // namespace lockstep::files
