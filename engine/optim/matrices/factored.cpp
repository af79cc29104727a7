#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/optimizers.h>
#include <lockstep/reductions.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/scaled_norm.h"
#include "engine/optim/slots_by_leaf.h"

// Optimizers whose squares are kept as one number for each slice.
namespace lockstep::optim {
namespace {

/// The two largest dimensions of a leaf.
struct Dimensions {
  int second, largest;
};

std::optional<Dimensions> dimensions_of(const Array& leaf, const FactoredRmsOptions& options) {
  const Shape& shape = leaf.shape();
  if (!options.factored || shape.rank() < 2) return std::nullopt;
  std::vector<int> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return shape[a] < shape[b]; });
  const Dimensions both{order[order.size() - 2], order.back()};
  if (shape[both.second] < options.least_dimension) return std::nullopt;
  return both;
}

Tree first_slots(const Array& leaf, const FactoredRmsOptions& options) {
  // In float64: squares of large gradients are beyond float32.
  const auto dimensions = dimensions_of(leaf, options);
  if (!dimensions) return Tree::dict({{"all", Tree(zeros(leaf.shape(), float64))}});
  return Tree::dict({{"row", Tree(zeros(leaf.shape().erase(dimensions->largest), float64))},
                     {"column", Tree(zeros(leaf.shape().erase(dimensions->second), float64))}});
}

/// The leaf's update and its slots; `share` is that of the old squares.
std::pair<Array, Tree> factored_update(const Array& g, const Tree& slots, const Array& share,
                                       const FactoredRmsOptions& options) {
  const auto next = [&](const std::string& name, const Array& squares) {
    return share * slots.at(name).array() + (1.0 - share) * (squares + options.epsilon);
  };
  const DType dtype = real(g).dtype();
  const auto dimensions = dimensions_of(g, options);
  if (!dimensions) {
    const DType wide = is_complex(g.dtype()) ? complex128 : float64;
    const Array all = next("all", magnitude_squared(convert(g, wide)));
    return {g * convert(rsqrt(all), dtype), Tree::dict({{"all", Tree(all)}})};
  }
  const auto [second, largest] = *dimensions;
  const auto mean_along = [&](std::int64_t dimension) {
    if (!is_complex(g.dtype())) return wide_mean_of_squares(g, dimension);
    return wide_mean_of_squares(real(g), dimension) + wide_mean_of_squares(imag(g), dimension);
  };
  const Array row = next("row", mean_along(largest));
  const Array column = next("column", mean_along(second));
  const Array typical = mean(row, {{second > largest ? second - 1 : second}}, true);
  const Array update = g * expand_dims(convert(rsqrt(row / typical), dtype), {largest}) *
                       expand_dims(convert(rsqrt(column), dtype), {second});
  return {update, Tree::dict({{"row", Tree(row)}, {"column", Tree(column)}})};
}

/// Of a slice's numbers, as many as `dimension` has: they broadcast to the leaf.
Array across(const Array& slices, const Shape& shape, int dimension) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(shape.rank()), 1);
  if (dimension < shape.rank()) extents[static_cast<std::size_t>(dimension)] = shape[dimension];
  return reshape(slices, extents);
}

/// The largest squares that each slice was seen to have: none.
Tree first_slices(const Array& leaf) {
  std::vector<Tree> slots;
  for (const std::int64_t extent : leaf.shape()) slots.emplace_back(zeros({extent}, wide(leaf).dtype()));
  if (slots.empty()) slots.emplace_back(zeros({}, wide(leaf).dtype()));
  return Tree::list(std::move(slots));
}

/// The least of what the slices that cross in an element have.
Array least_of(const Array& g, const Tree& slots) {
  Array least = across(slots.items()[0].array(), g.shape(), 0);
  for (int i = 1; i < g.shape().rank(); ++i) {
    least = minimum(least, across(slots.items()[static_cast<std::size_t>(i)].array(), g.shape(), i));
  }
  return least;
}

