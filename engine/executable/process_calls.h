#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/processes.h>

#include "engine/executable/agreed_buffers.h"
#include "engine/ir/function.h"

namespace lockstep::executable {

/// Name of an argument: its path, where somebody knows it.
using ArgumentName = std::function<std::string(std::size_t argument)>;

/// The calls of one function that communicates, as all processes must make them. Before the first one they compare what
/// they run: machine, mesh, program, and the bytes of all arguments that lie whole; how the others lie stands in the
/// program. Later calls are compared by what their collectives say of themselves.
class ProcessCalls {
 public:
  /// `entries`: what is known of the function beside its program.
  ProcessCalls(std::shared_ptr<Processes> processes, ir::FunctionPtr program, ProcessEntries entries);

  /// Whether a call has begun: of later ones those arguments are asked for that are not agreed.
  bool is_compared() const { return is_compared_.load(std::memory_order_acquire); }
  /// Throws CommunicatorError where a process is about to call something else. An argument that lies cut has no bytes
  /// here: each process has others. Nor has one that is agreed, of a call behind the first one: the others' hash goes with
  /// the call's first collective. `name` may be null; both stay until the call ends.
  void begin(std::span<const std::span<const std::byte>> arguments, const ArgumentName* name);
  void end() { processes_->end_call(); }
  Processes& processes() const { return *processes_; }
  AgreedBuffers& agreed() const { return *agreed_; }
  /// The call has thrown in this process.
  void fail(std::string_view text) {
    processes_->fail(text);
    processes_->end_call();
  }

 private:
  void compare(std::span<const std::span<const std::byte>> arguments, const ArgumentName* name) const;

  std::shared_ptr<Processes> processes_;
  std::shared_ptr<AgreedBuffers> agreed_;
  ir::FunctionPtr program_;
  ProcessEntries entries_;
  std::uint64_t hash_ = 0;  ///< Of the program's text.
  std::mutex mutex_;
  std::atomic<bool> is_compared_{false};
};

}  // namespace lockstep::executable
