#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "engine/api/transforms/bind.h"
#include "engine/api/transforms/cut_arrays.h"
#include "engine/api/transforms/mesh_attrs.h"
#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_paths.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ir/builder.h"
#include "engine/ops/primitives.h"
#include "engine/parallel/layout.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep::detail {

namespace {

using LeafCuts = std::vector<std::string>;
using Layouts = std::vector<LeafCuts>;

void check_pmap_call(const PmapOptions& options, std::size_t arguments, std::size_t results) {
  if (options.mesh.axes().empty())
    throw MeshError("pmap: no mesh given; write PmapOptions{.mesh = data_mesh(...), ...}");
  if (options.in.size() != arguments) {
    throw MeshError(
        fmt::format("pmap: {} layouts in `in` for {} arguments; give one per argument (replicated, or "
                    "sharded(axis))",
                    options.in.size(), arguments));
  }
  if (results == 0) throw MeshError("pmap: `out` is empty; give one layout per result (replicated, or sharded(axis))");
  if (tracing::is_open() && !tracing::bound_axes().empty()) {
    throw MeshError(fmt::format(
        "pmap: a map inside a map over {} is not supported. Give one pmap a mesh with the axes of both, "
        "Mesh({{{{\"outer\", n}}, {{\"inner\", m}}}}, devices), cut each argument along the axes it needs, and "
        "call the inner function in place of its map; where the axis is that of a vmap, vmap inside the map",
        to_string(bound_axes())));
  }
}

/// Blocks of the arguments' leaves as one shard sees them.
struct Inputs {
  Layouts layouts;
  std::vector<ArrayType> types;
};

std::string what_argument(std::size_t i) { return fmt::format("pmap: argument {}", i); }

/// An array that lies cut must lie as the map cuts it.
void check_lies(const Array& array, const Mesh& mesh, const LeafCuts& cuts, const std::string& what) {
  const auto& cut = array.state()->cut;
  if (cut == nullptr) return;
  const Attrs wanted = api::reshard_attrs(mesh, cuts);
  const bool same_mesh = cut->axes == wanted.get<std::vector<std::string>>("axes") &&
                         cut->sizes == wanted.get<std::vector<std::int64_t>>("sizes");
  if (same_mesh && cut->layout == cuts) return;
  throw MeshError(fmt::format(
      "{}, {}, {}, but its layout in the map is {}{}; expected the same; instead give it the layout it has, or "
      "reshard(x, mesh, layout) or gather(x) it first",
      what, to_string(array.type()), lies_cut(*cut), to_string(api::layout_of_cuts(cuts)),
      same_mesh ? "" : " over another mesh"));
}

Inputs local_inputs(const api::FlatArguments& flat, const PmapOptions& options) {
  Inputs inputs;
  const std::vector<ArrayType> types = flat.types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string what = "pmap: " + flat.path(i);
    const Layout& layout = options.in[flat.argument(i)].of(flat.path_in_argument(i), what_argument(flat.argument(i)));
    LeafCuts cuts = parallel::cuts_per_dimension(layout, options.mesh, types[i].shape.rank(), what);
    check_lies(flat.leaves()[i], options.mesh, cuts, what);
    inputs.types.push_back({types[i].dtype, parallel::local_shape(types[i].shape, cuts, options.mesh, what),
                            parallel::cutting_axes(cuts)});
    inputs.layouts.push_back(std::move(cuts));
  }
  return inputs;
}

/// The tree of each result with its place in messages; a single tree where there is one layout.
std::vector<std::pair<const Tree*, std::string>> result_trees(const Tree& result, std::size_t count) {
  if (count == 1) return {{&result, "result"}};
  if (result.kind() != Tree::Kind::list || result.items().size() != count) {
    throw MeshError(fmt::format("pmap: {} layouts in `out`, but the function returned {}; give one layout per result",
                                count, result.structure()));
  }
  std::vector<std::pair<const Tree*, std::string>> trees;
  for (std::size_t i = 0; i < count; ++i) trees.emplace_back(&result.items()[i], fmt::format("result {}", i));
  return trees;
}

