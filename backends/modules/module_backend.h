#pragma once

// A backend whose kernels are in a module: what the library has of it.

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include <lockstep/backend/backend.h>

#include "backends/modules/module.h"

namespace lockstep::backend::modules {

/// What the library knows of a module before it loads it.
struct Description {
  std::string name;                                    ///< Backend::name.
  std::string version;                                 ///< Backend::version.
  std::string file;                                    ///< The module's file in the folder of modules.
  std::unordered_map<std::string_view, Elements> ops;  ///< Of which dtypes operand 0 may be for an op.
};

/// A backend of the CPU that loads its module when it is first asked for a kernel that the module has. Where the module does
/// not load, that throws a BackendError, which names the op and the file.
std::shared_ptr<const Backend> make_module_backend(Description description);

}  // namespace lockstep::backend::modules
