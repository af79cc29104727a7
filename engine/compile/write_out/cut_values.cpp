#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "engine/compile/program.h"
#include "engine/compile/write_out/writer.h"
#include "engine/core/lists.h"
#include "engine/executable/exchange_parts_kernel.h"
#include "engine/ir/primitive.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/collective/map_types.h"
#include "engine/ops/primitives.h"

// Arrays that lie cut over processes: each has the blocks of its own shards alone, put together as one array, its part. What
// reads them are maps of the same layout and `reshard`, which gathers, cuts, or says that a value is of that kind. In one
// process the part is the whole array.
namespace lockstep::compile {
namespace {

using ir::Equation;
using ir::Var;
using ops::collective::is_cut;
using ops::collective::Layout;
using ops::collective::Layouts;
using CutPtr = std::shared_ptr<const CutLayout>;

/// Finds how the values of a function lie.
class CutFinder {
 public:
  explicit CutFinder(const Options& options) : options_(options) {}

  /// Those of the outputs, and of the inputs that are given so.
  std::vector<CutPtr> run(const ir::Function& function, std::vector<CutPtr>& inputs) {
    std::map<std::uint32_t, CutPtr> cuts;
    for (std::size_t i = 0; i < inputs.size(); ++i) cuts[function.inputs()[i].id] = inputs[i];
    for (const Equation& equation : function.equations()) visit(function, equation, cuts, inputs);
    std::vector<CutPtr> outputs;
    for (const Var v : function.outputs()) outputs.push_back(cuts[v.id]);
    return outputs;
  }

 private:
  using Cuts = std::map<std::uint32_t, CutPtr>;

  void visit(const ir::Function& function, const Equation& equation, Cuts& cuts, std::vector<CutPtr>& inputs) {
    if (equation.primitive == &ops::primitives::reshard()) {
      const CutPtr cut = cut_of(function, equation);
      cuts[equation.outputs[0].id] = cut;
      if (equation.attrs.get_or<bool>("given", false)) give(function, equation.inputs[0], cut, inputs);
      return;
    }
    if (equation.primitive->traits.call) {
      std::vector<CutPtr> operands;
      for (const Var v : equation.inputs) operands.push_back(cuts[v.id]);
      const std::vector<CutPtr> results = run(*ir::sub_function(equation.attrs, "body"), operands);
      for (std::size_t k = 0; k < results.size(); ++k) cuts[equation.outputs[k].id] = results[k];
      return;
    }
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      const CutPtr& cut = cuts[equation.inputs[i].id];
      if (cut != nullptr) check_reader(function, equation, i, *cut);
    }
  }

  CutPtr cut_of(const ir::Function& function, const Equation& equation) {
    const auto& layout = equation.attrs.get<Layout>("layout");
    if (!is_cut(layout)) return nullptr;
    const int process = options_.processes == nullptr ? 0 : options_.processes->rank();
    const int processes = options_.processes == nullptr ? 1 : options_.processes->size();
    const Mesh mesh = make_mesh(equation.attrs, equation.primitive->name, process, processes);
    const ArrayType& whole = function.type(equation.inputs[0]);
    const Shape block =
        ops::collective::local_type(equation.primitive->name, whole, layout, mesh.axes, "the operand").shape;
    return only_one(
        {equation.attrs.get<std::vector<std::string>>("axes"), equation.attrs.get<std::vector<std::int64_t>>("sizes"),
         equation.attrs.get<std::vector<std::string>>("devices"), layout, mesh.part_of(layout).shape(block)});
  }

  /// Results that lie alike share what says so: a call's arguments are then compared by address.
  CutPtr only_one(CutLayout cut) {
    const auto found = std::ranges::find_if(made_, [&](const CutPtr& other) { return *other == cut; });
    if (found != made_.end()) return *found;
    return made_.emplace_back(std::make_shared<const CutLayout>(std::move(cut)));
  }

  static void give(const ir::Function& function, Var v, const CutPtr& cut, std::vector<CutPtr>& inputs) {
    const auto place = std::ranges::find(function.inputs(), v);
    if (place == function.inputs().end() || cut == nullptr) {
      throw IrError("reshard: what is said to be given cut is no input of the function, or lies whole");
    }
    nth(inputs, place - function.inputs().begin()) = cut;
  }

  static std::string text(const Layout& layout) {
    std::string text;
    for (std::size_t d = 0; d < layout.size(); ++d) {
      if (!layout[d].empty())
        text += (text.empty() ? "dimension " : ", dimension ") + std::to_string(d) + " along " + layout[d];
    }
    return text.empty() ? "replicated" : text;
  }

