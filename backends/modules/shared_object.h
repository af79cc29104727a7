#pragma once

// Where the shared objects of modules are, and how they are loaded.

#include <filesystem>
#include <string>

namespace lockstep::backend::modules {

/// Where a module's file is looked for: in the folder lockstep/backends beside the shared library; beside the folder `lib` of
/// a build for programs that are linked from the static libraries.
std::filesystem::path module_path(const std::string& file);

/// The address of a shared object's symbol. The object stays loaded until the process ends. Throws std::runtime_error with
/// the reason where the object does not load or has no such symbol.
const void* load_symbol(const std::filesystem::path& path, const char* symbol);

}  // namespace lockstep::backend::modules
