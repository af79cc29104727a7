#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/ops/primitives.h"
#include "engine/partition/partition.h"
#include "tests/support/evaluate.h"
#include "tests/support/mapped_program.h"

namespace lockstep::tests {

inline std::vector<std::vector<std::string>> entries(const std::vector<partition::ValueLayout>& layouts) {
  std::vector<std::vector<std::string>> all;
  for (const partition::ValueLayout& layout : layouts) all.push_back(partition::entries_of(layout));
  return all;
}

/// A function whose one equation maps what partition makes.
inline ir::FunctionPtr mapped_over(const ir::Function& f, const ir::AxisSizes& mesh,
                                   const partition::Partitioned& parts) {
  std::vector<std::string> axes;
  std::vector<std::int64_t> sizes;
  for (const auto& axis : mesh.axes()) {
    axes.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  ir::verify(*parts.body);
  return make_function(f.input_types(), [&](ir::Builder&, std::span<const ir::Value> inputs) {
    return ops::apply(ops::primitives::pmap(), inputs,
                      {{"body", std::static_pointer_cast<const AttrObject>(parts.body)},
                       {"axes", axes},
                       {"sizes", sizes},
                       {"devices", device_names(1)},
                       {"in", entries(parts.inputs)},
                       {"out", entries(parts.outputs)}});
  });
}

inline ir::FunctionPtr partitioned(const ir::FunctionPtr& f, const ir::AxisSizes& mesh,
                                   const std::vector<partition::ValueLayout>& in,
                                   const std::vector<std::optional<partition::ValueLayout>>& out) {
  return mapped_over(*f, mesh, partition::partition(f, mesh, in, out));
}

}  // namespace lockstep::tests
