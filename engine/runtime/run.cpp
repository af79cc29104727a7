#include "engine/runtime/run.h"

#include <functional>
#include <string>
#include <utility>

#include <lockstep/error.h>

#include "engine/compile/walker.h"
#include "engine/ir/joined_backend.h"
#include "engine/runtime/team.h"

namespace lockstep::runtime {
namespace {

using compile::Executable;
using compile::Frame;
using compile::ResultSource;
using ir::HostArray;
namespace base = compile::base;

/// One device of a team.
class TeamMember final : public compile::Crew {
 public:
  TeamMember(Team& team, int device, compile::Recorder* recorder) : Crew(device, recorder), team_(team) {}
  void meet() override { team_.barrier().arrive_and_wait(); }
  bool has_failed() const override { return team_.has_failed(); }
  void failed(std::exception_ptr error) override { team_.failed(std::move(error)); }

 private:
  Team& team_;
};

void check_arguments(const Executable& executable, const std::vector<HostArray>& arguments) {
  const auto& types = executable.argument_types;
  if (arguments.size() != types.size()) {
    throw ValueError("run: " + std::to_string(arguments.size()) + " arguments given, the function takes " +
                     std::to_string(types.size()) + "; pass one array for each input.");
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ArrayType& given = arguments[i].type;
    if (given.dtype == types[i].dtype && given.shape == types[i].shape && arguments[i].buffer != nullptr) continue;
    throw ValueError("run: argument " + std::to_string(i) + " is " + to_string(given) + ", the function takes " +
                     to_string(types[i]) + "; convert or reshape it, or compile for its type.");
  }
}

/// The buffers of the results that are written, donated ones where they may be.
std::vector<std::shared_ptr<Buffer>> result_buffers(const Executable& executable, std::vector<HostArray>& arguments,
                                                    const std::vector<bool>& donated) {
  std::vector<std::shared_ptr<Buffer>> buffers(executable.results.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const ResultSource& source = executable.results[i];
    if (source.kind != ResultSource::Kind::fresh) continue;
    const auto donor = static_cast<std::size_t>(source.donor);
    if (source.donor >= 0 && donor < donated.size() && donated[donor] && arguments[donor].buffer.use_count() == 1 &&
        arguments[donor].buffer->writable()) {
      buffers[i] = arguments[donor].buffer;
    } else {
      buffers[i] = executable.allocate(static_cast<std::size_t>(executable.result_types[i].nbytes()));
    }
  }
  return buffers;
}

void set_bases(const Executable& executable, Frame& frame, const std::vector<HostArray>& arguments,
               const std::vector<std::shared_ptr<Buffer>>& results) {
  const auto data = [](const std::shared_ptr<Buffer>& buffer) {
    return buffer == nullptr ? nullptr : static_cast<std::byte*>(buffer->data());
  };
  for (std::size_t d = 0; d < frame.bases.size(); ++d) {
    std::vector<std::byte*>& bases = frame.bases[d];
    bases[base::arena] = data(frame.arena);
    bases[base::scratch] = data(frame.scratch[d]);
    bases[base::constants] = data(executable.constants);
    bases[base::all_shards] = data(frame.shards);
    std::size_t next = base::first_argument;
    for (const HostArray& argument : arguments) bases[next++] = data(argument.buffer);
    for (const auto& result : results) bases[next++] = data(result);
  }
}

/// Collectives that were computed.
int execute(const Executable& executable, Frame& frame, Record* record) {
  if (record != nullptr) record->assign(static_cast<std::size_t>(executable.devices), {});
  const auto recorder = [&](int device) {
    return record == nullptr ? nullptr : &(*record)[static_cast<std::size_t>(device)];
  };
  // The caller's thread settings are the engine's while a call runs.
  const std::shared_ptr<void> entered = ir::enter_thread(executable.backends);
  const auto walk = [&](compile::Crew& crew) {
    const auto device = static_cast<std::size_t>(crew.device());
    compile::Walker(executable, frame.views[device].data(), frame.bases[device].data(), crew).run();
  };
  if (executable.devices == 1) {
    compile::Alone crew(recorder(0));
    walk(crew);
    return crew.collectives();
  }
  TeamLease lease(executable.devices, executable.backends);
  int collectives = 0;
  const auto task = [&](int device) {
    TeamMember member(lease.team(), device, recorder(device));
    walk(member);
    if (device == 0) collectives = member.collectives();
  };
  lease.team().run(std::cref(task));
  return collectives;
}

/// Gives the frame back when the call is over, however it ends.
class FrameLease {
 public:
  explicit FrameLease(const Executable& executable) : executable_(executable), frame_(executable.take_frame()) {}
  ~FrameLease() { executable_.give_back(std::move(frame_)); }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  Frame& frame() { return *frame_; }

 private:
  const Executable& executable_;
  std::unique_ptr<Frame> frame_;
};

}  // namespace

std::vector<HostArray> run(const Executable& executable, std::vector<HostArray> arguments,
                           const std::vector<bool>& donated, std::int64_t* collectives, Record* record) {
  check_arguments(executable, arguments);
  std::vector<std::shared_ptr<Buffer>> buffers = result_buffers(executable, arguments, donated);
  if (!executable.steps.empty()) {
    FrameLease lease(executable);
    set_bases(executable, lease.frame(), arguments, buffers);
    const int computed = execute(executable, lease.frame(), record);
    executable.count_collectives(computed);
    if (collectives != nullptr) *collectives = computed;
  }
  std::vector<HostArray> results;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const ResultSource& source = executable.results[i];
    const auto index = static_cast<std::size_t>(source.index);
    std::shared_ptr<Buffer> buffer = source.kind == ResultSource::Kind::argument ? arguments[index].buffer
                                     : source.kind == ResultSource::Kind::result ? buffers[index]
                                                                                 : buffers[i];
    results.push_back({executable.result_types[i], std::move(buffer)});
  }
  return results;
}

}  // namespace lockstep::runtime
