#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/backend/backend.h>
#include <lockstep/precision.h>

#include "engine/core/cut_layout.h"
#include "engine/eval/eval.h"
#include "engine/executable/executable.h"
#include "engine/ir/function.h"
#include "engine/runtime/run.h"

// The one place that knows the backends this build has. Everything public compiles and runs through here.
namespace lockstep::api {

/// The executable of a function: compiled once per process, found again by the function's hash.
std::shared_ptr<const executable::Executable> compiled(const ir::FunctionPtr& function,
                                                       Precision precision = Precision::float32);

/// How arguments lie, null where they are whole; empty: all are.
using Cuts = std::vector<std::shared_ptr<const CutLayout>>;

/// How many programs a jitted function keeps compiled, LOCKSTEP_CACHED_PROGRAMS or 4096; 0: no limit.
std::int64_t cached_programs();

/// One argument of a call. Where the call owns the handle, a result may take it over: with its memory where nobody else
/// holds that, or as it is.
struct CallArgument {
  const Array* array = nullptr;
  Array* own = nullptr;  ///< The same, or null.
};

/// What a call needs beside the memory of arrays; used again, so that steady calls allocate nothing.
struct CallSpace {
  std::vector<CallArgument> arguments;
  std::vector<runtime::Argument> memory;
  std::vector<std::shared_ptr<backend::Buffer>>
      written;                        ///< By result; null where it lies in its donor or is an argument.
  std::shared_ptr<const void> entry;  ///< Whose executable the frame is of: of a JitCache the entry that fitted last.
  runtime::FrameLease frame;
  const executable::ArgumentName* name = nullptr;  ///< Of an argument, by its number.

  /// Of what one call leaves behind.
  void clear();
};

/// Runs on concrete arrays of the function's types, `space.arguments`. `record`: see runtime::run.
void run(const executable::Executable& executable, CallSpace& space, runtime::Record* record = nullptr);
/// Result i of such a run, to be asked for once each, in order; one that is an argument is that handle.
Array result(const executable::Executable& executable, CallSpace& space, std::size_t i);
/// The same for any arrays, which are checked. `donated[i]`: argument i may be overwritten (empty: none).
std::vector<Array> run(const executable::Executable& executable, std::vector<Array> arguments,
                       const std::vector<bool>& donated = {}, runtime::Record* record = nullptr);

/// How concrete arrays lie; nothing where all are whole.
Cuts cuts_of(std::span<const Array> arrays);
/// The function for arguments that lie so when they come.
ir::FunctionPtr on_cut_arguments(const ir::FunctionPtr& function, const Cuts& cuts);

/// The function on arrays: copied into the open trace, or compiled and run.
std::vector<Array> call(const ir::FunctionPtr& function, std::vector<Array> arguments);

/// Reductions and gathers this process has run, one per collective.
std::int64_t collectives_run();

/// What evaluates equation by equation: the backends of this build, with the kernels a compiled function would get.
const backend::Backend& plain_backend();

/// A concrete array's type and memory. Throws TraceError for a traced value, ValueError for an array that holds nothing.
eval::HostArray host_array(const Array& array);
/// Throws likewise; `use` says who wants the array.
void check_concrete(const Array& array, const std::function<std::string()>& use);

/// Throws ValueError naming `op` for the bytes of bools that are neither 0 nor 1.
void expect_bools(std::string_view op, const ArrayType& type, std::span<const std::byte> bytes);

/// Memory from the first backend that owns any.
std::shared_ptr<backend::Buffer> allocate(std::size_t nbytes);

}  // namespace lockstep::api
