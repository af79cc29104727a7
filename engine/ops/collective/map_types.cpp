#include "engine/ops/collective/map_types.h"

#include <algorithm>
#include <cstddef>

#include <lockstep/error.h>

#include "engine/core/checked_sizes.h"
#include "engine/core/quoting.h"
#include "engine/ops/collective/dimension_axes.h"

namespace lockstep::ops::collective {

ir::AxisSizes mesh_of_attributes(const std::string& op, const Attrs& attrs) {
  const auto& names = attrs.get<std::vector<std::string>>("axes");
  const auto& sizes = attrs.get<std::vector<std::int64_t>>("sizes");
  if (names.empty() || names.size() != sizes.size()) {
    throw MeshError(op + " given " + std::to_string(names.size()) + " axes and " + std::to_string(sizes.size()) +
                    " sizes; expected at least one axis and a size for each; instead pass a Mesh with its axes");
  }
  std::vector<ir::AxisSizes::Axis> axes;
  std::int64_t replicas = 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_repeated = std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
                             names.begin() + static_cast<std::ptrdiff_t>(i);
    const bool has_comma = names[i].find(between_axes) != std::string::npos;
    if (names[i].empty() || has_comma || is_repeated || sizes[i] < 1 || sizes[i] > most_replicas / replicas) {
      throw MeshError(op + " given axis " + quoted(names[i]) + " of size " + std::to_string(sizes[i]) +
                      "; expected names that differ and have no comma, sizes of 1 or more and at most " +
                      std::to_string(most_replicas) + " shards in all; instead pass a Mesh with its axes");
    }
    replicas *= sizes[i];
    axes.push_back({names[i], sizes[i]});
  }
  return ir::AxisSizes(std::move(axes));
}

AxisSet axes_of(const std::string& op, const Layout& layout, int rank, const ir::AxisSizes& mesh,
                const std::string& what) {
  if (static_cast<int>(layout.size()) != rank) {
    throw MeshError(op + ": the layout of " + what + " has " + std::to_string(layout.size()) + " entries for rank " +
                    std::to_string(rank) +
                    "; expected one per dimension, \"\" where it is whole; instead cut a "
                    "dimension that exists or replicate it");
  }
  AxisSet axes;
  for (const std::string& axis : axes_of_layout(layout)) {
    mesh.size(axis, op);
    if (axes.contains(axis)) {
      throw MeshError(op + ": the layout of " + what + " cuts twice along " + axis +
                      "; expected each axis once; instead cut the other dimension along another axis");
    }
    axes = axes.joined({axis});
  }
  return axes;
}

ArrayType local_type(const std::string& op, const ArrayType& whole, const Layout& layout, const ir::AxisSizes& mesh,
                     const std::string& what) {
  ArrayType local{whole.dtype, whole.shape, axes_of(op, layout, whole.shape.rank(), mesh, what)};
  for (int d = 0; d < whole.shape.rank(); ++d) {
    const std::string& axes = layout[static_cast<std::size_t>(d)];
    if (axes.empty()) continue;
    const std::int64_t size = blocks_of_dimension(axes, mesh, op);
    if (whole.shape[d] % size != 0) {
      throw MeshError(op + ": dimension " + std::to_string(d) + " of " + what + ", " + to_string(whole) +
                      ", is cut along " + axes + "; expected an extent that its " + std::to_string(size) +
                      " shards can share equally; instead pad it to a multiple of " + std::to_string(size));
    }
    local.shape = local.shape.with(d, whole.shape[d] / size);
  }
  return local;
}

}  // namespace lockstep::ops::collective
