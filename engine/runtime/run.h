#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/backend.h>

#include "engine/eval/eval.h"
#include "engine/executable/executable.h"
#include "engine/executable/recorder.h"

namespace lockstep::runtime {

using namespace backend;

/// Devices of the widest call that this thread made since it asked last; 0 where it made none.
int take_widest_call();

/// What each device did in one run.
using Record = std::vector<executable::Recorder>;

/// One argument of a run: its memory, and whether a result may be written there if nobody else holds it.
struct Argument {
  const std::shared_ptr<Buffer>* buffer = nullptr;
  bool donated = false;
};

/// A frame of the executable that ran last: who calls one again and again keeps its frame. It goes back when another
/// executable's is wanted and in the end; executables outlive their leases.
class FrameLease {
 public:
  FrameLease() = default;
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  ~FrameLease() { give_back(); }
  executable::CallFrame& of(const executable::Executable& executable);
  void give_back();

 private:
  const executable::Executable* executable_ = nullptr;
  std::unique_ptr<executable::CallFrame> frame_;
};

/// Runs an executable on arguments of its types. `written[i]` becomes the memory of result i where that is made anew; it
/// stays null where the result lies in its donor's memory or is an argument or an earlier result (Executable::results).
/// `collectives` becomes the number of collectives computed, each as often as it was; `record`, where there is one, what
/// ran when; `name` is asked where an argument differs from another process's. Throws whatever a kernel throws. A steady
/// state allocates nothing but the memory of results.
void run(const executable::Executable& executable, std::span<const Argument> arguments,
         std::span<std::shared_ptr<Buffer>> written, FrameLease& lease, std::int64_t* collectives = nullptr,
         Record* record = nullptr, const executable::ArgumentName* name = nullptr);

/// Throws ValueError where the function takes another number of arguments.
void check_count(const executable::Executable& executable, std::size_t arguments);
/// Throws ValueError where the function's argument `i` is of another type.
void check_type(const executable::Executable& executable, std::size_t i, const ArrayType& given);

/// The same with types, which are checked. Arguments are moved in; a donated one whose buffer has no other owner may
/// become a result.
std::vector<eval::HostArray> run(const executable::Executable& executable, std::vector<eval::HostArray> arguments,
                                 const std::vector<bool>& donated = {}, std::int64_t* collectives = nullptr,
                                 Record* record = nullptr);

}  // namespace lockstep::runtime
