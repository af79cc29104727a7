#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <lockstep/exchange/exported_function.h>

#include "engine/python/bindings.h"
#include "engine/python/numpy_arrays.h"
#include "engine/python/python_trees.h"

namespace lockstep::python {

namespace nb = nanobind;

namespace {

using exchange::ExportedFunction;

/// The types of leaves in the places of their numbers.
nb::object described(const Tree& structure, const std::vector<ArrayType>& types) {
  return python_of(structure, [&](const Array& number) {
    return nb::cast(types[static_cast<std::size_t>(number.item<std::int32_t>())]);
  });
}

nb::tuple inputs_of(const ExportedFunction& function) {
  nb::list arguments;
  for (const Tree& structure : function.argument_structures()) {
    arguments.append(described(structure, function.input_types()));
  }
  return nb::tuple(arguments);
}

nb::object called(const ExportedFunction& function, const nb::args& given) {
  const std::vector<Tree> structures = function.argument_structures();
  const std::vector<ArrayType> types = function.input_types();
  std::vector<Tree> arguments;
  for (nb::handle argument : given) {
    const std::size_t i = arguments.size();
    arguments.push_back(tree_of(argument, i < structures.size() ? structures[i] : Tree(), types));
  }
  const auto run = [&] {
    const nb::gil_scoped_release unlocked;
    return function.call(arguments);
  };
  return python_of(run(), numpy_of);
}

}  // namespace

void bind_functions(nb::module_& module) {
  nb::class_<ExportedFunction>(module, "Function",
                               "A function with its weights, from one file. Calls from several threads are fine.")
      .def("__call__", &called,
           "The result as NumPy arrays, read-only, in dicts and lists. They may share memory with arguments and "
           "weights.")
      .def_prop_ro("inputs", &inputs_of, "A tuple of the arguments, each a tree of ArrayTypes.")
      .def_prop_ro(
          "outputs", [](const ExportedFunction& f) { return described(f.result_structure(), f.output_types()); },
          "The result, a tree of ArrayTypes.")
      .def_prop_ro("written_by", &ExportedFunction::written_by, "The version that wrote the file.")
      .def_prop_ro(
          "program", [](const ExportedFunction& f) { return f.program().to_string(); }, "Its text.");
  module.def(
      "load", [](const std::filesystem::path& path) { return exchange::load_function(path); }, nb::arg("path"),
      "The function of a file that export_function wrote.");
}

}  // namespace lockstep::python
