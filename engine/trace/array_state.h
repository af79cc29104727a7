#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/backend.h>

#include "engine/ir/function.h"

namespace lockstep {

class KeyElement;

/// What a traced value is: the result of an op, in a layer where there was one, or an input of the traced function.
struct Origin {
  std::string_view op = {};  ///< Empty: an input.
  std::size_t position = 0;  ///< Among the op's results or the inputs.
  std::shared_ptr<const std::string> scope = {};
};

/// What an Array holds: memory, or a value of the trace numbered `trace`. Numbers are never used twice, so a value
/// that outlived its trace is recognised.
class ArrayState {
 public:
  ArrayState(ArrayType type, std::shared_ptr<Buffer> buffer) : buffer(std::move(buffer)), type(std::move(type)) {}
  ArrayState(ArrayType type, std::uint64_t trace, ir::Var var, Origin origin)
      : type(std::move(type)), trace(trace), var(var), origin(std::move(origin)) {}

  std::shared_ptr<Buffer> buffer;  ///< Row-major; null for a traced value. In front: what a call reads lies together.
  ArrayType type;
  std::uint64_t trace = 0;
  ir::Var var;
  /// Of an array of keys, one by one: what is known of their uses. Empty until somebody asks (see key_reuse.h).
  mutable std::vector<std::shared_ptr<KeyElement>> keys;
  Origin origin;
};

/// A concrete array over memory.
Array make_array(const ArrayType& type, std::shared_ptr<Buffer> buffer);

/// Why an array without a value has none, and what to do: "the array holds nothing; ...".
std::string why_empty(const Array& array);

}  // namespace lockstep
