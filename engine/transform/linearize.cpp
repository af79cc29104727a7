#include <algorithm>

#include "engine/transform/replay.h"
#include "engine/transform/reverse.h"
#include "engine/transform/transforms.h"

namespace lockstep::transform {

namespace {

using ir::Builder;
using ir::Function;
using ir::Var;

/// The function with some of its outputs alone.
FunctionPtr keep_outputs(const Function& f, const std::vector<bool>& kept) {
  std::vector<Var> outputs;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) outputs.push_back(f.outputs()[i]);
  }
  return std::make_shared<const Function>(f.axes(), f.types(), f.inputs(), f.equations(), std::move(outputs));
}

}  // namespace

Linearized linearize_wanted(const FunctionPtr& f, const std::vector<bool>& active, const std::vector<bool>& wanted) {
  FunctionPtr both = jvp(f, active);
  std::vector<bool> kept(f->outputs().size(), true);
  kept.insert(kept.end(), wanted.begin(), wanted.end());
  if (std::ranges::find(kept, false) != kept.end()) both = keep_outputs(*both, kept);
  std::vector<bool> unknown(both->inputs().size(), true);
  std::fill_n(unknown.begin(), f->inputs().size(), false);
  std::vector<bool> tangents(both->outputs().size(), true);
  std::fill_n(tangents.begin(), f->outputs().size(), false);
  const ir::Partitioned parts = partition(both, unknown, tangents);
  return {parts.known, parts.unknown, parts.residuals};
}

Linearized linearize(const FunctionPtr& f, const std::vector<bool>& active) {
  std::size_t inexact = 0;
  for (const ArrayType& type : f->output_types()) inexact += is_inexact(type.dtype) ? 1 : 0;
  return linearize_wanted(f, active, std::vector<bool>(inexact, true));
}

}  // namespace lockstep::transform
