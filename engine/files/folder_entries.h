#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

// By the system's own calls: std::filesystem's iterators end the process where they find no memory.
namespace lockstep::files {

/// What is in a folder, in no order, but for "." and ".."; nothing where it cannot be read. Throws std::bad_alloc.
std::vector<std::string> names_in(const std::filesystem::path& folder);
/// Likewise; `error` says why it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error);

/// Removes a file, or a folder and all in it, and follows no link. 0, or the system's error. Throws std::bad_alloc.
int remove_tree(const std::filesystem::path& path);

}  // namespace lockstep::files
