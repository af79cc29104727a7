#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

namespace lockstep::backend {

/// Several element-wise ops, and sums of what they give, computed in one loop: what a kernel of `fused` is asked for, in
/// the attribute `loop`. All results that are no sums have one shape, that of the loop; where there are none, some operand
/// has. Values are numbered: first the operands, then what the instructions give.
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

  struct Result {
    int value = 0;
    std::vector<std::int64_t> sum_over;  ///< Dimensions of the loop; none where the value is given as it is.
    bool operator==(const Result&) const = default;
  };

  ElementLoop(std::vector<Operand> operands, std::vector<Instruction> instructions, std::vector<Result> results);

  const std::vector<Operand>& operands() const { return operands_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<Result>& results() const { return results_; }
  DType dtype(int value) const;
  bool has_sums() const;
  /// Of the loop, given its operands and results.
  Shape shape(std::span<const ArrayType> inputs, std::span<const ArrayType> outputs) const;
  /// For people: the op where there is one alone, else "fused(mul, add)", each op named once.
  std::string label() const;

  std::uint64_t hash() const override { return hash_; }
  bool equals(const AttrObject& other) const override;
  std::string print(int indent) const override;

 private:
  std::vector<Operand> operands_;
  std::vector<Instruction> instructions_;
  std::vector<Result> results_;
  std::uint64_t hash_ = 0;
};

/// How a sum over some dimensions of an array is taken for one over a matrix, whose rows run over the first `rows`
/// dimensions. Dimensions of extent 1 belong to either side.
struct SumAsMatrix {
  enum class Kind { rows, columns } kind = Kind::rows;  ///< A sum for each row, or for each column.
  int rows = 0;
};
/// Nothing where the dimensions that stay stand on both sides of those that do not, or none is summed over.
LOCKSTEP_API std::optional<SumAsMatrix> sum_as_matrix(const Shape& shape, std::span<const std::int64_t> axes);

/// Rows up to this length are summed several at a time; a loop over them has either sums of rows or of columns.
constexpr std::int64_t narrow_columns = 128;

/// The loop in the attribute `loop`, or null where there is none.
LOCKSTEP_API const ElementLoop* element_loop(const Attrs& attrs);

}  // namespace lockstep::backend
