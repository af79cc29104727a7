#include <cstddef>
#include <string>
#include <vector>

#include <lockstep/error.h>

#include "engine/core/checked_sizes.h"
#include "engine/core/lists.h"
#include "engine/ops/collective/axes.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/collective/map_rules.h"
#include "engine/ops/collective/map_types.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::ops {

namespace {

using collective::Layout;
using collective::Layouts;

// Messages do not print the attributes as those of other ops do: the body is one of them.

std::string axes_text(const AxisSet& axes) { return axes.empty() ? "no axis" : to_string(axes); }

ArrayType whole_type(const ArrayType& local, const Layout& layout, const ir::AxisSizes& mesh, const std::string& what) {
  const AxisSet promised = collective::axes_of("pmap", layout, local.shape.rank(), mesh, what);
  if (!promised.contains(local.varying)) {
    throw MeshError("pmap: " + what + ", " + to_string(local) + ", varies along " + axes_text(local.varying) +
                    " (inferred), but its layout cuts it along " + axes_text(promised) +
                    " (promised); expected every axis it varies along to cut it; instead reduce it inside the map "
                    "(psum, pmean, all_gather_invariant) or give it a layout cut along " +
                    axes_text(local.varying.without(promised)));
  }
  if (promised != local.varying) {
    throw MeshError("pmap: " + what + ", " + to_string(local) + ", is invariant along " +
                    axes_text(promised.without(local.varying)) +
                    ", but its layout cuts it along it; expected replicas that differ; instead replicate it in the "
                    "layout or pvary it inside the map");
  }
  ArrayType whole{local.dtype, local.shape, {}};
  for (int d = 0; d < local.shape.rank(); ++d) {
    const std::int64_t blocks = collective::blocks_of_dimension(nth(layout, d), mesh, "pmap");
    if (blocks > 1) whole.shape = whole.shape.with(d, checked_product(local.shape[d], blocks, "pmap"));
  }
  return whole;
}

void check_counts(const ir::InferContext& context, const ir::Function& body, const Layouts& in, const Layouts& out) {
  const auto check = [](const char* what, std::size_t values, std::size_t body_values, std::size_t layouts) {
    if (values == body_values && values == layouts) return;
    throw IrError("pmap given " + std::to_string(values) + " " + what + ", a body with " + std::to_string(body_values) +
                  " and " + std::to_string(layouts) +
                  " layouts; expected as many of each; instead give every one its layout");
  };
  check("operands", context.inputs.size(), body.inputs().size(), in.size());
  check("results", body.outputs().size(), body.outputs().size(), out.size());
}

std::vector<ArrayType> infer_pmap(const ir::InferContext& context) {
  if (!context.axes.empty()) {
    throw MeshError(
        "pmap given a mesh inside another one's map; expected one map; instead give one map a mesh with all axes and "
        "call the inner function in place of its map");
  }
  const ir::AxisSizes mesh = collective::mesh_of_attributes("pmap", context.attrs);
  const ir::FunctionPtr body = ir::sub_function(context.attrs, "body");
  if (!(body->axes() == mesh)) {
    throw IrError(
        "pmap given a body traced under another mesh than its attributes axes and sizes; expected the same; "
        "instead trace the body under this mesh");
  }
  const auto& in = context.attrs.get<Layouts>("in");
  const auto& out = context.attrs.get<Layouts>("out");
  check_counts(context, *body, in, out);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::string what = "operand " + std::to_string(i);
    const ArrayType local = collective::local_type("pmap", context.inputs[i], in[i], mesh, what);
    const ArrayType& expected = body->type(body->inputs()[i]);
    if (local == expected) continue;
    throw IrError("pmap: " + what + ", " + to_string(context.inputs[i]) + ", is " + to_string(local) +
                  " on one shard; expected " + to_string(expected) +
                  ", which the body takes; instead trace the body "
                  "on the types its layouts give");
  }
  std::vector<ArrayType> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    results.push_back(whole_type(body->type(body->outputs()[i]), out[i], mesh, "result " + std::to_string(i)));
  }
  return results;
}

ir::Derivative map_derivative() {
  ir::Derivative derivative;
  derivative.kind = ir::Derivative::Kind::joint;
  derivative.joint = collective::differentiate_map;
  derivative.transpose = collective::transpose_map;
  return derivative;
}

