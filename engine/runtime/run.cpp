#include "engine/runtime/run.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include <lockstep/error.h>

#include "engine/executable/process_kernels.h"
#include "engine/executable/walker.h"
#include "engine/ir/backend_chain.h"
#include "engine/runtime/team.h"

namespace lockstep::runtime {
namespace {

using eval::HostArray;
using executable::CallFrame;
using executable::Executable;
using executable::ResultSource;
namespace base = executable::base;

/// One device of a team.
class TeamMember final : public executable::Crew {
 public:
  TeamMember(Team& team, int device, executable::Recorder* recorder) : Crew(device, recorder), team_(team) {}
  void meet() override {
    if (!team_.is_of_parent()) team_.barrier().arrive_and_wait();
  }
  bool has_failed() const override { return team_.has_failed(); }
  executable::Shares* shares() override { return &team_.shares(); }
  void failed(std::exception_ptr error) override { team_.failed(std::move(error)); }

 private:
  Team& team_;
};

/// Whether result i is written where its donor lies.
bool in_donor(const ResultSource& source, std::span<const Argument> arguments) {
  if (source.donor < 0) return false;
  const Argument& donor = arguments[static_cast<std::size_t>(source.donor)];
  return donor.donated && donor.buffer->use_count() == 1 && (*donor.buffer)->writable();
}

std::byte* bytes_or_null(const std::shared_ptr<Buffer>& buffer) {
  return buffer == nullptr ? nullptr : static_cast<std::byte*>(buffer->data());
}

/// Memory for the results that are written, but for those that lie in their donors.
void take_results(const Executable& executable, std::span<const Argument> arguments,
                  std::span<std::shared_ptr<Buffer>> written) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    const ResultSource& source = executable.results[i];
    if (source.kind != ResultSource::Kind::fresh || in_donor(source, arguments)) continue;
    written[i] = executable.allocate(static_cast<std::size_t>(executable.result_types[i].nbytes()));
  }
}

void set_bases(const Executable& executable, CallFrame& frame, std::span<const Argument> arguments,
               std::span<const std::shared_ptr<Buffer>> written) {
  std::vector<std::byte*>& first = frame.bases.front();
  std::byte** const argument_bases = first.data() + base::first_argument;
  std::byte** next = argument_bases;
  for (const Argument& argument : arguments) *next++ = bytes_or_null(*argument.buffer);
  for (std::size_t i = 0; i < written.size(); ++i) {
    const ResultSource& source = executable.results[i];
    const bool donated = source.kind == ResultSource::Kind::fresh && written[i] == nullptr;
    *next++ = donated ? argument_bases[source.donor] : bytes_or_null(written[i]);
  }
  for (std::size_t d = 0; d < frame.bases.size(); ++d) {
    std::vector<std::byte*>& bases = frame.bases[d];
    bases[base::arena] = bytes_or_null(frame.arena);
    bases[base::scratch] = bytes_or_null(frame.scratch[d]);
    bases[base::constants] = bytes_or_null(executable.constants);
    bases[base::all_shards] = bytes_or_null(frame.shards);
    if (d > 0) std::copy(first.begin() + base::first_argument, first.end(), bases.begin() + base::first_argument);
  }
}

thread_local int widest_call = 0;

/// Collectives that were computed.
int execute(const Executable& executable, CallFrame& frame, Record* record) {
  widest_call = std::max(widest_call, executable.devices);
  if (record != nullptr) record->assign(static_cast<std::size_t>(executable.devices), {});
  const auto recorder = [&](int device) {
    return record == nullptr ? nullptr : &(*record)[static_cast<std::size_t>(device)];
  };
  // The caller's thread settings are the engine's while a call runs.
  const ir::EnteredThread entered(executable.entered);
  for (std::atomic<int>& passed : frame.passed) passed.store(0, std::memory_order_relaxed);
  const auto walk = [&](executable::Crew& crew) {
    const auto device = static_cast<std::size_t>(crew.device());
    executable::Walker(executable, frame.views[device].data(), frame.bases[device].data(), crew, frame.passed).run();
  };
  if (executable.devices == 1) {
    executable::Alone crew(recorder(0));
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

/// Calls visit(buffer) for each buffer that the call has written.
template <class Visit>
void for_each_written(const Executable& executable, std::span<const Argument> arguments,
                      std::span<const std::shared_ptr<Buffer>> written, const Visit& visit) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    const ResultSource& source = executable.results[i];
    if (source.kind != ResultSource::Kind::fresh) continue;
    if (written[i] != nullptr) {
      visit(written[i]);
    } else if (source.donor >= 0) {
      visit(*arguments[static_cast<std::size_t>(source.donor)].buffer);
    }
  }
}

