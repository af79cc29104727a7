#include <algorithm>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

lockstep::optim::GradientTransformation lockstep::detail::chain(
    std::initializer_list<optim::GradientTransformation> transformations) {
  return optim::chain(std::vector<optim::GradientTransformation>(transformations));
}

namespace lockstep::optim {
namespace {

/// The leaves that are kept, at the paths they have, so that inner masks and labels find them there: lists become dicts
/// by index. None where nothing is kept. `next` counts the leaves met.
Tree pruned(const Tree& tree, const std::vector<bool>& keeps, std::size_t& next) {
  std::map<std::string, Tree> entries;
  const auto keep = [&](const std::string& key, const Tree& item) {
    Tree part = pruned(item, keeps, next);
    if (part.kind() != Tree::Kind::none) entries.emplace(key, std::move(part));
  };
  if (tree.kind() == Tree::Kind::leaf) return keeps[next++] ? tree : Tree();
  if (tree.kind() == Tree::Kind::dict) {
    for (const auto& [key, item] : tree.entries()) keep(key, item);
  } else if (tree.kind() == Tree::Kind::list) {
    for (std::size_t i = 0; i < tree.items().size(); ++i) keep(std::to_string(i), tree.items()[i]);
  }
  return entries.empty() ? Tree() : Tree::dict(std::move(entries));
}

Tree kept(const Tree& tree, const std::vector<bool>& keeps) {
  std::size_t next = 0;
  Tree part = pruned(tree, keeps, next);
  return part.kind() == Tree::Kind::none ? Tree::dict({}) : part;
}

Tree taken(const Tree& tree, const Mask& mask) {
  std::vector<bool> keeps;
  for (const std::string& path : tree.paths()) keeps.push_back(mask(path));
  return kept(tree, keeps);
}

/// The tree with those leaves that `changed` has, by path.
Tree merged(const Tree& tree, const Tree& changed) {
  const std::vector<std::string> paths = changed.paths();
  const std::vector<Array> leaves = changed.leaves();
  std::map<std::string, Array> found;
  for (std::size_t i = 0; i < paths.size(); ++i) found.emplace(paths[i], leaves[i]);
  return map_with_path(
      [&](const std::string& path, const Array& leaf) {
        const auto other = found.find(path);
        return other == found.end() ? leaf : other->second;
      },
      tree);
}

/// The loss as a function of a part of the parameters, the others being where they are.
KnownLoss of_part(const KnownLoss& loss, const Tree& params, Tree gradients) {
  KnownLoss part(loss.value);
  if (loss.function) {
    part.function = [whole = loss.function, params](const Tree& changed) { return whole(merged(params, changed)); };
  }
  part.gradients = std::move(gradients);
  return part;
}

using Label = std::function<std::string(const std::string& path, const Array& leaf)>;

/// For each name the leaves labelled so.
std::map<std::string, Tree> labelled(const Tree& tree, const Named<GradientTransformation>& transformations,
                                     const Label& label) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  std::map<std::string, std::vector<bool>> keeps;
  for (const auto& [name, t] : transformations) keeps[name].resize(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string name = label(paths[i], leaves[i]);
    const auto of = keeps.find(name);
    if (of == keeps.end()) {
      throw ValueError("[partition] leaf '" + paths[i] + "' is labelled '" + name +
                       "', for which there is no transformation; give one, or label it otherwise");
    }
    of->second[i] = true;
  }
  std::map<std::string, Tree> trees;
  for (const auto& [name, own] : keeps) trees.emplace(name, kept(tree, own));
  return trees;
}

Tree zeros_where(const Mask& frozen, const Tree& updates) {
  return map_with_path(
      [&](const std::string& path, const Array& leaf) { return frozen(path) ? zeros_like(leaf) : leaf; }, updates);
}

struct Below {
  std::string prefix;
  bool operator()(std::string_view path) const {
    return path.starts_with(prefix) && (path.size() == prefix.size() || prefix.empty() || path[prefix.size()] == '/');
  }
};

/// A mask that may select nothing.
struct Optional {
  Mask mask;
  bool operator()(std::string_view path) const { return mask(path); }
};

Selection selection(const std::string& of, const Mask& mask) {
  if (const Optional* optional = mask.target<Optional>()) {
    Selection own = selection(of, optional->mask);
    own.optional = true;
    return own;
  }
  const Below* below = mask.target<Below>();
  return {of + "(" + (below == nullptr ? "a mask" : "below(\"" + below->prefix + "\")") + ")", mask};
}

/// An update that would change the parameter's shape, or of which it would keep a part alone.
[[noreturn]] void refuse_update(const std::string& path, const Array& parameter, const Array& update) {
  const std::string given = "[apply_updates] leaf '" + path + "' is " + to_string(parameter.type()) + ", its update " +
                            to_string(update.type());
  if (parameter.shape() != update.shape()) throw ShapeError(given + "; expected one shape");
  throw DtypeError(
      given +
      ", of which it would keep a part alone; keep what is not trained out of the parameters, or convert it to " +
      (is_complex(update.dtype()) ? "a complex dtype" : "floats"));
}

/// What both masks take; empty where the second is.
Mask both(const Mask& a, const Mask& b) {
  if (!b) return {};
  return [a, b](std::string_view path) { return a(path) && b(path); };
}

}  // namespace

