#pragma once

#include <cstdint>
#include <memory>

#include <lockstep/array.h>
#include <lockstep/backend.h>

#include "engine/ir/function.h"

namespace lockstep {

/// What an Array holds: memory, or a value of the trace numbered `trace`. Numbers are never used twice, so a value
/// that outlived its trace is recognised.
class ArrayState {
 public:
  ArrayState(ArrayType type, std::shared_ptr<Buffer> buffer) : type(std::move(type)), buffer(std::move(buffer)) {}
  ArrayState(ArrayType type, std::uint64_t trace, ir::Var var) : type(std::move(type)), trace(trace), var(var) {}

  ArrayType type;
  std::shared_ptr<Buffer> buffer;  ///< Row-major; null for a traced value.
  std::uint64_t trace = 0;
  ir::Var var;
};

/// A concrete array over memory.
Array make_array(const ArrayType& type, std::shared_ptr<Buffer> buffer);

}  // namespace lockstep
