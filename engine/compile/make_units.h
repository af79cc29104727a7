#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/compile/choose_views.h"
#include "engine/compile/fuse_epilogues.h"
#include "engine/compile/group_shards.h"
#include "engine/executable/process_kernels.h"

namespace lockstep::compile {

/// Memory a value has of its own, or shares with others (`root`).
struct StoredValue : Value {
  int root = -1;               ///< The value whose memory this one lies in; itself where it owns some.
  std::int64_t offset = 0;     ///< In bytes, from the root's first element.
  int cut = -1;                ///< Per-shard offsets, an index into UnitProgram::cuts.
  Strides strides{};           ///< In elements.
  bool is_one_a_tile = false;  ///< Element i is what tile i of a cut sum gives.
  /// >= 0: it is written where other processes read it, at that byte of what this one writes for them.
  std::int64_t in_window = -1;

  bool is_contiguous() const { return compile::is_contiguous(type.shape, strides); }
  bool is_uniform() const;  ///< Every stride is 0 (or nothing depends on it).
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
  /// >= 0: once, in a region of that pmap, when all shards have come behind what the unit reads.
  int behind_shards = -1;
  std::int64_t tiled = 0;
  bool on_caller = false;  ///< Talks to other processes: the calling thread alone does.
  bool together = false;   ///< All devices run it, as a step of its own.
  /// Its one call folds an operand over the processes by this op: it has a kernel once `join_folds` has run.
  const ir::Primitive* folds = nullptr;
  bool to_blocks = false;  ///< Where it folds: this process gets its block of the sum alone.
  /// Its one call gathers blocks of all processes.
  bool gathers = false;
  /// Roots that have to be there before it begins, although it reads none of them.
  std::vector<int> waits_for = {};
  bool in_parts = false;                     ///< Its calls are parts of one kernel, dealt out to the devices.
  int fence = -1;                            ///< Does not start before the values of that fence are there.
  std::vector<Collective> collectives = {};  ///< That it computes, or the last part of.
  ir::Provenance provenance = {};

  /// >= 0: it stands in a region of that pmap.
  int region() const { return pmap >= 0 ? pmap : behind_shards; }
};

/// The program as calls of kernels on values that lie in each other's memory or in their own.
struct UnitProgram {
  explicit UnitProgram(const Program& program);

  IdVector<StoredValue> values;  ///< Those of the program, and behind them what its units need.
  IdVector<int> outputs;
  IdVector<std::vector<std::uint64_t>> cuts;  ///< By local shard, in bytes.
  std::vector<std::byte> constants;
  std::size_t window_bytes = 0;  ///< Of all that is written for other processes to read where it lies.
  IdVector<Unit> units;

  int root(int value) const { return values[value].root; }
  std::vector<ArrayType> types(std::span<const Ref> refs) const;
  /// A value with memory of its own.
  int new_value(const ArrayType& type, int pmap);
  /// A value that lies in another one's memory.
  int new_view(int of, const ArrayType& type, const Strides& strides, std::int64_t offset_bytes, int pmap);
  /// A constant of those bytes.
  int new_constant(const ArrayType& type, std::span<const std::byte> bytes);
};

UnitProgram make_units(const Program& program, const KernelChoices& choices, const GroupedItems& grouped,
                       const Epilogues& epilogues);

/// Joins folds over the processes that do not wait for each other, of one op and dtype, to one unit: its operands go
/// together, in one order on all processes. Units are in a new order then, each behind those it reads.
void join_folds(const Program& program, UnitProgram& units);
/// What is gathered of arguments is gathered where it is first read, and again where it is read after others have been:
/// what no unit reads in between takes no memory. Where each device has one shard, so that regions can end anywhere.
void gather_late(const Program& program, UnitProgram& units);
/// The kernel that combines two chunks of so many elements, and those for the chunks of a cut.
const Kernel* chunk_kernel(const Program& program, const ir::Primitive& combine, DType dtype, std::int64_t elements);
ChunkKernels chunk_kernels(const Program& program, const ir::Primitive& combine, const FoldCut& cut);

/// Values that lie in ones which are no roots, and units without kernels or that read and write what they do not say.
void verify(const Program& program, const UnitProgram& units, std::string_view behind);

// Used by `make_units` (assemble_units.cpp, and the files of collectives).
void add_collective_units(const Program& program, const Item& item, UnitProgram& to);
void add_assemble_units(const Program& program, const Item& item, UnitProgram& to);
void add_assemble_whole_units(const Program& program, const Item& item, UnitProgram& to);
/// The fold over the processes of what `from` has in each of them.
Unit fold_unit(int mesh, const ir::Primitive& combine, Ref from, Ref to);
/// The same of which each process gets its block: `from` has a block for each, one behind the other.
Unit fold_blocks_unit(int mesh, const ir::Primitive& combine, Ref from, Ref to);
/// The gather of so many equal blocks of all processes along a dimension, of which this one has `own`.
Unit gather_unit(const Program& program, int mesh, std::vector<Ref> own, Ref to, const ArrayType& block,
                 std::int64_t blocks, int dim);
/// The processes' blocks of a value along a dimension, each in one piece.
Ref one_behind_the_other(const Program& program, int mesh, Ref value, const ArrayType& type, int dim, UnitProgram& to);
/// Bytes from a block to the next one along a dimension of an array with those strides.
std::int64_t bytes_along(const ArrayType& block, int dim, const Strides& strides);
/// Offsets in bytes of each local shard's block of an array that the item's layout cuts, or in which they are stacked.
std::vector<std::uint64_t> cut_offsets(const Mesh& mesh, const Item& item, const Shape& local, const Strides& strides,
                                       DType dtype);

}  // namespace lockstep::compile
