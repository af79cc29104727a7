#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/slots_by_leaf.h"
#include "engine/optim/wrapping.h"

// Optimizers of what gradients are in a subspace of few dimensions.
namespace lockstep::optim {
namespace {

/// A leaf as a matrix, and the subspace of its smaller side.
struct Subspace {
  std::vector<std::int64_t> order;  ///< The leaf's axes, rows' first.
  std::int64_t rows = 1, columns = 1, rank = 0;

  bool is_tall() const { return rows >= columns; }
  Shape projector() const { return {is_tall() ? rows : columns, rank}; }
  Shape projected() const { return is_tall() ? Shape{rank, columns} : Shape{rows, rank}; }
};

std::optional<Subspace> subspace_of(const std::string& path, const Array& leaf, const GaloreOptions& options) {
  std::optional<MatrixAxes> axes;
  if (options.axes) {
    axes = options.axes(path, leaf);
  } else if (leaf.shape().rank() == 2) {
    axes = MatrixAxes{};
  }
  if (!axes) return std::nullopt;
  Subspace result;
  result.order = axes->rows;
  result.order.insert(result.order.end(), axes->columns.begin(), axes->columns.end());
  std::vector<std::int64_t> sorted = result.order, all(static_cast<std::size_t>(leaf.shape().rank()));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all || axes->rows.empty() || axes->columns.empty()) {
    throw ShapeError(
        fmt::format("[galore] leaf '{}' is {}; axes are rows [{}] and columns [{}]: each axis of the leaf "
                    "must be in one of them, once, and neither may be empty",
                    path, to_string(leaf.type()), fmt::join(axes->rows, ", "), fmt::join(axes->columns, ", ")));
  }
  for (const std::int64_t axis : axes->rows) result.rows *= leaf.shape()[static_cast<int>(axis)];
  for (const std::int64_t axis : axes->columns) result.columns *= leaf.shape()[static_cast<int>(axis)];
  result.rank = std::min({options.rank, result.rows, result.columns});
  return result;
}

Array as_matrix(const Array& leaf, const Subspace& s) { return reshape(transpose(leaf, s.order), {s.rows, s.columns}); }

Array as_leaf(const Array& matrix, const Subspace& s, const Shape& shape) {
  std::vector<std::int64_t> extents, inverse(s.order.size());
  for (std::size_t i = 0; i < s.order.size(); ++i) {
    extents.push_back(shape[static_cast<int>(s.order[i])]);
    inverse[static_cast<std::size_t>(s.order[i])] = static_cast<std::int64_t>(i);
  }
  return transpose(reshape(matrix, extents), inverse);
}

/// Of the largest singular values: columns that are orthonormal.
Array singular_vectors(const Array& matrix, const Subspace& s) {
  const linalg::Svd parts = linalg::svd(matrix, false);
  return s.is_tall() ? slice(parts.u, {0, 0}, {s.rows, s.rank})
                     : transpose(slice(parts.vh, {0, 0}, {s.rank, s.columns}));
}

Array projected(const Array& matrix, const Array& projector, const Subspace& s) {
  return s.is_tall() ? matmul(transpose(projector), matrix) : matmul(matrix, projector);
}

Array from_subspace(const Array& low, const Array& projector, const Subspace& s) {
  return s.is_tall() ? matmul(projector, low) : matmul(low, transpose(projector));
}

using Subspaces = std::vector<std::optional<Subspace>>;

Subspaces subspaces(const Tree& tree, const GaloreOptions& options) {
  const std::vector<std::string> paths = tree.paths();
  const Leaves leaves = tree.leaves();
  Subspaces all;
  for (std::size_t i = 0; i < leaves.size(); ++i) all.push_back(subspace_of(paths[i], leaves[i], options));
  return all;
}

using OfSubspace = std::function<Array(const Subspace&, std::size_t leaf)>;

/// The leaves that are projected by `f`, the others as they are.
Tree with_projected(const Tree& tree, const Subspaces& spaces, const OfSubspace& f) {
  Leaves leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (spaces[i]) leaves[i] = f(*spaces[i], i);
  }
  return tree.unflatten(std::move(leaves));
}

