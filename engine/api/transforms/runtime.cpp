#include "engine/api/transforms/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/api/inspection/dump.h"
#include "engine/compile/compile.h"
#include "engine/core/checked_sizes.h"
#include "engine/core/environment.h"
#include "engine/core/lists.h"
#include "engine/core/process_end.h"
#include "engine/ir/backend_chain.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep::api {

namespace {

/// Messages are worth hiding. In the memory of one host sums were as fast without, and take less of it.
std::int64_t default_bucket_bytes() { return world()->has_windows() ? 0 : std::int64_t{1} << 20; }

compile::Options make_options() {
  compile::Options options;
  options.backends = backend::built_backends();
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.processes = world();
  options.fuse = environment_flag("LOCKSTEP_FUSE", true);
  options.bucket_bytes = environment_count("LOCKSTEP_BUCKET_BYTES", default_bucket_bytes());
#ifndef NDEBUG
  constexpr bool verifies = true;
#else
  constexpr bool verifies = false;
#endif
  options.verify = environment_flag("LOCKSTEP_VERIFY", verifies);
  return options;
}

std::atomic<std::int64_t>& collectives() {
  static std::atomic<std::int64_t> count{0};
  return count;
}

}  // namespace

std::int64_t cached_programs() { return environment_count("LOCKSTEP_CACHED_PROGRAMS", 4096); }

std::shared_ptr<const executable::Executable> compiled(const ir::FunctionPtr& function, Precision precision) {
  static const compile::Options plain = make_options();
  static const char* const dump_folder = std::getenv("LOCKSTEP_DUMP_IR");
  auto executable = [&] {
    if (precision == plain.precision) return compile::compile(function, plain);
    compile::Options options = plain;
    options.precision = precision;
    return compile::compile(function, options);
  }();
  if (dump_folder != nullptr) dump_stages(dump_folder, *function, *executable);
  watch_process_end();
  return executable;
}

namespace {

using executable::ResultSource;

/// Whether nobody but the call holds array and memory.
bool may_overwrite(const CallArgument& argument) {
  return argument.own != nullptr && argument.own->state().use_count() == 1;
}

/// Result i over memory.
Array made(const executable::Executable& executable, std::size_t i, std::shared_ptr<backend::Buffer> buffer) {
  const executable::CutSignature& cut = executable.cut;
  if (cut.results.empty()) return make_array(executable.result_types[i], std::move(buffer));
  return make_array(cut.whole_results[i], std::move(buffer), cut.results[i]);
}

Array passed_on(const executable::Executable& executable, std::size_t i, const CallArgument& argument) {
  const ResultSource& source = executable.results[i];
  if (source.is_retyped) return made(executable, i, argument.array->state()->buffer);
  if (argument.own != nullptr && source.is_last) return std::move(*argument.own);
  return *argument.array;
}

/// A result that lies where its donor lay.
Array in_place(const executable::Executable& executable, std::size_t i, const ResultSource& source, Array& donor) {
  const bool is_like_donor = !source.is_retyped && !source.is_repeated && donor.state()->keys.empty();
  if (is_like_donor) return std::move(donor);
  return made(executable, i, donor.state()->buffer);
}

}  // namespace

Array result(const executable::Executable& executable, CallSpace& space, std::size_t i) {
  const ResultSource& source = executable.results[i];
  const auto index = static_cast<std::size_t>(source.index);
  if (source.kind == ResultSource::Kind::argument) return passed_on(executable, i, space.arguments[index]);
  const bool repeats = source.kind == ResultSource::Kind::result;
  std::shared_ptr<backend::Buffer>& written = space.written[repeats ? index : i];
  if (written == nullptr) {
    const ResultSource& first = repeats ? executable.results[index] : source;
    return in_place(executable, i, first, *nth(space.arguments, first.donor).own);
  }
  return made(executable, i, source.is_repeated || repeats ? written : std::move(written));
}

void CallSpace::clear() {
  arguments.clear();
  memory.clear();
  written.clear();
  name = nullptr;
}

namespace {

/// Throws BackendError: there is no memory for a call.
[[noreturn]] void refuse_call(const executable::Executable& executable) {
  std::int64_t bytes = 0;
  std::string largest = "none";
  for (const ArrayType& type : executable.result_types) {
    if (type.nbytes() < bytes) continue;
    bytes = type.nbytes();
    largest = to_string(type);
  }
  throw BackendError(fmt::format(
      "run: there is no memory for a call; its largest result is {}, of {} bytes, beside what it computes on the way; "
      "expected arrays that memory holds; give smaller ones, or fewer rows at once",
      largest, bytes));
}

}  // namespace

