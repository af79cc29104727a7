#include "engine/cli/given_paths.h"

#include <system_error>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/files/json_value.h"
#include "engine/files/open_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error).type();
}

bool is_there(const fs::path& path) {
  const fs::file_type type = type_of(path);
  return type != fs::file_type::not_found && type != fs::file_type::none;
}

/// What cannot be looked at is not taken for one: who then writes there is told why that cannot be.
bool is_other_than_folder(const fs::path& path) { return is_there(path) && type_of(path) != fs::file_type::directory; }

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// The closest folder or file above a path that is there; the path's own ".." count as they are written.
fs::path existing_parent(const fs::path& path) {
  fs::path parent = parent_of(path);
  while (!is_there(parent) && parent != parent_of(parent)) parent = parent_of(parent);
  return parent;
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(json::Value(text).to_string());
    return true;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

std::string not_a_folder(const fs::path& path) {
  switch (type_of(path)) {
    case fs::file_type::directory:
      return "";
    case fs::file_type::not_found:
      return "there is no such folder; check the path";
    case fs::file_type::none:
    case fs::file_type::unknown:
      return "it cannot be looked into; check its permissions";
    default:
      return "it is a file; give the folder that it lies in";
  }
}

void check_is_utf8(const fs::path& path, const std::string& flag) {
  if (is_utf8(path.string())) return;
  throw ValueError(fmt::format(
      "[train] {} {}: its bytes are no UTF-8 text, which config.toml has to be; rename it, or give a link to it", flag,
      path.string()));
}

void check_new_run(const fs::path& run) {
  if (type_of(run) == fs::file_type::directory) {
    throw ValueError(
        fmt::format("[train] the run folder {} exists already; name a new one, or give --resume", run.string()));
  }
  if (is_there(run)) {
    throw ValueError(fmt::format("[train] --run {} exists already and is a file; name a new folder", run.string()));
  }
  const fs::path parent = existing_parent(run);
  if (!is_other_than_folder(parent)) return;
  throw ValueError(fmt::format("[train] --run {}: {} is a file, in which no folder can be made; name another one",
                               run.string(), parent.string()));
}

void write_file(const fs::path& file, const std::string& text, const std::string& remedy) {
  const auto refuse = [&](const std::string& why) {
    throw DataError(fmt::format("{} cannot be written: {}; {}", file.string(), why, remedy));
  };
  if (type_of(file) == fs::file_type::directory) refuse("it is a folder");
  const fs::path parent = parent_of(file);
  if (type_of(parent) == fs::file_type::not_found) refuse(fmt::format("there is no folder {}", parent.string()));
  if (is_other_than_folder(parent)) refuse(fmt::format("{} is a file", parent.string()));
  try {
    files::replace_text(file, text);
  } catch (const files::FileError& error) {
    refuse(error.why());
  }
}

}  // namespace lockstep::cli
