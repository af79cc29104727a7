#include "engine/partition/moves.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/core/quoting.h"
#include "engine/ir/exchange.h"
#include "engine/ops/primitives.h"

namespace lockstep::partition {

namespace {

using ops::operator*;

Value axis_index_value(ir::Builder& builder, const std::string& axis) {
  return {builder, builder.apply(ops::primitives::axis_index(), std::span<const ir::Var>{}, {{"axis", axis}}).front()};
}

/// The block of dimension `dim` that is this shard's along one axis more.
Value own_block(const Value& x, int dim, const std::string& axis, std::int64_t count) {
  ir::Builder& builder = x.builder();
  const Shape shape = x.shape().with(dim, x.shape()[dim] / count);
  std::vector<Value> operands(static_cast<std::size_t>(x.rank()) + 1, ops::full(builder, int32, Shape{}, 0));
  operands[0] = x;
  operands[static_cast<std::size_t>(dim) + 1] = axis_index_value(builder, axis) * static_cast<double>(shape[dim]);
  return ops::apply(ops::primitives::dynamic_slice(), operands, {{"sizes", shape.to_vector()}}).front();
}

bool is_prefix(const CutAxes& part, const CutAxes& all) { return common_prefix(part, all) == part; }

}  // namespace

Value Moves::move(const Value& block, const ArrayType& type, const ValueLayout& from, const ValueLayout& to,
                  const Asker& asker) {
  if (from == to) return block;
  begin(asker, from, to, type.shape.rank());
  ValueLayout now = from;
  Value x = reduce(block, type, now, to);
  x = slice(x, now, to);
  x = exchange(x, now, to);
  x = gather(x, now, to);
  return slice(x, now, to);
}

void Moves::begin(const Asker& asker, const ValueLayout& from, const ValueLayout& to, int rank) {
  next_ = {};
  next_.from = to_string(from);
  next_.to = to_string(to);
  proposed_ = to_string(ValueLayout{to.cuts, {}});
  next_.made_by = asker.made_by;
  next_.read_by = asker.read_by;
  next_.layer = asker.layer;
  next_.place = asker.place;
  next_.backward = asker.backward;
  next_.reason = asker.reason;
  next_.times = asker.times;
  is_asked_ = asker.is_asked || rank == 0;  // a scalar has one layout
}

Value Moves::extremum(const Value& block, const AxisSet& maxima, const AxisSet& minima, const ValueLayout& layout,
                      const Asker& asker) {
  begin(asker, layout, layout, block.rank());
  const auto pending = [&](std::string_view what, const AxisSet& axes) {
    if (!axes.empty()) next_.from += fmt::format(" {} over {}", what, lockstep::to_string(axes));
  };
  pending("largest", maxima);
  pending("smallest", minima);
  Value x = block;
  if (!maxima.empty()) x = collective(ops::primitives::pmax(), x, maxima, {{"axes", maxima.names()}});
  if (!minima.empty()) x = collective(ops::primitives::pmin(), x, minima, {{"axes", minima.names()}});
  return x;
}

Value Moves::collective(const ir::Primitive& primitive, const Value& x, const AxisSet& axes, Attrs attrs) {
  Move move = next_;
  move.op = primitive.name;
  move.axes = axes;
  move.type = x.type();
  move.bytes = x.type().nbytes();
  if (options_.is_explicit && !is_asked_ && !move.backward) refuse(move);
  list_.push_back(std::move(move));
  return ops::apply_one(primitive, {Value(x.builder(), x.builder().pvary(x.var(), axes))}, std::move(attrs));
}

void Moves::refuse(const Move& move) const {
  std::string where = move.layer.empty() ? std::string() : fmt::format(" in layer '{}'", move.layer);
  if (!move.place.empty()) where += fmt::format(" at {}", move.place);
  throw MeshError(fmt::format(
      "partition: {}{} needs what {} made, {}, laid out as {}, but it lies as {}: that takes {} along \"{}\" ({} "
      "bytes), which layouts = explicit does not allow unasked; expected operands whose layouts agree; write "
      "reshard(x, layout) with the layout {} there, or cut otherwise",
      move.read_by, where, move.made_by, lockstep::to_string(move.type), move.to, move.from, with_article(move.op),
      lockstep::to_string(move.axes), move.bytes, proposed_));
}

Value Moves::reduce(Value x, const ArrayType& type, ValueLayout& now, const ValueLayout& to) {
  // Of several axes psum adds along the last one first, which is the tree of blocks; scattering would the other way round.
  const bool may_scatter = options_.contraction_blocks == 0 || now.sums.without(to.sums).size() < 2;
  for (std::size_t d = 0; may_scatter && d < now.cuts.size(); ++d) {
    while (is_prefix(now.cuts[d], to.cuts[d]) && now.cuts[d].size() < to.cuts[d].size()) {
      const std::string& axis = to.cuts[d][now.cuts[d].size()];
      CutAxes longer = now.cuts[d];
      longer.push_back(axis);
      if (!now.sums.contains(axis) || to.sums.contains(axis)) break;
      if (type.shape[static_cast<int>(d)] % blocks(longer, mesh_) != 0) break;
      x = collective(ops::primitives::psum_scatter(), x, {axis},
                     {{"axis", axis}, {"dim", static_cast<std::int64_t>(d)}});
      now.sums = now.sums.without({axis});
      now.cuts[d] = std::move(longer);
    }
  }
  const AxisSet left = now.sums.without(to.sums);
  if (left.empty()) return x;
  now.sums = now.sums.without(left);
  return collective(ops::primitives::psum(), x, left, {{"axes", left.names()}});
}

/// Cuts that move nothing, of axes that are free.
Value Moves::slice(Value x, ValueLayout& now, const ValueLayout& to) {
  for (std::size_t d = 0; d < now.cuts.size(); ++d) {
    while (is_prefix(now.cuts[d], to.cuts[d]) && now.cuts[d].size() < to.cuts[d].size()) {
      const std::string& axis = to.cuts[d][now.cuts[d].size()];
      if (now.cutting().contains(axis)) break;
      x = own_block(x, static_cast<int>(d), axis, mesh_.size(axis, "layout"));
      now.cuts[d].push_back(axis);
    }
  }
  return x;
}

/// The innermost axis of one dimension that is to cut another one next.
Value Moves::exchange(Value x, ValueLayout& now, const ValueLayout& to) {
  for (std::size_t from = 0; from < now.cuts.size(); ++from) {
    while (!is_prefix(now.cuts[from], to.cuts[from])) {
      const std::string axis = now.cuts[from].back();
      const auto takes = [&](std::size_t d) {
        const CutAxes& own = now.cuts[d];
        return d != from && is_prefix(own, to.cuts[d]) && own.size() < to.cuts[d].size() &&
               to.cuts[d][own.size()] == axis;
      };
      std::size_t into = 0;
      while (into < now.cuts.size() && !takes(into)) ++into;
      if (into == now.cuts.size()) break;
      x = collective(ops::primitives::all_to_all(), x, {axis},
                     ir::AllToAll{axis, static_cast<std::int64_t>(into), static_cast<std::int64_t>(from)}.attrs());
      now.cuts[from].pop_back();
      now.cuts[into].push_back(axis);
      x = slice(x, now, to);
    }
  }
  return x;
}

Value Moves::gather(Value x, ValueLayout& now, const ValueLayout& to) {
  for (std::size_t d = 0; d < now.cuts.size(); ++d) {
    while (!is_prefix(now.cuts[d], to.cuts[d])) {
      const std::string axis = now.cuts[d].back();
      x = collective(ops::primitives::all_gather_invariant(), x, {axis},
                     {{"axis", axis}, {"dim", static_cast<std::int64_t>(d)}});
      now.cuts[d].pop_back();
    }
  }
  return x;
}

}  // namespace lockstep::partition
