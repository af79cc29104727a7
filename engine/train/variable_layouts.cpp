#include "engine/train/variable_layouts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

namespace lockstep::train {
namespace {

using Cuts = std::map<std::int64_t, DimensionAxes>;

std::string axes_text(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes()) names.push_back(fmt::format("\"{}\"", axis.name));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_axis(const Mesh& mesh, const std::string& axis) {
  return std::ranges::any_of(mesh.axes(), [&](const MeshAxis& own) { return own.name == axis; });
}

std::int64_t blocks(const DimensionAxes& axes, const Mesh& mesh) {
  std::int64_t count = 1;
  for (const std::string& axis : axes.names()) count *= mesh.size(axis);
  return count;
}

void check_axes(const Layout& layout, const Mesh& mesh, const std::string& who) {
  for (const auto& [dim, axes] : layout.cuts()) {
    for (const std::string& axis : axes.names()) {
      if (has_axis(mesh, axis)) continue;
      throw MeshError(
          fmt::format("[model_parallel] {} cuts dimension {} along \"{}\", which the mesh does not have; expected one "
                      "of {}; name one of these or give the mesh that axis",
                      who, dim, axis, axes_text(mesh)));
    }
  }
}

/// Without the axes of one shard, which cut nothing.
DimensionAxes that_cut(const DimensionAxes& axes, const Mesh& mesh) {
  std::vector<std::string> names;
  std::ranges::copy_if(axes.names(), std::back_inserter(names),
                       [&](const std::string& axis) { return mesh.size(axis) > 1; });
  return names;
}

/// An axis cuts one dimension, once.
void check_axis_once(const DimensionAxes& axes, std::vector<std::string>& seen, const std::string& who) {
  for (const std::string& axis : axes.names()) {
    if (std::ranges::find(seen, axis) != seen.end()) {
      throw MeshError(
          fmt::format("[model_parallel] {} has \"{}\" twice; expected each axis once; leave one of the two out, or cut "
                      "along another axis",
                      who, axis));
    }
    seen.push_back(axis);
  }
}

/// The layout with dimensions counted from 0, of axes that cut something. Throws MeshError where it does not fit the variable.
Layout fitted(const Layout& layout, const std::string& path, const ArrayType& type, const Mesh& mesh) {
  const std::string who = fmt::format("the layout of '{}', {},", path, to_string(type));
  check_axes(layout, mesh, who);
  Cuts cuts;
  std::vector<std::string> seen;
  std::vector<std::int64_t> places;
  const int rank = type.shape.rank();
  for (const auto& [dim, axes] : layout.cuts()) {
    const std::string names = fmt::format("{}", fmt::join(axes.names(), ","));
    if (dim < -rank || dim >= rank) {
      throw MeshError(fmt::format(
          "[model_parallel] the layout of '{}', {}, cuts dimension {} along \"{}\", but the variable has {} "
          "dimensions; cut one that it has, or narrow the rule's pattern",
          path, to_string(type), dim, names, rank));
    }
    const std::int64_t place = dim < 0 ? dim + rank : dim;
    if (std::ranges::find(places, place) != places.end()) {
      throw MeshError(
          fmt::format("[model_parallel] {} names dimension {} twice, from the front and from the end; expected each "
                      "dimension once; "
                      "list all its axes at one of the two",
                      who, place));
    }
    places.push_back(place);
    check_axis_once(axes, seen, who);
    const std::int64_t extent = type.shape[static_cast<int>(place)];
    if (extent % blocks(axes, mesh) != 0) {
      throw MeshError(fmt::format(
          "[model_parallel] the layout of '{}', {}, cuts dimension {} along \"{}\": its extent {} is no multiple of {} "
          "shards; make it one, or leave this dimension whole",
          path, to_string(type), dim, names, extent, blocks(axes, mesh)));
    }
    const DimensionAxes cutting = that_cut(axes, mesh);
    if (!cutting.empty()) cuts.emplace(place, cutting);
  }
  return Layout(cuts);
}

/// Cut along these axes as well, in the first dimension that can be: what none can stays as it is.
Layout cut_further(const Layout& layout, const ArrayType& type, const DimensionAxes& more, const Mesh& mesh) {
  for (const auto& [dim, axes] : layout.cuts()) {
    for (const std::string& axis : axes.names()) {
      if (std::ranges::find(more.names(), axis) != more.names().end()) return layout;
    }
  }
  for (std::int64_t dim = 0; !more.empty() && dim < type.shape.rank(); ++dim) {
    Cuts cuts = layout.cuts();
    std::vector<std::string> axes = cuts[dim].names();
    axes.insert(axes.end(), more.names().begin(), more.names().end());
    if (type.shape[static_cast<int>(dim)] % blocks(axes, mesh) != 0) continue;
    cuts[dim] = DimensionAxes(axes);
    return Layout(cuts);
  }
  return layout;
}

/// Which rules some variable has.
struct UsedRules {
  std::vector<bool> layouts, slots;
};

std::map<std::string, VariableLayout> layouts_by_path(const ModelParallelOptions& options, const Tree& tree,
                                                      const std::map<std::string, Layout>& declared, UsedRules& used) {
  std::map<std::string, VariableLayout> layouts;
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  const DimensionAxes batch = that_cut(batch_axes_of(options), options.mesh);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    VariableLayout own;
    own.type = leaves[i].type();
    if (const auto rule = options.layouts.find(paths[i])) used.layouts[*rule] = true;
    const auto found = declared.find(paths[i]);
    const Layout asked = found != declared.end() ? found->second : options.layouts.at(paths[i]);
    const bool is_scalar = own.type.shape.rank() == 0;
    own.read =
        is_scalar && options.layouts.holds_for_all() ? Layout() : fitted(asked, paths[i], own.type, options.mesh);
    const Layout further = cut_further(own.read, own.type, batch, options.mesh);
    own.kept = options.zero >= 3 ? further : own.read;
    own.gradient = options.zero >= 2 ? further : own.read;
    own.slot = options.zero >= 1 ? further : own.read;
    const auto slots = options.slots.find(paths[i]);
    if (slots) used.slots[*slots] = true;
    if (slots || (options.slots.holds_for_all() && !is_scalar)) {
      own.slot = fitted(options.slots.at(paths[i]), paths[i], own.type, options.mesh);
    }
    layouts.emplace(paths[i], std::move(own));
  }
  return layouts;
}

std::string below(const std::string& path, std::string_view first) {
  return path.starts_with(first) ? path.substr(first.size()) : std::string();
}

}  // namespace

