#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/plan.h>
#include <lockstep/types.h>

#include "engine/core/cut_layout.h"
#include "engine/core/id_vector.h"
#include "engine/core/idle_slots.h"
#include "engine/executable/process_calls.h"
#include "engine/ir/function.h"

namespace lockstep::executable {

using namespace backend;

/// What an address is relative to. Arguments follow from `first_argument` on, results behind them.
namespace base {
inline constexpr std::uint32_t arena = 0;       ///< Invariant values, one block per running call.
inline constexpr std::uint32_t shard = 1;       ///< The block of the shard that runs: what crosses a region's end.
inline constexpr std::uint32_t scratch = 2;     ///< The block of the device that runs.
inline constexpr std::uint32_t constants = 3;   ///< Part of the executable.
inline constexpr std::uint32_t all_shards = 4;  ///< The first shard's block; the others follow at `shard_bytes`.
inline constexpr std::uint32_t window = 5;      ///< What this process writes in this call for others to read there.
inline constexpr std::uint32_t first_argument = 6;
}  // namespace base

/// Where an operand of a call lies: base + offset + tile * tile_stride + (cut >= 0 ? cuts[cut][shard] : 0).
struct Address {
  std::uint32_t base = base::arena;
  std::int32_t cut = -1;
  std::uint64_t offset = 0;
  std::uint64_t tile_stride = 0;
};

/// A kernel bound to operands `first` .. `first + inputs + outputs` of the executable's addresses and views.
struct Call {
  const Kernel* kernel = nullptr;
  std::uint64_t scratch = 0;  ///< Of the kernel's own scratch: its offset in the device's.
  std::uint32_t first = 0;
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
};

/// What is known of a call beside what running it takes.
struct CallNote {
  std::string backend;  ///< "engine": a kernel of the engine's own.
  ir::Provenance provenance;
  double flops = 0;
  double bytes = 0;  ///< Of all operands and results.
};

/// A collective: its op, and the bytes of one replica's operand.
struct Collective {
  std::string op;
  std::int64_t bytes = 0;
};

struct CallRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool empty() const { return first == last; }
};

/// Calls run one after the other on each tile of one flat shape. The last tile may be shorter and has calls of its own.
struct Chain {
  CallRange calls;
  CallRange rest_calls;
  std::int64_t tiles = 0;  ///< The shorter one included.
  bool has_rest = false;
};

struct ChainPart {
  std::uint32_t chain = 0;
  std::int64_t first_tile = 0;
  std::int64_t last_tile = 0;
};

/// What one device does in a step that is run once per process, in this order. Others may take over tiles and calls from
/// the end on, but for those of the caller's thread.
struct Lane {
  std::vector<CallRange> on_caller;
  std::vector<ChainPart> parts;
  std::vector<CallRange> calls;
  std::uint32_t items() const;  ///< Tiles, and ranges of calls behind them.
  bool empty() const { return on_caller.empty() && parts.empty() && calls.empty(); }
};

/// Calls, or a chain, that run once in a region: when its last shard has come behind a call of it.
struct BehindShards {
  std::uint32_t call = 0;   ///< The first that is not before them.
  std::int32_t chain = -1;  ///< Its tiles, or:
  CallRange calls;
};

/// Work between two barriers: a region run for every shard, work shared by the devices, or a loop or branch that all
/// devices walk through together, barriers and collectives inside.
struct Step {
  enum class Kind : std::uint8_t { shared, region, together };
  Kind kind = Kind::shared;
  int devices = 1;       ///< Of the region's pmap; work that is shared has as many lanes.
  int local_shards = 0;  ///< Device d's share is [d * local_shards / devices, (d + 1) * local_shards / devices).
  CallRange region;      ///< region, and together: one call of a ControlKernel
  std::vector<BehindShards> behind_shards;  ///< region: in order.
  std::size_t first_passed = 0;  ///< region: where the counters of `behind_shards` begin (CallFrame::passed).
  std::vector<Lane> lanes;       ///< shared
  int collectives = 0;           ///< Computed by this step.
  std::vector<Collective> collective_list;
  bool barrier_after = false;
};

/// Where the memory of a function result comes from.
struct ResultSource {
  enum class Kind : std::uint8_t { fresh, argument, result };
  Kind kind = Kind::fresh;
  int index = -1;            ///< The argument or the earlier result whose buffer is returned.
  int donor = -1;            ///< fresh: the argument whose buffer is written if it was donated, or -1.
  bool is_retyped = false;   ///< Whether its type differs from that of the argument or result it lies in.
  bool is_last = false;      ///< argument: whether no later result is that argument.
  bool is_repeated = false;  ///< fresh: whether a later result is this one.
};

