#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/types.h>

#include "engine/ir/value.h"

// How values of a program on whole arrays lie over a mesh, and what an op says of it.
namespace lockstep::ir {

/// The mesh axes that cut one dimension, the outermost first.
using CutAxes = std::vector<std::string>;

/// Where the blocks of one value are.
struct ValueLayout {
  std::vector<CutAxes> cuts;  ///< For each dimension.
  AxisSet sums;               ///< The value is the sum of what the replicas along these axes hold.

  /// The axes that cut some dimension.
  AxisSet cutting() const {
    std::vector<std::string> names;
    for (const CutAxes& cut : cuts) names.insert(names.end(), cut.begin(), cut.end());
    return AxisSet(std::move(names));
  }
  bool operator==(const ValueLayout&) const = default;
};

/// One index of an op's formula, in the sense of einsum: dimensions of operands and results that run together. A
/// dimension that reshape splits or merges is several factors.
struct Factor {
  /// What the blocks of a result that does not have the factor are, when it is cut: parts of its sum, of its maximum or
  /// minimum; `found`: one of them has it, the others hold zeros. `whole` factors cannot be cut.
  enum class Kind : std::uint8_t { sum, max, min, found, whole };
  std::int64_t extent = 1;
  Kind kind = Kind::sum;
};

/// For each dimension of a value its factors, the outermost first.
using FactorDims = std::vector<std::vector<int>>;

/// What an op's formula does to blocks: given operands cut as these say, the op on blocks gives blocks of its results.
struct Factors {
  std::vector<Factor> list;
  std::vector<FactorDims> operands;
  std::vector<FactorDims> results;

  int add(std::int64_t extent, Factor::Kind kind = Factor::Kind::sum) {
    list.push_back({extent, kind});
    return static_cast<int>(list.size()) - 1;
  }
};

struct LayoutContext {
  std::span<const ArrayType> inputs;  ///< Whole.
  std::span<const ArrayType> outputs;
  const Attrs& attrs;
};

/// One equation on blocks.
struct BlockContext {
  Builder& builder;
  const Attrs& attrs;
  std::span<const Value> inputs;
  std::span<const ArrayType> outputs;  ///< Blocks of the results.
  std::span<const ArrayType> whole_inputs;
  std::span<const ArrayType> whole_outputs;
  std::span<const CutAxes> axes;  ///< That cut each factor.
};

/// An op's rule. Without `factors` all operands are whole and every shard computes the same, which is always right;
/// pointwise ops need none.
struct LayoutRule {
  std::function<Factors(const LayoutContext&)> factors = {};
  std::function<Attrs(const BlockContext&)> attrs = {};  ///< Where those of the whole do not hold for blocks.
  /// Where the op on blocks is not enough: what each shard computes.
  std::function<std::vector<Value>(const BlockContext&)> write = {};
  /// Whether it may be computed once more for each layout that is asked of it: it costs nothing (constants, broadcasts).
  bool repeated = false;
  /// Whether sums that are not yet reduced pass through where the derivative says that it is linear.
  bool passes_sums = true;
};

}  // namespace lockstep::ir
