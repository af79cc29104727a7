#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/optimizer_wrappers.h>
#include <lockstep/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

// Transformations that keep parameters of other times beside those that are trained.
namespace lockstep::optim {
namespace {

/// The update that leads to `target`.
Tree leading_to(const Tree& target, const Tree& params) {
  return map_pairs([](const Array& to, const Array& p) { return wide(to) - convert(p, wide(to).dtype()); }, target,
                   params);
}

}  // namespace

GradientTransformation average_parameters(double decay, AverageParametersOptions options) {
  check_share("average_parameters", "decay", decay);
  check_count("average_parameters", "overwrite_every", options.overwrite_every, 0);
  auto init = [](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())}, {"average", widened(params)}});
  };
  auto update = [=](const Tree& updates, const Tree& state, const Tree& params) {
    const Array count = state.at("count").array() + 1;
    const auto next = [&](const Array& a, const Array& p, const Array& u) {
      const Array moved = convert(p, a.dtype()) + convert(u, a.dtype());
      return where(count == 1, moved, decay * a + (1.0 - decay) * moved);
    };
    Tree average = together(next, state.at("average"), params, updates);
    Tree state_after = Tree::dict({{"count", Tree(count)}, {"average", average}});
    if (options.overwrite_every == 0) return std::pair(updates, std::move(state_after));
    const Array overwrites = remainder(count, options.overwrite_every) == 0;
    return std::pair(choose(overwrites, leading_to(average, params), updates), std::move(state_after));
  };
  return {init, update};
}

GradientTransformation lookahead(GradientTransformation fast, std::int64_t sync_period, double slow_step) {
  check_count("lookahead", "sync_period", sync_period);
  if (!(slow_step > 0 && slow_step <= 1)) {
    throw ValueError(fmt::format("[lookahead] slow_step is {}; it must be above 0 and at most 1", slow_step));
  }
  auto init = [fast](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())}, {"slow", widened(params)}, {"fast", fast.init(params)}});
  };
  auto update_fast = [=](const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    auto [updates, after] = update(fast, gradients, state.at("fast"), params, loss);
    const Array count = state.at("count").array() + 1;
    const Array synchronizes = remainder(count, sync_period) == 0;
    const auto way = [](const Array& slow, const Array& p, const Array& u) {
      return convert(p, slow.dtype()) + convert(u, slow.dtype()) - slow;
    };
    const Tree made = together(way, state.at("slow"), params, updates);
    Tree slow = map_pairs([&](const Array& s, const Array& w) { return where(synchronizes, s + slow_step * w, s); },
                          state.at("slow"), made);
    Tree back = map_pairs(
        [&](const Array& u, const Array& w) { return where(synchronizes, wide(u) - (1.0 - slow_step) * w, wide(u)); },
        updates, made);
    return std::pair(std::move(back),
                     Tree::dict({{"count", Tree(count)}, {"slow", std::move(slow)}, {"fast", std::move(after)}}));
  };
  return wrapping({fast}, init, update_fast);
}

GradientTransformation sam(GradientTransformation optimizer, GradientTransformation adversary,
                           std::int64_t sync_period) {
  check_count("sam", "sync_period", sync_period);
  refuse_function("sam", "its gradients are those uphill of where it starts; give sam another optimizer", optimizer);
  auto init = [=](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())},
                       {"start", params},
                       {"inner", optimizer.init(params)},
                       {"adversary", adversary.init(params)}});
  };
  auto update_both = [=](const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Array place = state.at("count").array();
    const Array is_first = place == 0, is_last = place == sync_period - 1;
    const Tree before = choose(is_first, params, state.at("start"));
    auto [uphill, adversary_after] = update(adversary, gradients, state.at("adversary"), params, loss);
    auto [down, inner_after] = update(optimizer, gradients, state.at("inner"), before, loss);
    const auto chosen = [&](const Array& up, const Array& step, const Array& start, const Array& p) {
      const Array x = wide(step);
      return where(is_last, convert(start, x.dtype()) - convert(p, x.dtype()) + x, -wide(up));
    };
    Tree updates = together(chosen, uphill, down, before, params);
    Tree next = Tree::dict({{"count", Tree(remainder(place + 1, sync_period))},
                            {"start", before},
                            {"inner", choose(is_last, inner_after, state.at("inner"))},
                            {"adversary", choose(is_last, adversary.init(params), adversary_after)}});
    return std::pair(std::move(updates), std::move(next));
  };
  return wrapping({optimizer, adversary}, init, update_both);
}

Tree sam_parameters(const Tree& state, const Tree& params) {
  return choose(state.at("count").array() == 0, params, state.at("start"));
}

GradientTransformation schedule_free(GradientTransformation base, LearningRate rate, ScheduleFreeOptions options) {
  if (!(options.b1 > 0 && options.b1 < 1)) {
    throw ValueError(fmt::format("[schedule_free] b1 is {}; it must be above 0 and below 1", options.b1));
  }
  check_not_negative("schedule_free", "weight_power", options.weight_power);
  auto init = [base](const Tree& params) {
    const Array zero = full({}, 0.0, float64);
    return Tree::dict({{"count", Tree(first_count())},
                       {"weight_sum", Tree(zero)},
                       {"max_rate", Tree(zero)},
                       {"z", widened(params)},
                       {"base", base.init(params)}});
  };
  auto update_base = [=](const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Array count = state.at("count").array() + 1;
    const Array max_rate = maximum(state.at("max_rate").array(), rate.schedule()(count));
    const Array weight = pow(max_rate, full({}, options.weight_power, float64));
    const Array weight_sum = state.at("weight_sum").array() + weight;
    const Array share = where(weight_sum == 0, 0.0, weight / where(weight_sum == 0, 1.0, weight_sum));
    const Array kept = 1.0 - share;
    auto [moves, after] = update(base, gradients, state.at("base"), params, loss);
    const Tree& old = state.at("z");
    Tree z = map_pairs([](const Array& at, const Array& u) { return at + convert(u, at.dtype()); }, old, moves);
    const double b1 = options.b1;
    const auto lead = [&](const Array& before, const Array& now, const Array& p) {
      const Array y = convert(p, before.dtype());
      const Array x = times(kept, (y - (1.0 - b1) * before) / b1) + times(share, now);
      return b1 * x + (1.0 - b1) * now - y;
    };
    Tree updates = together(lead, old, z, params);
    return std::pair(std::move(updates), Tree::dict({{"count", Tree(count)},
                                                     {"weight_sum", Tree(weight_sum)},
                                                     {"max_rate", Tree(max_rate)},
                                                     {"z", std::move(z)},
                                                     {"base", std::move(after)}}));
  };
  return wrapping({base}, init, update_base);
}

Tree schedule_free_parameters(const Tree& state, const Tree& params, double b1) {
  const auto average = [b1](const Array& p, const Array& z) {
    return convert((convert(p, z.dtype()) - (1.0 - b1) * z) / b1, p.dtype());
  };
  return map_pairs(average, params, state.at("z"));
}

GradientTransformation schedule_free_sgd(LearningRate rate, ScheduleFreeOptions options) {
  return schedule_free(sgd(rate), rate, options);
}

GradientTransformation schedule_free_adamw(LearningRate rate, double b2, double epsilon, double weight_decay,
                                           ScheduleFreeOptions options) {
  const RmsOptions squares{.decay = b2, .epsilon = epsilon, .epsilon_in_root = false, .bias_correction = true};
  return schedule_free(with_decay(scale_by_rms(squares), weight_decay, rate), rate, options);
}

}  // namespace lockstep::optim
