#include "engine/runtime/run.h"

#include <functional>
#include <string>
#include <utility>

#include <lockstep/error.h>

#include "engine/runtime/team.h"

namespace lockstep::runtime {
namespace {

using compile::Address;
using compile::Call;
using compile::CallRange;
using compile::Chain;
using compile::ChainPart;
using compile::Executable;
using compile::Frame;
using compile::ResultSource;
using compile::Step;
using ir::HostArray;
namespace base = compile::base;

/// One device's walk through the steps.
class Walker {
 public:
  Walker(const Executable& executable, Frame& frame, int device)
      : executable_(executable),
        views_(frame.views[static_cast<std::size_t>(device)]),
        bases_(frame.bases[static_cast<std::size_t>(device)]),
        shards_(frame.shards == nullptr ? nullptr : static_cast<std::byte*>(frame.shards->data())),
        device_(device) {}

  void run(const Step& step) {
    if (device_ >= step.devices) return;
    if (step.per_shard) {
      const int first = device_ * step.local_shards / step.devices;
      const int last = (device_ + 1) * step.local_shards / step.devices;
      for (int shard = first; shard < last; ++shard) {
        bases_[base::shard] =
            shards_ == nullptr ? nullptr : shards_ + static_cast<std::size_t>(shard) * executable_.shard_bytes;
        run_calls(step.region, 0, static_cast<std::size_t>(shard));
      }
      return;
    }
    const compile::Lane& lane = step.lanes[static_cast<std::size_t>(device_)];
    for (const ChainPart& part : lane.parts) run_tiles(part);
    for (const CallRange& range : lane.calls) run_calls(range, 0, 0);
  }

 private:
  void run_tiles(const ChainPart& part) {
    const Chain& chain = executable_.chains[part.chain];
    for (std::int64_t tile = part.first_tile; tile < part.last_tile; ++tile) {
      const bool rest = chain.has_rest && tile + 1 == chain.tiles;
      run_calls(rest ? chain.rest_calls : chain.calls, static_cast<std::uint64_t>(tile), 0);
    }
  }

  void run_calls(CallRange range, std::uint64_t tile, std::size_t shard) {
    for (std::uint32_t c = range.first; c < range.last; ++c) {
      const Call& call = executable_.calls[c];
      const std::uint32_t last = call.first + call.inputs + call.outputs;
      for (std::uint32_t i = call.first; i < last; ++i) {
        const Address& a = executable_.addresses[i];
        std::uint64_t offset = a.offset + tile * a.tile_stride;
        if (a.cut >= 0) offset += executable_.cuts[static_cast<std::size_t>(a.cut)][shard];
        views_[i].data = bases_[a.base] + offset;
      }
      const ArrayView* first = views_.data() + call.first;
      call.kernel->run({{first, call.inputs}, {first + call.inputs, call.outputs}, bases_[base::scratch]});
    }
  }

  const Executable& executable_;
  std::vector<ArrayView>& views_;
  std::vector<std::byte*>& bases_;
  std::byte* shards_;
  int device_;
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
    if (source.donor >= 0 && donor < donated.size() && donated[donor] && arguments[donor].buffer.use_count() == 1) {
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

/// The caller's thread settings are the engine's while a call runs.
class EnteredThread {
 public:
  explicit EnteredThread(const Executable& executable) {
    for (const auto& backend : executable.backends) {
      if (auto token = backend->enter_thread()) tokens_.push_back(std::move(token));
    }
  }

 private:
  std::vector<std::shared_ptr<void>> tokens_;
};

void execute(const Executable& executable, Frame& frame) {
  const EnteredThread entered(executable);
  if (executable.devices == 1) {
    Walker walker(executable, frame, 0);
    for (const Step& step : executable.steps) {
      walker.run(step);
      if (step.collectives > 0) executable.count_collectives(step.collectives);
    }
    return;
  }
  TeamLease lease(executable.devices, executable.backends);
  Team& team = lease.team();
  const auto task = [&](int device) {
    Walker walker(executable, frame, device);
    for (const Step& step : executable.steps) {
      try {
        if (!team.has_failed()) walker.run(step);
      } catch (...) {
        team.failed(std::current_exception());
      }
      if (device == 0 && step.collectives > 0) executable.count_collectives(step.collectives);
      if (step.barrier_after) team.barrier().arrive_and_wait();
    }
  };
  team.run(std::cref(task));
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
                           const std::vector<bool>& donated) {
  check_arguments(executable, arguments);
  std::vector<std::shared_ptr<Buffer>> buffers = result_buffers(executable, arguments, donated);
  if (!executable.steps.empty()) {
    FrameLease lease(executable);
    set_bases(executable, lease.frame(), arguments, buffers);
    execute(executable, lease.frame());
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
