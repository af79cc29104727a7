#include <algorithm>
#include <memory>
#include <utility>

#include <lockstep/error.h>

#include "engine/compile/write_out/writer.h"
#include "engine/executable/control_kernels.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"

// Loops and branches. One without collectives inside is a kernel: inside a map, one call for each shard. One that has
// collectives or whole maps inside is walked through by all devices together; where it stands in a map, its operands and
// results are stacked, one block for each local shard, and the map goes on inside.
namespace lockstep::compile {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

/// How a loop's bodies see its operands: `mesh` where shards run it together.
class ControlBuilder {
 public:
  ControlBuilder(const Program& program, bool together, int mesh) : program_(program), together_(together) {
    if (together && mesh >= 0) mesh_ = program.meshes[mesh];
  }

  std::unique_ptr<ControlKernel> build(const Equation& equation) const {
    using namespace ops::primitives;
    if (equation.primitive == &scan()) return build_scan(ir::Scan::of(equation.attrs));
    if (equation.primitive == &while_loop()) return build_while(ir::WhileLoop::of(equation.attrs));
    if (equation.primitive == &cond()) return build_cond(ir::Cond::of(equation.attrs));
    throw IrError("lower: " + equation.primitive->name + " is marked as a loop, but there is no kernel of it");
  }

 private:
  /// Distance of the shards' blocks of a value of which a body sees one of `count` parts.
  std::int64_t stride(const ArrayType& type, std::int64_t count) const {
    return mesh_ && !type.varying.empty() ? count * type.nbytes() : -1;
  }

  std::shared_ptr<const Executable> body(const FunctionPtr& f, const std::vector<int>& donors, std::size_t first_x,
                                         std::size_t first_y, std::int64_t count) const {
    BodySpec spec;
    spec.donors.list() = donors;
    spec.donors.list().resize(f->outputs().size(), -1);
    spec.mesh = mesh_;
    for (std::size_t i = 0; i < f->inputs().size(); ++i) {
      spec.stacked_inputs.push_back(stride(f->type(f->inputs()[i]), i < first_x ? 1 : count));
    }
    for (std::size_t i = 0; i < f->outputs().size(); ++i) {
      spec.stacked_outputs.push_back(stride(f->type(f->outputs()[i]), i < first_y ? 1 : count));
    }
    return compile_body(f, program_.options, spec);
  }
  std::shared_ptr<const Executable> body(const FunctionPtr& f, const std::vector<int>& donors = {}) const {
    return body(f, donors, f->inputs().size(), f->outputs().size(), 1);
  }

  /// A carry may lie where the one before it lay.
  static std::vector<int> carries(std::size_t consts, std::size_t count) {
    std::vector<int> donors;
    for (std::size_t c = 0; c < count; ++c) donors.push_back(static_cast<int>(consts + c));
    return donors;
  }

  std::unique_ptr<ControlKernel> build_scan(const ir::Scan& scan) const {
    auto lowered =
        body(scan.body, carries(scan.consts, scan.carries), scan.consts + scan.carries, scan.carries, scan.length);
    return std::make_unique<ScanKernel>(scan, std::move(lowered), together_);
  }
  std::unique_ptr<ControlKernel> build_while(const ir::WhileLoop& loop) const {
    auto lowered = body(loop.body, carries(loop.body_consts, loop.carries()));
    return std::make_unique<WhileKernel>(loop, body(loop.cond), std::move(lowered), together_);
  }
  std::unique_ptr<ControlKernel> build_cond(const ir::Cond& cond) const {
    std::vector<Body> branches;
    for (const FunctionPtr& f : cond.branches) {
      branches.push_back({"branch" + std::to_string(branches.size()), body(f)});
    }
    return std::make_unique<CondKernel>(std::move(branches), together_);
  }

  const Program& program_;
  bool together_;
  std::optional<Mesh> mesh_;
};

/// Along which axes shards may go different ways.
AxisSet axes_of_choice(const ir::Function& function, const Equation& equation) {
  const ir::ChoiceRule choice = equation.primitive->sub_functions.choice;
  return choice == nullptr ? AxisSet{} : choice(function, equation);
}

}  // namespace

