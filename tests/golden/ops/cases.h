#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/function.h"
#include "engine/ir/primitive.h"

// Every sample of every op, in each way in which it is held against JAX.
namespace lockstep::tests::golden {

/// forward: the op's results. jvp: their tangents, every operand moving. vjp: the operands' cotangents. vmap: the
/// results over a batch. vmap_vjp: the operands' cotangents over a batch, everything batched.
enum class Way { forward, jvp, vjp, vmap, vmap_vjp };
std::string_view name(Way way);

constexpr std::int64_t batch_size = 3;

struct Run {
  Way way = Way::forward;
  std::vector<bool> batched;               ///< vmap: which operands.
  std::vector<ir::ReferenceArray> inputs;  ///< Of `function`.
  ir::FunctionPtr function;                ///< Of whole arrays: a leading dimension for each mesh axis.
  std::size_t first = 0;                   ///< The results before this one are compared by another run.

  std::string label() const;  ///< "vmap of 0,2"
};

struct Case {
  const ir::Primitive* op = nullptr;
  ir::Sample sample;
  std::string name;          ///< "add/3"
  std::vector<bool> active;  ///< The operands that are differentiated.
  std::vector<Run> runs;

  /// Of everything the results depend on.
  std::uint64_t hash() const;
  std::string describe() const;
};

/// The op's samples, those runs left out that differences.h leaves out.
std::vector<Case> cases_of(const ir::Primitive& op);

}  // namespace lockstep::tests::golden