void run(const executable::Executable& executable, CallSpace& space, runtime::Record* record) {
  if (!executable.has_written_results && executable.steps.empty()) return;
  for (const CallArgument& argument : space.arguments)
    space.memory.push_back({&argument.array->state()->buffer, false});
  for (const ResultSource& source : executable.results) {
    if (source.donor < 0) continue;
    const auto donor = static_cast<std::size_t>(source.donor);
    space.memory[donor].donated = may_overwrite(space.arguments[donor]);
  }
  space.written.resize(executable.results.size());
  std::int64_t computed = 0;
  try {
    runtime::run(executable, space.memory, space.written, space.frame, &computed, record, space.name);
  } catch (const std::bad_alloc&) {
    refuse_call(executable);
  }
  if (computed > 0) collectives() += computed;
}

std::vector<Array> run(const executable::Executable& executable, std::vector<Array> arguments,
                       const std::vector<bool>& donated, runtime::Record* record) {
  runtime::check_count(executable, arguments.size());
  CallSpace space;
  space.arguments.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    check_concrete(arguments[i], [] { return std::string("use of elements"); });
    const auto& cut = arguments[i].state()->cut;
    if (cut == nullptr) {
      runtime::check_type(executable, i, arguments[i].type());
    } else if (executable.cut.arguments.empty() || !same_cut(cut, executable.cut.arguments[i])) {
      throw MeshError(
          fmt::format("argument {}, {}, {}; expected a whole array; instead call gather(x) on every process", i,
                      to_string(arguments[i].type()), lies_cut(*cut)));
    }
    space.arguments.push_back({&arguments[i], i < donated.size() && donated[i] ? &arguments[i] : nullptr});
  }
  run(executable, space, record);
  std::vector<Array> results;
  results.reserve(executable.results.size());
  for (std::size_t i = 0; i < executable.results.size(); ++i) results.push_back(result(executable, space, i));
  return results;
}

std::vector<Array> call(const ir::FunctionPtr& function, std::vector<Array> arguments) {
  if (tracing::is_open()) return tracing::inline_call(*function, arguments);
  const InLibrary inside("call");
  const auto executable = compiled(on_cut_arguments(function, cuts_of(arguments)));
  return run(*executable, std::move(arguments));
}

const backend::Backend& plain_backend() {
  static const std::shared_ptr<const backend::Backend> all = ir::backend_chain(backend::built_backends());
  if (backend::built_backends().empty()) {
    throw BackendError("this build has no backend; configure one of the folders of backends/");
  }
  return *all;
}

eval::HostArray host_array(const Array& array) {
  check_concrete(array, [] { return std::string("use of elements"); });
  if (array.state()->cut != nullptr) {
    throw MeshError(fmt::format("use of elements: {} {}; call gather(x) on every process first",
                                to_string(array.type()), lies_cut(*array.state()->cut)));
  }
  return {array.type(), array.state()->buffer};
}

void check_concrete(const Array& array, const std::function<std::string()>& use) {
  if (!array.has_value()) throw ValueError(fmt::format("{}: {}", use(), why_empty(array)));
  if (!array.is_traced()) return;
  tracing::check_alive(array, use());
  throw TraceError(
      fmt::format("{}: a traced value of type {} was used where its elements are needed; return it from the traced "
                  "function instead",
                  use(), to_string(array.type())));
}

std::shared_ptr<backend::Buffer> allocate(std::size_t nbytes) {
  const InLibrary inside("array");
  for (const auto& backend : backend::built_backends()) {
    if (!backend->supports(DeviceKind::cpu)) continue;
    try {
      if (auto buffer = backend->allocate(nbytes, Device{})) return buffer;
    } catch (const std::bad_alloc&) {
      throw BackendError(
          fmt::format("there is no memory for an array of {} bytes; give a smaller one, or drop others", nbytes));
    }
  }
  throw BackendError("no backend of this build owns memory on cpu:0; configure backends/cpu");
}

void expect_bools(std::string_view op, const ArrayType& type, std::span<const std::byte> bytes) {
  if (type.dtype != DType::bool_) return;
  const auto found = std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte > std::byte{1}; });
  if (found == bytes.end()) return;
  throw ValueError(fmt::format(
      "{}: element {} of {} is the byte {}; expected 0 or 1, all that a bool may be; read uint8 and compare it with 0",
      op, found - bytes.begin(), to_string(type), std::to_integer<int>(*found)));
}

std::int64_t collectives_run() { return collectives(); }

}  // namespace lockstep::api

namespace lockstep {

Array from_bytes(const ArrayType& type, std::span<const std::byte> bytes) {
  check_size("from_bytes", type);
  if (bytes.size() != static_cast<std::size_t>(type.nbytes())) {
    throw ShapeError(
        fmt::format("from_bytes: {} takes {} bytes, got {}", to_string(type), type.nbytes(), bytes.size()));
  }
  api::expect_bools("from_bytes", type, bytes);
  auto buffer = api::allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return make_array(type, std::move(buffer));
}

Array detail::from_elements(DType dtype, const Shape& shape, const void* elements, std::size_t bytes) {
  return from_bytes({dtype, shape, {}}, {static_cast<const std::byte*>(elements), bytes});
}

}  // namespace lockstep