bool runs_together(const Equation& equation) {
  return std::ranges::any_of(ir::sub_functions(equation.attrs), [](const FunctionPtr& f) {
    return ir::any_equation(*f, [](const Equation& e) { return e.primitive->traits.collective; });
  });
}

void Writer::write_control(const ir::Function& function, const Equation& equation, std::vector<int>& ids, int mesh) {
  if (runs_together(equation)) {
    write_together(function, equation, ids, mesh);
  } else {
    write_per_shard(function, equation, ids, mesh);
  }
}

// ---- one call for each shard ---------------------------------------------------------------------------------------

void Writer::write_per_shard(const ir::Function& function, const Equation& equation, std::vector<int>& ids, int mesh) {
  const Hoisted hoisted = hoist_axis_indices(function, equation);
  std::vector<int> indices;
  for (const std::string& axis : hoisted.axes) indices.push_back(add_axis_index(axis, mesh));
  Item item = new_item(hoisted.equation, mesh);
  item.kind = Item::Kind::control;
  for (Var v : hoisted.equation.inputs) {
    const bool is_index = v.id >= hoisted.first_index.id;
    item.inputs.push_back(is_index ? indices[v.id - hoisted.first_index.id] : ids[v.id]);
  }
  const bool varies = std::any_of(equation.outputs.begin(), equation.outputs.end(),
                                  [&](Var v) { return !function.type(v).varying.empty(); });
  if (varies) item.pmap = mesh;
  for (Var v : equation.outputs) item.outputs.push_back(program_.new_value(function.type(v), item.pmap));
  item.control = program_.kernels.adopt(ControlBuilder(program_, false, mesh).build(hoisted.equation));
  const std::vector<int> outputs = item.outputs;
  add(std::move(item));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Var v = equation.outputs[i];
    ids[v.id] = varies && function.type(v).varying.empty() ? add_pick(outputs[i], mesh) : outputs[i];
  }
}

int Writer::add_axis_index(const std::string& axis, int mesh) {
  Item item;
  item.primitive = &ops::primitives::axis_index();
  item.op = item.primitive->name;
  item.attrs = Attrs{{"axis", axis}};
  item.mesh = mesh;
  item.pmap = mesh;
  item.outputs = {program_.new_value({DType::int32, Shape{}, {axis}}, mesh)};
  return add_for_value(std::move(item));
}

/// The one value of an invariant result that every shard has computed.
int Writer::add_pick(int of_shards, int mesh) {
  Item item;
  item.kind = Item::Kind::pick;
  item.op = "copy";
  item.inputs = {of_shards};
  item.outputs = {program_.new_value(program_.values[of_shards].type, -1)};
  item.mesh = mesh;
  const int result = add_for_value(std::move(item));
  of_each_shard_[result] = of_shards;
  return result;
}

void Writer::finish() {
  IdVector<bool> is_read(program_.values.size(), false);
  for (const Item& item : program_.items) {
    for (int v : item.inputs) is_read[v] = true;
  }
  for (int v : program_.outputs) is_read[v] = true;
  const auto is_awaited = [&](int v) {
    return std::ranges::any_of(program_.fences, [&](const auto& fence) { return std::ranges::count(fence, v) > 0; });
  };
  std::erase_if(program_.items.list(), [&](const Item& item) {
    if (item.outputs.size() != 1 || is_read[item.outputs[0]]) return false;
    // A whole array of which only this process's part is read need not be gathered.
    const bool is_whole = item.kind == Item::Kind::assemble && item.stacked < 0 && !item.of_part;
    return item.kind == Item::Kind::pick || (is_whole && !is_awaited(item.outputs[0]));
  });
}

// ---- all devices together ------------------------------------------------------------------------------------------

