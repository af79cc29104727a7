#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/communicator.h>

#include "engine/compile/compile.h"
#include "engine/compile/kernel_table.h"
#include "engine/executable/executable.h"
#include "engine/ir/function.h"
#include "engine/ir/primitive.h"

// The function on its way to an Executable: pmap bodies written out into one list, aliases resolved to the memory they
// share, equations turned into units of kernel calls, units put into steps, memory planned.
namespace lockstep::compile {

using namespace executable;  // what a program becomes

inline constexpr std::int64_t tile_elements = 16384;

using Strides = std::array<std::int64_t, Shape::max_rank>;
Strides contiguous_strides(const Shape& shape);

enum class Memory : std::uint8_t { own, argument, constant };

/// Memory a value has of its own, or shares with others (`root`).
struct StoredValue {
  ArrayType type;
  int pmap = -1;            ///< >= 0: one per local shard of that pmap.
  int root = -1;            ///< The value whose memory this one lies in; itself where it owns some.
  std::int64_t offset = 0;  ///< In bytes, from the root's first element.
  int cut = -1;             ///< Per-shard offsets, an index into Program::cuts.
  Strides strides{};        ///< In elements.
  Memory memory = Memory::own;
  int index = -1;              ///< Argument number, or byte offset of a constant.
  bool is_one_a_tile = false;  ///< Element i is what tile i of a cut sum gives.

  std::int64_t size() const { return type.size(); }
  std::size_t nbytes() const { return static_cast<std::size_t>(type.nbytes()); }
  bool is_contiguous() const;
  bool is_uniform() const;  ///< Every stride is 0 (or nothing depends on it).
};

/// A mesh and this process's part of it.
struct Mesh {
  ir::AxisSizes axes;
  int shards = 1;   ///< V
  int devices = 1;  ///< Of this process.
  int local_shards = 1;
  int first_shard = 0;

  std::int64_t coordinate(int shard, std::string_view axis) const;
};

/// How the sub-function of a loop or branch is called.
struct BodySpec {
  std::vector<int> donors;  ///< By result: the argument whose memory it may take, or -1.
  /// The map it stands in, where all its shards run it together: then what varies is given and returned for all local
  /// shards at once, that many bytes apart; -1 for what is invariant.
  std::optional<Mesh> mesh;
  std::vector<std::int64_t> stacked_inputs;
  std::vector<std::int64_t> stacked_outputs;

  /// All of it that tells two executables of a function apart.
  std::string describe() const;
};
/// The executable of a body. The passes ran on it with the function around it.
std::shared_ptr<const Executable> lower_body(const ir::FunctionPtr& function, const Options& options,
                                             const BodySpec& spec);
/// As `lower_body`, from the cache of `compile`.
std::shared_ptr<const Executable> compile_body(const ir::FunctionPtr& function, const Options& options,
                                               const BodySpec& spec);

struct Program;

/// An equation of the written-out program, or a value's way into or out of a pmap.
struct Item {
  /// control: a loop or branch, its kernel chosen. pick: the one value that all shards have computed alike.
  enum class Kind : std::uint8_t { equation, cut_in, assemble, control, pick };
  Kind kind = Kind::equation;
  std::string op;
  const ir::Primitive* primitive = nullptr;  ///< Of an equation.
  Attrs attrs;
  bool pointwise = false;
  std::vector<int> inputs;
  std::vector<int> outputs;
  int mesh = -1;                    ///< The pmap it stands in, or -1.
  int pmap = -1;                    ///< >= 0: run per shard of that pmap.
  std::vector<std::string> layout;  ///< cut_in, assemble
  /// cut_in, assemble: >= 0 where the local shards' values stand one behind the other, this many bytes apart.
  std::int64_t stacked = -1;
  int fence = -1;         ///< An index into Program::fences, or -1.
  bool together = false;  ///< control: all devices walk through it.
  ir::Provenance provenance = {};
  // Decided by `choose_views`:
  bool alias = false;      ///< No kernel runs: the result lies in the operand's memory.
  std::int64_t tiled = 0;  ///< Flat size where it is cut into tiles, else 0.
  const Kernel* kernel = nullptr;
  const Kernel* rest_kernel = nullptr;
  // Decided by `group_shards` and `fuse_epilogues`:
  int product = -1;                   ///< Of a psum: the product that its kernel computes for all shards.
  bool joined = false;                ///< Another item computes it: it needs no unit of its own.
  const Kernel* of_shards = nullptr;  ///< Of a convolution: computes it for all shards of a device.
};

/// Whether the item counts up (iota) to so few bytes that they are a constant of the executable, and no kernel runs.
bool is_table(const Program& program, const Item& item);
/// Whether a kernel that is not there could read the result where operand 0 lies, by other strides.
bool has_view(const Item& item);
/// Where it then lies in a value of that shape and those strides.
ir::View view_of(const Item& item, const Shape& operand, const Strides& strides);

/// What a call of the item's kernel is named.
std::string label(const Item& item);

/// An operand of a unit's call: a value, seen from the running shard or from a given local one.
struct Ref {
  int value = -1;
  int shard = -1;
};

struct UnitCall {
  const Kernel* kernel = nullptr;
  const Kernel* rest_kernel = nullptr;
  std::vector<Ref> inputs;
  std::vector<Ref> outputs;
  std::string name;
};

/// What is scheduled: calls that run together, once per process or once per shard.
struct Unit {
  std::vector<UnitCall> calls;
  std::vector<int> reads;   ///< Root values.
  std::vector<int> writes;  ///< Root values.
  int mesh = -1;
  int pmap = -1;  ///< >= 0: per shard.
  std::int64_t tiled = 0;
  bool on_caller = false;  ///< Talks to other processes: the calling thread alone does.
  bool together = false;   ///< All devices run it, as a step of its own.
  bool in_parts = false;   ///< Its calls are parts of one kernel, dealt out to the devices.
  int fence = -1;          ///< Does not start before the values of that fence are there.
  int collectives = 0;
  Collective collective = {};  ///< Where `collectives` is 1.
  ir::Provenance provenance = {};
  // Decided by `schedule`:
  int phase = 0;
  int wave = 0;
  int step = -1;
  int group = -1;  ///< Units of one step with one group run on one device in order: a chain, a component, a region.
  std::uint64_t scratch = 0;  ///< Where its kernels' own scratch lies. Decided by `place`.
};

/// Where a root value's memory is. Decided by `place`.
struct Placement {
  std::uint32_t base = 0;
  std::uint64_t offset = 0;
  bool per_tile = false;  ///< Scratch of one tile's size.
};

struct Program {
  Program(KernelTable& table, const Options& given) : kernels(table), options(given) {}

