#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>

#include "tests/golden/functions/table.h"

// Every line of the table, for each of its dtypes, in each way in which it is held against JAX.
namespace lockstep::tests::functions {

/// forward: the results, computed op by op. vjp: the operands' cotangents, jitted. vmap: the results over a batch of all
/// operands, jitted.
enum class Way { forward, vjp, vmap };
std::string_view name(Way way);

constexpr std::int64_t batch_size = 3;

struct Run {
  Way way = Way::forward;
  Arrays inputs;   ///< Of a vjp: the operands, then a cotangent for each inexact result.
  Arrays results;  ///< What Lockstep makes of them.
};

struct Case {
  const Line* line = nullptr;
  DType dtype = float32;
  std::string name;                 ///< "hypot/2/float32"
  std::vector<std::size_t> active;  ///< The operands that are differentiated.
  std::vector<Run> runs;

  /// Of everything that JAX's values depend on.
  std::uint64_t hash() const;
};

/// A line, which of its function's it is, and one of its dtypes.
struct Place {
  const Line* line = nullptr;
  std::size_t number = 0;
  DType dtype = float32;
};
/// All of the table.
std::vector<Place> places();
/// Draws the operands and computes. Throws what the function throws.
Case case_of(const Place& place);

}  // namespace lockstep::tests::functions
