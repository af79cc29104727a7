#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/partition/layouts.h"

// How one op's operands must lie so that it can be computed on blocks.
namespace lockstep::partition {

/// The axes that readers of a value would have it cut by, per dimension; nothing where they do not mind.
using Wish = std::vector<std::optional<CutAxes>>;

struct OperandState {
  const ArrayType* type = nullptr;
  ValueLayout layout;
  bool is_zero = false;  ///< Zeros are a sum over any axes.
};

struct Resolution {
  std::vector<ValueLayout> operands;  ///< As they must be.
  std::vector<Wish> wishes;           ///< Likewise; nothing where any cut would do.
  std::vector<ValueLayout> results;
  std::vector<CutAxes> axes;  ///< That cut each factor.
  /// For each result the axes along which what the blocks give are parts of a maximum (minimum).
  std::vector<AxisSet> maxima, minima;
};

struct Question {
  const ir::Primitive& primitive;
  const Attrs& attrs;
  std::span<const OperandState> operands;
  std::span<const ArrayType> results;
  std::span<const Wish> wishes;  ///< Of the results' readers.
  const Setting& setting;

  const ir::AxisSizes& mesh() const { return setting.mesh; }
};

/// What the op's formula does to blocks.
ir::Factors factors_of(const Question& question);
/// Into how many blocks a sum over so many elements is cut where bits must not depend on layouts.
std::int64_t blocks_of_sum(std::int64_t extent, const Setting& setting);
/// The factor whose sum is taken by blocks then: the first that no result has.
std::optional<int> summed_factor(const ir::Factors& factors, const Setting& setting);

/// The rule of the op: its own, that of pointwise ops, or none.
const ir::LayoutRule& rule_of(const ir::Primitive& primitive);

/// The order of preference, where operands disagree:
///  1. What cuts the larger operand stays, of equally large ones the first one's.
///  2. An axis cuts one dimension of the formula; what else it cuts is made whole.
///  3. Where one of two factors of a contraction is whole, it is cut as the other (which moves nothing) if the sums are
///     smaller than what would have to be gathered.
///  4. Sums are reduced where they must be: an op that is linear lets them pass unless its result is larger.
///  5. What readers wish decides about dimensions that no operand says anything of.
Resolution resolve(const Question& question);

}  // namespace lockstep::partition
