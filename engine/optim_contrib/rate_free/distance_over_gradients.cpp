#include <utility>

#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"

// Rates that are a distance over the root of a sum of squares: dog and dowg.
namespace lockstep::optim {
namespace {

Tree way_from(const Tree& start, const Tree& params) {
  return map_pairs([](const Array& from, const Array& p) { return from - convert(p, from.dtype()); }, start, params);
}

Tree scaled(const Array& factor, const Tree& updates) {
  return map([&](const Array& u) { return times(factor, wide(u)); }, updates);
}

/// Decay that gradients are given, the rule, the rate.
GradientTransformation with_decayed_gradients(GradientTransformation rule, double weight_decay, LearningRate rate) {
  if (weight_decay == 0) return chain(std::move(rule), scale_by_learning_rate(std::move(rate)));
  return chain(add_decayed_weights(weight_decay), std::move(rule), scale_by_learning_rate(std::move(rate)));
}

Array first_distance(const DogOptions& options, const Tree& params) {
  const DType dtype = dtype_of_sums(params);
  switch (options.start) {
    case DogStart::heuristic:
      return options.value * (1.0 + sqrt(squared_norm(params)));
    case DogStart::distance:
      return full({}, options.value, dtype);
    case DogStart::rate:
      break;
  }
  return full({}, 0.0, dtype);
}

}  // namespace

GradientTransformation scale_by_dog(DogOptions options) {
  check_positive("dog", "value", options.value);
  check_not_negative("dog", "epsilon", options.epsilon);
  auto init = [o = options](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())},
                       {"start", widened(params)},
                       {"distance", Tree(first_distance(o, params))},
                       {"squares", Tree(full({}, 0.0, dtype_of_sums(params)))}});
  };
  auto update = [o = options](const Tree& updates, const Tree& state, const Tree& params) {
    const Array count = state.at("count").array();
    const Array distance =
        maximum(state.at("distance").array(), sqrt(squared_norm(way_from(state.at("start"), params))));
    const Array squares = state.at("squares").array() + squared_norm(updates);
    Array rate = distance / sqrt(squares + o.epsilon);
    if (o.start == DogStart::rate) rate = where(count == 0, o.value, rate);
    return std::pair(scaled(rate, updates), Tree::dict({{"count", Tree(count + 1)},
                                                        {"start", state.at("start")},
                                                        {"distance", Tree(distance)},
                                                        {"squares", Tree(squares)}}));
  };
  return {init, update};
}

GradientTransformation dog(LearningRate rate, DogOptions options) {
  return with_decayed_gradients(scale_by_dog(options), options.weight_decay, std::move(rate));
}

GradientTransformation scale_by_distance_over_gradients(double relative, double epsilon) {
  check_positive("scale_by_distance_over_gradients", "relative", relative);
  check_not_negative("scale_by_distance_over_gradients", "epsilon", epsilon);
  const auto scalars = [](const auto& of_leaf, const Tree& params) { return map(of_leaf, params); };
  auto init = [=](const Tree& params) {
    return Tree::dict({{"start", widened(params)},
                       {"distance", scalars([=](const Array& p) { return relative * (1.0 + leaf_norm(p)); }, params)},
                       {"squares", scalars([](const Array& p) { return zeros_like(leaf_norm(p)); }, params)}});
  };
  auto update = [=](const Tree& updates, const Tree& state, const Tree& params) {
    Tree distance = map([](const Array& d, const Array& way) { return maximum(d, leaf_norm(way)); },
                        state.at("distance"), way_from(state.at("start"), params));
    Tree squares = map([](const Array& s, const Array& u) { return s + sum(magnitude_squared(wide(u))); },
                       state.at("squares"), updates);
    const auto moved = [=](const Array& u, const Array& d, const Array& s) {
      return times(d / sqrt(s + epsilon), wide(u));
    };
    Tree next = together(moved, updates, distance, squares);
    return std::pair(
        std::move(next),
        Tree::dict({{"start", state.at("start")}, {"distance", std::move(distance)}, {"squares", std::move(squares)}}));
  };
  return {init, update};
}

GradientTransformation scale_by_dowg(DowgOptions options) {
  check_not_negative("dowg", "epsilon", options.epsilon);
  const double first = options.squared_distance.value_or(options.epsilon);
  check_positive("dowg", "squared_distance", first);
  auto init = [first](const Tree& params) {
    const DType dtype = dtype_of_sums(params);
    return Tree::dict({{"start", widened(params)},
                       {"squared_distance", Tree(full({}, first, dtype))},
                       {"squares", Tree(full({}, 0.0, dtype))}});
  };
  auto update = [o = options](const Tree& updates, const Tree& state, const Tree& params) {
    const Array distance =
        maximum(state.at("squared_distance").array(), squared_norm(way_from(state.at("start"), params)));
    const Array squares = distance * squared_norm(updates) + state.at("squares").array();
    return std::pair(
        scaled(distance / (sqrt(squares) + o.epsilon), updates),
        Tree::dict({{"start", state.at("start")}, {"squared_distance", Tree(distance)}, {"squares", Tree(squares)}}));
  };
  return {init, update};
}

GradientTransformation dowg(LearningRate rate, DowgOptions options) {
  return with_decayed_gradients(scale_by_dowg(options), options.weight_decay, std::move(rate));
}

}  // namespace lockstep::optim
