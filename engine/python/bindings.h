#pragma once

#include <nanobind/nanobind.h>

// What the Python module is made of, each part in the file of its name.
namespace lockstep::python {

/// An exception for each kind of error.h, under the same name, below Error.
void bind_errors(nanobind::module_& module);
/// Array and its type.
void bind_arrays(nanobind::module_& module);
/// Function, and load, which gives one.
void bind_functions(nanobind::module_& module);
/// Run.
void bind_runs(nanobind::module_& module);

}  // namespace lockstep::python
