#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

namespace lockstep {

/// Several element-wise ops computed in one loop: what a kernel of `fused` is asked for, in the attribute `loop`. All
/// results have one shape, that of the loop. Values are numbered: first the operands, then what the instructions give.
class LOCKSTEP_API ElementLoop final : public AttrObject {
 public:
  /// Dimension i of the operand runs along dimension dims[i] of the loop (ascending); extents are equal, or 1 where one
  /// element is read again and again.
  struct Operand {
    DType dtype = DType::float32;
    std::vector<std::int64_t> dims;
    bool operator==(const Operand&) const = default;
  };
  /// A pointwise op of ops.def with one result, or `full`: the constant `value`.
  struct Instruction {
    std::string op;
    Attrs attrs;
    DType dtype = DType::float32;  ///< Of the result.
    std::vector<int> operands;     ///< Values.
    bool operator==(const Instruction&) const = default;
  };

  ElementLoop(std::vector<Operand> operands, std::vector<Instruction> instructions, std::vector<int> results);

  const std::vector<Operand>& operands() const { return operands_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<int>& results() const { return results_; }  ///< Values.
  DType dtype(int value) const;
  /// For people: the op where there is one alone, else "fused(mul, add)", each op named once.
  std::string label() const;

  std::uint64_t hash() const override { return hash_; }
  bool equals(const AttrObject& other) const override;
  std::string print(int indent) const override;

 private:
  std::vector<Operand> operands_;
  std::vector<Instruction> instructions_;
  std::vector<int> results_;
  std::uint64_t hash_ = 0;
};

/// Whether groups are made of this op from an operand to a result of these dtypes. A backend that says that it has fused
/// loops takes them all.
LOCKSTEP_API bool can_stand_in_a_loop(std::string_view op, DType operand, DType result);

/// The loop in the attribute `loop`, or null where there is none.
LOCKSTEP_API const ElementLoop* element_loop(const Attrs& attrs);

}  // namespace lockstep