Tree largest_of_slices(const Array& squares) {
  const int rank = squares.shape().rank();
  if (rank < 2) return Tree::list({Tree(squares)});
  std::vector<Tree> slots;
  for (int i = 0; i < rank; ++i) {
    std::vector<std::int64_t> others;
    for (int k = 0; k < rank; ++k) {
      if (k != i) others.push_back(k);
    }
    slots.emplace_back(lax::reduce_max({squares}, {{"axes", others}})[0]);  // of no elements, too
  }
  return Tree::list(std::move(slots));
}

}  // namespace

GradientTransformation scale_by_factored_rms(FactoredRmsOptions options) {
  check_not_negative("adafactor", "decay", options.decay);
  check_not_negative("adafactor", "epsilon", options.epsilon);
  check_count("adafactor", "least_dimension", options.least_dimension);
  auto init = [o = options](const Tree& params) {
    std::vector<Tree> slots;
    for (const Array& leaf : params.leaves()) slots.push_back(first_slots(leaf, o));
    return Tree::dict({{"count", Tree(first_count())}, {"slots", slots_by_leaf(params, slots)}});
  };
  auto update = [o = options](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    const Array share = 1.0 - pow(convert(count, float64), full({}, -o.decay, float64));
    const std::vector<Tree> old = slots_of_leaves(gradients, state.at("slots"));
    const Leaves leaves = gradients.leaves();
    Leaves updates;
    std::vector<Tree> slots;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      auto [u, next] = factored_update(wide(leaves[i]), old[i], share, o);
      updates.push_back(std::move(u));
      slots.push_back(std::move(next));
    }
    return std::pair(gradients.unflatten(std::move(updates)),
                     Tree::dict({{"count", Tree(count)}, {"slots", slots_by_leaf(gradients, slots)}}));
  };
  return {init, update};
}

GradientTransformation adafactor(LearningRate rate, AdafactorOptions options) {
  check_not_negative("adafactor", "clipping_threshold", options.clipping_threshold);
  std::vector<GradientTransformation> parts{scale_by_factored_rms(options.squares)};
  if (options.clipping_threshold != 0) parts.push_back(clip_by_block_rms(options.clipping_threshold));
  parts.push_back(chain(scale_by_learning_rate(std::move(rate)), scale(-1)));
  if (options.multiply_by_parameter_scale) parts.push_back(scale_by_param_block_rms(1e-3));
  if (options.momentum != 0) parts.push_back(ema(options.momentum, false));
  if (options.weight_decay != 0) parts.push_back(add_decayed_weights(options.weight_decay));
  parts.push_back(scale(-1));
  return chain(std::move(parts));
}

GradientTransformation scale_by_sm3(double b1, double b2, double epsilon) {
  check_share("sm3", "b1", b1);
  if (b2 != 1) check_share("sm3", "b2", b2);
  check_not_negative("sm3", "epsilon", epsilon);
  auto init = [](const Tree& params) {
    check_real("sm3", params);
    std::vector<Tree> slots;
    for (const Array& leaf : params.leaves()) slots.push_back(first_slices(leaf));
    return Tree::dict({{"mu", zeros_of(params)}, {"slots", slots_by_leaf(params, slots)}});
  };
  auto update = [=](const Tree& gradients, const Tree& state, const Tree&) {
    const std::vector<Tree> old = slots_of_leaves(gradients, state.at("slots"));
    const Leaves leaves = gradients.leaves();
    Leaves scaled;
    std::vector<Tree> slots;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Array g = wide(leaves[i]);
      const Array squares = (b2 == 1 ? 1.0 : 1.0 - b2) * (g * g) + b2 * least_of(g, old[i]);
      scaled.push_back(g * where(squares > 0, rsqrt(squares + epsilon), 0.0));
      slots.push_back(largest_of_slices(squares));
    }
    Tree mu = next_averages(b1, state.at("mu"), gradients.unflatten(std::move(scaled)));
    Tree updates = mu;
    return std::pair(std::move(updates),
                     Tree::dict({{"mu", std::move(mu)}, {"slots", slots_by_leaf(gradients, slots)}}));
  };
  return {init, update};
}

GradientTransformation sm3(LearningRate rate, double momentum) {
  return chain(scale_by_sm3(momentum), scale_by_learning_rate(std::move(rate)));
}

}  // namespace lockstep::optim
