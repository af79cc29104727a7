#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/optimizer_wrappers.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

// Rates that are no constants of the program: the state holds them.
namespace lockstep::optim {
namespace {

void check_plateau_options(const PlateauOptions& o) {
  if (!(o.factor > 0 && o.factor < 1)) {
    throw ValueError(fmt::format("[reduce_on_plateau] factor is {}; it must be above 0 and below 1", o.factor));
  }
  check_not_negative("reduce_on_plateau", "relative", o.relative);
  check_not_negative("reduce_on_plateau", "absolute", o.absolute);
  check_not_negative("reduce_on_plateau", "min_scale", o.min_scale);
  if (o.relative > 1 || (o.relative == 0 && o.absolute == 0)) {
    throw ValueError(fmt::format(
        "[reduce_on_plateau] relative is {} and absolute {}; relative is at most 1, and one of both must be above 0",
        o.relative, o.absolute));
  }
  check_count("reduce_on_plateau", "patience", o.patience);
  check_count("reduce_on_plateau", "cooldown", o.cooldown, 0);
  check_count("reduce_on_plateau", "average_over", o.average_over);
}

/// The state with this loss in it.
Tree after_loss(const PlateauOptions& o, const Tree& state, const Array& loss) {
  const auto at = [&](const char* name) { return state.at(name).array(); };
  const Array count = at("count") + 1;
  const Array average = at("average") + (convert(loss, float64) - at("average")) / convert(count, float64);
  const Array is_full = count == o.average_over;
  const Array better = average < (1.0 - o.relative) * at("best") - o.absolute;
  const Array worse = where(better, 0, at("plateau") + 1);
  const Array cools = at("cooldown") > 0;
  const Array reduces = logical_and(worse == o.patience, logical_not(cools));
  const Array scale = maximum(where(reduces, at("scale") * o.factor, at("scale")), o.min_scale);
  const Array plateau = where(logical_or(cools, reduces), 0, worse);
  const Array cooldown = where(cools, at("cooldown") - 1, where(reduces, full({}, o.cooldown, int32), 0));
  const auto if_full = [&](const Array& now, const char* name) { return Tree(where(is_full, now, at(name))); };
  return Tree::dict({{"scale", if_full(scale, "scale")},
                     {"best", if_full(where(better, average, at("best")), "best")},
                     {"plateau", if_full(plateau, "plateau")},
                     {"cooldown", if_full(cooldown, "cooldown")},
                     {"count", Tree(where(is_full, 0, count))},
                     {"average", Tree(where(is_full, 0.0, average))}});
}

}  // namespace

GradientTransformation reduce_on_plateau(PlateauOptions options) {
  check_plateau_options(options);
  auto init = [](const Tree&) {
    return Tree::dict({{"scale", Tree(full({}, 1.0, float64))},
                       {"best", Tree(full({}, std::numeric_limits<double>::infinity(), float64))},
                       {"plateau", Tree(first_count())},
                       {"cooldown", Tree(first_count())},
                       {"count", Tree(first_count())},
                       {"average", Tree(full({}, 0.0, float64))}});
  };
  auto update = [o = options](const Tree& updates, const Tree& state, const Tree&, const KnownLoss& loss) {
    Tree next = after_loss(o, state, loss.value);
    const Array scale = next.at("scale").array();
    return std::pair(map([&](const Array& u) { return times(scale, wide(u)); }, updates), std::move(next));
  };
  return needing_loss(init, update);
}

GradientTransformation inject_hyperparams(std::function<GradientTransformation(const Named<LearningRate>& values)> make,
                                          Named<LearningRate> values) {
  const auto standing = [](const Tree& state) {
    std::map<std::string, LearningRate> rates;
    for (const auto& [name, value] : state.entries()) {
      rates.emplace(name, Schedule([held = value.array()](const Array&) { return held; }));
    }
    return Named<LearningRate>(std::move(rates));
  };
  const auto at = [values](const Array& count, const Tree* before) {
    std::map<std::string, Tree> now;
    for (const auto& [name, rate] : values) {
      const bool stays = before != nullptr && rate.is_number();
      now.emplace(name, stays ? before->at(name) : Tree(rate.schedule()(count)));
    }
    return Tree::dict(std::move(now));
  };
  const GradientTransformation inner = make(values);
  auto init = [inner, at](const Tree& params) {
    return Tree::dict(
        {{"count", Tree(first_count())}, {"values", at(first_count(), nullptr)}, {"inner", inner.init(params)}});
  };
  auto update_with = [=](const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Array count = state.at("count").array();
    Tree now = at(count, &state.at("values"));
    auto [updates, after] = update(make(standing(now)), gradients, state.at("inner"), params, loss);
    return std::pair(std::move(updates),
                     Tree::dict({{"count", Tree(count + 1)}, {"values", std::move(now)}, {"inner", std::move(after)}}));
  };
  GradientTransformation all = wrapping({inner}, init, update_with);
  all.linear = inner.linear;
  return all;
}

}  // namespace lockstep::optim