/// How arguments and results lie: null where they are whole. Empty lists: all are.
struct CutSignature {
  std::vector<std::shared_ptr<const CutLayout>> arguments;
  std::vector<std::shared_ptr<const CutLayout>> results;
  std::vector<ArrayType> whole_results;  ///< Types; of what lies cut `result_types` has that of this process's part.

  bool operator==(const CutSignature&) const = default;
};

/// What an executable needs and does, for tests and for people.
struct PlanReport {
  std::size_t arena_bytes = 0;
  std::size_t shard_bytes = 0;    ///< For one shard.
  std::size_t scratch_bytes = 0;  ///< For one device.
  std::size_t constant_bytes = 0;
  int devices = 1;
  int local_shards = 0;
  int steps = 0;
  int barriers = 0;
  int kernels = 0;      ///< Kernel calls of the whole program, those in bodies too; a tiled one counted once.
  int collectives = 0;  ///< Collectives run by one call: a scan's as often as it runs, those of other bodies once.
  std::size_t result_bytes = 0;  ///< Of results that are written.
  double flops = 0;
  double bytes = 0;
  bool has_while_loops = false;
  std::vector<OpCost> ops;                       ///< The dearest first.
  std::vector<CollectiveCost> collective_costs;  ///< By op and size.
  std::string text;                              ///< Regions, kernels and slots, one a line, with what they cost.
};

/// The memory one running call needs. Kept and used again, so that a steady state allocates nothing.
struct CallFrame {
  std::shared_ptr<Buffer> arena;
  std::shared_ptr<Buffer> shards;
  std::vector<std::shared_ptr<Buffer>> scratch;  ///< One a device.
  std::vector<std::vector<ArrayView>> views;     ///< One copy a device.
  std::vector<std::vector<std::byte*>> bases;    ///< One copy a device.
  std::vector<std::atomic<int>> passed;          ///< Shards that have come to what runs behind them, of all regions.
};

/// A lowered function: a list of steps over planned buffers. Immutable but for its idle frames and its counters; any
/// number of threads may run it at once.
class Executable {
 public:
  ~Executable();
  Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  std::vector<ArrayType> argument_types;
  std::vector<ArrayType> result_types;
  std::vector<ResultSource> results;
  CutSignature cut;
  bool has_written_results = false;  ///< Whether one is neither an argument nor an earlier result.

  std::vector<Step> steps;
  std::vector<Chain> chains;
  std::vector<Call> calls;
  std::vector<Address> addresses;
  std::vector<ArrayView> views;               ///< Templates: all but `data`.
  IdVector<std::vector<std::uint64_t>> cuts;  ///< Per cut and local shard, in bytes.
  std::shared_ptr<Buffer> constants;

  int devices = 1;
  int local_shards = 0;
  std::size_t arena_bytes = 0;
  std::size_t shard_bytes = 0;
  std::size_t scratch_bytes = 0;  ///< Kernels' own scratch included.
  std::size_t constant_bytes = 0;
  std::size_t window_bytes = 0;   ///< Of what lies in the window that the call takes.
  std::size_t behind_shards = 0;  ///< Of all steps.

  std::shared_ptr<ProcessCalls> process_calls;  ///< Null: calls exchange nothing with other processes.
  std::vector<std::shared_ptr<const Backend>> backends;
  std::vector<std::shared_ptr<const Backend>> entered;  ///< Those that a calling thread enters.
  std::vector<std::shared_ptr<const Kernel>> kernels;
  std::vector<std::string> call_names;  ///< One a call, for printing.
  std::vector<CallNote> call_notes;     ///< Likewise.

  /// Whether a call exchanges something with other processes, in itself or in a loop or branch.
  bool communicates() const;

  PlanReport plan() const;
  /// `costs`: each call's arithmetic operations and bytes stand behind it.
  std::string print(const std::string& indent = {}, bool costs = false) const;

  /// Memory from the first backend that has some. Throws BackendError where none has.
  std::shared_ptr<Buffer> allocate(std::size_t nbytes) const;
  std::unique_ptr<CallFrame> take_frame() const;
  void give_back(std::unique_ptr<CallFrame> frame) const;

  /// Collectives computed by all calls so far.
  std::uint64_t collectives_run() const { return collectives_run_.load(std::memory_order_relaxed); }
  void count_collectives(int n) const { collectives_run_.fetch_add(static_cast<std::uint64_t>(n)); }

 private:
  static constexpr std::size_t kept_frames = 8;  ///< More than this many calls at once allocate anew.
  mutable IdleSlots<CallFrame, kept_frames> idle_;
  mutable std::atomic<std::uint64_t> collectives_run_{0};
};

/// "96 flops, 128 B".
std::string print_costs(double flops, double bytes);

}  // namespace lockstep::executable
