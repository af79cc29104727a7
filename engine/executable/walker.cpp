#include "engine/executable/walker.h"

#include "engine/executable/control_kernels.h"

namespace lockstep::executable {

void Walker::run() {
  for (const Step& step : executable_.steps) {
    if (step.kind == Step::Kind::together) {
      run_together(step);
    } else {
      try {
        if (!crew_.has_failed()) run_step(step);
      } catch (...) {
        crew_.failed(std::current_exception());
      }
    }
    if (crew_.device() == 0) crew_.count_collectives(step.collectives);
    if (step.barrier_after) meet();
  }
}

void Walker::meet() {
  Recorder* recorder = crew_.recorder();
  if (recorder == nullptr) return crew_.meet();
  recorder->begin();
  crew_.meet();
  recorder->end(nullptr, 0);
}

void Walker::run_step(const Step& step) {
  if (step.kind == Step::Kind::region) return run_region(step);
  run_lanes(step);
}

/// Calls run(device, item) for the items of this device's share that it gets, and then for those of others.
template <class Run>
void Walker::run_shares(const Step& step, std::uint32_t items, Run run) {
  const int own = crew_.device();
  Shares* shares = crew_.shares();
  if (step.devices == 1 || shares == nullptr) {
    for (std::uint32_t item = 0; own == 0 && item < items; ++item) run(0, item);
    return;
  }
  try {
    if (own < step.devices) shares->deal(own, items);
    for (std::int64_t item = 0; (item = shares->take_first(own)) >= 0;) run(own, item);
    for (int other = 1; other < step.devices; ++other) {
      const int from = (own + other) % step.devices;
      for (std::int64_t item = 0; (item = shares->take_last(from)) >= 0;) run(from, item);
    }
  } catch (...) {
    shares->deal(own, 0);  // for the steps to come
    throw;
  }
}

void Walker::run_region(const Step& step) {
  const auto first = [&](int device) { return device * step.local_shards / step.devices; };
  const int own = crew_.device();
  const int items = own < step.devices ? first(own + 1) - first(own) : 0;
  run_shares(step, static_cast<std::uint32_t>(items), [&](int device, std::int64_t item) {
    const auto shard = static_cast<std::size_t>(first(device) + item);
    std::byte* all = bases_[base::all_shards];
    bases_[base::shard] = all == nullptr ? nullptr : all + shard * executable_.shard_bytes;
    if (Recorder* recorder = crew_.recorder()) recorder->set_shard(static_cast<int>(shard));
    run_shard(step, shard);
  });
  if (Recorder* recorder = crew_.recorder()) recorder->set_shard(-1);
}

// The shard that comes last to a place runs what stands there once. It goes on to the next place behind that, so they are
// run one after the other, in their order.
void Walker::run_shard(const Step& step, std::size_t shard) {
  CallRange left = step.region;
  for (std::size_t i = 0; i < step.behind_shards.size(); ++i) {
    const BehindShards& once = step.behind_shards[i];
    run_calls({left.first, once.call}, 0, shard);
    left.first = once.call;
    const int before = passed_[step.first_passed + i].fetch_add(1, std::memory_order_acq_rel);
    if (before + 1 < step.local_shards) continue;
    Recorder* const recorder = crew_.recorder();
    if (recorder != nullptr) recorder->set_shard(-1);
    run_once(once);
    if (recorder != nullptr) recorder->set_shard(static_cast<int>(shard));
  }
  run_calls(left, 0, shard);
}

void Walker::run_once(const BehindShards& once) {
  if (once.chain < 0) return run_calls(once.calls, 0, 0);
  const Chain& chain = executable_.chains[static_cast<std::size_t>(once.chain)];
  for (std::int64_t tile = 0; tile < chain.tiles; ++tile) run_tile(chain, tile);
}

void Walker::run_lanes(const Step& step) {
  const auto own = static_cast<std::size_t>(crew_.device());
  const Lane* lane = own < step.lanes.size() ? &step.lanes[own] : nullptr;
  if (lane != nullptr) {
    for (const CallRange& range : lane->on_caller) run_calls(range, 0, 0);
  }
  run_shares(step, lane == nullptr ? 0 : lane->items(),
             [&](int device, std::int64_t item) { run_item(step.lanes[static_cast<std::size_t>(device)], item); });
}

void Walker::run_item(const Lane& lane, std::int64_t item) {
  for (const ChainPart& part : lane.parts) {
    const std::int64_t tiles = part.last_tile - part.first_tile;
    if (item < tiles) return run_tile(executable_.chains[part.chain], part.first_tile + item);
    item -= tiles;
  }
  run_calls(lane.calls[static_cast<std::size_t>(item)], 0, 0);
}

void Walker::run_tile(const Chain& chain, std::int64_t tile) {
  const bool rest = chain.has_rest && tile + 1 == chain.tiles;
  run_calls(rest ? chain.rest_calls : chain.calls, static_cast<std::uint64_t>(tile), 0);
}

void Walker::run_together(const Step& step) {
  const Call& call = executable_.calls[step.region.first];
  Recorder* recorder = crew_.recorder();
  if (recorder != nullptr) recorder->begin();
  static_cast<const ControlKernel*>(call.kernel)->walk_together(bind(call, 0, 0), crew_);
  if (recorder != nullptr) recorder->end(&executable_, step.region.first);
}

void Walker::run_calls(CallRange range, std::uint64_t tile, std::size_t shard) {
  if (Recorder* recorder = crew_.recorder()) return run_recorded(range, tile, shard, *recorder);
  for (std::uint32_t c = range.first; c < range.last; ++c) {
    const Call& call = executable_.calls[c];
    call.kernel->run(bind(call, tile, shard));
  }
}

void Walker::run_recorded(CallRange range, std::uint64_t tile, std::size_t shard, Recorder& recorder) {
  for (std::uint32_t c = range.first; c < range.last; ++c) {
    const Call& call = executable_.calls[c];
    recorder.begin();
    const KernelArguments arguments = bind(call, tile, shard);
    if (const auto* control = dynamic_cast<const ControlKernel*>(call.kernel)) {
      control->run(arguments, &recorder);
    } else {
      call.kernel->run(arguments);
    }
    recorder.end(&executable_, c);
  }
}

KernelArguments Walker::bind(const Call& call, std::uint64_t tile, std::size_t shard) {
  const std::uint32_t last = call.first + call.inputs + call.outputs;
  for (std::uint32_t i = call.first; i < last; ++i) {
    const Address& a = executable_.addresses[i];
    std::uint64_t offset = a.offset + tile * a.tile_stride;
    if (a.cut >= 0) offset += executable_.cuts[a.cut][shard];
    views_[i].data = bases_[a.base] + offset;
  }
  const ArrayView* first = views_ + call.first;
  return {{first, call.inputs}, {first + call.inputs, call.outputs}, bases_[base::scratch] + call.scratch};
}

}  // namespace lockstep::executable
