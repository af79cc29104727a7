// Loads oneDNN.

#include "backends/onednn/library.h"

#include <string>

#include <dlfcn.h>

#include <lockstep/error.h>

#include "backends/cpu/thread_settings.h"

namespace lockstep::backend::onednn {

namespace {

/// Its name, as a linker would note it: found where the run path says of what this stands in, or where the system looks.
constexpr const char* library_file = LOCKSTEP_DNNL_FILE;

[[noreturn]] void fail_to_load() {
  const char* const why = dlerror();
  throw BackendError("onednn backend: " + std::string(library_file) + " does not load" +
                     (why == nullptr ? std::string() : ": " + std::string(why)) +
                     "; install it, or set LOCKSTEP_MAX_ISA=none to go without");
}

Library loaded_library() {
  const cpu::ThreadSettings settings;  // a library may set what it likes for the thread that loads it
  void* const object = dlopen(library_file, RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) fail_to_load();
  Library result{};
  result.for_each([object]<class Function>(const char* name, Function*& function) {
    void* const address = dlsym(object, name);
    if (address == nullptr) fail_to_load();
    function = reinterpret_cast<Function*>(address);
  });
  return result;
}

}  // namespace

const Library& library() {
  static const Library loaded = loaded_library();
  return loaded;
}

}  // namespace lockstep::backend::onednn
