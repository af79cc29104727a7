#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/backend/backend.h>

#include "engine/core/cut_layout.h"
#include "engine/ir/function.h"

namespace lockstep {

class KeyElement;

/// What a traced value is: the result of an op, in a layer where there was one, or an input of the traced function.
struct Origin {
  std::string_view op = {};  ///< Empty: an input.
  std::size_t position = 0;  ///< Among the op's results or the inputs.
  std::shared_ptr<const std::string> scope = {};
};

/// How an array's dtype meets others (see weak_types.h).
enum class WeakType : std::uint8_t {
  strong,
  weak,    ///< It gives way to theirs.
  number,  ///< So does this one: a C++ real in float64, as functions take and return it. Formulas see its `visible` form.
};

/// The integer dtypes that formulas gave an integer whose value they do not know yet, and the ops that did.
struct IntegerUses {
  struct Use {
    std::string op;
    DType dtype;
  };
  std::vector<Use> all;
};

/// What an Array holds: memory, or a value of the trace numbered `trace`. Numbers are never used twice, so a value
/// that outlived its trace is recognised.
class ArrayState {
 public:
  ArrayState(ArrayType type, std::shared_ptr<backend::Buffer> buffer, std::shared_ptr<const CutLayout> cut = nullptr)
      : buffer(std::move(buffer)), type(std::move(type)), cut(std::move(cut)) {}
  ArrayState(ArrayType type, std::uint64_t trace, ir::Var var, Origin origin)
      : type(std::move(type)), trace(trace), var(var), origin(std::move(origin)) {}

  std::shared_ptr<backend::Buffer>
      buffer;  ///< Row-major; null for a traced value. In front: what a call reads lies together.
  ArrayType type;
  /// Of an array that lies cut: how. `buffer` then holds this process's part of it, `type` is that of the whole.
  std::shared_ptr<const CutLayout> cut;
  std::uint64_t trace = 0;
  ir::Var var;
  WeakType weak = WeakType::strong;
  /// Of a number that formulas see, which is weak and has its default dtype: all of its digits.
  std::shared_ptr<const ArrayState> wide;
  /// Of an argument that is a weak integer: to be checked against each value.
  std::shared_ptr<IntegerUses> uses;
  /// Of an array of keys, one by one: what is known of their uses. Empty until somebody asks (see key_reuse.h).
  mutable std::vector<std::shared_ptr<KeyElement>> keys;
  Origin origin;
};

/// A concrete array over memory.
Array make_array(const ArrayType& type, std::shared_ptr<backend::Buffer> buffer);
/// One that lies cut, over the memory of this process's part of it; a whole one where `cut` is null.
Array make_array(const ArrayType& type, std::shared_ptr<backend::Buffer> buffer, std::shared_ptr<const CutLayout> cut);

/// "lies cut (dimension 0 along data)".
std::string lies_cut(const CutLayout& cut);

/// Why an array without a value has none, and what to do: "the array holds nothing; ...".
std::string why_empty(const Array& array);

}  // namespace lockstep
