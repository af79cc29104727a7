#pragma once

#include <cstdint>
#include <string>

#include <lockstep/attrs.h>
#include <lockstep/types.h>

// What collectives do, as their definitions say it.
namespace lockstep::ir {

struct Equation;
struct Primitive;

/// What the replicas of a group get of each other's operands.
enum class Exchange : std::uint8_t {
  none,
  reduce,          ///< All of them their combination (psum).
  reduce_scatter,  ///< Each its block of the combination (psum_scatter).
  gather,          ///< All of them all operands, joined along a dimension (all_gather).
  all_to_all,      ///< Each its block of every operand.
  permute,         ///< Each another's operand, or zeros.
  index,           ///< Nothing: its own number (axis_index).
};

struct Collective {
  Exchange exchange = Exchange::none;
  /// Of reductions: what is folded over the replicas, two by two, in the order of `fold_tree`.
  const Primitive& (*combine)() = nullptr;
  /// Of reductions that keep narrow floats in `accumulation_dtype` until they are complete: the op that takes them there.
  const Primitive& (*convert)() = nullptr;
  /// Of an op that only waits for a collective: that collective.
  const Primitive& (*completes)(const Attrs&) = nullptr;
};

/// Whether replicas get anything of each other: neither nothing nor their own number alone.
constexpr bool communicates(Exchange exchange) { return exchange != Exchange::none && exchange != Exchange::index; }

/// The collective that an equation of the primitive stands for: its own, or the one that it waits for.
const Primitive& exchanged_by(const Primitive& primitive, const Attrs& attrs);

/// The mesh axes that an equation of a collective, of pvary or of axis_index names; none of any other.
AxisSet named_axes(const Equation& equation);

/// The dtype in which sums over shards of a dtype are kept until they are complete: float32 for float16 and bfloat16.
DType accumulation_dtype(DType dtype);

/// The attributes of all_to_all: each replica's operand is cut into a block for every replica along `split`; the blocks
/// that it gets are joined along `concat`.
struct AllToAll {
  std::string axis;
  std::int64_t split = 0;
  std::int64_t concat = 0;

  static AllToAll of(const Attrs& attrs);
  Attrs attrs() const;
};

}  // namespace lockstep::ir
