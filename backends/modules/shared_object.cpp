// Finds and loads the shared objects of modules.

#include "backends/modules/shared_object.h"

#include <stdexcept>
#include <system_error>

#include <dlfcn.h>
#include <link.h>

namespace lockstep::backend::modules {

namespace {

namespace fs = std::filesystem;

const char* loader_error() {
  const char* const text = dlerror();
  return text == nullptr ? "the loader says no more" : text;
}

/// Where the dynamic linker found the object that this function lies in; empty for the program itself.
fs::path own_file() {
  Dl_info place = {};
  void* object = nullptr;
  const int is_found = dladdr1(reinterpret_cast<const void*>(&own_file), &place, &object, RTLD_DL_LINKMAP);
  if (is_found == 0 || object == nullptr) return {};
  return static_cast<const link_map*>(object)->l_name;
}

}  // namespace

fs::path module_path(const std::string& file) {
  const fs::path folder = fs::path("lockstep") / "backends";
  std::error_code ignored;
  if (const fs::path library = own_file(); !library.empty()) {
    return fs::absolute(library, ignored).parent_path() / folder / file;
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "lib" / folder / file;
}

const void* load_symbol(const fs::path& path, const char* symbol) {
  void* const object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) throw std::runtime_error(loader_error());
  const void* const address = dlsym(object, symbol);
  if (address == nullptr) throw std::runtime_error(loader_error());
  return address;
}

}  // namespace lockstep::backend::modules