VariableLayouts::VariableLayouts(const ModelParallelOptions& options, const Tree& trainable, const Tree& non_trainable,
                                 const std::map<std::string, Layout>& declared) {
  UsedRules used{std::vector<bool>(options.layouts.rules().size()), std::vector<bool>(options.slots.rules().size())};
  trainable_ = layouts_by_path(options, trainable, declared, used);
  UsedRules of_state{used.layouts, std::vector<bool>(used.slots.size())};  // what is not trained has no slots
  non_trainable_ = layouts_by_path(options, non_trainable, declared, of_state);
  used.layouts = of_state.layouts;
  for (auto& [path, own] : non_trainable_) own.kept = own.read;
  add_unused(options.layouts, used.layouts, "", options.strict, trainable);
  add_unused(options.slots, used.slots, " of slots", options.strict, trainable);
}

void VariableLayouts::add_unused(const LayoutMap& map, const std::vector<bool>& used, std::string_view of,
                                 bool is_strict, const Tree& trainable) {
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    const std::string& pattern = map.rules()[i].pattern;
    unused_.push_back(pattern);
    if (!is_strict) continue;
    throw MeshError(fmt::format(
        "[model_parallel] the layout rule \"{}\"{} matches no variable; expected one of '{}'; a pattern must match all "
        "of a path: correct it, leave it out, or set strict = false",
        pattern, of, fmt::join(trainable.paths(), "', '")));
  }
}

const VariableLayout* VariableLayouts::parameter_of_slot(const std::string& path, const ArrayType& type) const {
  const VariableLayout* found = nullptr;
  std::size_t longest = 0;
  for (const auto& [parameter, own] : trainable_) {
    const bool is_end = path.ends_with("/" + parameter) && own.type.shape == type.shape;
    if (!is_end || parameter.size() < longest) continue;
    longest = parameter.size();
    found = &own;
  }
  return found;
}

Layout VariableLayouts::of_state(const std::string& path, const ArrayType& type) const {
  const auto kept = [](const std::map<std::string, VariableLayout>& layouts, const std::string& variable) {
    const auto found = layouts.find(variable);
    return found == layouts.end() ? Layout() : found->second.kept;
  };
  if (path.starts_with("trainable/")) return kept(trainable_, below(path, "trainable/"));
  if (path.starts_with("non_trainable/")) return kept(non_trainable_, below(path, "non_trainable/"));
  const VariableLayout* parameter = path.starts_with("optimizer") ? parameter_of_slot(path, type) : nullptr;
  return parameter == nullptr ? Layout() : parameter->slot;
}

Tree VariableLayouts::read(const Tree& trainable) const {
  return map_with_path(
      [&](const std::string& path, const Array& leaf) {
        const VariableLayout& own = trainable_.at(path);
        return own.read == own.kept ? leaf : reshard(leaf, own.read);
      },
      trainable);
}

Tree VariableLayouts::reduced(const Tree& gradients) const {
  return map_with_path(
      [&](const std::string& path, const Array& leaf) { return reshard(leaf, trainable_.at(path).gradient); },
      gradients);
}

DimensionAxes batch_axes_of(const ModelParallelOptions& options) {
  if (options.batch) return *options.batch;
  for (const char* name : {"data", "batch"}) {
    if (has_axis(options.mesh, name)) return name;
  }
  throw MeshError(
      fmt::format("[model_parallel] the mesh has no axis \"data\" or \"batch\" that could cut the batch, but {}; give "
                  "ModelParallelOptions{{.batch = \"...\"}}, or {{.batch = DimensionAxes()}} for a batch that every "
                  "shard has whole",
                  axes_text(options.mesh)));
}

std::int64_t batch_blocks(const ModelParallelOptions& options) { return blocks(batch_axes_of(options), options.mesh); }

void check(const ModelParallelOptions& options) {
  if (options.mesh.axes().empty()) {
    throw MeshError(
        "[model_parallel] no mesh given; write ModelParallelOptions{.mesh = Mesh({{\"data\", 2}, {\"model\", 2}}, "
        "devices(\"cpu:0-1\"))}");
  }
  if (options.zero < 0 || options.zero > 3) {
    throw ValueError(fmt::format("[model_parallel] zero is {}; expected a stage from 0 to 3", options.zero));
  }
  for (const LayoutMap::Rule& rule : options.layouts.rules()) {
    check_axes(rule.layout, options.mesh, fmt::format("the rule \"{}\"", rule.pattern));
  }
  for (const LayoutMap::Rule& rule : options.slots.rules()) {
    check_axes(rule.layout, options.mesh, fmt::format("the rule \"{}\" of slots", rule.pattern));
  }
  check_axes(sharded(batch_axes_of(options)), options.mesh, "the batch");
  std::vector<std::string> seen;
  check_axis_once(batch_axes_of(options), seen, "what cuts the batch");
}

}  // namespace lockstep::train