  KernelTable& kernels;
  const Options& options;
  std::shared_ptr<Communicator> communicator;
  int process = 0;
  int processes = 1;
  /// Whether several devices may compute parts of one call: not where this is the body of a loop that one device runs.
  bool is_shared = true;
  std::vector<StoredValue> values;
  std::vector<Item> items;
  std::vector<Mesh> meshes;
  std::vector<int> arguments;
  std::vector<int> outputs;
  std::vector<int> allowed_donors;       ///< By result: the only argument that may become it, or -1. Empty: any.
  std::vector<std::vector<int>> fences;  ///< Values, the operands of calls that were written out.
  std::vector<std::vector<std::uint64_t>> cuts;
  std::vector<std::byte> constants;
  std::vector<Unit> units;

  struct StepPlan {
    std::vector<int> units;
    int mesh = -1;  ///< >= 0: a region of that pmap.
  };
  std::vector<StepPlan> steps;
  int devices = 1;

  std::vector<Placement> placements;  ///< By value; of roots.
  std::vector<int> result_of_root;    ///< By value: the result that the root is, or -1.
  std::vector<int> donors;            ///< By result.
  std::size_t arena_bytes = 0;
  std::size_t shard_bytes = 0;
  std::size_t scratch_bytes = 0;

  /// How many devices share what stands outside of maps.
  int sharing_devices() const;
  std::vector<ArrayType> types(std::span<const Ref> refs) const;
  /// A value with memory of its own.
  int new_value(const ArrayType& type, int pmap);
  /// A value that lies in another one's memory.
  int new_view(int of, const ArrayType& type, const Strides& strides, std::int64_t offset_bytes, int pmap);
  /// Bytes put into the constants; their offset.
  std::size_t new_constant(std::span<const std::byte> bytes);
  int root(int value) const { return values[static_cast<std::size_t>(value)].root; }
  StoredValue& value(int id) { return values[static_cast<std::size_t>(id)]; }
  const StoredValue& value(int id) const { return values[static_cast<std::size_t>(id)]; }
};

// The stages of `lower`, in order; `write_body_out` is the first one of a body.
void write_out(Program& program, const ir::Function& function);
void write_body_out(Program& program, const ir::Function& function, const BodySpec& spec);
void choose_views(Program& program);
void group_shards(Program& program);
void fuse_epilogues(Program& program);
void make_units(Program& program);
void schedule(Program& program);
void place(Program& program);
std::shared_ptr<const Executable> emit(Program& program);

/// A stage of `lower` between the first and the last.
struct Stage {
  std::string_view name;
  void (*run)(Program&);
};
/// In order, `fuse_epilogues` where the options ask for it.
std::span<const Stage> stages(const Options& options);

/// What the program is by now, as text: values that lie in others, items, units once they are made, steps once they are
/// decided, places once there are some.
std::string print(const Program& program);
/// Throws IrError where the program is not what the next stage may rely on: values that nothing defines or that are read
/// before they are, roots that are none, units in no step or in two, operands read in an earlier step than written in,
/// places outside of their block or askew.
void verify(const Program& program, std::string_view behind);

// Used by `make_units` (collective_units.cpp).
void add_collective_units(Program& program, const Item& item);
void add_assemble_units(Program& program, const Item& item);
bool is_collective(const Item& item);
/// What a product of a map reads, on one shard after the other. Used by `group_shards`, too.
std::vector<Ref> operands_of_all_shards(const Program& program, const Item& product);
/// Offsets in bytes of each local shard's block of an array that the item's layout cuts, or in which they are stacked.
std::vector<std::uint64_t> cut_offsets(const Mesh& mesh, const Item& item, const Shape& local, const Strides& strides,
                                       DType dtype);

}  // namespace lockstep::compile
