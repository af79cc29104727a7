#include "engine/compile/walker.h"

#include "engine/compile/control_kernels.h"

namespace lockstep::compile {

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
  const int device = crew_.device();
  if (device >= step.devices) return;
  if (step.kind == Step::Kind::region) return run_region(step);
  const Lane& lane = step.lanes[static_cast<std::size_t>(device)];
  for (const ChainPart& part : lane.parts) run_tiles(part);
  for (const CallRange& range : lane.calls) run_calls(range, 0, 0);
}

void Walker::run_region(const Step& step) {
  const int first = crew_.device() * step.local_shards / step.devices;
  const int last = (crew_.device() + 1) * step.local_shards / step.devices;
  for (int shard = first; shard < last; ++shard) {
    const auto number = static_cast<std::size_t>(shard);
    std::byte* all = bases_[base::all_shards];
    bases_[base::shard] = all == nullptr ? nullptr : all + number * executable_.shard_bytes;
    if (Recorder* recorder = crew_.recorder()) recorder->set_shard(shard);
    run_calls(step.region, 0, number);
  }
  if (Recorder* recorder = crew_.recorder()) recorder->set_shard(-1);
}

void Walker::run_together(const Step& step) {
  const Call& call = executable_.calls[step.region.first];
  Recorder* recorder = crew_.recorder();
  if (recorder != nullptr) recorder->begin();
  static_cast<const ControlKernel*>(call.kernel)->walk_together(bind(call, 0, 0), crew_);
  if (recorder != nullptr) recorder->end(&executable_, step.region.first);
}

void Walker::run_tiles(const ChainPart& part) {
  const Chain& chain = executable_.chains[part.chain];
  for (std::int64_t tile = part.first_tile; tile < part.last_tile; ++tile) {
    const bool rest = chain.has_rest && tile + 1 == chain.tiles;
    run_calls(rest ? chain.rest_calls : chain.calls, static_cast<std::uint64_t>(tile), 0);
  }
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
    if (a.cut >= 0) offset += executable_.cuts[static_cast<std::size_t>(a.cut)][shard];
    views_[i].data = bases_[a.base] + offset;
  }
  const ArrayView* first = views_ + call.first;
  return {{first, call.inputs}, {first + call.inputs, call.outputs}, bases_[base::scratch] + call.scratch};
}

}  // namespace lockstep::compile