Attrs pmap_attrs(const ir::AxisSizes& mesh, const ir::FunctionPtr& body, Layouts in, Layouts out) {
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (const auto& axis : mesh.axes()) {
    names.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  return {{"body", sub_function::attribute(body)},        {"axes", std::move(names)}, {"sizes", std::move(sizes)},
          {"devices", std::vector<std::string>{"cpu:0"}}, {"in", std::move(in)},      {"out", std::move(out)}};
}

/// Rows times weights, and the sum of all.
std::vector<Value> rows_body(ir::Builder&, std::span<const Value> inputs) {
  const Value product = inputs[0] * inputs[1];
  return {product, psum(reduce_sum(product, {0}), {"batch"})};
}

/// What varies, what does not, and a reduction between.
std::vector<Value> scaled_body(ir::Builder&, std::span<const Value> inputs) {
  const Value weights = exp(inputs[1]);
  const Value rows = sin(inputs[0] * broadcast_in_dim(weights, inputs[0].shape(), {1}));
  return {rows, psum(reduce_sum(rows * rows, {0}), {"batch"}) + weights};
}

std::vector<Value> grid_body(ir::Builder&, std::span<const Value> inputs) {
  return {inputs[0] + inputs[0], inputs[0] * inputs[0]};
}

std::vector<ir::Sample> pmap_samples() {
  std::vector<ir::Sample> list;
  for (const std::int64_t shards : {1, 2, 4}) {
    const ir::AxisSizes mesh = collective::mesh(shards);
    for (const std::int64_t rows : {8, 0}) {
      const ir::FunctionPtr body = sub_function::write(
          mesh, {{float32, {rows / shards}, {"batch"}}, {float32, {rows / shards}, {"batch"}}}, rows_body);
      list.push_back({{samples::input(float32, {rows}), samples::input(float32, {rows})},
                      pmap_attrs(mesh, body, {{"batch"}, {"batch"}}, {{"batch"}, {}}),
                      {}});
    }
  }
  for (const std::int64_t shards : {1, 2, 4}) {
    const ir::AxisSizes mesh = collective::mesh(shards);
    const ir::FunctionPtr body =
        sub_function::write(mesh, {{float64, {4 / shards, 3}, {"batch"}}, {float64, {3}, {}}}, scaled_body);
    list.push_back({{samples::input(float64, {4, 3}), samples::input(float64, {3})},
                    pmap_attrs(mesh, body, {{"batch", ""}, {""}}, {{"batch", ""}, {""}}),
                    {}});
  }
  const ir::AxisSizes grid = collective::mesh(2, 4);
  const ir::FunctionPtr body = sub_function::write(grid, {{float64, {4, 3, 2}, {"batch", "model"}}}, grid_body);
  list.push_back({{samples::input(float64, {16, 3, 4})},
                  pmap_attrs(grid, body, {{"model", "", "batch"}}, {{"model", "", "batch"}, {"batch", "model", ""}}),
                  {}});
  return list;
}

std::vector<ir::ErrorSample> pmap_errors() {
  const ir::AxisSizes mesh = collective::mesh(2);
  const ArrayType x{float32, {4}, {}};
  const ArrayType local{float32, {2}, {"batch"}};
  const ir::FunctionPtr twice = sub_function::write(mesh, {local}, grid_body);
  const ir::FunctionPtr same = sub_function::write(mesh, {x}, grid_body);
  const Layout cut = {"batch"};
  const Layout whole = {""};
  const Attrs good = pmap_attrs(mesh, twice, {cut}, {cut, cut});
  const auto layouts = [&](Layouts in, Layouts out) {
    return good.with("in", std::move(in)).with("out", std::move(out));
  };
  return {
      {{x}, good, "one map", mesh},
      {{x}, good.with("sizes", std::vector<std::int64_t>{2, 2}), "a size for each", {}},
      {{x}, good.with("sizes", std::vector<std::int64_t>{4}), "under another mesh", {}},
      {{x, x}, good, "pmap given 2 operands", {}},
      {{x}, layouts({cut}, {cut}), "pmap given 2 results", {}},
      {{x}, layouts({{"batch", ""}}, {cut, cut}), "2 entries for rank 1", {}},
      {{x}, layouts({{"rows"}}, {cut, cut}), "unbound axis", {}},
      {{{float32, {4, 4}, {}}}, layouts({{"batch", "batch"}}, {cut, cut}), "cuts twice along batch", {}},
      {{x}, layouts({{"batch,batch"}}, {cut, cut}), "cuts twice along batch", {}},
      {{x}, layouts({{"batch,"}}, {cut, cut}), "unbound axis", {}},
      {{{float32, {5}, {}}}, good, "pad it to a multiple of 2", {}},
      {{{float32, {6}, {}}}, good, "f32[3]{batch} on one shard", {}},
      {{{float64, {4}, {}}}, good, "which the body takes", {}},
      {{x}, layouts({whole}, {cut, cut}), "f32[4] on one shard", {}},
      {{x},
       layouts({cut}, {whole, cut}),
       "varies along batch (inferred), but its layout cuts it along no axis (promised)",
       {}},
      {{x}, pmap_attrs(mesh, same, {whole}, {whole, cut}), "result 1, f32[4], is invariant along batch", {}},
  };
}

}  // namespace

const ir::Primitive& primitives::pmap() {
  static const ir::Primitive primitive{
      .name = "pmap",
      .infer = infer_pmap,
      .derivative = map_derivative(),
      .split = collective::split_map,
      .batch = collective::batch_map,
      .reference = nullptr,
      .samples = pmap_samples,
      .error_samples = pmap_errors,
      .traits = {.collective = true, .typed_axes = true},
      .sub_functions = {.trim = control_flow::trim_body,
                        .evaluate = collective::evaluate_map,
                        .follow_keys = collective::follow_map_keys},
  };
  return primitive;
}

}  // namespace lockstep::ops
