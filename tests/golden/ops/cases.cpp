#include "tests/golden/ops/cases.h"

#include <algorithm>

#include "engine/core/stable_hash.h"
#include "engine/transform/transforms.h"
#include "tests/golden/ops/differences.h"
#include "tests/support/op_functions.h"

namespace lockstep::tests::golden {
namespace {

using ir::ReferenceArray;
using ReferenceArrays = std::vector<ReferenceArray>;

constexpr std::uint64_t op_operand_seed = 101;
constexpr std::uint64_t tangent_seed = 211;
constexpr std::uint64_t op_cotangent_seed = 307;

/// Arrays of the float and complex types among `types` that are chosen, in [-1, 1).
ReferenceArrays directions(const std::vector<ArrayType>& types, const std::vector<bool>& chosen,
                           const ir::AxisSizes& axes, std::uint64_t seed) {
  ReferenceArrays arrays;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (chosen[i]) arrays.push_back(draw(ir::SampleInput{types[i], -1, 1}, axes, seed + 7919 * i));
  }
  return arrays;
}

std::vector<bool> inexact_types(const std::vector<ArrayType>& types) {
  std::vector<bool> chosen;
  for (const ArrayType& type : types) chosen.push_back(is_inexact(type.dtype));
  return chosen;
}

bool any_chosen(const std::vector<bool>& chosen) {
  return std::find(chosen.begin(), chosen.end(), true) != chosen.end();
}

std::vector<ArrayType> batched_types(std::vector<ArrayType> types, const std::vector<bool>& batched) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (batched[i]) types[i].shape = types[i].shape.insert(0, batch_size);
  }
  return types;
}

ReferenceArrays batched_operands(ir::Sample sample, const std::vector<bool>& batched) {
  for (std::size_t i = 0; i < batched.size(); ++i) {
    if (batched[i]) sample.inputs[i].type.shape = sample.inputs[i].type.shape.insert(0, batch_size);
  }
  return draw(sample, op_operand_seed + 1);
}

/// All operands, then each alone.
std::vector<std::vector<bool>> batched_sets(std::size_t operands) {
  std::vector<std::vector<bool>> sets = {std::vector<bool>(operands, true)};
  for (std::size_t i = 0; operands > 1 && i < operands; ++i) {
    sets.emplace_back(operands, false);
    sets.back()[i] = true;
  }
  return sets;
}

void add_derivatives(Case& c, const FunctionPtr& f, const ReferenceArrays& x) {
  const std::vector<ArrayType> inputs = f->input_types();
  const std::vector<ArrayType> outputs = f->output_types();
  if (!any_chosen(c.active) || !any_chosen(inexact_types(outputs))) return;
  const ir::AxisSizes& axes = c.sample.axes;
  if (compares(c.op->name, Way::jvp, c.sample)) {
    c.runs.push_back({Way::jvp,
                      {},
                      joined(x, directions(inputs, c.active, axes, tangent_seed)),
                      over_mesh(transform::jvp(f, c.active)),
                      outputs.size()});
  }
  if (!compares(c.op->name, Way::vjp, c.sample)) return;
  const FunctionPtr vjp = transform::vjp(f, c.active);
  c.runs.push_back({Way::vjp,
                    {},
                    joined(x, directions(outputs, inexact_types(outputs), axes, op_cotangent_seed)),
                    over_mesh(vjp),
                    outputs.size()});
  if (!compares(c.op->name, Way::vmap_vjp, c.sample)) return;
  const std::vector<bool> all(vjp->inputs().size(), true);
  const std::vector<ArrayType> cotangents = batched_types(outputs, std::vector<bool>(outputs.size(), true));
  c.runs.push_back({Way::vmap_vjp, std::vector<bool>(inputs.size(), true),
                    joined(batched_operands(c.sample, std::vector<bool>(inputs.size(), true)),
                           directions(cotangents, inexact_types(outputs), axes, op_cotangent_seed + 1)),
                    over_mesh(transform::vmap(vjp, all, batch_size)), outputs.size()});
}

Case op_case(const ir::Primitive& op, const ir::Sample& sample, std::size_t number) {
  Case c{&op, sample, op.name + "/" + std::to_string(number), inexact_types(input_types(sample)), {}};
  for (const int operand : underived_operands(op.name)) {
    if (static_cast<std::size_t>(operand) < c.active.size()) c.active[static_cast<std::size_t>(operand)] = false;
  }
  const FunctionPtr f = primal_function(op, sample);
  const ReferenceArrays x = draw(sample, op_operand_seed);
  if (compares(op.name, Way::forward, sample)) c.runs.push_back({Way::forward, {}, x, over_mesh(f), 0});
  add_derivatives(c, f, x);
  if (!sample.inputs.empty() && compares(op.name, Way::vmap, sample)) {
    for (const std::vector<bool>& batched : batched_sets(sample.inputs.size())) {
      c.runs.push_back({Way::vmap, batched, batched_operands(sample, batched),
                        over_mesh(transform::vmap(f, batched, batch_size)), 0});
    }
  }
  return c;
}

}  // namespace

std::string_view name(Way way) {
  switch (way) {
    case Way::forward:
      return "forward";
    case Way::jvp:
      return "jvp";
    case Way::vjp:
      return "vjp";
    case Way::vmap:
      return "vmap";
    default:
      return "vmap_vjp";
  }
}

std::string Run::label() const {
  std::string text(golden::name(way));
  if (way != Way::vmap) return text;
  for (std::size_t i = 0; i < batched.size(); ++i) {
    if (batched[i]) text += " " + std::to_string(i);
  }
  return text;
}

std::uint64_t Case::hash() const {
  StableHash hash;
  hash.add(op->name);
  hash.add(sample.attrs.hash());
  for (const auto& axis : sample.axes.axes()) {
    hash.add(axis.name);
    hash.add(static_cast<std::uint64_t>(axis.size));
  }
  for (const Run& run : runs) {
    hash.add(run.label());
    for (const ReferenceArray& input : run.inputs) {
      hash.add(to_string(input.type));
      const std::vector<std::byte> bytes = ir::reference_to_bytes(input);
      hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    const std::vector<ArrayType> types = run.function->output_types();
    for (std::size_t i = run.first; i < types.size(); ++i) hash.add(to_string(types[i]));
  }
  return hash.value();
}

std::string Case::describe() const {
  std::string text = name + " (";
  for (const ir::SampleInput& input : sample.inputs) text += " " + to_string(input.type);
  return text + " ) [" + to_string(sample.attrs) + "]";
}

std::vector<Case> cases_of(const ir::Primitive& op) {
  std::vector<Case> cases;
  if (!compares_any(op.name)) return cases;
  const std::vector<ir::Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) cases.push_back(op_case(op, samples[i], i));
  return cases;
}

}  // namespace lockstep::tests::golden
