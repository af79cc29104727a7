#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace lockstep::backend::jit {

/// What one lane of 32 bits can do: floats and integers as the processor has them, masks as all bits or none.
enum class Op : std::uint8_t {
  load,      ///< Operand number `bits`; a bool becomes a mask, a bfloat16 a float.
  constant,  ///< `bits`
  add,
  sub,
  mul,
  div,
  sqrt,
  fma,  ///< a * b + c, rounded once
  min,  ///< a < b ? a : b
  max,  ///< a > b ? a : b
  floor,
  ceil,
  round,  ///< half to even
  int_add,
  int_sub,
  int_mul,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,   ///< By as many bits as b says; from 32 on all are shifted out.
  shift_right,  ///< Zeros follow.
  shift_sign,   ///< Copies of the sign follow.
  equal,        ///< Of floats, as those that follow; a mask. False where an operand is NaN,
  not_equal,    ///< but for this one.
  less,
  less_equal,
  int_equal,
  int_greater,
  select,          ///< A mask, then what is taken where it is set, then what else.
  to_int,          ///< Towards zero; 0x80000000 where that does not fit.
  to_float,        ///< To nearest.
  round_bfloat16,  ///< As rounded_to_bfloat16 of bfloat16.h says. Only results and the next op read it:
  widen_bfloat16   ///< the float that a rounded one is.
};

struct Step {
  Op op = Op::constant;
  int a = -1;  ///< Steps, as are b and c.
  int b = -1;
  int c = -1;
  std::uint32_t bits = 0;
};

/// A straight line of steps for every element alike. Equal steps are one.
class Code {
 public:
  int step(Op op, int a = -1, int b = -1, int c = -1, std::uint32_t bits = 0) {
    const auto key = std::tuple(op, a, b, c, bits);
    const auto found = numbers_.find(key);
    if (found != numbers_.end()) return found->second;
    steps_.push_back({op, a, b, c, bits});
    return numbers_[key] = static_cast<int>(steps_.size()) - 1;
  }
  int number(float value) { return constant(std::bit_cast<std::uint32_t>(value)); }
  int constant(std::uint32_t bits) { return step(Op::constant, -1, -1, -1, bits); }

  const std::vector<Step>& steps() const { return steps_; }
  const Step& operator[](int i) const { return steps_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<Step> steps_;
  std::map<std::tuple<Op, int, int, int, std::uint32_t>, int> numbers_;
};

/// Sums of rows have so many partial sums: element i of a row belongs to number i % sum_lanes.
constexpr std::int64_t sum_lanes = 64;

/// What memory holds of a lane: a bool is one byte and a mask, a bfloat16 two bytes and a float32 of few digits.
enum class Element : std::uint8_t { word, byte, bfloat16 };
constexpr std::int64_t size_of(Element element) {
  return element == Element::word ? 4 : element == Element::bfloat16 ? 2 : 1;
}

/// How an operand or result lies in memory.
struct Access {
  enum class Written : std::uint8_t {
    once,
    added,          ///< To what is there.
    added_to_lanes  ///< To the partial sums of a row.
  };
  Element element = Element::word;
  bool uniform = false;  ///< One element for a whole row.
  Written written = Written::once;
  bool operator==(const Access&) const = default;
};

/// All that machine code is generated from.
struct Loop {
  Code code;
  std::vector<Access> operands;
  std::vector<Access> results;
  std::vector<int> values;  ///< The step of each result.
};

}  // namespace lockstep::backend::jit
