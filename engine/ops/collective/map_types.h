#pragma once

#include <string>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/types.h>

#include "engine/ir/function.h"

// What the attributes of a map, and of a value that lies cut over a mesh, say of types.
namespace lockstep::ops::collective {

using Layout = std::vector<std::string>;
using Layouts = std::vector<Layout>;

/// The attributes `axes` and `sizes`. Throws MeshError naming `op` where they are no mesh.
ir::AxisSizes mesh_of_attributes(const std::string& op, const Attrs& attrs);
/// The axes a layout cuts along. Throws MeshError where it does not fit the rank or the mesh; `what` names the value.
AxisSet axes_of(const std::string& op, const Layout& layout, int rank, const ir::AxisSizes& mesh,
                const std::string& what);
/// What one shard sees of a whole array.
ArrayType local_type(const std::string& op, const ArrayType& whole, const Layout& layout, const ir::AxisSizes& mesh,
                     const std::string& what);

}  // namespace lockstep::ops::collective
