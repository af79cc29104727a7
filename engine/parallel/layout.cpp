#include "engine/parallel/layout.h"

#include <fmt/format.h>

#include <lockstep/backend/round_up.h>
#include <lockstep/error.h>

#include "engine/core/lists.h"
#include "engine/ops/collective/dimension_axes.h"

namespace lockstep {

Layout::Layout(const std::map<std::int64_t, DimensionAxes>& cuts) {
  for (const auto& [dim, axes] : cuts) {
    if (!axes.empty()) cuts_.emplace(dim, axes);
  }
}

Layout::Layout(std::initializer_list<std::pair<std::int64_t, DimensionAxes>> cuts) {
  for (const auto& [dim, axes] : cuts) {
    if (axes.empty()) continue;
    const auto [there, is_new] = cuts_.emplace(dim, axes);
    if (is_new) continue;
    const auto text = [](const DimensionAxes& d) { return fmt::format("\"{}\"", fmt::join(d.names(), "\", \"")); };
    throw MeshError(
        fmt::format("layout: dimension {} is cut along {} and along {}; expected one list of axes for each dimension; "
                    "leave one out, or write {{{}, {{{}, {}}}}}, the outermost first",
                    dim, text(there->second), text(axes), dim, text(there->second), text(axes)));
  }
}

Layout Layout::by_dimension(const std::vector<DimensionAxes>& cuts) {
  Layout layout;
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
    if (!cuts[dim].empty()) layout.cuts_.emplace(static_cast<std::int64_t>(dim), cuts[dim]);
  }
  return layout;
}

Layout sharded(DimensionAxes axes, std::int64_t dim) { return Layout({{dim, std::move(axes)}}); }

std::string to_string(const Layout& layout) {
  std::string text;
  for (const auto& [dim, axes] : layout.cuts()) {
    text += fmt::format("{}dimension {} along {}", text.empty() ? "" : ", ", dim, fmt::join(axes.names(), ","));
  }
  return text.empty() ? "replicated" : text;
}

namespace parallel {

namespace collective = ops::collective;

std::vector<std::string> cuts_per_dimension(const Layout& layout, const Mesh& mesh, int rank, std::string_view what) {
  std::vector<std::string> cuts = repeated<std::string>(rank);
  AxisSet used;
  for (const auto& [dim, axes] : layout.cuts()) {
    for (const std::string& axis : axes.names()) mesh.size(axis);
    if (rank == 0) continue;
    const std::string names = fmt::format("{}", fmt::join(axes.names(), "\", \""));
    if (dim < -rank || dim >= rank) {
      throw ShapeError(fmt::format("{}: its layout cuts dimension {} along \"{}\", but it has {} dimensions", what, dim,
                                   names, rank));
    }
    std::string& cut = nth(cuts, dim < 0 ? dim + rank : dim);
    for (const std::string& axis : axes.names()) {
      if (cut.empty() && !used.contains(axis)) {
        used = used.joined({axis});
        continue;
      }
      throw MeshError(
          fmt::format("{}: its layout, {}, uses axis \"{}\" or dimension {} twice; expected each axis and "
                      "each dimension once",
                      what, to_string(layout), axis, dim));
    }
    cut = collective::entry_of(axes.names());
  }
  return cuts;
}

Shape local_shape(const Shape& global, const std::vector<std::string>& cuts, const Mesh& mesh, std::string_view what) {
  Shape local = global;
  for (int i = 0; i < global.rank(); ++i) {
    const std::vector<std::string> axes = collective::axes_of_dimension(nth(cuts, i));
    if (axes.empty()) continue;
    std::int64_t size = 1;
    for (const std::string& axis : axes) size *= mesh.size(axis);
    if (global[i] % size != 0) {
      throw ShapeError(
          fmt::format("{}: dimension {} of {} has extent {}, no multiple of the {} shards of {} \"{}\"; pad "
                      "it to {}",
                      what, i, to_string(global), global[i], size, axes.size() == 1 ? "axis" : "axes",
                      fmt::join(axes, "\", \""), backend::round_up(global[i], size)));
    }
    local = local.with(i, global[i] / size);
  }
  return local;
}

AxisSet cutting_axes(const std::vector<std::string>& cuts) { return AxisSet(collective::axes_of_layout(cuts)); }

}  // namespace parallel

}  // namespace lockstep
