#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>

#include "engine/compile/compile.h"
#include "engine/compile/kernel_pool.h"
#include "engine/core/id_vector.h"
#include "engine/executable/executable.h"
#include "engine/ir/function.h"
#include "engine/ir/primitive.h"
#include "engine/ops/collective/local_part.h"

// The first stage of lowering: a function is written out into one list of items, bodies of maps and calls in place.
// What each later stage decides is a type of its own, in that stage's header; `stages.h` has them in order.
namespace lockstep::compile {

using namespace backend;

using namespace executable;  // what a program becomes

inline constexpr std::int64_t tile_elements = 16384;

using Dims = std::vector<std::int64_t>;
using Strides = std::array<std::int64_t, Shape::max_rank>;
Strides contiguous_strides(const Shape& shape);

enum class Memory : std::uint8_t { own, argument, constant };

struct Value {
  ArrayType type;
  int pmap = -1;  ///< >= 0: one per local shard of that pmap.
  Memory memory = Memory::own;
  int index = -1;  ///< Argument number, or byte offset of a constant.

  std::int64_t size() const { return type.size(); }
  std::size_t nbytes() const { return static_cast<std::size_t>(type.nbytes()); }
};

/// A mesh and this process's part of it.
struct Mesh {
  ir::AxisSizes axes;
  int shards = 1;   ///< V
  int devices = 1;  ///< Of this process.
  int local_shards = 1;
  int first_shard = 0;

  std::int64_t coordinate(int shard, std::string_view axis) const;
  /// Which block of a dimension is a shard's, by the dimension's entry in a layout.
  std::int64_t block(int shard, std::string_view entry) const;
  /// What this process's shards have of an array that lies cut so.
  ops::collective::LocalPart part_of(const std::vector<std::string>& layout) const;
};

/// How the sub-function of a loop or branch is called.
struct BodySpec {
  IdVector<int> donors;  ///< By result: the argument whose memory it may take, or -1.
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

/// An equation of the written-out program, or a value's way into or out of a pmap.
struct Item {
  /// control: a loop or branch. pick: the one value that all shards have computed alike.
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
  bool of_part = false;    ///< cut_in, assemble: of what this process's shards have of the array, not of the whole.
  int fence = -1;          ///< An index into Program::fences, or -1.
  bool together = false;   ///< control: all devices walk through it.
  bool on_caller = false;  ///< control: its kernel talks to other processes.
  const Kernel* control = nullptr;           ///< control: its kernel, which has the executables of its bodies.
  std::vector<Collective> collectives = {};  ///< Of which it computes the last part.
  ir::Provenance provenance = {};
};

/// The function written out.
struct Program {
  Program(KernelPool& pool, const Options& given) : kernels(pool), options(given) {}

  KernelPool& kernels;
  const Options& options;
  std::shared_ptr<Processes> group;  ///< Null: this process alone.
  int process = 0;
  int processes = 1;
  /// Whether several devices may compute parts of one call: not where this is the body of a loop that one device runs.
  bool is_shared = true;
  bool is_called = false;  ///< By the user: not the body of a loop.
  CutSignature cut;
  IdVector<Value> values;
  IdVector<Item> items;
  IdVector<Mesh> meshes;
  IdVector<int> arguments;
  IdVector<int> outputs;
  IdVector<int> allowed_donors;       ///< By result: the only argument that may become it, or -1. Empty: any.
  IdVector<std::vector<int>> fences;  ///< Values, the operands of calls that were written out.

  /// How many devices share what stands outside of maps.
  int sharing_devices() const;
  int new_value(const ArrayType& type, int pmap) { return values.add({type, pmap}); }
  const ArrayType& type(int value) const { return values[value].type; }
  std::vector<ArrayType> types(const std::vector<int>& of) const;
};

/// Whether the item counts up (iota) to so few bytes that they are a constant of the executable, and no kernel runs.
bool is_table(const Program& program, const Item& item);
/// Whether a kernel that is not there could read the result where operand 0 lies, by other strides.
bool has_view(const Item& item);
/// Where it then lies in a value of that shape and those strides.
ir::View view_of(const Item& item, const Shape& operand, const Strides& strides);
/// Whether elements of that shape, at those strides, lie one behind the other.
bool is_contiguous(const Shape& shape, const Strides& strides);
bool is_collective(const Item& item);
/// What a call of the item's kernel is named.
std::string label(const Item& item);

void write_out(Program& program, const ir::Function& function);
/// How arguments and results of a function lie. Throws MeshError where one that lies cut is read by what needs it whole, or
/// by a map whose layout for it is another.
CutSignature cut_signature(const ir::Function& function, const Options& options);
/// A mesh of the attributes axes, sizes and devices over the processes. Throws MeshError where they do not divide it.
Mesh make_mesh(const Attrs& attrs, std::string_view op, int process, int processes);
/// `write_out` of a body.
void write_body_out(Program& program, const ir::Function& function, const BodySpec& spec);

/// Throws IrError, as the `verify` of every stage, where the next one would rely on what is not so: values that nothing
/// defines, that are defined twice, or read before they are defined.
void verify(const Program& program, std::string_view behind);

}  // namespace lockstep::compile
