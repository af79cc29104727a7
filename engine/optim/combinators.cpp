#include <algorithm>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

namespace lockstep::optim {
namespace {

/// The leaves a mask takes, as a dict from path to leaf.
Tree taken(const Tree& tree, const Mask& mask) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  std::map<std::string, Tree> entries;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (mask(paths[i])) entries.emplace(paths[i], Tree(leaves[i]));
  }
  return Tree::dict(std::move(entries));
}

Tree zeros_where(const Mask& frozen, const Tree& updates) {
  return map_with_path(
      [&](const std::string& path, const Array& leaf) { return frozen(path) ? zeros_like(leaf) : leaf; }, updates);
}

/// Takes what one of the transformations freezes; empty where none freezes anything.
Mask frozen_by(const std::vector<GradientTransformation>& transformations) {
  std::vector<Mask> masks;
  for (const GradientTransformation& t : transformations) {
    if (t.frozen) masks.push_back(t.frozen);
  }
  if (masks.empty()) return {};
  return [masks = std::move(masks)](std::string_view path) {
    return std::any_of(masks.begin(), masks.end(), [&](const Mask& mask) { return mask(path); });
  };
}

struct Below {
  std::string prefix;
  bool operator()(std::string_view path) const {
    return path.starts_with(prefix) && (path.size() == prefix.size() || prefix.empty() || path[prefix.size()] == '/');
  }
};

Selection selection(const std::string& of, const Mask& mask) {
  const Below* below = mask.target<Below>();
  return {of + "(" + (below == nullptr ? "a mask" : "below(\"" + below->prefix + "\")") + ")", mask};
}

/// What both masks take; empty where the second is.
Mask both(const Mask& a, const Mask& b) {
  if (!b) return {};
  return [a, b](std::string_view path) { return a(path) && b(path); };
}

std::vector<Selection> selections_of(const std::vector<GradientTransformation>& transformations) {
  std::vector<Selection> all;
  for (const GradientTransformation& t : transformations) {
    all.insert(all.end(), t.selections.begin(), t.selections.end());
  }
  return all;
}

}  // namespace

Tree apply_updates(const Tree& params, const Tree& updates) {
  const auto moved = [](const Array& p, const Array& u) {
    const DType dtype = promote(p.dtype(), u.dtype());
    return convert(convert(p, dtype) + convert(u, dtype), p.dtype());
  };
  return map(moved, params, updates);
}

GradientTransformation identity() {
  return {[](const Tree&) { return Tree(); },
          [](const Tree& gradients, const Tree& state, const Tree&) { return std::pair(gradients, state); }};
}

GradientTransformation chain(std::vector<GradientTransformation> transformations) {
  auto init = [transformations](const Tree& params) {
    std::vector<Tree> states;
    for (const GradientTransformation& t : transformations) states.push_back(t.init(params));
    return Tree::list(std::move(states));
  };
  const Mask frozen = frozen_by(transformations);
  auto update = [transformations, frozen](const Tree& gradients, const Tree& state, const Tree& params) {
    if (state.items().size() != transformations.size()) {
      throw StateError("[chain] the state holds " + std::to_string(state.items().size()) + " items for " +
                       std::to_string(transformations.size()) + " transformations; pass the state its init returned");
    }
    Tree updates = gradients;
    std::vector<Tree> states;
    for (std::size_t i = 0; i < transformations.size(); ++i) {
      auto [next, kept] = transformations[i].update(updates, state.items()[i], params);
      updates = std::move(next);
      states.push_back(std::move(kept));
    }
    // What follows a freeze may decay weights.
    if (frozen) updates = zeros_where(frozen, updates);
    return std::pair(updates, Tree::list(std::move(states)));
  };
  return {init, update, frozen, selections_of(transformations)};
}

GradientTransformation masked(GradientTransformation inner, Mask mask) {
  auto init = [inner, mask](const Tree& params) { return inner.init(taken(params, mask)); };
  auto update = [inner, mask](const Tree& gradients, const Tree& state, const Tree& params) {
    auto [updates, next] = inner.update(taken(gradients, mask), state, taken(params, mask));
    const TreeEntries changed = updates.entries();
    Tree merged = map_with_path(
        [&](const std::string& path, const Array& leaf) {
          const auto found = changed.find(path);
          return found == changed.end() ? leaf : found->second.array();
        },
        gradients);
    return std::pair(std::move(merged), std::move(next));
  };
  std::vector<Selection> selections{selection("masked", mask)};
  for (const Selection& own : inner.selections) selections.push_back({own.text, both(mask, own.mask)});
  return {init, update, both(mask, inner.frozen), std::move(selections)};
}

GradientTransformation freeze(Mask frozen) {
  auto update = [frozen](const Tree& gradients, const Tree& state, const Tree&) {
    return std::pair(zeros_where(frozen, gradients), state);
  };
  return {[](const Tree&) { return Tree(); }, update, frozen, {selection("freeze", frozen)}};
}

Mask below(std::string prefix) { return Below{std::move(prefix)}; }

}  // namespace lockstep::optim
