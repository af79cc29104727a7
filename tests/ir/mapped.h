#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "tests/support/evaluate.h"

// A body mapped over a mesh, as one function.
namespace lockstep::tests {

using Layouts = std::vector<std::vector<std::string>>;

inline ir::FunctionPtr mapped(const ir::FunctionPtr& body, const std::vector<ArrayType>& types, const Layouts& in,
                              const Layouts& out) {
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (const ir::AxisSizes::Axis& axis : body->axes().axes()) {
    names.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  const Attrs attrs{{"body", std::shared_ptr<const AttrObject>(body)}, {"axes", names}, {"sizes", sizes},
                    {"devices", std::vector<std::string>{"cpu:0"}},    {"in", in},      {"out", out}};
  return make_function(types, [&](ir::Builder&, std::span<const ir::Value> inputs) {
    return ops::apply(ops::primitives::pmap(), inputs, attrs);
  });
}

inline ir::AxisSizes mesh(std::initializer_list<ir::AxisSizes::Axis> axes) { return ir::AxisSizes(axes); }

}  // namespace lockstep::tests