  /// Of the argument of a map.
  static void check_map(const ir::Function& function, const Equation& equation, std::size_t i, const CutLayout& cut) {
    const CutLayout wanted{equation.attrs.get<std::vector<std::string>>("axes"),
                           equation.attrs.get<std::vector<std::int64_t>>("sizes"),
                           {},
                           equation.attrs.get<Layouts>("in").at(i),
                           {}};
    if (wanted.lies_like(cut)) return;
    const bool same_mesh = wanted.axes == cut.axes && wanted.sizes == cut.sizes;
    throw MeshError("pmap: operand " + std::to_string(i) + ", " + to_string(function.type(equation.inputs[i])) +
                    ", lies cut (" + text(cut.layout) + "), but its layout in the map is " + text(wanted.layout) +
                    (same_mesh ? "" : " over another mesh") +
                    "; expected the same; instead reshard(x, mesh, layout) it first, or gather(x) it");
  }

  static void check_reader(const ir::Function& function, const Equation& equation, std::size_t i,
                           const CutLayout& cut) {
    if (equation.primitive == &ops::primitives::pmap()) return check_map(function, equation, i, cut);
    throw MeshError(equation.primitive->name + ": operand " + std::to_string(i) + ", " +
                    to_string(function.type(equation.inputs[i])) + ", lies cut (" + text(cut.layout) +
                    "); expected a whole array; instead use it in a pmap whose layout for it is the same, or gather(x) "
                    "it first");
  }

  const Options& options_;
  std::vector<CutPtr> made_;
};

}  // namespace

CutSignature cut_signature(const ir::Function& function, const Options& options) {
  CutSignature signature;
  signature.arguments.resize(function.inputs().size());
  signature.results = CutFinder(options).run(function, signature.arguments);
  const auto is_whole = [](const CutPtr& cut) { return cut == nullptr; };
  if (std::ranges::all_of(signature.arguments, is_whole) && std::ranges::all_of(signature.results, is_whole)) return {};
  signature.whole_results = function.output_types();
  return signature;
}

void Writer::write_reshard(const Equation& equation, std::vector<int>& ids) {
  const int operand = ids[equation.inputs[0].id];
  int& result = ids[equation.outputs[0].id];
  result = operand;
  if (program_.processes == 1) return;
  const auto& layout = equation.attrs.get<Layout>("layout");
  if (!is_cut(layout)) {
    if (is_part(operand)) result = add_whole(operand);
    return;
  }
  const int mesh =
      program_.meshes.add(make_mesh(equation.attrs, equation.primitive->name, program_.process, program_.processes));
  if (equation.attrs.get_or<bool>("given", false)) {
    parts_[operand] = {-1, layout, mesh};
  } else {
    result = add_part(operand, layout, mesh);
  }
}

/// This process's part of a value that lies whole or otherwise.
int Writer::add_part(int value, const Layout& layout, int mesh) {
  const auto lies_so = [&](const Blocks& blocks) {
    return blocks.layout == layout && mesh_of(blocks.mesh).axes == mesh_of(mesh).axes;
  };
  const auto part = parts_.find(value);
  const auto from = assembled_from_.find(value);
  int result = -1;
  if (part != parts_.end()) {
    result = lies_so(part->second) ? value : add_exchanged(value, layout, mesh);
  } else if (from != assembled_from_.end() && lies_so(from->second)) {
    result = add_assemble(from->second.local, layout, from->second.mesh, true);
  } else {
    const std::string& op = ops::primitives::reshard().name;
    const ArrayType block =
        ops::collective::local_type(op, program_.type(value), layout, mesh_of(mesh).axes, "the operand");
    result = add_assemble(add_cut_in(value, block, layout, mesh), layout, mesh, true);
  }
  parts_[result] = {-1, layout, mesh};
  return result;
}

Shape Writer::block_shape(int part) const {
  const Blocks& blocks = parts_.at(part);
  const Shape ones(std::vector<std::int64_t>(blocks.layout.size(), 1));
  const Shape count = mesh_of(blocks.mesh).part_of(blocks.layout).shape(ones);
  Shape shape = program_.type(part).shape;
  for (int d = 0; d < shape.rank(); ++d) shape = shape.with(d, shape[d] / count[d]);
  return shape;
}

/// The whole array of which a value is this process's part.
int Writer::add_whole(int part) {
  const Blocks blocks = parts_.at(part);
  const ArrayType block{program_.type(part).dtype, block_shape(part),
                        AxisSet(ops::collective::axes_of_layout(blocks.layout))};
  return add_assemble(add_cut_in(part, block, blocks.layout, blocks.mesh, true), blocks.layout, blocks.mesh);
}

