#pragma once

#include <functional>
#include <vector>

#include <nanobind/nanobind.h>

#include <lockstep/tree.h>

namespace lockstep::python {

/// Dicts, lists and None as they are, leaves as `leaf` makes them, fixed values as Python's.
nanobind::object python_of(const Tree& tree, const std::function<nanobind::object(const Array&)>& leaf);
/// A tree of Python's dicts, lists, tuples, None and arrays. `structure` and `types`: of what is expected, as
/// ExportedFunction gives them; a leaf that is a number takes the type's dtype, a fixed value is the expected one
/// whatever stands there.
Tree tree_of(nanobind::handle given, const Tree& structure, const std::vector<ArrayType>& types);

}  // namespace lockstep::python
