#include "engine/partition/partition.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/partition_call.h>
#include <lockstep/partitioned.h>

#include "engine/api/transforms/bind.h"
#include "engine/api/transforms/cut_arrays.h"
#include "engine/api/transforms/mesh_attrs.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/primitives.h"
#include "engine/parallel/layout.h"
#include "engine/trace/trace.h"

namespace lockstep {

namespace {

using detail::LayoutOfLeaf;
using detail::PartitionCall;
using partition::ValueLayout;

/// Throws MeshError or ShapeError where the layout does not fit.
ValueLayout checked_layout(const Layout& layout, const Mesh& mesh, const ArrayType& type, const std::string& what) {
  const std::vector<std::string> entries = parallel::cuts_per_dimension(layout, mesh, type.shape.rank(), what);
  parallel::local_shape(type.shape, entries, mesh, what);
  ValueLayout result;
  for (const std::string& entry : entries) result.cuts.push_back(ops::collective::axes_of_dimension(entry));
  return result;
}

std::string path_below(const std::string& argument_path) {
  const std::size_t slash = argument_path.find('/');
  return slash == std::string::npos ? std::string() : argument_path.substr(slash + 1);
}

void check_partition_call(const PartitionCall& options, std::size_t arguments) {
  if (options.mesh.axes().empty()) {
    throw MeshError("partitioned: no mesh given; write PartitionOptions{.mesh = Mesh({{\"data\", 2}}, devices), ...}");
  }
  const std::int64_t k = options.contraction_blocks;
  if (k < 0 || (k & (k - 1)) != 0) {
    throw ValueError(
        fmt::format("partitioned: contraction_blocks is {}; expected a power of two, or 0 for sums as each mesh takes "
                    "them",
                    k));
  }
  if (options.in.size() != arguments) {
    throw MeshError(fmt::format(
        "partitioned: {} layouts in `in` for {} arguments; give one per argument (replicated, sharded(axis) or a "
        "LayoutMap)",
        options.in.size(), arguments));
  }
  if (tracing::is_open() && !tracing::bound_axes().empty()) {
    throw MeshError(fmt::format(
        "partitioned: called inside a map over {}; expected a program on whole arrays; call the function in place of "
        "what partitions it",
        to_string(bound_axes())));
  }
}

/// The function, traced and partitioned.
struct Cut {
  api::TracedTree traced;
  partition::Partitioned parts;
  std::vector<ValueLayout> given;  ///< Of the arguments, as `in` has them.
};

std::vector<std::optional<ValueLayout>> partitioned_output_layouts(const api::TracedTree& traced,
                                                                   const PartitionCall& options) {
  std::vector<std::optional<ValueLayout>> layouts(traced.results());
  if (options.out.empty()) return layouts;
  const bool is_one = options.out.size() == 1;
  const auto& items = traced.result.kind() == Tree::Kind::list ? traced.result.items() : std::vector<Tree>();
  if (!is_one && items.size() != options.out.size()) {
    throw MeshError(
        fmt::format("partitioned: {} layouts in `out`, but the function returned {}; give one per result, or none for "
                    "layouts as they come",
                    options.out.size(), traced.result.structure()));
  }
  const std::vector<ArrayType> types = traced.result_types();
  std::size_t leaf = 0;
  for (std::size_t r = 0; r < options.out.size(); ++r) {
    for (const std::string& path : (is_one ? traced.result : items[r]).paths()) {
      const std::string what = fmt::format("partitioned: result{}{}{}", is_one ? "" : " " + std::to_string(r),
                                           path.empty() ? "" : "/", path);
      layouts[leaf] = checked_layout(options.out[r](path, types[leaf]), options.mesh, types[leaf], what);
      ++leaf;
    }
  }
  return layouts;
}

Cut cut(const TreeFunction& function, const PartitionCall& options, const api::FlatArguments& flat) {
  const std::vector<ArrayType> types = flat.types();
  std::vector<ValueLayout> in;
  partition::Options how{.contraction_blocks = options.contraction_blocks,
                         .is_explicit = options.is_explicit,
                         .input_names = {},
                         .output_names = {}};
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Layout layout = options.in[flat.argument(i)](path_below(flat.path(i)), types[i]);
    in.push_back(checked_layout(layout, options.mesh, types[i], "partitioned: " + flat.path(i)));
    how.input_names.push_back(flat.path(i));
  }
  Cut result{api::trace_tree(function, flat, types), {}, in};
  tracing::refuse_written(result.traced.cells,
                          "partitioned: the function changes state that was made outside of it; call the model within "
                          "it, or return the new value");
  for (const Array& captured : result.traced.captured) in.push_back(partition::whole(captured.ndim()));
  for (const std::string& path : result.traced.result.paths()) how.output_names.push_back("result " + path);
  result.parts = partition::partition(result.traced.function, api::axis_sizes(options.mesh), std::move(in),
                                      partitioned_output_layouts(result.traced, options), how);
  return result;
}

using CutsOfLeaves = std::vector<std::vector<std::string>>;

CutsOfLeaves entries_of_leaves(const std::vector<ValueLayout>& layouts) {
  CutsOfLeaves all;
  for (const ValueLayout& layout : layouts) all.push_back(partition::entries_of(layout));
  return all;
}

std::string line(const InsertedCollective& c) {
  return fmt::format("{} along {} of {} bytes{}: {} -> {} for {}{}{}, from {} to {}: {}\n", c.op, to_string(c.axes),
                     c.bytes, c.times == 1 ? "" : fmt::format(" x {}", c.times), c.made_by, c.op, c.read_by,
                     (c.layer.empty() ? "" : " in '" + c.layer + "'") + (c.place.empty() ? "" : " at " + c.place),
                     c.backward ? " (backward)" : "", c.from, c.to, c.reason);
}

LayoutPlan plan_of(const std::vector<partition::Move>& moves) {
  LayoutPlan plan;
  for (const partition::Move& move : moves) {
    plan.collectives.push_back({move.op, move.axes, move.bytes, move.times, move.made_by, move.read_by, move.layer,
                                move.place, move.backward, move.from, move.to, move.reason});
    plan.bytes += move.bytes * move.times;
    plan.text += line(plan.collectives.back());
  }
  return plan;
}

}  // namespace

