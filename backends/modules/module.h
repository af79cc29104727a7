#pragma once

// What the library and a module say to each other. A module is a shared object with the kernels of one backend, which is
// loaded when the first of them is made.

#include <memory>
#include <string>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::modules {

/// What the library gives to a module. A module is linked from copies of parts of the library (lockstep_module_parts in
/// .cmake/targets.cmake); for what a process has one of it calls the library by this table.
struct Host {
  /// Throws a BackendError, whose text says where in the program the call stands.
  void (*fail)(const std::string& text);
};

/// The one symbol of a module, `lockstep_module`.
struct Module {
  const char* build;  ///< The build that it belongs to: LOCKSTEP_MODULE_BUILD of the library that loads it.
  std::shared_ptr<const Backend> (*make_backend)(const Host& host);
};

/// Sets of dtypes, as the lines of a module's kernels.def name them.
using Elements = bool (*)(DType dtype);
inline bool float64s(DType dtype) { return dtype == DType::float64; }
inline bool floats(DType dtype) { return is_float(dtype); }
inline bool complex_numbers(DType dtype) { return is_complex(dtype); }
inline bool inexact(DType dtype) { return is_inexact(dtype); }
inline bool lapack(DType dtype) { return is_inexact(dtype) && !is_narrow_float(dtype); }

}  // namespace lockstep::backend::modules
