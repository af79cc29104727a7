#pragma once

#include <filesystem>
#include <string>

// Paths as they are given on the command line, and files that are written where they lead.
namespace lockstep::cli {

/// Why that folder's rows, runs or files cannot be read, and what to write instead; "" where it is a folder.
std::string not_a_folder(const std::filesystem::path& path);

/// Throws ValueError where a run's new folder cannot be made there: something is there, or what it would lie in is no folder.
void check_new_run(const std::filesystem::path& run);
/// Throws ValueError where a config file could not name the path.
void check_is_utf8(const std::filesystem::path& path, const std::string& flag);

/// Writes a file, over one that exists. Throws DataError naming it, what stands in the way, and what to do instead:
/// "name another one in --out".
void write_file(const std::filesystem::path& file, const std::string& text, const std::string& remedy);

}  // namespace lockstep::cli
