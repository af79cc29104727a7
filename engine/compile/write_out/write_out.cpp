#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/error.h>

#include "engine/compile/element_loops.h"
#include "engine/compile/write_out/writer.h"
#include "engine/ir/primitive.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/collective/map_types.h"
#include "engine/ops/primitives.h"

namespace lockstep::compile {
namespace {

using ir::Equation;
using ir::Var;
using ops::collective::is_cut;
using ops::collective::Layouts;

}  // namespace

Mesh make_mesh(const Attrs& attrs, std::string_view op, int process, int processes) {
  const auto& names = attrs.get<std::vector<std::string>>("axes");
  const auto& sizes = attrs.get<std::vector<std::int64_t>>("sizes");
  std::vector<ir::AxisSizes::Axis> axes;
  for (std::size_t i = 0; i < names.size(); ++i) axes.push_back({names[i], sizes[i]});
  Mesh mesh;
  mesh.axes = ir::AxisSizes(std::move(axes));
  mesh.shards = static_cast<int>(mesh.axes.total());
  const auto devices = attrs.get_or<std::vector<std::string>>("devices", {});
  mesh.devices = std::max(1, static_cast<int>(devices.size()));
  if (mesh.shards % (mesh.devices * processes) != 0) {
    throw MeshError(std::string(op) + ": " + std::to_string(processes) + " process(es) with " +
                    std::to_string(mesh.devices) + " device(s) each do not divide " + std::to_string(mesh.shards) +
                    " shards evenly; give a number of devices that divides the number of shards, or more shards.");
  }
  mesh.local_shards = mesh.shards / processes;
  mesh.first_shard = process * mesh.local_shards;
  return mesh;
}

std::vector<int> Writer::write(const ir::Function& function, std::vector<int> inputs, int mesh) {
  std::vector<int> ids(function.types().size(), -1);
  for (std::size_t i = 0; i < inputs.size(); ++i) ids[function.inputs()[i].id] = inputs[i];
  for (const Equation& equation : function.equations()) {
    const ir::Traits& traits = equation.primitive->traits;
    if (equation.primitive == &ops::primitives::pmap()) {
      write_pmap(equation, ids);
    } else if (equation.primitive == &ops::primitives::reshard()) {
      write_reshard(equation, ids);
    } else if (equation.primitive == &ops::primitives::fused()) {
      write_fused(function, equation, ids, mesh);
    } else if (traits.call) {
      write_call(equation, ids, mesh);
    } else if (traits.loop) {
      write_control(function, equation, ids, mesh);
    } else {
      write_equation(function, equation, ids, mesh);
    }
  }
  std::vector<int> outputs;
  for (Var v : function.outputs()) outputs.push_back(ids[v.id]);
  return outputs;
}

Item Writer::new_item(const Equation& equation, int mesh) const {
  Item item;
  item.op = equation.primitive->name;
  item.primitive = equation.primitive;
  item.attrs = equation.attrs;
  item.pointwise = equation.primitive->traits.pointwise;
  item.mesh = mesh;
  item.provenance = equation.provenance;
  return item;
}

void Writer::add(Item item) {
  item.fence = fence_number_;
  if (item.kind == Item::Kind::equation || item.kind == Item::Kind::control) {
    // What every shard has computed for itself need not go through the one copy of it.
    for (int& v : item.inputs) {
      const auto it = of_each_shard_.find(v);
      if (it != of_each_shard_.end() && program_.values[it->second].pmap == item.pmap) v = it->second;
    }
  }
  program_.items.add(std::move(item));
}

int Writer::add_for_value(Item item) {
  const int value = item.outputs.at(0);
  add(std::move(item));
  return value;
}

void Writer::write_equation(const ir::Function& function, const Equation& equation, std::vector<int>& ids, int mesh) {
  Item item = new_item(equation, mesh);
  for (Var v : equation.inputs) item.inputs.push_back(ids[v.id]);
  add_results(function, equation, item, ids, mesh);
  add(std::move(item));
}

void Writer::add_results(const ir::Function& function, const Equation& equation, Item& item, std::vector<int>& ids,
                         int mesh) {
  for (Var v : equation.outputs) {
    const ArrayType& type = function.type(v);
    if (!type.varying.empty()) item.pmap = mesh;
    ids[v.id] = program_.new_value(type, type.varying.empty() ? -1 : mesh);
    item.outputs.push_back(ids[v.id]);
  }
}

/// As one loop where a backend takes it, else equation by equation.
void Writer::write_fused(const ir::Function& function, const Equation& equation, std::vector<int>& ids, int mesh) {
  const ir::FunctionPtr body = ir::sub_function(equation.attrs, "body");
  const LoweredLoop lowered = lower_loop(*body);
  Item item = new_item(equation, mesh);
  item.attrs = {{"loop", std::shared_ptr<const AttrObject>(lowered.loop)}};
  item.pointwise = lowered.is_flat;
  std::vector<ArrayType> types;
  for (const std::size_t i : lowered.inputs) {
    item.inputs.push_back(ids[equation.inputs[i].id]);
    types.push_back(function.type(equation.inputs[i]));
  }
  if (program_.kernels.find(item.op, item.attrs, types, body->output_types()) == nullptr) {
    std::vector<int> inputs;
    for (Var v : equation.inputs) inputs.push_back(ids[v.id]);
    const std::vector<int> outputs = write(*body, std::move(inputs), mesh);
    for (std::size_t i = 0; i < outputs.size(); ++i) ids[equation.outputs[i].id] = outputs[i];
    return;
  }
  add_results(function, equation, item, ids, mesh);
  add(std::move(item));
}

void Writer::write_call(const Equation& equation, std::vector<int>& ids, int mesh) {
  const ir::FunctionPtr body = ir::sub_function(equation.attrs, "body");
  std::vector<int> inputs;
  for (Var v : equation.inputs) inputs.push_back(ids[v.id]);
  // What is computed again in a backward pass must not move ahead of it: it would have to be kept until then.
  const std::size_t outer = fence_.size();
  const int outer_number = fence_number_;
  fence_.insert(fence_.end(), inputs.begin(), inputs.end());
  fence_number_ = program_.fences.add(fence_);
  const std::vector<int> outputs = write(*body, std::move(inputs), mesh);
  for (std::size_t i = 0; i < outputs.size(); ++i) ids[equation.outputs[i].id] = outputs[i];
  fence_.resize(outer);
  fence_number_ = outer_number;
}

void Writer::write_pmap(const Equation& equation, std::vector<int>& ids) {
  const int mesh =
      program_.meshes.add(make_mesh(equation.attrs, equation.primitive->name, program_.process, program_.processes));
  const ir::FunctionPtr body = ir::sub_function(equation.attrs, "body");
  const auto& in = equation.attrs.get<Layouts>("in");
  const auto& out = equation.attrs.get<Layouts>("out");
  std::vector<int> inputs;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const int outer = ids[equation.inputs[i].id];
    const ArrayType& local = body->type(body->inputs()[i]);
    inputs.push_back(is_cut(in[i]) ? add_cut_in(outer, local, in[i], mesh, is_part(outer)) : outer);
  }
  const std::vector<int> outputs = write(*body, std::move(inputs), mesh);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    int& result = ids[equation.outputs[i].id];
    result = is_cut(out[i]) ? add_assemble(outputs[i], out[i], mesh) : outputs[i];
    if (is_cut(out[i])) assembled_from_[result] = {outputs[i], out[i], mesh};
  }
}

