#include <string>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

using control_flow::FunctionPtr;

std::string list_types(const ir::Function& f) {
  std::string text;
  for (const ArrayType& type : f.output_types()) text += (text.empty() ? "" : ", ") + to_string(type);
  return "(" + text + ")";
}

void check_branch(const ir::InferContext& context, const ir::Cond& cond, std::size_t b) {
  const ir::Function& branch = *cond.branches[b];
  const std::string name = "branch" + std::to_string(b);
  control_flow::expect_axes(context, branch, name);
  control_flow::expect_count(context, branch.inputs().size() + 1);
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    control_flow::expect_type(context, "argument " + std::to_string(i - 1), context.inputs[i],
                              branch.type(branch.inputs()[i - 1]), "pass what " + name + " takes");
  }
  if (branch.output_types() != cond.branches[0]->output_types()) {
    throw ShapeError("cond: branch0 returns " + list_types(*cond.branches[0]) + ", " + name + " returns " +
                     list_types(branch) + "; expected the same types; instead convert, reshape or broadcast one");
  }
  const AxisSet communicated = control_flow::collective_axes(branch);
  for (const std::string& axis : context.inputs[0].varying) {
    if (!communicated.contains(axis)) continue;
    throw MeshError("cond: the index varies along " + axis +
                    ", so replicas would take different branches, but a collective in " + name +
                    " communicates along " + axis +
                    "; expected an index that is invariant along it; instead communicate outside of the branches");
  }
}

std::vector<ArrayType> infer_cond(const ir::InferContext& context) {
  const ir::Cond cond = ir::Cond::of(context.attrs);
  if (context.inputs.empty()) control_flow::expect_count(context, cond.branches[0]->inputs().size() + 1);
  const AxisSet& varying = context.inputs[0].varying;
  control_flow::expect_type(context, "the index", context.inputs[0], {DType::int32, {}, varying},
                            "convert it to an int32 scalar");
  for (std::size_t b = 0; b < cond.branches.size(); ++b) check_branch(context, cond, b);
  const auto expect_varying = [&](const std::string& what, const ArrayType& given) {
    ArrayType expected = given;
    expected.varying = expected.varying.joined(varying);
    control_flow::expect_type(context, what + ", beside an index that varies,", given, expected, "pvary it");
  };
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    expect_varying("argument " + std::to_string(i - 1), context.inputs[i]);
  }
  const std::vector<ArrayType> results = cond.branches[0]->output_types();
  for (std::size_t i = 0; i < results.size(); ++i) expect_varying("result " + std::to_string(i), results[i]);
  return results;
}

using BranchFormula = std::vector<Value> (*)(ir::Builder&, std::span<const Value>);

std::vector<Value> waves(ir::Builder&, std::span<const Value> in) { return {sin(in[0]) * in[1], in[1]}; }
std::vector<Value> powers(ir::Builder&, std::span<const Value> in) { return {exp(in[0]) + in[1], in[0] * in[0]}; }
std::vector<Value> constants(ir::Builder& builder, std::span<const Value> in) {
  return {full(builder, in[0].dtype(), in[0].shape(), 2), in[1] * 3.0};
}
std::vector<Value> sums(ir::Builder&, std::span<const Value> in) {
  const Value sum = psum(in[0] * in[1], {"batch"});
  return {pvary(sum, {"batch"}), in[1]};
}

Attrs cond_attrs(const std::vector<BranchFormula>& bodies, const std::vector<ArrayType>& types,
                 const ir::AxisSizes& mesh = {}) {
  std::vector<AxisSet> varying;
  ir::Cond cond;
  for (const BranchFormula body : bodies) cond.branches.push_back(control_flow::write(mesh, types, body));
  for (const ArrayType& type : cond.branches[0]->output_types()) varying.push_back(type.varying);
  for (FunctionPtr& branch : cond.branches) {
    if (branch->outputs().size() == varying.size()) branch = control_flow::with_varying_outputs(branch, varying);
  }
  return cond.attrs();
}

