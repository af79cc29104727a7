#pragma once

#include "engine/ir/primitive.h"

// Fused loops compute in lanes of 32 bits and of bools; an op on bfloat16 is that on float32, rounded behind each op.
namespace lockstep::ops::loops {

constexpr unsigned real = 1;     ///< float32
constexpr unsigned integer = 2;  ///< int32
constexpr unsigned natural = 4;  ///< uint32
constexpr unsigned truth = 8;    ///< bool
constexpr unsigned brain = 16;   ///< bfloat16
constexpr unsigned word = integer | natural;
constexpr unsigned floating = real | brain;

constexpr unsigned class_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return real;
    case DType::int32:
      return integer;
    case DType::uint32:
      return natural;
    case DType::bool_:
      return truth;
    case DType::bfloat16:
      return brain;
    default:
      return 0;
  }
}

/// Of an op on these classes whose result has its operands' dtype.
template <unsigned classes>
constexpr bool same(DType operand, DType result) {
  return (class_of(operand) & class_of(result) & classes) != 0;
}
/// Of a predicate on these classes.
template <unsigned classes>
constexpr bool predicate(DType operand, DType result) {
  return result == DType::bool_ && (class_of(operand) & classes) != 0;
}

constexpr ir::Traits with(ir::Traits traits, ir::LoopRule rule) {
  traits.in_loops = rule;
  return traits;
}

}  // namespace lockstep::ops::loops
