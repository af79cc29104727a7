#include "engine/executable/executable.h"

#include <algorithm>

#include <lockstep/error.h>

#include "engine/executable/control_kernels.h"

namespace lockstep::executable {
namespace {

std::string name_of(const Executable& e, std::uint32_t b) {
  const std::vector<std::string> names = {"arena", "shard", "scratch", "constants", "shards", "window"};
  if (b < base::first_argument) return names[b];
  const std::uint32_t number = b - base::first_argument;
  const auto arguments = static_cast<std::uint32_t>(e.argument_types.size());
  return number < arguments ? "arg" + std::to_string(number) : "out" + std::to_string(number - arguments);
}

std::string print_operand(const Executable& e, std::uint32_t i) {
  const Address& a = e.addresses[i];
  const ArrayView& view = e.views[i];
  std::string text = to_string(ArrayType{view.dtype, view.shape, {}}) + "@" + name_of(e, a.base);
  if (a.offset != 0) text += "+" + std::to_string(a.offset);
  if (a.cut >= 0) text += "/cut" + std::to_string(a.cut);
  if (a.tile_stride != 0) text += "*" + std::to_string(a.tile_stride);
  if (!view.is_contiguous()) {
    text += "(";
    for (int d = 0; d < view.shape.rank(); ++d) {
      text += (d > 0 ? "," : "") + std::to_string(view.strides[static_cast<std::size_t>(d)]);
    }
    text += ")";
  }
  return text;
}

std::string print_bodies(const ControlKernel& kernel, const std::string& indent, bool costs) {
  std::string text;
  for (const Body& body : kernel.bodies()) {
    text += indent + body.label + ": " + body.executable->print(indent + "  ", costs);
  }
  return text;
}

std::string print_calls(const Executable& e, CallRange range, const std::string& indent, bool costs) {
  std::string text;
  for (std::uint32_t c = range.first; c < range.last; ++c) {
    const Call& call = e.calls[c];
    text += indent;
    for (std::uint32_t i = 0; i < call.outputs; ++i) {
      text += (i > 0 ? ", " : "") + print_operand(e, call.first + call.inputs + i);
    }
    text += " = " + e.call_names[c];
    for (std::uint32_t i = 0; i < call.inputs; ++i) text += " " + print_operand(e, call.first + i);
    const auto* control = dynamic_cast<const ControlKernel*>(call.kernel);
    if (control != nullptr && !control->describe().empty()) text += ", " + control->describe();
    if (costs && control == nullptr) text += "  # " + print_costs(e.call_notes[c].flops, e.call_notes[c].bytes);
    text += "\n";
    if (control != nullptr) text += print_bodies(*control, indent + "  ", costs);
  }
  return text;
}

std::string print_lane(const Executable& e, const Lane& lane, int number, const std::string& indent, bool costs) {
  std::string text;
  const auto print_range = [&](const CallRange& range) {
    text += indent + "  device " + std::to_string(number) + "\n" + print_calls(e, range, indent + "    ", costs);
  };
  for (const CallRange& range : lane.on_caller) print_range(range);
  for (const ChainPart& part : lane.parts) {
    const Chain& chain = e.chains[part.chain];
    text += indent + "  device " + std::to_string(number) + ": tiles " + std::to_string(part.first_tile) + " to " +
            std::to_string(part.last_tile - 1) + " of " + std::to_string(chain.tiles) + "\n" +
            print_calls(e, chain.calls.empty() ? chain.rest_calls : chain.calls, indent + "    ", costs);
  }
  for (const CallRange& range : lane.calls) print_range(range);
  return text;
}

std::string print_region(const Executable& e, const Step& step, const std::string& indent, bool costs) {
  std::string text;
  CallRange left = step.region;
  for (const BehindShards& once : step.behind_shards) {
    text += print_calls(e, {left.first, once.call}, indent + "    ", costs);
    left.first = once.call;
    text += indent + "  behind all shards";
    if (once.chain < 0) {
      text += "\n" + print_calls(e, once.calls, indent + "    ", costs);
      continue;
    }
    const Chain& chain = e.chains[static_cast<std::size_t>(once.chain)];
    text += ": " + std::to_string(chain.tiles) + " tiles\n" +
            print_calls(e, chain.calls.empty() ? chain.rest_calls : chain.calls, indent + "    ", costs);
  }
  if (!step.behind_shards.empty() && !left.empty()) text += indent + "  each shard\n";
  return text + print_calls(e, left, indent + "    ", costs);
}

std::string print_result(const Executable& e, std::size_t i) {
  const ResultSource& source = e.results[i];
  std::string text = "out" + std::to_string(i) + " " + to_string(e.result_types[i]);
  if (source.kind == ResultSource::Kind::argument) return text + " is arg" + std::to_string(source.index) + "\n";
  if (source.kind == ResultSource::Kind::result) return text + " is out" + std::to_string(source.index) + "\n";
  if (source.donor >= 0) text += " in arg" + std::to_string(source.donor) + " where donated";
  return text + "\n";
}

}  // namespace

std::uint32_t Lane::items() const {
  std::int64_t tiles = 0;
  for (const ChainPart& part : parts) tiles += part.last_tile - part.first_tile;
  return static_cast<std::uint32_t>(tiles) + static_cast<std::uint32_t>(calls.size());
}

Executable::Executable() = default;
Executable::~Executable() = default;

std::string Executable::print(const std::string& indent, bool costs) const {
  std::string text = "devices " + std::to_string(devices) + ", arena " + std::to_string(arena_bytes) + ", shard " +
                     std::to_string(shard_bytes) + " x " + std::to_string(local_shards) + ", scratch " +
                     std::to_string(scratch_bytes) + ", constants " + std::to_string(constant_bytes) + "\n";
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    text += indent + "step " + std::to_string(s);
    if (step.kind == Step::Kind::region) {
      text += ": region, " + std::to_string(step.local_shards) + " shards on " + std::to_string(step.devices) +
              " devices\n" + print_region(*this, step, indent, costs);
    } else if (step.kind == Step::Kind::together) {
      text += ": all devices\n" + print_calls(*this, step.region, indent + "    ", costs);
    } else {
      text += ": once";
      if (step.collectives > 0) text += ", " + std::to_string(step.collectives) + " collectives";
      text += "\n";
      for (std::size_t d = 0; d < step.lanes.size(); ++d) {
        text += print_lane(*this, step.lanes[d], static_cast<int>(d), indent, costs);
      }
    }
    if (step.barrier_after) text += indent + "  barrier\n";
  }
  for (std::size_t i = 0; i < results.size(); ++i) text += indent + print_result(*this, i);
  return text;
}

