#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/function.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

namespace lockstep::exchange {

/// A function that came from a file, with its weights. A handle; calls from several threads are fine.
class LOCKSTEP_API ExportedFunction {
 public:
  struct Impl;
  explicit ExportedFunction(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  /// The result for arguments of the exported structures and types: compiled at the first call. Throws StateError for other
  /// structures, ShapeError for other types.
  Tree call(const std::vector<Tree>& arguments) const;
  template <class Result = Array, class... Args>
  Result operator()(const Args&... arguments) const {
    return from_tree<Result>(call({to_tree(arguments)...}));
  }

  /// The program; its last inputs are the constants.
  const Function& program() const;
  const std::vector<Array>& constants() const;
  /// Of the arguments' leaves, in order.
  std::vector<ArrayType> input_types() const;
  std::vector<ArrayType> output_types() const;
  /// The structures of the arguments and of the result: each leaf is the number, an int32 scalar, of its type in
  /// input_types, or in output_types.
  std::vector<Tree> argument_structures() const;
  Tree result_structure() const;
  /// Of the library that wrote the file.
  const std::string& written_by() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

namespace detail {
/// What export_function calls, on trees.
LOCKSTEP_API void export_function(const std::filesystem::path& file, const TreeFunction& function,
                                  const std::vector<Tree>& examples);
}  // namespace detail

/// Writes a function, traced at the types of the example arguments, with all arrays that it captures (its weights) to one
/// file: a zip of manifest.json (format, version, structures), program.txt and constants.safetensors. An older file is
/// replaced as a whole. Captured keys and complex arrays are stored as their words and parts. Throws TraceError where the
/// function cannot be traced, DataError naming file and system error.
template <class F, class... Args>
void export_function(const std::filesystem::path& file, const F& function, const Args&... examples) {
  detail::export_function(file, lockstep::detail::tree_function<F, Args...>(function), {to_tree(examples)...});
}

/// Reads such a file. Sizes and sums are checked before anything is believed. Throws DataError naming the file and what is
/// wrong, also for a newer version of the format; IrError for a program that does not parse.
LOCKSTEP_API ExportedFunction load_function(const std::filesystem::path& file);

}  // namespace lockstep::exchange
