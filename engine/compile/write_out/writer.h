#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/compile/program.h"
#include "engine/ir/control_flow.h"

namespace lockstep::compile {

/// Writes functions out into the one list of a program: bodies of maps and calls in place, loops and branches as one
/// item each.
class Writer {
 public:
  explicit Writer(Program& program) : program_(program) {}

  /// Values of the function's outputs; those of its inputs are given.
  std::vector<int> write(const ir::Function& function, std::vector<int> inputs, int mesh);
  /// A value with one block for each local shard, `stride` bytes apart.
  int add_stacked(int local, std::int64_t stride, int mesh);
  /// The shards' own blocks of such a value.
  int add_unstacked(int stack, const ArrayType& local, std::int64_t stride, int mesh);
  /// Drops what was written in case that somebody reads it.
  void finish();

 private:
  void write_equation(const ir::Function& function, const ir::Equation& equation, std::vector<int>& ids, int mesh);
  void write_pmap(const ir::Equation& equation, std::vector<int>& ids);
  void write_reshard(const ir::Equation& equation, std::vector<int>& ids);
  int add_part(int value, const std::vector<std::string>& layout, int mesh);
  int add_whole(int part);
  int add_exchanged(int part, const std::vector<std::string>& layout, int mesh);
  bool is_part(int value) const { return parts_.contains(value); }
  void write_fused(const ir::Function& function, const ir::Equation& equation, std::vector<int>& ids, int mesh);
  void write_call(const ir::Equation& equation, std::vector<int>& ids, int mesh);
  void write_control(const ir::Function& function, const ir::Equation& equation, std::vector<int>& ids, int mesh);
  void write_together(const ir::Function& function, const ir::Equation& equation, std::vector<int>& ids, int mesh);
  void write_per_shard(const ir::Function& function, const ir::Equation& equation, std::vector<int>& ids, int mesh);

  /// A shard's block of what an array is cut into.
  Shape block_shape(int part) const;
  Item new_item(const ir::Equation& equation, int mesh) const;
  void add_results(const ir::Function& function, const ir::Equation& equation, Item& item, std::vector<int>& ids,
                   int mesh);
  void add(Item item);
  /// Adds it and returns its one output.
  int add_for_value(Item item);
  int add_axis_index(const std::string& axis, int mesh);
  int add_cut_in(int outer, const ArrayType& local, const std::vector<std::string>& layout, int mesh,
                 bool of_part = false);
  int add_assemble(int local, const std::vector<std::string>& layout, int mesh, bool of_part = false);
  int add_pick(int of_shards, int mesh);
  const Mesh& mesh_of(int mesh) const { return program_.meshes[mesh]; }

  Program& program_;
  std::map<int, int> stack_of_;       ///< By a map's value: the same, stacked.
  std::map<int, int> of_each_shard_;  ///< By a picked value: what the shards have of it.
  /// The shards' blocks of an array that a layout cuts over a mesh.
  struct Blocks {
    int local;  ///< Of each shard; -1 where they are in a part alone.
    std::vector<std::string> layout;
    int mesh;
  };
  std::map<int, Blocks> parts_;           ///< By a value that is this process's part of an array.
  std::map<int, Blocks> assembled_from_;  ///< By a whole array that leaves a map.
  std::vector<int> fence_;                ///< Operands of the calls that are being written out.
  int fence_number_ = -1;
};

// Used by the writer (write_out.cpp, write_control.cpp, hoist_axis_index.cpp, known_sums.cpp).

/// Sums over all shards of what is little to compute from arguments that lie whole are computed by every process itself.
void add_known_sums(Program& program);
/// A value that is the function's next argument.
int add_argument(Program& program, const ArrayType& type);
/// Whether the equation's sub-functions have maps or collectives, so that all devices must run them together.
bool runs_together(const ir::Equation& equation);
/// A loop or branch whose sub-functions take the coordinates of their shard as operands.
struct Hoisted {
  ir::Equation equation;          ///< Its inputs are those of the old one, and the vars below where they belong.
  std::vector<std::string> axes;  ///< Of the coordinates it takes.
  ir::Var first_index;            ///< The var that stands for that of the first axis; the others follow.
};
Hoisted hoist_axis_indices(const ir::Function& function, const ir::Equation& equation);

}  // namespace lockstep::compile
