#include <cmath>
#include <utility>
#include <vector>

#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

namespace lockstep::optim {
namespace {

/// The scales after a step whose gradients agree by h with the way made so far, and what they are computed from.
Tree next_scales(const MechanizeOptions& o, const Tree& state, const Array& h) {
  const auto at = [&](const char* name) { return state.at(name).array(); };
  std::vector<double> shares;
  for (std::int64_t i = 1; i <= o.estimates; ++i) shares.push_back(1.0 - std::pow(0.1, static_cast<double>(i)));
  const Array scales = at("scales"), before = at("largest");
  const Array decay = convert(array(shares), scales.dtype());
  const Array within = minimum(maximum(h, -before), before);
  const Array largest = maximum(decay * before, abs(h) + o.epsilon);
  const Array squares = square(decay) * at("squares") + square(h);
  const Array sums = decay * at("sums") + within * scales;
  const Array wealth = o.first_scale / static_cast<double>(o.estimates) * largest + maximum(sums, 0);
  return Tree::dict({{"sums", Tree(sums)},
                     {"largest", Tree(largest)},
                     {"squares", Tree(squares)},
                     {"scales", Tree(wealth / (sqrt(squares) + o.epsilon))}});
}

void check_mechanize_options(const MechanizeOptions& options) {
  check_not_negative("mechanize", "weight_decay", options.weight_decay);
  check_positive("mechanize", "epsilon", options.epsilon);
  check_positive("mechanize", "first_scale", options.first_scale);
  check_count("mechanize", "estimates", options.estimates);
}

}  // namespace

GradientTransformation mechanize(GradientTransformation inner, MechanizeOptions options) {
  check_mechanize_options(options);
  auto init = [inner, o = options](const Tree& params) {
    check_real("mechanize", params);
    const auto each = [&](double value) { return Tree(full({o.estimates}, value, dtype_of_sums(params))); };
    return Tree::dict({{"count", Tree(first_count())},
                       {"start", widened(params)},
                       {"sums", each(0)},
                       {"largest", each(0)},
                       {"squares", each(0)},
                       {"scales", each(o.first_scale)},
                       {"inner", inner.init(params)}});
  };
  auto update_inner = [inner, o = options](const Tree& gradients, const Tree& state, const Tree& params,
                                           const KnownLoss& loss) {
    auto [moves, after] = update(inner, gradients, state.at("inner"), params, loss);
    const Array count = state.at("count").array();
    // Parameters may have been replaced behind init.
    Tree start = choose(count == 0, widened(params), state.at("start"));
    const Array scale = sum(state.at("scales").array());
    const Array decay =
        o.weight_decay * scale * sqrt(squared_norm(gradients)) / (sqrt(squared_norm(params)) + o.epsilon);
    const Tree decayed = plus(gradients, decay, params);
    const Array divisor = scale + o.epsilon;
    const auto made = [&](const Array& p, const Array& from) {
      return (from - convert(p, from.dtype())) / convert(divisor, from.dtype());
    };
    const Tree way = map_pairs(made, params, start);
    Tree scales = next_scales(o, state, inner_product(decayed, way));
    const Array next_scale = sum(scales.at("scales").array());
    const auto lead = [&](const Array& from, const Array& w, const Array& u, const Array& p) {
      return from - times(next_scale, w - wide(u)) - convert(p, from.dtype());
    };
    Tree updates = together(lead, start, way, moves, params);
    Tree next = scales.with("count", Tree(count + 1)).with("start", std::move(start)).with("inner", std::move(after));
    return std::pair(std::move(updates), std::move(next));
  };
  return wrapping({inner}, init, update_inner);
}

}  // namespace lockstep::optim