std::vector<ir::Sample> cond_samples() {
  const samples::SampleInput index = samples::input(DType::int32, {}, {-1, 4});  // outside of the range, too
  std::vector<ir::Sample> list;
  const auto add = [&](const std::vector<BranchFormula>& bodies, DType dtype, const Shape& shape) {
    const ArrayType x{dtype, shape, {}};
    list.push_back(
        {{index, samples::input(dtype, shape), samples::input(dtype, shape)}, cond_attrs(bodies, {x, x}), {}});
  };
  for (const Shape& shape : samples::small_shapes()) add({waves, powers}, DType::float64, shape);
  add({waves, powers, constants}, DType::float64, {3});
  add({powers}, DType::float64, {3});
  add({constants, waves}, DType::float32, {2, 2});
  const ir::AxisSizes mesh({{"batch", 4}});
  const ArrayType local{DType::float64, {2}, {"batch"}};
  const samples::SampleInput x{local, -2, 2, false};
  const samples::SampleInput varying{{DType::int32, {}, {"batch"}}, 0, 3, false};
  list.push_back({{varying, x, x}, cond_attrs({waves, powers, constants}, {local, local}, mesh), mesh});
  list.push_back({{index, x, x}, cond_attrs({sums, waves}, {local, local}, mesh), mesh});
  return list;
}

std::vector<ir::ErrorSample> cond_errors() {
  const ArrayType index{DType::int32, {}, {}};
  const ArrayType x{DType::float32, {3}, {}};
  const Attrs good = cond_attrs({waves, powers}, {x, x});
  const ir::AxisSizes mesh({{"batch", 2}});
  const ArrayType local{DType::float32, {3}, {"batch"}};
  const ArrayType varying{DType::int32, {}, {"batch"}};
  const auto one_result = [](ir::Builder&, std::span<const Value> in) -> std::vector<Value> { return {in[0]}; };
  return {
      {{}, good, "cond given 0 operands; expected 3", {}},
      {{index, x}, good, "cond given 2 operands; expected 3", {}},
      {{{DType::float32, {}, {}}, x, x}, good, "the index is f32[], expected i32[]", {}},
      {{{DType::int32, {1}, {}}, x, x}, good, "the index is i32[1], expected i32[]", {}},
      {{index, x, {DType::float32, {2}, {}}}, good, "argument 1 is f32[2], expected f32[3]", {}},
      {{index, x, x}, cond_attrs({waves, one_result}, {x, x}), "branch1 returns (f32[3])", {}},
      {{index, x, x}, good, "other mesh axes", mesh},
      {{varying, local, local}, cond_attrs({sums, waves}, {local, local}, mesh), "a collective in branch0", mesh},
      {{varying, x, x}, cond_attrs({powers}, {x, x}, mesh), "argument 0, beside an index that varies, is f32[3]", mesh},
  };
}

}  // namespace

const Primitive& primitives::cond() {
  static const Primitive op{.name = "cond",
                            .infer = infer_cond,
                            .derivative = {.kind = ir::Derivative::Kind::joint,
                                           .jvp = nullptr,
                                           .transpose = control_flow::transpose_cond,
                                           .linear_in = {},
                                           .joint = control_flow::cond_tangents},
                            .split = control_flow::split_cond,
                            .align = control_flow::align_cond,
                            .batch = control_flow::batch_cond,
                            .reference = nullptr,
                            .samples = cond_samples,
                            .error_samples = cond_errors,
                            .traits = {.typed_axes = true, .loop = true},
                            .sub_functions = {.trim = control_flow::trim_cond,
                                              .evaluate = control_flow::evaluate_cond,
                                              .follow_keys = control_flow::follow_cond_keys,
                                              .choice = control_flow::choice_of_cond}};
  return op;
}

}  // namespace lockstep::ops