Tree apply_updates(const Tree& params, const Tree& updates) {
  const auto fits = [](const Array& p, const Array& u) {
    const bool loses =
        (is_inexact(u.dtype()) && !is_inexact(p.dtype())) || (is_complex(u.dtype()) && !is_complex(p.dtype()));
    return !loses && p.shape() == u.shape();
  };
  const auto moved = [](const Array& p, const Array& u) {
    const DType dtype = promote(p.dtype(), u.dtype());
    return convert(convert(p, dtype) + convert(u, dtype), p.dtype());
  };
  return map_fitting(fits, refuse_update, moved, params, updates);
}

GradientTransformation identity() {
  auto update = [](const Tree& gradients, const Tree& state, const Tree&) { return std::pair(gradients, state); };
  return {.init = no_state, .update = update, .linear = true};
}

GradientTransformation chain(std::vector<GradientTransformation> transformations) {
  auto init = [transformations](const Tree& params) {
    std::vector<Tree> states;
    for (const GradientTransformation& t : transformations) states.push_back(t.init(params));
    return Tree::list(std::move(states));
  };
  const Mask frozen = wrapping(transformations, {}, {}).frozen;
  auto update_all = [transformations, frozen](const Tree& gradients, const Tree& state, const Tree& params,
                                              const KnownLoss& loss) {
    if (state.items().size() != transformations.size()) {
      throw StateError("[chain] the state holds " + std::to_string(state.items().size()) + " items for " +
                       std::to_string(transformations.size()) + " transformations; pass the state its init returned");
    }
    Tree updates = gradients;
    std::vector<Tree> states;
    for (std::size_t i = 0; i < transformations.size(); ++i) {
      auto [next, kept] = update(transformations[i], updates, state.items()[i], params, loss);
      updates = std::move(next);
      states.push_back(std::move(kept));
    }
    // What follows a freeze may decay weights.
    if (frozen) updates = zeros_where(frozen, updates);
    return std::pair(updates, Tree::list(std::move(states)));
  };
  GradientTransformation all = wrapping(transformations, init, update_all);
  all.linear = std::all_of(transformations.begin(), transformations.end(), [](const auto& t) { return t.linear; });
  return all;
}

GradientTransformation masked(GradientTransformation inner, Mask mask) {
  auto init = [inner, mask](const Tree& params) { return inner.init(taken(params, mask)); };
  auto update_taken = [inner, mask](const Tree& gradients, const Tree& state, const Tree& params,
                                    const KnownLoss& loss) {
    const KnownLoss known =
        of_part(loss, params, loss.gradients.kind() == Tree::Kind::none ? Tree() : taken(loss.gradients, mask));
    auto [updates, next] = update(inner, taken(gradients, mask), state, taken(params, mask), known);
    return std::pair(merged(gradients, updates), std::move(next));
  };
  GradientTransformation some = wrapping({inner}, init, update_taken);
  some.frozen = both(mask, inner.frozen);
  some.linear = inner.linear;
  some.selections = {selection("masked", mask)};
  for (const Selection& own : inner.selections) {
    some.selections.push_back({own.text, both(mask, own.mask), own.optional});
  }
  return some;
}

GradientTransformation partition(Named<GradientTransformation> transformations,
                                 std::function<std::string(const std::string& path, const Array& leaf)> label) {
  auto init = [transformations, label](const Tree& params) {
    const std::map<std::string, Tree> parts = labelled(params, transformations, label);
    std::map<std::string, Tree> states;
    for (const auto& [name, t] : transformations) states.emplace(name, t.init(parts.at(name)));
    return Tree::dict(std::move(states));
  };
  auto update_parts = [transformations, label](const Tree& gradients, const Tree& state, const Tree& params,
                                               const KnownLoss& loss) {
    const std::map<std::string, Tree> parts = labelled(gradients, transformations, label);
    const std::map<std::string, Tree> part_params = labelled(params, transformations, label);
    std::map<std::string, Tree> own;
    if (loss.gradients.kind() != Tree::Kind::none) own = labelled(loss.gradients, transformations, label);
    Tree updates = gradients;
    std::map<std::string, Tree> states;
    for (const auto& [name, t] : transformations) {
      const KnownLoss known = of_part(loss, params, own.empty() ? Tree() : own.at(name));
      auto [next, kept] = update(t, parts.at(name), state.at(name), part_params.at(name), known);
      updates = merged(updates, next);
      states.emplace(name, std::move(kept));
    }
    return std::pair(std::move(updates), Tree::dict(std::move(states)));
  };
  std::vector<GradientTransformation> inner;
  for (const auto& [name, t] : transformations) {
    if (t.frozen) {
      throw ValueError("[partition] the transformation of '" + name +
                       "' freezes leaves, which a label may depend on; freeze them around the partition: "
                       "chain(partition(...), freeze(mask))");
    }
    inner.push_back(t);
  }
  GradientTransformation all = wrapping(inner, init, update_parts);
  all.linear = std::all_of(inner.begin(), inner.end(), [](const auto& t) { return t.linear; });
  return all;
}

GradientTransformation freeze(Mask frozen) {
  auto update = [frozen](const Tree& gradients, const Tree& state, const Tree&) {
    return std::pair(zeros_where(frozen, gradients), state);
  };
  return {.init = no_state,
          .update = update,
          .frozen = frozen,
          .selections = {selection("freeze", frozen)},
          .linear = true};
}

Mask below(std::string prefix) { return Below{std::move(prefix)}; }
Mask optional(Mask mask) { return Optional{std::move(mask)}; }

}  // namespace lockstep::optim
