#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/partition/layouts.h"

// A closed function on whole arrays becomes the body of a map: the same values, each shard with its blocks. It runs behind
// the transforms, so forward pass, backward pass and optimizer are one function, and gradients get the layouts that the
// rules of the ops give them.
namespace lockstep::partition {

/// A collective that the function did not have.
struct Move {
  std::string op;
  AxisSet axes;
  ArrayType type;          ///< Of a shard's operand.
  std::string from, to;    ///< Layouts of the whole value.
  std::int64_t bytes = 0;  ///< Of a shard's operand, once.
  std::int64_t times = 1;  ///< In one call: the iterations of the scans it stands in.
  std::string made_by;     ///< The op that made the value, or "input 3".
  std::string read_by;     ///< The op that reads it so, or "output 3".
  std::string layer;       ///< The path of its reader's layer, or empty.
  std::string place;       ///< Where the program calls its reader, or else its maker: "model.cpp:42", or empty.
  bool backward = false;
  std::string reason;
};

struct Options {
  /// See Setting; a power of two or 0.
  std::int64_t contraction_blocks = 0;
  /// Throws MeshError at the first collective that nobody asked for: neither a reshard, nor a reduction of the function's
  /// own, nor the layout of an output, nor the gradient of one of these.
  bool is_explicit = false;
  /// Names of the function's inputs and outputs, for messages.
  std::vector<std::string> input_names, output_names;
};

struct Partitioned {
  ir::FunctionPtr body;
  std::vector<ValueLayout> inputs;
  std::vector<ValueLayout> outputs;
  std::vector<Move> moves;
};

/// `outputs`: nothing where any layout will do. Layouts must fit the mesh. An axis the function binds itself must have one
/// replica.
Partitioned partition(const ir::FunctionPtr& function, const ir::AxisSizes& mesh, std::vector<ValueLayout> inputs,
                      std::vector<std::optional<ValueLayout>> outputs, const Options& options = {});

}  // namespace lockstep::partition