/// The same as one of the processes: the others are told of a call that throws.
int execute_with_others(const Executable& executable, CallFrame& frame, Record* record,
                        std::span<const Argument> arguments, const executable::ArgumentName* name) {
  executable::ProcessCalls& calls = *executable.process_calls;
  std::vector<std::span<const std::byte>> bytes;
  const auto& cut = executable.cut.arguments;
  const bool is_first = !calls.is_compared();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::shared_ptr<Buffer>& buffer = *arguments[i].buffer;
    // Of what lies cut each process has another part.
    const bool is_cut = !cut.empty() && cut[i] != nullptr;
    if (is_cut || buffer == nullptr || (!is_first && calls.agreed().contains(buffer))) continue;
    bytes.resize(arguments.size());
    bytes[i] = {bytes_or_null(buffer), static_cast<std::size_t>(executable.argument_types[i].nbytes())};
    calls.agreed().add(buffer);
  }
  if (is_first) bytes.resize(arguments.size());
  calls.begin(bytes, name);
  if (executable.window_bytes > 0) {
    std::byte* const window = executable::PutIntoWindow::begin_of_window(calls.processes(), executable.window_bytes);
    for (std::vector<std::byte*>& bases : frame.bases) bases[base::window] = window;
  }
  try {
    const int computed = execute(executable, frame, record);
    calls.end();
    return computed;
  } catch (const std::exception& error) {
    calls.fail(error.what());
    throw;
  } catch (...) {
    calls.fail("an error of no known kind");
    throw;
  }
}

}  // namespace

int take_widest_call() { return std::exchange(widest_call, 0); }

CallFrame& FrameLease::of(const Executable& executable) {
  if (executable_ != &executable) {
    give_back();
    frame_ = executable.take_frame();
    executable_ = &executable;
  }
  return *frame_;
}

void FrameLease::give_back() {
  if (executable_ != nullptr) executable_->give_back(std::move(frame_));
  executable_ = nullptr;
}

void run(const Executable& executable, std::span<const Argument> arguments, std::span<std::shared_ptr<Buffer>> written,
         FrameLease& lease, std::int64_t* collectives, Record* record, const executable::ArgumentName* name) {
  take_results(executable, arguments, written);
  if (executable.steps.empty()) return;
  CallFrame& frame = lease.of(executable);
  set_bases(executable, frame, arguments, written);
  const bool is_alone = executable.process_calls == nullptr;
  const int computed =
      is_alone ? execute(executable, frame, record) : execute_with_others(executable, frame, record, arguments, name);
  if (!is_alone || executable::AgreedBuffers::exist()) {
    for_each_written(executable, arguments, written, [&](const std::shared_ptr<Buffer>& buffer) {
      is_alone ? buffer->set_agreed(false) : executable.process_calls->agreed().add(buffer);
    });
  }
  if (computed > 0) executable.count_collectives(computed);
  if (collectives != nullptr) *collectives = computed;
}

void check_count(const Executable& executable, std::size_t arguments) {
  if (arguments == executable.argument_types.size()) return;
  throw ValueError("run: " + std::to_string(arguments) + " arguments given, the function takes " +
                   std::to_string(executable.argument_types.size()) + "; pass one array for each input.");
}

void check_type(const Executable& executable, std::size_t i, const ArrayType& given) {
  const ArrayType& expected = executable.argument_types[i];
  if (given.dtype == expected.dtype && given.shape == expected.shape) return;
  throw ValueError("run: argument " + std::to_string(i) + " is " + to_string(given) + ", the function takes " +
                   to_string(expected) + "; convert or reshape it, or compile for its type.");
}

std::vector<HostArray> run(const Executable& executable, std::vector<HostArray> arguments,
                           const std::vector<bool>& donated, std::int64_t* collectives, Record* record) {
  check_count(executable, arguments.size());
  std::vector<Argument> memory;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    check_type(executable, i, arguments[i].type);
    memory.push_back({&arguments[i].buffer, i < donated.size() && donated[i]});
  }
  std::vector<std::shared_ptr<Buffer>> written(executable.results.size());
  FrameLease lease;
  run(executable, memory, written, lease, collectives, record);
  std::vector<HostArray> results;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const ResultSource& source = executable.results[i];
    const auto index = static_cast<std::size_t>(source.index);
    std::shared_ptr<Buffer> buffer = source.kind == ResultSource::Kind::argument ? arguments[index].buffer
                                     : source.kind == ResultSource::Kind::result ? results[index].buffer
                                     : written[i] != nullptr                     ? std::move(written[i])
                                                             : arguments[static_cast<std::size_t>(source.donor)].buffer;
    results.push_back({executable.result_types[i], std::move(buffer)});
  }
  return results;
}

}  // namespace lockstep::runtime
