#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/error.h>

#include "engine/compile/program.h"
#include "engine/ir/primitive.h"

namespace lockstep::compile {
namespace {

using ir::Equation;
using ir::Var;
using Layouts = std::vector<std::vector<std::string>>;

bool is_cut(const std::vector<std::string>& layout) {
  return std::any_of(layout.begin(), layout.end(), [](const std::string& axis) { return !axis.empty(); });
}

Mesh make_mesh(const Program& program, const Equation& pmap) {
  const auto& names = pmap.attrs.get<std::vector<std::string>>("axes");
  const auto& sizes = pmap.attrs.get<std::vector<std::int64_t>>("sizes");
  std::vector<ir::AxisSizes::Axis> axes;
  for (std::size_t i = 0; i < names.size(); ++i) axes.push_back({names[i], sizes[i]});
  Mesh mesh;
  mesh.axes = ir::AxisSizes(std::move(axes));
  mesh.shards = static_cast<int>(mesh.axes.total());
  const auto devices = pmap.attrs.get_or<std::vector<std::string>>("devices", {});
  mesh.devices = std::max(1, static_cast<int>(devices.size()));
  if (mesh.shards % (mesh.devices * program.processes) != 0) {
    throw MeshError("pmap: " + std::to_string(program.processes) + " process(es) with " + std::to_string(mesh.devices) +
                    " device(s) each do not divide " + std::to_string(mesh.shards) +
                    " shards evenly; give a number of devices that divides the number of shards, or more shards.");
  }
  mesh.local_shards = mesh.shards / program.processes;
  mesh.first_shard = program.process * mesh.local_shards;
  return mesh;
}

class Writer {
 public:
  explicit Writer(Program& program) : program_(program) {}

  /// Values of the function's vars; inputs are given.
  std::vector<int> write(const ir::Function& function, std::vector<int> inputs, int mesh) {
    std::vector<int> ids(function.types().size(), -1);
    for (std::size_t i = 0; i < inputs.size(); ++i) ids[function.inputs()[i].id] = inputs[i];
    for (const Equation& equation : function.equations()) {
      if (equation.primitive->name == "pmap") {
        write_pmap(equation, ids);
      } else {
        write_equation(function, equation, ids, mesh);
      }
    }
    std::vector<int> outputs;
    for (Var v : function.outputs()) outputs.push_back(ids[v.id]);
    return outputs;
  }

 private:
  void write_equation(const ir::Function& function, const Equation& equation, std::vector<int>& ids, int mesh) {
    Item item;
    item.op = equation.primitive->name;
    item.attrs = equation.attrs;
    item.pointwise = equation.primitive->traits.pointwise;
    item.mesh = mesh;
    for (Var v : equation.inputs) item.inputs.push_back(ids[v.id]);
    for (Var v : equation.outputs) {
      const ArrayType& type = function.type(v);
      if (!type.varying.empty()) item.pmap = mesh;
      ids[v.id] = program_.new_value(type, type.varying.empty() ? -1 : mesh);
      item.outputs.push_back(ids[v.id]);
    }
    program_.items.push_back(std::move(item));
  }

  void write_pmap(const Equation& equation, std::vector<int>& ids) {
    const int mesh = static_cast<int>(program_.meshes.size());
    program_.meshes.push_back(make_mesh(program_, equation));
    const ir::FunctionPtr body = ir::sub_function(equation.attrs, "body");
    const auto& in = equation.attrs.get<Layouts>("in");
    const auto& out = equation.attrs.get<Layouts>("out");
    std::vector<int> inputs;
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      const int outer = ids[equation.inputs[i].id];
      inputs.push_back(is_cut(in[i]) ? add_cut_in(outer, body->type(body->inputs()[i]), in[i], mesh) : outer);
    }
    const std::vector<int> outputs = write(*body, std::move(inputs), mesh);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      ids[equation.outputs[i].id] = is_cut(out[i]) ? add_assemble(outputs[i], out[i], mesh) : outputs[i];
    }
  }

  int add_cut_in(int outer, const ArrayType& local, const std::vector<std::string>& layout, int mesh) {
    Item item;
    item.kind = Item::Kind::cut_in;
    item.op = "cut";
    item.inputs = {outer};
    item.outputs = {program_.new_value(local, mesh)};
    item.mesh = mesh;
    item.pmap = mesh;
    item.layout = layout;
    program_.items.push_back(item);
    return item.outputs[0];
  }

  int add_assemble(int local, const std::vector<std::string>& layout, int mesh) {
    ArrayType type = program_.value(local).type;
    type.varying = {};
    for (std::size_t d = 0; d < layout.size(); ++d) {
      if (layout[d].empty()) continue;
      const int dim = static_cast<int>(d);
      type.shape = type.shape.with(
          dim, type.shape[dim] * program_.meshes[static_cast<std::size_t>(mesh)].axes.size(layout[d], "pmap"));
    }
    Item item;
    item.kind = Item::Kind::assemble;
    item.op = "assemble";
    item.inputs = {local};
    item.outputs = {program_.new_value(type, -1)};
    item.mesh = mesh;
    item.layout = layout;
    program_.items.push_back(item);
    return item.outputs[0];
  }

  Program& program_;
};

}  // namespace

void write_out(Program& program, const ir::Function& function) {
  std::vector<int> inputs;
  for (Var v : function.inputs()) {
    const int id = program.new_value(function.type(v), -1);
    program.value(id).memory = Memory::argument;
    program.value(id).index = static_cast<int>(inputs.size());
    inputs.push_back(id);
  }
  program.arguments = inputs;
  program.outputs = Writer(program).write(function, std::move(inputs), -1);
}

}  // namespace lockstep::compile