namespace {

/// A block of an array, where it begins in the whole and in the part of a process that has it.
struct PlacedBlock {
  Shape start;
  Shape place;
};

/// How an array lies over the processes.
class LaidOut {
 public:
  LaidOut(const Mesh& mesh, const Layout& layout, const Shape& block) : block_(block) {
    for (int first = 0; first < mesh.shards; first += mesh.local_shards) {
      const ops::collective::LocalPart part(layout, mesh.axes, first, mesh.local_shards);
      std::vector<PlacedBlock> blocks;
      for (const std::int64_t shard : part.distinct_shards()) {
        std::vector<std::int64_t> start = part.block_of(shard), place;
        for (int d = 0; d < block.rank(); ++d) {
          place.push_back(part.place(shard, d) * block[d]);
          start[static_cast<std::size_t>(d)] *= block[d];
        }
        blocks.push_back({Shape(start), Shape(place)});
      }
      of_.push_back(std::move(blocks));
    }
  }

  const Shape& block() const { return block_; }
  const std::vector<PlacedBlock>& of(int process) const { return of_[static_cast<std::size_t>(process)]; }
  /// Who sends a block to a process: that one itself where it has it, else the first that has it.
  int sender(const PlacedBlock& block, int to) const {
    const auto has = [&](int process) { return std::ranges::count(of(process), block.start, &PlacedBlock::start) > 0; };
    if (has(to)) return to;
    int process = 0;
    while (!has(process)) ++process;
    return process;
  }

 private:
  Shape block_;
  std::vector<std::vector<PlacedBlock>> of_;
};

/// What goes from one process to another, in the order of the first one's blocks.
std::vector<MovedBox> moved(const LaidOut& from, int sender, const LaidOut& to, int receiver) {
  std::vector<MovedBox> boxes;
  for (const PlacedBlock& source : from.of(sender)) {
    if (from.sender(source, receiver) != sender) continue;
    for (const PlacedBlock& target : to.of(receiver)) {
      std::vector<std::int64_t> in_source, in_target, shape;
      for (int d = 0; d < from.block().rank(); ++d) {
        const std::int64_t first = std::max(source.start[d], target.start[d]);
        const std::int64_t last = std::min(source.start[d] + from.block()[d], target.start[d] + to.block()[d]);
        in_source.push_back(source.place[d] + first - source.start[d]);
        in_target.push_back(target.place[d] + first - target.start[d]);
        shape.push_back(std::max<std::int64_t>(last - first, 0));
      }
      if (Shape(shape).size() > 0) boxes.push_back({Shape(in_source), Shape(in_target), Shape(shape)});
    }
  }
  return boxes;
}

}  // namespace

/// The part that this process has in another layout.
int Writer::add_exchanged(int part, const Layout& layout, int mesh) {
  const Blocks blocks = parts_.at(part);
  const Mesh &before = mesh_of(blocks.mesh), &after = mesh_of(mesh);
  const DType dtype = program_.type(part).dtype;
  Shape whole = block_shape(part);
  for (std::size_t d = 0; d < layout.size(); ++d) {
    const int dim = static_cast<int>(d);
    whole = whole.with(dim, whole[dim] * ops::collective::blocks_of_dimension(blocks.layout[d], before.axes, "cut"));
  }
  const std::string& op = ops::primitives::reshard().name;
  const Shape block = ops::collective::local_type(op, {dtype, whole, {}}, layout, after.axes, "the operand").shape;
  const LaidOut from(before, blocks.layout, block_shape(part)), to(after, layout, block);
  std::vector<std::vector<MovedBox>> sent, received;
  std::int64_t most = 0;
  for (int p = 0; p < program_.processes; ++p) {
    sent.push_back(moved(from, program_.process, to, p));
    received.push_back(moved(from, p, to, program_.process));
    for (int q = 0; q < program_.processes; ++q) {
      std::int64_t elements = 0;
      for (const MovedBox& box : moved(from, p, to, q)) elements += box.shape.size();
      most = std::max(most, elements);
    }
  }
  Item item;
  item.kind = Item::Kind::control;
  item.op = op;
  item.inputs = {part};
  item.outputs = {program_.new_value({dtype, after.part_of(layout).shape(block), {}}, -1)};
  item.on_caller = true;
  item.control = program_.kernels.adopt(
      std::make_unique<ExchangeParts>(program_.group, std::move(sent), std::move(received), most, dtype));
  return add_for_value(std::move(item));
}

}  // namespace lockstep::compile
