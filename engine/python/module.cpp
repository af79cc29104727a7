#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <lockstep/version.h>

#include "engine/python/bindings.h"

NB_MODULE(lockstep, module) {
  module.doc() = "Exported functions and runs of Lockstep, to be looked at with NumPy.";
  module.attr("__version__") = std::string(lockstep::version());
  lockstep::python::bind_errors(module);
  lockstep::python::bind_arrays(module);
  lockstep::python::bind_functions(module);
  lockstep::python::bind_runs(module);
}
