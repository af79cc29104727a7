#include "engine/parallel/layout.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/backend/round_up.h>
#include <lockstep/error.h>

#include "engine/core/lists.h"

namespace lockstep {

Layout::Layout(std::initializer_list<std::pair<std::int64_t, std::string>> cuts) {
  for (const auto& [dim, axis] : cuts) {
    const auto [there, is_new] = cuts_.emplace(dim, axis);
    if (is_new) continue;
    throw MeshError(
        fmt::format("layout: dimension {} is cut along \"{}\" and along \"{}\"; expected one axis for each dimension; "
                    "leave one out, "
                    "or make a mesh with one axis of both sizes",
                    dim, there->second, axis));
  }
}

Layout sharded(std::string axis, std::int64_t dim) { return Layout({{dim, std::move(axis)}}); }

namespace parallel {

std::vector<std::string> cuts_per_dimension(const Layout& layout, const Mesh& mesh, int rank, std::string_view what) {
  std::vector<std::string> cuts = repeated<std::string>(rank);
  for (const auto& [dim, axis] : layout.cuts()) {
    mesh.size(axis);
    if (rank == 0) continue;
    if (dim < -rank || dim >= rank) {
      throw ShapeError(fmt::format("{}: its layout cuts dimension {} along \"{}\", but it has {} dimensions", what, dim,
                                   axis, rank));
    }
    std::string& cut = nth(cuts, dim < 0 ? dim + rank : dim);
    if (!cut.empty() || std::find(cuts.begin(), cuts.end(), axis) != cuts.end()) {
      throw MeshError(fmt::format("{}: its layout uses axis \"{}\" or dimension {} twice", what, axis, dim));
    }
    cut = axis;
  }
  return cuts;
}

Shape local_shape(const Shape& global, const std::vector<std::string>& cuts, const Mesh& mesh, std::string_view what) {
  Shape local = global;
  for (int i = 0; i < global.rank(); ++i) {
    const std::string& axis = nth(cuts, i);
    if (axis.empty()) continue;
    const std::int64_t size = mesh.size(axis);
    if (global[i] % size != 0) {
      throw ShapeError(
          fmt::format("{}: dimension {} of {} has extent {}, no multiple of the {} shards of axis \"{}\"; pad "
                      "it to {}",
                      what, i, to_string(global), global[i], size, axis, backend::round_up(global[i], size)));
    }
    local = local.with(i, global[i] / size);
  }
  return local;
}

AxisSet cutting_axes(const std::vector<std::string>& cuts) {
  std::vector<std::string> axes;
  for (const std::string& cut : cuts) {
    if (!cut.empty()) axes.push_back(cut);
  }
  return AxisSet(std::move(axes));
}

}  // namespace parallel

}  // namespace lockstep
