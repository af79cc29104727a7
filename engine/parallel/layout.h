#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/parallel.h>
#include <lockstep/types.h>

namespace lockstep::parallel {

/// Per dimension the mesh axes that cut it, as a map's attributes have them (ops/collective/dimension_axes.h). Throws
/// MeshError for an axis the mesh does not have and for one that cuts twice, ShapeError for a dimension beyond the rank;
/// `what` names the value. Rank 0 is never cut.
std::vector<std::string> cuts_per_dimension(const Layout& layout, const Mesh& mesh, int rank, std::string_view what);

/// The block of a global array on one shard. Throws ShapeError where an extent is no multiple of the blocks its axes cut it into.
Shape local_shape(const Shape& global, const std::vector<std::string>& cuts, const Mesh& mesh, std::string_view what);

/// The axes that cut something.
AxisSet cutting_axes(const std::vector<std::string>& cuts);

}  // namespace lockstep::parallel
