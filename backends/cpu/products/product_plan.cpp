#include "backends/cpu/products/product_plan.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "backends/cpu/dims.h"
#include "backends/cpu/parts.h"

namespace lockstep::backend::cpu {

namespace {

/// A dimension of the op: which it is in either operand, -1 where it is none of it.
using Dimension = std::array<std::int64_t, 2>;

/// The op's dimensions by their role, in the result's order.
struct Roles {
  std::vector<Dimension> batch, rows, columns, depth;
};

Roles roles_of(const KernelRequest& request) {
  const auto& contract = request.attrs.get<std::vector<Dims>>("contract");
  const auto& batch = request.attrs.get<std::vector<Dims>>("batch");
  Roles roles;
  for (std::size_t i = 0; i < batch[0].size(); ++i) roles.batch.push_back({batch[0][i], batch[1][i]});
  for (std::size_t i = 0; i < contract[0].size(); ++i) roles.depth.push_back({contract[0][i], contract[1][i]});
  for (const std::size_t side : {0U, 1U}) {
    for (std::int64_t d = 0; d < request.inputs[side].shape.rank(); ++d) {
      if (contains(contract[side], d) || contains(batch[side], d)) continue;
      (side == 0 ? roles.rows : roles.columns).push_back(side == 0 ? Dimension{d, -1} : Dimension{-1, d});
    }
  }
  return roles;
}

/// Where the elements of both operands lie, copied ones in their copies.
struct Places {
  std::array<const Shape*, 2> shapes;
  std::array<Dims, 2> strides;
};

std::int64_t extent_of(const Places& places, const Dimension& dimension) {
  const std::size_t side = dimension[0] >= 0 ? 0 : 1;
  return (*places.shapes[side])[static_cast<int>(dimension[side])];
}

/// Dimensions as axes, neighbours that lie in memory as one being one. `step` is the result's along the last of them.
std::vector<Axis> merged_dimensions(const Places& places, const std::vector<Dimension>& dimensions,
                                    std::int64_t& step) {
  std::vector<Axis> axes;
  for (auto it = dimensions.rbegin(); it != dimensions.rend(); ++it) {
    Axis axis{extent_of(places, *it), {}, step};
    step *= axis.extent;
    if (axis.extent == 1) continue;
    for (const std::size_t side : {0U, 1U}) {
      const std::int64_t dim = (*it)[side];
      if (dim >= 0) axis.operand[side] = places.strides[side][static_cast<std::size_t>(dim)];
    }
    Axis* inner = axes.empty() ? nullptr : &axes.back();
    if (inner != nullptr && axis.operand[0] == inner->operand[0] * inner->extent &&
        axis.operand[1] == inner->operand[1] * inner->extent) {
      inner->extent *= axis.extent;
    } else {
      axes.push_back(axis);
    }
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

/// A plan without copies, or null where the operands do not lie as matrices.
std::optional<ProductPlan> plan_in_place(const Roles& roles, const Places& places) {
  std::int64_t step = 1;
  std::vector<Axis> columns = merged_dimensions(places, roles.columns, step);
  std::vector<Axis> rows = merged_dimensions(places, roles.rows, step);
  ProductPlan plan;
  plan.loops = merged_dimensions(places, roles.batch, step);
  std::int64_t no_step = 0;
  const std::vector<Axis> depth = merged_dimensions(places, roles.depth, no_step);
  if (depth.size() > 1) return std::nullopt;
  if (!depth.empty()) plan.depth = depth[0];
  // The result's columns must lie side by side, so they are the last axis; rows may be any.
  if (!columns.empty()) {
    plan.columns = columns.back();
    columns.pop_back();
  }
  if (!rows.empty()) {
    const auto longest =
        std::max_element(rows.begin(), rows.end(), [](const Axis& x, const Axis& y) { return x.extent < y.extent; });
    plan.rows = *longest;
    rows.erase(longest);
  }
  plan.loops.insert(plan.loops.end(), rows.begin(), rows.end());
  plan.loops.insert(plan.loops.end(), columns.begin(), columns.end());
  const auto lies = [&](const Axis& free, std::size_t side) {
    const bool vector = free.extent == 1 || plan.depth.extent == 1;
    return vector || free.operand[side] == 1 || plan.depth.operand[side] == 1;
  };
  if (!lies(plan.rows, 0) || !lies(plan.columns, 1)) return std::nullopt;
  return plan;
}

/// An operand's dimensions batch, free, depth: what a copy lays out.
std::vector<std::int64_t> copied_order(const Roles& roles, std::size_t side) {
  std::vector<std::int64_t> order;
  for (const auto* group : {&roles.batch, side == 0 ? &roles.rows : &roles.columns, &roles.depth}) {
    for (const Dimension& dimension : *group) order.push_back(dimension[side]);
  }
  return order;
}

Copy copy_of(const Places& places, const std::vector<std::int64_t>& order, std::size_t side) {
  Copy copy;
  for (const std::int64_t dim : order) {
    copy.extents.push_back((*places.shapes[side])[static_cast<int>(dim)]);
    copy.strides.push_back(places.strides[side][static_cast<std::size_t>(dim)]);
  }
  return copy;
}

/// Where the elements lie once the given operands are copied.
Places copied(Places places, const Roles& roles, const std::array<bool, 2>& copies) {
  for (const std::size_t side : {0U, 1U}) {
    if (!copies[side]) continue;
    const std::vector<std::int64_t> order = copied_order(roles, side);
    std::int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      places.strides[side][static_cast<std::size_t>(order[i])] = stride;
      stride *= (*places.shapes[side])[static_cast<int>(order[i])];
    }
  }
  return places;
}

void swap_operands(ProductPlan& plan) {
  std::swap(plan.rows, plan.columns);
  std::swap(plan.copies[0], plan.copies[1]);
  for (Axis* axis : {&plan.rows, &plan.columns, &plan.depth}) std::swap(axis->operand[0], axis->operand[1]);
  for (Axis& axis : plan.loops) std::swap(axis.operand[0], axis.operand[1]);
  plan.swapped = !plan.swapped;
}

}  // namespace

ProductPlan plan_product(const KernelRequest& request) {
  Roles roles = roles_of(request);
  const std::array<const Shape*, 2> shapes = {&request.inputs[0].shape, &request.inputs[1].shape};
  const Places places{shapes, {row_major_strides(*shapes[0]), row_major_strides(*shapes[1])}};
  // The smaller operand is copied rather than the larger one, none rather than either; and contracted dimensions may
  // be taken in any order, so in that of either operand, but where the order of the sum is asked for.
  const std::size_t smaller = shapes[0]->size() <= shapes[1]->size() ? 0 : 1;
  const std::array<std::array<bool, 2>, 4> choices = {
      {{false, false}, {smaller == 0, smaller == 1}, {smaller == 1, smaller == 0}, {true, true}}};
  const bool is_ordered = request.attrs.has("sum_blocks");
  for (const std::array<bool, 2>& copies : choices) {
    for (const std::size_t order : {0U, 1U}) {
      if (!is_ordered)
        std::sort(roles.depth.begin(), roles.depth.end(),
                  [order](const Dimension& x, const Dimension& y) { return x[order] < y[order]; });
      std::optional<ProductPlan> plan = plan_in_place(roles, copied(places, roles, copies));
      if (!plan) continue;
      for (const std::size_t side : {0U, 1U}) {
        if (copies[side]) plan->copies[side] = copy_of(places, copied_order(roles, side), side);
      }
      if (plan->columns.extent == 1 && plan->rows.result == 1) swap_operands(*plan);
      return *std::move(plan);
    }
  }
  return {};  // never: two copies lie as matrices
}

ProductPlan plan_in_blocks(const KernelRequest& request) {
  constexpr std::int64_t least_depth = 256, least_rows = 512;  // measured: blocks of fewer take longer
  ProductPlan plan = plan_product(request);
  const bool is_transposed = plan.rows.operand[0] == 1 && plan.depth.operand[0] > 1;
  if (!plan.is_matrix() || !is_transposed || plan.depth.extent < least_depth || plan.columns.extent < 2) return plan;
  std::int64_t blocks = std::min(most_parts, plan.rows.extent / least_rows);
  while (blocks > 1 && plan.rows.extent % blocks != 0) --blocks;
  if (blocks < 2) return plan;
  plan.rows.extent /= blocks;
  const auto step = [&](std::int64_t stride) { return stride * plan.rows.extent; };
  plan.loops = {{blocks, {step(plan.rows.operand[0]), step(plan.rows.operand[1])}, step(plan.rows.result)}};
  plan.is_in_blocks = true;
  return plan;
}

}  // namespace lockstep::backend::cpu
