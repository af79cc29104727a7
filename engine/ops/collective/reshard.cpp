#include <algorithm>
#include <string>
#include <vector>

#include <lockstep/error.h>

#include "engine/ops/collective/axes.h"
#include "engine/ops/collective/map_types.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using collective::Layout;

std::vector<ArrayType> infer_reshard(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  if (!context.axes.empty()) {
    throw MeshError(
        "reshard given a value inside of a map, where each shard has its own; expected one outside of maps; instead "
        "move blocks by all_gather, psum_scatter or all_to_all");
  }
  const ir::AxisSizes mesh = collective::mesh_of_attributes("reshard", context.attrs);
  collective::local_type("reshard", context.inputs[0], context.attrs.get<Layout>("layout"), mesh, "the operand");
  return {context.inputs[0]};
}

std::vector<Value> batch_reshard(const ir::BatchContext& context) {
  Layout layout = context.attrs.get<Layout>("layout");
  layout.insert(layout.begin(), "");
  return {apply_one(primitives::reshard(), {context.inputs[0]}, context.attrs.with("layout", std::move(layout)))};
}

/// Only where it lies changes.
std::vector<ir::PerShard> evaluate_reshard(const ir::EvaluateContext& context) {
  return {context.operands.begin(), context.operands.end()};
}

Attrs reshard_attrs(const ir::AxisSizes& mesh, Layout layout) {
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (const auto& axis : mesh.axes()) {
    names.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  return {{"axes", std::move(names)},
          {"sizes", std::move(sizes)},
          {"devices", std::vector<std::string>{"cpu:0"}},
          {"layout", std::move(layout)}};
}

std::vector<ir::Sample> reshard_samples() {
  const ir::AxisSizes grid = collective::mesh(2, 4);
  std::vector<ir::Sample> list;
  for (const Layout& layout :
       {Layout{"", ""}, Layout{"batch", ""}, Layout{"batch", "model"}, Layout{"", "model,batch"}}) {
    list.push_back({{samples::input(float64, {4, 8})}, reshard_attrs(grid, layout), {}});
  }
  list.push_back({{samples::input(float32, {})}, reshard_attrs(grid, {}), {}});
  list.push_back({{samples::input(float32, {0, 3})}, reshard_attrs(grid, {"batch", ""}), {}});
  return list;
}

std::vector<ir::ErrorSample> reshard_errors() {
  const ir::AxisSizes mesh = collective::mesh(2);
  const ArrayType x{float32, {4}, {}};
  const Attrs good = reshard_attrs(mesh, {"batch"});
  return {
      {{}, good, "expected 1 operand", {}},
      {{{float32, {4}, {"batch"}}}, good, "inside of a map", mesh},
      {{x}, good.with("axes", std::vector<std::string>{}), "at least one axis", {}},
      {{x}, good.with("layout", Layout{"batch", ""}), "2 entries for rank 1", {}},
      {{x}, good.with("layout", Layout{"rows"}), "unbound axis", {}},
      {{{float32, {5}, {}}}, good, "pad it to a multiple of 2", {}},
  };
}

}  // namespace

const ir::Primitive& primitives::reshard() {
  static const ir::Primitive primitive{
      .name = "reshard",
      .infer = infer_reshard,
      .derivative =
          derivative::linear_in_one(0, [](const ir::TransposeContext&, const Value& cotangent) { return cotangent; }),
      .batch = batch_reshard,
      .reference = reference::copies(),
      .samples = reshard_samples,
      .error_samples = samples::errors(reshard_errors()),
      .traits = {.collective = true},
      .sub_functions = {.evaluate = evaluate_reshard},
  };
  return primitive;
}

}  // namespace lockstep::ops