void Writer::write_together(const ir::Function& function, const Equation& equation, std::vector<int>& ids, int mesh) {
  const AxisSet choice = axes_of_choice(function, equation);
  if (!choice.empty()) {
    throw MeshError(equation.primitive->name + ": the predicate varies along " + to_string(choice) +
                    " while what it decides on has collectives; expected all shards to go the same way; instead reduce "
                    "the predicate (psum, pmax) or compute both ways and select");
  }
  auto kernel = ControlBuilder(program_, true, mesh).build(equation);
  Item item = new_item(equation, mesh);
  item.kind = Item::Kind::control;
  item.together = true;
  for (Var v : equation.inputs) {
    const ArrayType& type = function.type(v);
    item.inputs.push_back(type.varying.empty() ? ids[v.id] : add_stacked(ids[v.id], type.nbytes(), mesh));
  }
  std::vector<int> outputs;
  for (Var v : equation.outputs) {
    ArrayType type = function.type(v);
    if (!type.varying.empty()) type.shape = type.shape.insert(0, mesh_of(mesh).local_shards);
    type.varying = {};
    outputs.push_back(program_.new_value(type, -1));
  }
  item.outputs = outputs;
  const Shape memory{static_cast<std::int64_t>(kernel->shared_bytes())};
  item.outputs.push_back(program_.new_value({DType::uint8, memory, {}}, -1));
  item.control = program_.kernels.adopt(std::move(kernel));
  add(std::move(item));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Var v = equation.outputs[i];
    const ArrayType& type = function.type(v);
    ids[v.id] = type.varying.empty() ? outputs[i] : add_unstacked(outputs[i], type, type.nbytes(), mesh);
  }
}

int Writer::add_stacked(int local, std::int64_t stride, int mesh) {
  ArrayType type = program_.values[local].type;
  // Blocks with gaps between them are a part of other results: each result has its own.
  const bool dense = stride == type.nbytes();
  if (const auto it = stack_of_.find(local); dense && it != stack_of_.end()) return it->second;
  type.shape = type.shape.insert(0, mesh_of(mesh).local_shards);
  type.varying = {};
  Item item;
  item.kind = Item::Kind::assemble;
  item.op = "stack";
  item.inputs = {local};
  item.outputs = {program_.new_value(type, -1)};
  item.mesh = mesh;
  item.stacked = stride;
  const int result = add_for_value(std::move(item));
  if (dense) stack_of_[local] = result;
  return result;
}

int Writer::add_unstacked(int stack, const ArrayType& local, std::int64_t stride, int mesh) {
  Item item;
  item.kind = Item::Kind::cut_in;
  item.op = "unstack";
  item.inputs = {stack};
  item.outputs = {program_.new_value(local, mesh)};
  item.mesh = mesh;
  item.pmap = mesh;
  item.stacked = stride;
  const int result = add_for_value(std::move(item));
  if (stride == local.nbytes()) stack_of_[result] = stack;
  return result;
}

// ---- bodies --------------------------------------------------------------------------------------------------------

void write_body_out(Program& program, const ir::Function& function, const BodySpec& spec) {
  program.allowed_donors = spec.donors;
  const int mesh = spec.mesh ? program.meshes.add(*spec.mesh) : -1;
  Writer writer(program);
  std::vector<int> inputs;
  for (std::size_t i = 0; i < function.inputs().size(); ++i) {
    const ArrayType& type = function.type(function.inputs()[i]);
    ArrayType whole{type.dtype, type.shape, {}};
    const std::int64_t stride = spec.stacked_inputs[i];
    if (stride >= 0) whole.shape = whole.shape.insert(0, spec.mesh->local_shards);
    const int id = add_argument(program, whole);
    inputs.push_back(stride < 0 ? id : writer.add_unstacked(id, type, stride, mesh));
  }
  program.outputs.list() = writer.write(function, std::move(inputs), mesh);
  auto stride = spec.stacked_outputs.begin();
  for (int& output : program.outputs) {
    if (*stride >= 0) output = writer.add_stacked(output, *stride, mesh);
    ++stride;
  }
  writer.finish();
}

std::string BodySpec::describe() const {
  std::string text = "body";
  const auto list = [&](const auto& numbers) {
    text += ";";
    for (const auto number : numbers) text += std::to_string(number) + ",";
  };
  list(donors);
  list(stacked_inputs);
  list(stacked_outputs);
  if (mesh) {
    text += ";" + std::to_string(mesh->devices) + " devices";
    for (const auto& axis : mesh->axes.axes()) text += " " + axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

}  // namespace lockstep::compile
