#pragma once

#include <string>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/parallel.h>

#include "engine/ir/function.h"

// A mesh as the IR has it.
namespace lockstep::api {

ir::AxisSizes axis_sizes(const Mesh& mesh);
/// Axes, sizes and devices.
Attrs mesh_attributes(const Mesh& mesh);
/// Of the op that maps `body` over the mesh.
Attrs map_attributes(const Mesh& mesh, const ir::FunctionPtr& body, std::vector<std::vector<std::string>> in,
                     std::vector<std::vector<std::string>> out);

}  // namespace lockstep::api
