#include <utility>

#include <lockstep/control_flow.h>
#include <lockstep/derivatives.h>
#include <lockstep/error.h>
#include <lockstep/optim_contrib/second_order.h>
#include <lockstep/random.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

namespace lockstep::optim {

GradientTransformation hutchinson_estimator_diag_hessian(const Array& key) {
  check_key("hutchinson_estimator_diag_hessian", key);
  auto init = [key](const Tree& params) {
    check_real("hutchinson_estimator_diag_hessian", params);
    return Tree::dict({{"key", Tree(random::key_data(key))}});
  };
  auto rule = [](const Tree&, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Array keys = random::split(random::wrap_key_data(state.at("key").array()));
    Leaves signs = params.leaves();
    const Array of_leaves = random::split(keys[1], static_cast<std::int64_t>(signs.size()));
    for (std::size_t i = 0; i < signs.size(); ++i) {
      signs[i] = random::rademacher(of_leaves[static_cast<std::int64_t>(i)], signs[i].shape(), signs[i].dtype(),
                                    random::same_on_all);
    }
    const Tree directions = params.unflatten(std::move(signs));
    const Tree products = hvp([&](const Tree& at) { return loss.function(at); }, params, directions);
    return std::pair(map_pairs([](const Array& h, const Array& z) { return wide(h) * wide(z); }, products, directions),
                     Tree::dict({{"key", Tree(random::key_data(keys[0]))}}));
  };
  return needing_function(init, rule);
}

GradientTransformation scale_by_sophia(GradientTransformation diagonal, SophiaOptions options) {
  check_moments("sophia", options.b1, options.b2, options.epsilon);
  check_positive("sophia", "gamma", options.gamma);
  check_positive("sophia", "limit", options.limit.value_or(1));
  check_count("sophia", "interval", options.interval);
  auto init = [diagonal](const Tree& params) {
    check_real("sophia", params);
    return first_moments(params).with("diagonal", diagonal.init(params));
  };
  auto update_with = [diagonal, o = options](const Tree& gradients, const Tree& state, const Tree& params,
                                             const KnownLoss& loss) {
    const Array before = state.at("count").array(), count = before + 1;
    Tree mu = next_averages(o.b1, state.at("mu"), gradients);
    const Array mu_scale = correction(o.b1, count);
    const auto direction = [&](const Array& m, const Array& h) {
      const Array d = times(mu_scale, m) / maximum(o.gamma * h, o.epsilon);
      return o.limit ? minimum(maximum(d, -*o.limit), *o.limit) : d;
    };
    Tree updates = map_pairs(direction, mu, state.at("nu"));
    const auto estimated = [&](const Tree& kept) {
      auto [found, after] = update(diagonal, gradients, kept.at("diagonal"), params, loss);
      return Tree::dict({{"diagonal", std::move(after)}, {"nu", next_averages(o.b2, kept.at("nu"), found)}});
    };
    const Tree kept = Tree::dict({{"diagonal", state.at("diagonal")}, {"nu", state.at("nu")}});
    const auto as_it_is = [](const Tree& unchanged) { return unchanged; };
    const Tree next = lockstep::cond(remainder(before, o.interval) == 0, estimated, as_it_is, kept);
    return std::pair(
        std::move(updates),
        Tree::dict(
            {{"count", Tree(count)}, {"mu", std::move(mu)}, {"nu", next.at("nu")}, {"diagonal", next.at("diagonal")}}));
  };
  return wrapping({diagonal}, init, update_with);
}

GradientTransformation sophia(LearningRate rate, GradientTransformation diagonal, SophiaOptions options) {
  return with_decay(scale_by_sophia(std::move(diagonal), options), options.weight_decay, std::move(rate));
}

GradientTransformation sophia(LearningRate rate, const Array& key, SophiaOptions options) {
  return sophia(std::move(rate), hutchinson_estimator_diag_hessian(key), options);
}

}  // namespace lockstep::optim