bool Executable::communicates() const {
  const auto in_lane = [](const Lane& lane) { return !lane.on_caller.empty(); };
  const auto in_step = [&](const Step& step) {
    return !step.behind_shards.empty() || std::ranges::any_of(step.lanes, in_lane);
  };
  const auto in_call = [](const Call& call) {
    const auto* control = dynamic_cast<const ControlKernel*>(call.kernel);
    if (control == nullptr) return false;
    return std::ranges::any_of(control->bodies(), [](const Body& body) { return body.executable->communicates(); });
  };
  return std::ranges::any_of(steps, in_step) || std::ranges::any_of(calls, in_call);
}

std::shared_ptr<Buffer> Executable::allocate(std::size_t nbytes) const {
  for (const auto& backend : backends) {
    if (auto buffer = backend->allocate(std::max<std::size_t>(nbytes, 1), Device{})) return buffer;
  }
  throw BackendError("none of the given backends owns memory on cpu:0; give one that does, such as aten.");
}

std::unique_ptr<CallFrame> Executable::take_frame() const {
  if (auto frame = idle_.take()) return frame;
  auto frame = std::make_unique<CallFrame>();
  if (arena_bytes > 0) frame->arena = allocate(arena_bytes);
  if (shard_bytes > 0) frame->shards = allocate(shard_bytes * static_cast<std::size_t>(std::max(local_shards, 1)));
  const std::size_t bases = base::first_argument + argument_types.size() + result_types.size();
  for (int d = 0; d < devices; ++d) {
    frame->scratch.push_back(scratch_bytes > 0 ? allocate(scratch_bytes) : nullptr);
    frame->views.push_back(views);
    frame->bases.emplace_back(bases, nullptr);
  }
  frame->passed = std::vector<std::atomic<int>>(behind_shards);
  return frame;
}

void Executable::give_back(std::unique_ptr<CallFrame> frame) const { idle_.put(std::move(frame)); }

}  // namespace lockstep::executable