Array reshard(const ArrayOperand& x, const Layout& layout) {
  const Array& value = x;
  std::vector<std::string> entries(static_cast<std::size_t>(value.ndim()));
  for (const auto& [dim, axes] : layout.cuts()) {
    const int resolved = normalize_axis(dim, value.ndim(), __func__);
    entries[static_cast<std::size_t>(resolved)] = ops::collective::entry_of(axes.names());
  }
  if (!tracing::is_open()) return value;
  return api::bind_one(ops::primitives::with_layout(), {value}, {{"layout", std::move(entries)}, {"both_ways", true}});
}

std::int64_t LayoutPlan::count(std::string_view op) const {
  return std::ranges::count_if(collectives, [&](const InsertedCollective& c) { return c.op == op; });
}

namespace {

std::vector<LayoutOfLeaf> leaf_layouts(const std::vector<LayoutMap>& maps) {
  std::vector<LayoutOfLeaf> layouts;
  for (const LayoutMap& map : maps) {
    layouts.emplace_back([map](const std::string& path, const ArrayType&) { return map.at(path); });
  }
  return layouts;
}

/// Arguments that may lie cut along axes of one shard, as the map has them: these cut nothing in it.
std::vector<Array> without_single_axes(std::vector<Array> arguments, const Cut& made, const Mesh& mesh) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::vector<std::string> entries = partition::entries_of(made.parts.inputs[i]);
    if (entries == partition::entries_of(made.given[i])) continue;
    arguments[i] =
        api::bind_one(ops::primitives::reshard(), {arguments[i]}, api::reshard_attrs(mesh, std::move(entries)));
  }
  return arguments;
}

}  // namespace

namespace detail {

namespace {

PartitionCall call_of(const PartitionOptions& options) {
  return {.mesh = options.mesh,
          .in = leaf_layouts(options.in),
          .out = leaf_layouts(options.out),
          .is_explicit = options.is_explicit,
          .contraction_blocks = options.contraction_blocks,
          .keep_cut = options.keep_cut};
}

}  // namespace

Tree partition_call(const TreeFunction& function, const PartitionOptions& options, std::vector<Tree> arguments) {
  return partition_call(function, call_of(options), std::move(arguments));
}

Tree partition_call(const TreeFunction& function, const PartitionCall& options, std::vector<Tree> arguments) {
  check_partition_call(options, arguments.size());
  const api::FlatArguments flat(arguments);
  Cut made = cut(function, options, flat);
  if (made.traced.results() == 0) return made.traced.tree_of({});
  const CutsOfLeaves out = entries_of_leaves(made.parts.outputs);
  Attrs attrs = api::map_attributes(options.mesh, made.parts.body, entries_of_leaves(made.parts.inputs), out);
  const std::vector<Array> operands =
      api::joined(without_single_axes(flat.leaves(), made, options.mesh), made.traced.captured);
  if (options.keep_cut) return made.traced.tree_of(api::kept_cut(operands, attrs, options.mesh, out));
  return made.traced.tree_of(api::bind(ops::primitives::pmap(), operands, std::move(attrs)));
}

LayoutPlan partition_plan(const TreeFunction& function, const PartitionCall& options,
                          const std::vector<Tree>& arguments) {
  check_partition_call(options, arguments.size());
  return plan_of(cut(function, options, api::FlatArguments(arguments)).parts.moves);
}

LayoutPlan partition_plan(const TreeFunction& function, const PartitionOptions& options,
                          const std::vector<Tree>& arguments) {
  LayoutPlan plan = partition_plan(function, call_of(options), arguments);
  for (std::size_t i = 0; i < options.in.size(); ++i) {
    std::vector<bool> used(options.in[i].rules().size());
    for (const std::string& path : arguments[i].paths()) {
      if (const auto rule = options.in[i].find(path)) used[*rule] = true;
    }
    for (std::size_t r = 0; r < used.size(); ++r) {
      if (!used[r]) plan.unused_rules.push_back(options.in[i].rules()[r].pattern);
    }
  }
  for (const std::string& pattern : plan.unused_rules) {
    plan.text += fmt::format("\"{}\" matches no leaf\n", pattern);
  }
  return plan;
}

}  // namespace detail

}  // namespace lockstep