Tree projectors_of(const Tree& tree, const Subspaces& spaces, const OfSubspace& f) {
  std::vector<Tree> slots;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    slots.push_back(spaces[i] ? Tree::dict({{"projector", Tree(f(*spaces[i], i))}}) : Tree::dict({}));
  }
  return slots_by_leaf(tree, slots);
}

/// The inner transformation's, which sees no parameters: theirs would not have the gradients' shapes.
std::pair<Tree, Tree> inner_update(const GradientTransformation& inner, const Tree& low, const Tree& state,
                                   const KnownLoss& loss) {
  try {
    return update(inner, low, state, Tree(), loss);
  } catch (const StateError&) {
    if (inner.update_with_loss && !loss.value.has_value()) throw;
    throw StateError(
        "[galore] its inner transformation reads the parameters, which have no part in the subspace of "
        "the gradients: give it one of gradients alone, as scale_by_adam, and galore the decay");
  }
}

}  // namespace

GradientTransformation scale_by_galore(GaloreOptions options) {
  check_count("galore", "rank", options.rank);
  check_count("galore", "update_every", options.update_every);
  GradientTransformation inner = options.inner ? *options.inner : scale_by_adam();
  refuse_function("galore", "the gradients of its subspace are those at the parameters alone", inner);
  auto init = [o = options, inner](const Tree& params) {
    check_real("galore", params);
    const Subspaces spaces = subspaces(params, o);
    const Leaves leaves = params.leaves();
    const auto zeros_in = [&](Shape shape, std::size_t i) { return zeros(shape, wide(leaves[i]).dtype()); };
    const Tree low =
        with_projected(params, spaces, [&](const Subspace& s, std::size_t i) { return zeros_in(s.projected(), i); });
    Tree projectors =
        projectors_of(params, spaces, [&](const Subspace& s, std::size_t i) { return zeros_in(s.projector(), i); });
    return Tree::dict(
        {{"count", Tree(first_count())}, {"inner", inner.init(low)}, {"projectors", std::move(projectors)}});
  };
  auto step = [o = options, inner](const Tree& gradients, const Tree& state, const Tree&, const KnownLoss& loss) {
    const Array count = state.at("count").array();
    const Array is_due = remainder(count, o.update_every) == 0;
    const Subspaces spaces = subspaces(gradients, o);
    const Tree g = widened(gradients);
    const Leaves leaves = g.leaves();
    const std::vector<Tree> old = slots_of_leaves(g, state.at("projectors"));
    Tree projectors = projectors_of(g, spaces, [&](const Subspace& s, std::size_t i) {
      const auto found = [&](const Tree& both) { return Tree(singular_vectors(both.items()[0].array(), s)); };
      const auto kept = [](const Tree& both) { return both.items()[1]; };
      return cond(is_due, found, kept, Tree::list({Tree(as_matrix(leaves[i], s)), old[i].at("projector")})).array();
    });
    const std::vector<Tree> now = slots_of_leaves(g, projectors);
    const auto projector = [&](std::size_t i) { return now[i].at("projector").array(); };
    const Tree low = with_projected(g, spaces, [&](const Subspace& s, std::size_t i) {
      return projected(as_matrix(leaves[i], s), projector(i), s);
    });
    auto [directions, after] = inner_update(inner, low, state.at("inner"), loss);
    const Leaves direction = directions.leaves();
    Tree updates = with_projected(directions, spaces, [&](const Subspace& s, std::size_t i) {
      return o.scale * as_leaf(from_subspace(direction[i], projector(i), s), s, leaves[i].shape());
    });
    return std::pair(
        std::move(updates),
        Tree::dict({{"count", Tree(count + 1)}, {"inner", std::move(after)}, {"projectors", std::move(projectors)}}));
  };
  return wrapping({inner}, init, step);
}

GradientTransformation galore(LearningRate rate, GaloreOptions options) {
  const double weight_decay = options.weight_decay;
  return with_decay(scale_by_galore(std::move(options)), weight_decay, std::move(rate));
}

}  // namespace lockstep::optim