/// ", made by psum", or nothing for an input.
std::string maker(const ir::Function& body, ir::Var v) {
  for (const ir::Equation& equation : body.equations()) {
    for (const ir::Var output : equation.outputs) {
      if (output == v) return ", made by " + equation.primitive->name;
    }
  }
  return {};
}

Layouts mapped_output_layouts(const api::TracedTree& traced, const PmapOptions& options) {
  Layouts layouts;
  std::size_t leaf = 0;
  const auto trees = result_trees(traced.result, options.out.size());
  for (std::size_t r = 0; r < trees.size(); ++r) {
    const std::vector<std::string> paths = trees[r].first->paths();
    options.out[r].check_used(paths, "pmap: " + trees[r].second);
    for (const std::string& path : paths) {
      const ir::Var output = traced.function->outputs()[leaf++];
      const ArrayType& type = traced.function->type(output);
      const std::string what = fmt::format("pmap: {}{}{}", trees[r].second, path.empty() ? "" : "/", path);
      const Layout& layout = options.out[r].of(path, "pmap: " + trees[r].second);
      LeafCuts cuts = parallel::cuts_per_dimension(layout, options.mesh, type.shape.rank(), what);
      const AxisSet cutting = parallel::cutting_axes(cuts);
      const AxisSet left = type.varying.without(cutting);
      if (!left.empty()) {
        throw MeshError(fmt::format(
            "{} is {}{}: replicas along \"{}\" may differ, but its layout, which cuts it along {}, promises "
            "that they do not. Reduce it (psum, pmean, all_gather_invariant) or give it the layout "
            "sharded(\"{}\")",
            what, to_string(type), maker(*traced.function, output), to_string(left),
            cutting.empty() ? "no axis" : '"' + to_string(cutting) + '"', *left.begin()));
      }
      layouts.push_back(std::move(cuts));
    }
  }
  return layouts;
}

/// Outputs that a layout cuts but that no replica varies are made varying, so that the body's types say what is cut.
ir::FunctionPtr with_varying_outputs(const ir::FunctionPtr& body, const Layouts& out) {
  ir::Builder builder(body->axes());
  std::vector<ir::Var> inputs;
  for (const ir::Var v : body->inputs()) inputs.push_back(builder.input(body->type(v)));
  std::vector<ir::Var> outputs = builder.inline_function(*body, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = builder.pvary(outputs[i], parallel::cutting_axes(out[i]));
  }
  return builder.finish(std::move(outputs));
}

}  // namespace

Tree pmap_call(const TreeFunction& function, const PmapOptions& options, std::vector<Tree> arguments,
               std::size_t results) {
  check_pmap_call(options, arguments.size(), results);
  for (std::size_t i = 0; i < arguments.size(); ++i) options.in[i].check_used(arguments[i].paths(), what_argument(i));
  const api::FlatArguments flat(arguments);
  Inputs inputs = local_inputs(flat, options);
  const api::TracedTree traced = api::trace_tree(function, flat, inputs.types, api::axis_sizes(options.mesh));
  tracing::refuse_written(
      traced.cells,
      "pmap: the function changes state that was made outside of it; call the model within the map, "
      "or return the new value");
  Layouts out = mapped_output_layouts(traced, options);
  for (const Array& captured : traced.captured) {
    inputs.layouts.emplace_back(static_cast<std::size_t>(captured.ndim()));
  }
  const ir::FunctionPtr body = with_varying_outputs(traced.function, out);
  Attrs attrs = api::map_attributes(options.mesh, body, std::move(inputs.layouts), out);
  const std::vector<Array> operands = api::joined(flat.leaves(), traced.captured);
  if (options.keep_cut) return traced.tree_of(api::kept_cut(operands, attrs, options.mesh, out));
  return traced.tree_of(api::bind(ops::primitives::pmap(), operands, std::move(attrs)));
}

}  // namespace lockstep::detail
