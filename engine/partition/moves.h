#pragma once

#include <string>
#include <vector>

#include "engine/ops/values.h"
#include "engine/partition/partition.h"

// From one layout of a value to another.
namespace lockstep::partition {

using ir::Value;

/// Who wants a value in another layout, and what is said of it.
struct Asker {
  std::string made_by;
  std::string read_by;
  std::string layer;
  std::string place;
  bool backward = false;
  bool is_asked = false;  ///< The program or its caller said so.
  std::string reason;
  std::int64_t times = 1;
};

/// What moves have been written: one list for a function and its sub-functions.
class Moves {
 public:
  Moves(const ir::AxisSizes& mesh, const Options& options) : mesh_(mesh), options_(options) {}

  /// The block of a value of type `type` that lies as `from` says, laid out as `to` says. Sums that `to` keeps must be in
  /// `from`. Sums are scattered where a cut along them is asked for, cuts that change dimension exchanged; what becomes
  /// shorter does so first.
  Value move(const Value& block, const ArrayType& type, const ValueLayout& from, const ValueLayout& to,
             const Asker& asker);
  /// The largest (smallest) of what the blocks hold.
  Value extremum(const Value& block, const AxisSet& maxima, const AxisSet& minima, const ValueLayout& layout,
                 const Asker& asker);
  std::vector<Move>& list() { return list_; }

 private:
  void begin(const Asker& asker, const ValueLayout& from, const ValueLayout& to, int rank);
  Value collective(const ir::Primitive& primitive, const Value& x, const AxisSet& axes, Attrs attrs);
  Value reduce(Value x, const ArrayType& type, ValueLayout& now, const ValueLayout& to);
  Value exchange(Value x, ValueLayout& now, const ValueLayout& to);
  Value gather(Value x, ValueLayout& now, const ValueLayout& to);
  Value slice(Value x, ValueLayout& now, const ValueLayout& to);
  void refuse(const Move& move) const;

  const ir::AxisSizes& mesh_;
  const Options& options_;
  std::vector<Move> list_;
  Move next_;             // what collectives of the current move have in common
  std::string proposed_;  // a reshard's layout that asks for them: no sums stand in it
  bool is_asked_ = false;
};

}  // namespace lockstep::partition
