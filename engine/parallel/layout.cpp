#include "engine/parallel/layout.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/backend/round_up.h>
#include <lockstep/error.h>

#include "engine/core/lists.h"
#include "engine/ops/collective/dimension_axes.h"

namespace lockstep {

DimensionAxes::DimensionAxes() = default;
DimensionAxes::DimensionAxes(const DimensionAxes& other) = default;
DimensionAxes::DimensionAxes(DimensionAxes&& other) noexcept = default;
DimensionAxes& DimensionAxes::operator=(const DimensionAxes& other) = default;
DimensionAxes& DimensionAxes::operator=(DimensionAxes&& other) noexcept = default;
DimensionAxes::~DimensionAxes() = default;
DimensionAxes::DimensionAxes(const char* axis) : names_{axis} {}
DimensionAxes::DimensionAxes(std::string axis) : names_{std::move(axis)} {}
DimensionAxes::DimensionAxes(std::initializer_list<std::string> axes) : names_(axes) {}
DimensionAxes::DimensionAxes(std::vector<std::string> axes) : names_(std::move(axes)) {}
bool DimensionAxes::empty() const { return names_.empty(); }

Layout::Layout() = default;
Layout::Layout(const Layout& other) = default;
Layout::Layout(Layout&& other) noexcept = default;
Layout& Layout::operator=(const Layout& other) = default;
Layout& Layout::operator=(Layout&& other) noexcept = default;
Layout::~Layout() = default;
const Layout replicated;

void Layout::keep(std::map<std::int64_t, DimensionAxes> cuts) {
  if (!cuts.empty()) cuts_ = std::make_shared<const std::map<std::int64_t, DimensionAxes>>(std::move(cuts));
}

const std::map<std::int64_t, DimensionAxes>& Layout::cuts() const {
  static const std::map<std::int64_t, DimensionAxes> none;
  return cuts_ == nullptr ? none : *cuts_;
}

bool Layout::operator==(const Layout& other) const { return cuts_ == other.cuts_ || cuts() == other.cuts(); }

Layout::Layout(const std::map<std::int64_t, DimensionAxes>& cuts) {
  std::map<std::int64_t, DimensionAxes> kept;
  for (const auto& [dim, axes] : cuts) {
    if (!axes.empty()) kept.emplace(dim, axes);
  }
  keep(std::move(kept));
}

Layout::Layout(std::initializer_list<std::pair<std::int64_t, DimensionAxes>> cuts) {
  std::map<std::int64_t, DimensionAxes> kept;
  for (const auto& [dim, axes] : cuts) {
    if (axes.empty()) continue;
    const auto [there, is_new] = kept.emplace(dim, axes);
    if (is_new) continue;
    const auto text = [](const DimensionAxes& d) { return fmt::format("\"{}\"", fmt::join(d.names(), "\", \"")); };
    throw MeshError(
        fmt::format("layout: dimension {} is cut along {} and along {}; expected one list of axes for each dimension; "
                    "leave one out, or write {{{}, {{{}, {}}}}}, the outermost first",
                    dim, text(there->second), text(axes), dim, text(there->second), text(axes)));
  }
  keep(std::move(kept));
}

Layout Layout::by_dimension(const std::vector<DimensionAxes>& cuts) {
  std::map<std::int64_t, DimensionAxes> kept;
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
    if (!cuts[dim].empty()) kept.emplace(static_cast<std::int64_t>(dim), cuts[dim]);
  }
  Layout layout;
  layout.keep(std::move(kept));
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

// ---- layouts of leaves

namespace {

using ByPath = std::vector<std::pair<std::string, Layout>>;

/// Whether the path is the prefix or lies below it, part by part.
bool is_below(std::string_view path, std::string_view prefix) {
  while (!prefix.empty()) {
    if (path.empty()) return false;
    const std::string_view wanted = prefix.substr(0, prefix.find('/'));
    const std::string_view part = path.substr(0, path.find('/'));
    if (wanted != "*" && wanted != part) return false;
    prefix.remove_prefix(std::min(wanted.size() + 1, prefix.size()));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return true;
}

ByPath each_once(ByPath by_path) {
  for (std::size_t i = 0; i < by_path.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (by_path[i].first != by_path[j].first) continue;
      throw MeshError(fmt::format("layouts: the path \"{}\" is named twice, with {} and with {}; leave one out",
                                  by_path[i].first, to_string(by_path[j].second), to_string(by_path[i].second)));
    }
  }
  return by_path;
}

std::string leaf_text(std::string_view what, std::string_view path) {
  return fmt::format("{}{}{}", what, path.empty() ? "" : "/", path);
}

}  // namespace

struct LeafLayouts::Entries {
  std::optional<Layout> all;
  ByPath by_path;
};

LeafLayouts::LeafLayouts(const LeafLayouts& other) = default;
LeafLayouts::LeafLayouts(LeafLayouts&& other) noexcept = default;
LeafLayouts& LeafLayouts::operator=(const LeafLayouts& other) = default;
LeafLayouts& LeafLayouts::operator=(LeafLayouts&& other) noexcept = default;
LeafLayouts::~LeafLayouts() = default;
LeafLayouts::LeafLayouts(Layout all) : entries_(std::make_shared<const Entries>(Entries{std::move(all), {}})) {}
LeafLayouts::LeafLayouts(std::initializer_list<std::pair<std::string, Layout>> by_path)
    : entries_(std::make_shared<const Entries>(Entries{{}, each_once(by_path)})) {}

LeafLayouts::LeafLayouts(std::vector<std::pair<std::string, Layout>> by_path)
    : entries_(std::make_shared<const Entries>(Entries{{}, each_once(std::move(by_path))})) {}

const Layout& LeafLayouts::of(std::string_view path, std::string_view what) const {
  static const Entries none;
  const Entries& entries = entries_ ? *entries_ : none;  // null where it was moved away
  if (entries.all) return *entries.all;
  const std::pair<std::string, Layout>* found = nullptr;
  for (const auto& entry : entries.by_path) {
    if (!is_below(path, entry.first)) continue;
    if (found != nullptr) {
      throw MeshError(fmt::format(
          "{}: two layouts are given for it, {} by \"{}\" and {} by \"{}\"; leave one out, or name paths of which none "
          "lies below another",
          leaf_text(what, path), to_string(found->second), found->first, to_string(entry.second), entry.first));
    }
    found = &entry;
  }
  if (found != nullptr) return found->second;
  std::vector<std::string_view> paths;
  for (const auto& entry : entries.by_path) paths.push_back(entry.first);
  throw MeshError(fmt::format("{}: no layout is given for it; there are layouts for \"{}\"; add {{\"{}\", replicated}}",
                              leaf_text(what, path), fmt::join(paths, "\", \""), path));
}

void LeafLayouts::check_used(const std::vector<std::string>& paths, std::string_view what) const {
  if (!entries_) return;
  for (const auto& [prefix, layout] : entries_->by_path) {
    const auto lies = [&, prefix = std::string_view(prefix)](const std::string& path) {
      return is_below(path, prefix);
    };
    if (std::ranges::any_of(paths, lies)) continue;
    throw MeshError(fmt::format("{}: the layout {} is given for \"{}\", where there is no leaf; the leaves are \"{}\"",
                                what, to_string(layout), prefix, fmt::join(paths, "\", \"")));
  }
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

template class detail::OutOfLine<std::vector<LeafLayouts>>;

}  // namespace lockstep
