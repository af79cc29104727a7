#include "engine/transform/transforms.h"

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/linearized_tree.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/core/lists.h"
#include "engine/trace/cells.h"

namespace lockstep::detail {

namespace {

using api::FlatArguments;
using api::Reader;
using api::TracedTree;

}  // namespace

ValueAndGradients value_and_grad(const TreeFunction& function, const std::vector<Tree>& arguments,
                                 const std::vector<int>& argnums, const GradOptions& options) {
  const FlatArguments flat(arguments);
  const std::vector<ArrayType> types = flat.types();
  const std::vector<bool> active =
      api::active_leaves("value_and_grad", flat, types, argnums, arguments.size(),
                         options.holomorphic ? api::Leaves::complex : api::Leaves::inexact);
  const TracedTree traced = api::trace_tree(function, flat, types);
  if (const auto& outputs = traced.function->outputs(); !outputs.empty()) {
    api::check_results("value_and_grad", traced.function->type(outputs[0]), options.holomorphic);
  }
  const ir::FunctionPtr both =
      transform::value_and_grad(traced.function, api::with_captured(active, traced), options.holomorphic,
                                [&](std::size_t i) { return flat.path(i); });
  const std::vector<Array> results = api::call(both, api::joined(flat.leaves(), traced.captured));
  Reader reader(results);
  Tree value = traced.received(reader.take(traced.function->outputs().size()));
  std::vector<Array> gradients = flat.leaves();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (active[i]) gradients[i] = reader.next();
  }
  const std::vector<Tree> trees = flat.rebuild(gradients);
  ValueAndGradients answer{std::move(value), {}};
  for (const int argnum : argnums) answer.gradients.push_back(nth(trees, argnum));
  return answer;
}

std::pair<Tree, Tree> jvp(const TreeFunction& function, const std::vector<Tree>& primals,
                          const std::vector<Tree>& tangents) {
  const FlatArguments flat(primals);
  const std::vector<ArrayType> types = flat.types();
  const std::vector<bool> active = api::inexact_of(types);
  const std::vector<Array> directions = api::matching_directions("jvp", "tangent", Tree::list(primals), types,
                                                                 Tree::list(tangents), active, flat.weak_types());
  const TracedTree traced = api::trace_tree(function, flat, types);
  const ir::FunctionPtr both = transform::jvp(traced.function, api::with_captured(active, traced));
  api::check_forward_mode("jvp", *both);
  const std::vector<Array> results =
      api::call(both, api::joined(api::joined(flat.leaves(), traced.captured), directions));
  Reader reader(results);
  Tree value = traced.received(reader.take(traced.function->outputs().size()));
  const std::vector<ArrayType> types_of_results = traced.result_types();
  return {std::move(value), traced.tree_of(api::filled(types_of_results, api::inexact_of(types_of_results), reader))};
}

std::pair<Tree, std::function<std::vector<Tree>(const Tree&)>> vjp(const TreeFunction& function,
                                                                   const std::vector<Tree>& primals) {
  auto point = api::linearized(function, primals, {});
  const ir::FunctionPtr transposed = transform::transpose(point->parts.linear, point->parts.residuals);
  auto back = [point, transposed](const Tree& cotangent) {
    const std::vector<ArrayType> types = point->output_types();
    const std::vector<Array> directions = api::matching_directions(
        "vjp", "cotangent", point->traced.result, types, cotangent, api::inexact_of(types), point->traced.weak);
    const std::vector<Array> results = api::call(transposed, api::joined(point->residuals, directions));
    Reader reader(results);
    return point->flat.rebuild(api::filled(point->types, point->active, reader));
  };
  return {point->value, std::move(back)};
}

std::pair<Tree, std::function<Tree(const std::vector<Tree>&)>> linearize(const TreeFunction& function,
                                                                         const std::vector<Tree>& primals) {
  auto point = api::linearized(function, primals, {});
  api::check_forward_mode("linearize", *point->parts.linear);
  auto forth = [point](const std::vector<Tree>& tangents) {
    const std::vector<Tree> expected = point->flat.rebuild(point->flat.leaves());
    const std::vector<Array> directions =
        api::matching_directions("linearize", "tangent", Tree::list(expected), point->types, Tree::list(tangents),
                                 point->active, point->flat.weak_types());
    const std::vector<Array> results = api::call(point->parts.linear, api::joined(point->residuals, directions));
    Reader reader(results);
    const std::vector<ArrayType> types = point->output_types();
    return point->traced.tree_of(api::filled(types, api::inexact_of(types), reader));
  };
  return {point->value, std::move(forth)};
}

