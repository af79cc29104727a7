#include <cmath>
#include <utility>

#include <lockstep/optim_contrib/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/inner_products.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

// Rates from a model of the loss along its averaged gradient.
namespace lockstep::optim {
namespace {

/// The averages that the model is made of. `correction` is what 1 - b1^t would be, 1 where averages start from the first
/// value.
struct Model {
  Array loss, product;  ///< Averages of the loss and of <g, p>.
  Array inner;          ///< <m, p>
  Array size;           ///< |m|^2 in the norm of the step.
  Array correction;
};

/// The longest step the model allows, and the next bound of the loss.
struct Bounded {
  Array step, least;
};

Bounded bounded(const MomoOptions& o, const Model& m, const Array& rate, const Array& least_before) {
  const Array grown = 1.0 + rate * o.weight_decay;
  Array least = least_before;
  if (o.adapts) {
    const Array cap = grown * (m.loss - m.product) + m.inner;
    least = where(cap < grown * m.correction * least, maximum(cap / (2.0 * m.correction * grown), o.least_loss), least);
  }
  const Array gap = maximum(grown * (m.loss - m.correction * least - m.product) + m.inner, 0);
  const Array is_flat = m.size <= 0x1p-52;
  const Array allowed = where(is_flat, 0, gap / where(is_flat, 1, m.size));
  const Array step = minimum(rate / m.correction, allowed);
  if (!o.adapts) return {step, least};
  const Array reached = (m.loss + m.inner - m.product - 0.5 * step * m.size) / m.correction;
  return {step, maximum(reached, o.least_loss)};
}

Tree first_momo_state(const char* function, const MomoOptions& options, const Tree& params) {
  check_real(function, params);
  const DType dtype = dtype_of_sums(params);
  return Tree::dict({{"count", Tree(first_count())},
                     {"mu", zeros_of(params)},
                     {"loss", Tree(full({}, 0.0, dtype))},
                     {"product", Tree(full({}, 0.0, dtype))},
                     {"least_loss", Tree(full({}, options.least_loss, dtype))}});
}

void check_momo_options(const char* function, const MomoOptions& options) {
  check_not_negative(function, "weight_decay", options.weight_decay);
  if (!std::isfinite(options.least_loss)) check_not_negative(function, "least_loss", options.least_loss);
}

/// -decay p - step direction.
Tree moved(const MomoOptions& o, const Array& rate, const Array& step, const Tree& direction, const Tree& params) {
  const Array decay = rate * o.weight_decay / (1.0 + rate * o.weight_decay);
  const auto move = [&](const Array& d, const Array& p) {
    if (o.weight_decay == 0) return -times(step, d);
    return -times(decay, convert(p, d.dtype())) - times(step, d);
  };
  return map_pairs(move, direction, params);
}

}  // namespace

GradientTransformation momo(LearningRate rate, double beta, MomoOptions options) {
  check_share("momo", "beta", beta);
  check_momo_options("momo", options);
  auto init = [o = options](const Tree& params) { return first_momo_state("momo", o, params); };
  auto rule = [o = options, rate = std::move(rate), beta](const Tree& gradients, const Tree& state, const Tree& params,
                                                          const KnownLoss& loss) {
    const Array count = state.at("count").array();
    const auto at = [&](const char* name) { return state.at(name).array(); };
    const DType dtype = at("loss").dtype();
    const Array share = where(count == 0, 0.0, full({}, beta, dtype)), fresh = 1.0 - share;
    const Tree g = widened(gradients), p = widened(params);
    const auto mixed = [&](const Array& m, const Array& x) { return decaying(times(share, m) + times(fresh, x)); };
    Tree mu = map_pairs(mixed, state.at("mu"), g);
    const Model model{.loss = share * at("loss") + fresh * convert(loss.value, dtype),
                      .product = share * at("product") + fresh * inner_product(g, p),
                      .inner = inner_product(mu, p),
                      .size = squared_norm(mu),
                      .correction = full({}, 1.0, dtype)};
    const Array now = convert(rate.schedule()(count), dtype);
    const Bounded found = bounded(o, model, now, at("least_loss"));
    Tree updates = moved(o, now, found.step, mu, params);
    return std::pair(std::move(updates), Tree::dict({{"count", Tree(count + 1)},
                                                     {"mu", std::move(mu)},
                                                     {"loss", Tree(model.loss)},
                                                     {"product", Tree(model.product)},
                                                     {"least_loss", Tree(found.least)}}));
  };
  return needing_loss(init, rule);
}

GradientTransformation momo_adam(LearningRate rate, double b1, double b2, double epsilon, MomoOptions options) {
  check_moments("momo_adam", b1, b2, epsilon);
  check_momo_options("momo_adam", options);
  auto init = [o = options](const Tree& params) {
    return first_momo_state("momo_adam", o, params).with("nu", zeros_of(params));
  };
  auto rule = [=, o = options, rate = std::move(rate)](const Tree& gradients, const Tree& state, const Tree& params,
                                                       const KnownLoss& loss) {
    const Array before = state.at("count").array(), count = before + 1;
    const auto at = [&](const char* name) { return state.at(name).array(); };
    const DType dtype = at("loss").dtype();
    const Tree g = widened(gradients), p = widened(params);
    Tree mu = next_averages(b1, state.at("mu"), g);
    Tree nu = next_square_averages(b2, state.at("nu"), g);
    const Array nu_scale = correction(b2, count);
    const Tree direction =
        map_pairs([&](const Array& m, const Array& v) { return m / (epsilon + sqrt(times(nu_scale, v))); }, mu, nu);
    const Model model{.loss = b1 * at("loss") + (1.0 - b1) * convert(loss.value, dtype),
                      .product = b1 * at("product") + (1.0 - b1) * inner_product(g, p),
                      .inner = inner_product(mu, p),
                      .size = inner_product(mu, direction),
                      .correction = convert(1.0 / correction(b1, count), dtype)};
    const Array now = convert(rate.schedule()(before), dtype);
    const Bounded found = bounded(o, model, now, at("least_loss"));
    Tree updates = moved(o, now, found.step, direction, params);
    return std::pair(std::move(updates), Tree::dict({{"count", Tree(count)},
                                                     {"mu", std::move(mu)},
                                                     {"nu", std::move(nu)},
                                                     {"loss", Tree(model.loss)},
                                                     {"product", Tree(model.product)},
                                                     {"least_loss", Tree(found.least)}}));
  };
  return needing_loss(init, rule);
}

}  // namespace lockstep::optim