int Writer::add_cut_in(int outer, const ArrayType& local, const std::vector<std::string>& layout, int mesh,
                       bool of_part) {
  Item item;
  item.kind = Item::Kind::cut_in;
  item.op = "cut";
  item.inputs = {outer};
  item.outputs = {program_.new_value(local, mesh)};
  item.mesh = mesh;
  item.pmap = mesh;
  item.layout = layout;
  item.of_part = of_part;
  return add_for_value(std::move(item));
}

int Writer::add_assemble(int local, const std::vector<std::string>& layout, int mesh, bool of_part) {
  ArrayType type = program_.values[local].type;
  type.varying = {};
  for (std::size_t d = 0; d < layout.size(); ++d) {
    const int dim = static_cast<int>(d);
    const std::int64_t blocks =
        ops::collective::blocks_of_dimension(layout[d], mesh_of(mesh).axes, ops::primitives::pmap().name);
    type.shape = type.shape.with(dim, type.shape[dim] * blocks);
  }
  if (of_part) type.shape = mesh_of(mesh).part_of(layout).shape(program_.type(local).shape);
  Item item;
  item.kind = Item::Kind::assemble;
  item.op = "assemble";
  item.inputs = {local};
  item.outputs = {program_.new_value(type, -1)};
  item.mesh = mesh;
  item.layout = layout;
  item.of_part = of_part;
  return add_for_value(std::move(item));
}

int add_argument(Program& program, const ArrayType& type) {
  const int id = program.new_value(type, -1);
  program.values[id].memory = Memory::argument;
  program.values[id].index = program.arguments.add(id);
  return id;
}

void write_out(Program& program, const ir::Function& function) {
  std::size_t i = 0;
  for (Var v : function.inputs()) {
    ArrayType type = function.type(v);
    const CutLayout* cut = program.cut.arguments.empty() ? nullptr : program.cut.arguments[i++].get();
    if (cut != nullptr) type.shape = cut->part;
    add_argument(program, type);
  }
  Writer writer(program);
  program.outputs.list() = writer.write(function, program.arguments.list(), -1);
  writer.finish();
  add_known_sums(program);
}

}  // namespace lockstep::compile