namespace {

/// The axis that a leaf is mapped along; a number has none.
std::optional<std::int64_t> axis_of(const FlatArguments& flat, std::size_t leaf,
                                    const std::vector<std::optional<std::int64_t>>& in_axes) {
  if (flat.weak_types()[leaf] != WeakType::strong && flat.leaves()[leaf].ndim() == 0) return std::nullopt;
  return in_axes[flat.argument(leaf)];
}

/// The common extent of the batched axes; -1 where no leaf is batched.
std::int64_t batch_size(const FlatArguments& flat, const std::vector<std::optional<std::int64_t>>& in_axes) {
  std::int64_t size = -1;
  std::size_t first = 0;
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const auto axis = axis_of(flat, i, in_axes);
    if (!axis) continue;
    const Array& leaf = flat.leaves()[i];
    if (leaf.ndim() == 0) {
      throw ShapeError(fmt::format("vmap: {} is a scalar and has no axis {} to map over; give its argument no axis",
                                   flat.path(i), *axis));
    }
    const std::int64_t extent = leaf.shape()[normalize_axis(*axis, leaf.ndim(), "vmap")];
    if (size >= 0 && extent != size) {
      throw ShapeError(fmt::format("vmap: mapped axes must have one extent; {} has {} and {} has {}", flat.path(first),
                                   size, flat.path(i), extent));
    }
    if (size < 0) first = i;
    size = extent;
  }
  return size;
}

/// The batch, for what is read of it inside.
Mapping mapping_of(const FlatArguments& flat, const std::vector<ArrayType>& types,
                   const std::vector<std::optional<std::int64_t>>& in_axes, std::int64_t size,
                   const std::string& axis_name) {
  Mapping mapping{.size = size, .axis = axis_name, .rows = true, .varying = {}};
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const auto axis = axis_of(flat, i, in_axes);
    if (!axis) continue;
    mapping.rows = mapping.rows && normalize_axis(*axis, flat.leaves()[i].ndim(), "vmap") == 0;
    mapping.varying = mapping.varying.joined(types[i].varying);
  }
  return mapping;
}

/// One value for all examples in place of those that differ between them.
void merge_cells(const TracedTree& traced, const std::vector<bool>& batched, const MappedAxis& axis,
                 std::vector<Array>& results) {
  std::size_t next = traced.results();
  for (const TouchedCell& touched : traced.cells) {
    if (!touched.written) continue;
    const std::size_t i = next++;
    if (!batched[i]) continue;
    const CellOptions& options = touched.cell->options;
    if (!options.merge) {
      throw TraceError(fmt::format(
          "vmap: {} is one value for all examples, but what each of them makes of it differs; give the vmap an "
          "axis_name and reduce over it (psum, pmean), or return the value",
          options.name));
    }
    results[i] = options.merge(traced.captured[touched.captured], results[i], axis);
  }
}

}  // namespace

Tree vmap(const TreeFunction& function, const std::vector<Tree>& arguments,
          const std::vector<std::optional<std::int64_t>>& in_axes, std::int64_t out_axis,
          const std::string& axis_name) {
  if (in_axes.empty() && !arguments.empty()) {
    return vmap(function, arguments, std::vector<std::optional<std::int64_t>>(arguments.size(), 0), out_axis,
                axis_name);
  }
  if (in_axes.size() != arguments.size()) {
    throw ValueError(fmt::format("vmap: {} entries of in_axes for {} arguments; give one per argument", in_axes.size(),
                                 arguments.size()));
  }
  const FlatArguments flat(arguments);
  std::vector<ArrayType> types = flat.types();
  const std::int64_t size = batch_size(flat, in_axes);
  if (size < 0) throw ValueError("vmap: no argument is mapped; give at least one argument an axis");
  std::vector<Array> leaves = flat.leaves();
  std::vector<bool> batched(flat.size(), false);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto axis = axis_of(flat, i, in_axes);
    if (!axis) continue;
    batched[i] = true;
    leaves[i] = moveaxis(leaves[i], *axis, 0);
    types[i].shape = leaves[i].shape().erase(0);
    if (!axis_name.empty()) types[i].varying = types[i].varying.joined({axis_name});
  }
  const ir::AxisSizes axes = axis_name.empty() ? ir::AxisSizes() : ir::AxisSizes({{axis_name, size}});
  const Mapping mapping = mapping_of(flat, types, in_axes, size, axis_name);
  TracedTree traced = api::trace_tree(function, flat, types, axes, mapping);
  batched = api::with_captured(std::move(batched), traced);
  if (traced.index) {
    traced.captured[*traced.index] = lockstep::arange(size);
    batched[flat.size() + *traced.index] = true;
  }
  std::vector<bool> forced(traced.results(), true);
  for (const TouchedCell& touched : traced.cells) {
    if (touched.written) forced.push_back(touched.cell->options.per_example);
  }
  const ir::Batched mapped = transform::vmap(traced.function, batched, forced, size, axis_name);
  std::vector<Array> results = api::call(mapped.function, api::joined(std::move(leaves), traced.captured));
  merge_cells(traced, mapped.batched, {{}, size, axis_name, mapping.rows, mapping.varying}, results);
  for (std::size_t i = 0; i < traced.results(); ++i) results[i] = moveaxis(results[i], 0, out_axis);
  return traced.received(results);
}

template class OutOfLine<std::vector<std::optional<std::int64_t>>>;

}  // namespace lockstep::detail
