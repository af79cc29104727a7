#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/optim_contrib.h>

#include "tests/support/expect_error.h"

// What optimizers refuse: each error says whose argument it is, what was given and what is meant.

using namespace lockstep;
using namespace lockstep::optim;
using tests::expect_error;

namespace {

template <class F>
void refused(const F& make, std::string_view text) {
  expect_error<ValueError>([&] { static_cast<void>(make()); }, text);
}

}  // namespace

TEST_CASE("shares of averages are at least 0 and below 1") {
  refused([] { return adam(0.1, 1.0); },
          "[adam] b1 is 1; give a share of the old average in the new one, at least 0 and below 1");
  refused([] { return adamw(0.1, 0.9, -0.1); }, "[adam] b2 is -0.1;");
  refused([] { return lion(0.1, 0.9, 1.5); }, "[lion] b2 is 1.5;");
  refused([] { return trace(std::nan("")); }, "[trace] decay is nan;");
  refused([] { return sgd(0.1, 1.0); }, "[trace] decay is 1;");
  refused([] { return rmsprop(0.1, {.decay = 1}); }, "[rmsprop] decay is 1;");
  refused([] { return adadelta(0.1, -1); }, "[adadelta] decay is -1;");
  refused([] { return nadam(0.1, 2); }, "[nadam] b1 is 2;");
  refused([] { return adamax(0.1, 0.9, 1); }, "[adamax] b2 is 1;");
  refused([] { return amsgrad(0.1, 0.9, 1); }, "[amsgrad] b2 is 1;");
  refused([] { return adabelief(0.1, 1); }, "[adabelief] b1 is 1;");
  refused([] { return radam(0.1, 0.9, 1); }, "[radam] b2 is 1;");
  refused([] { return yogi(0.1, 1); }, "[yogi] b1 is 1;");
  refused([] { return ademamix(0.1, {.b2 = 1}); }, "[ademamix] b2 is 1;");
  refused([] { return adan(0.1, {.b3 = 1}); }, "[adan] b3 is 1;");
  refused([] { return novograd(0.1, 0.9, 1); }, "[novograd] b2 is 1;");
  refused([] { return scale_by_sm3(1); }, "[sm3] b1 is 1;");
  refused([] { return signum(0.1, 1); }, "[signum] momentum is 1;");
  refused([] { return muon(0.1, {.beta = 1}); }, "[muon] beta is 1;");
  refused([] { return prodigy(0.1, {.b2 = 1}); }, "[prodigy] b2 is 1;");
  refused([] { return madgrad(0.1, 1); }, "[madgrad] momentum is 1;");
  refused([] { return ema(1); }, "[ema] decay is 1;");
  refused([] { return acprop(0.1, 1); }, "[acprop] b1 is 1;");
  refused([] { return adopt(0.1, {.b2 = 1}); }, "[adopt] b2 is 1;");
  refused([] { return simplified_ademamix(0.1, {.b1 = 1}); }, "[simplified_ademamix] b1 is 1;");
  refused([] { return dadapt_adamw(1, {.b2 = 1}); }, "[dadapt_adamw] b2 is 1;");
  refused([] { return momo(1, 1); }, "[momo] beta is 1;");
  refused([] { return momo_adam(1, 0.9, 1); }, "[momo_adam] b2 is 1;");
  refused([] { return sophia(0.1, random::key(0), {.b1 = 1}); }, "[sophia] b1 is 1;");
  refused([] { return average_parameters(1); }, "[average_parameters] decay is 1;");
  refused([] { return schedule_free_sgd(0.1, {.b1 = 0}); }, "[schedule_free] b1 is 0; it must be above 0 and below 1");
}

TEST_CASE("rates, epsilons and decays are finite and not negative") {
  refused([] { return adam(-0.1); }, "[learning rate] -0.1 was given; it must be finite and not negative");
  refused([] { return adagrad(0.1, -1); }, "[adagrad] initial is -1; it must be finite and not negative");
  refused([] { return adam(0.1, 0.9, 0.999, -1e-8); }, "[adam] epsilon is -1e-08;");
  refused([] { return add_decayed_weights(-0.1); }, "[add_decayed_weights] decay is -0.1;");
  refused([] { return adabelief(0.1, 0.9, 0.999, 0, INFINITY); }, "[adabelief] epsilon_root is inf;");
  refused([] { return radam(0.1, 0.9, 0.9, 0, -1); }, "[radam] threshold is -1;");
  refused([] { return novograd(0.1, 0.9, 0.2, 0, -1); }, "[novograd] weight_decay is -1;");
  refused([] { return scale_by_trust_ratio({.min_norm = -1}); }, "[scale_by_trust_ratio] min_norm is -1;");
  refused([] { return scale_by_param_block_norm(-1); }, "[scale_by_param_block_norm] min_scale is -1;");
  refused([] { return scale_by_param_block_rms(-1); }, "[scale_by_param_block_rms] min_scale is -1;");
  refused([] { return adafactor(0.1, {.squares = {.decay = -1}}); }, "[adafactor] decay is -1;");
  refused([] { return optimistic_gradient_descent(0.1, -1); }, "[optimistic_gradient_descent] alpha is -1;");
  refused([] { return add_noise(-1, 0, random::key(0)); }, "[add_noise] eta is -1;");
  refused([] { return acprop(0.1, 0.9, 0.9, 0, -1); }, "[acprop] epsilon_root is -1;");
  refused([] { return dog(1, {.epsilon = -1}); }, "[dog] epsilon is -1;");
  refused([] { return momo(1, 0.9, {.weight_decay = -1}); }, "[momo] weight_decay is -1;");
  refused([] { return mechanize(sgd(1), {.weight_decay = -1}); }, "[mechanize] weight_decay is -1;");
  refused([] { return ftrl(0.1, {.l1 = -1}); }, "[ftrl] l1 is -1;");
  refused([] { return ftrl(0.1, {.power = 1}); }, "[ftrl] power is 1; it must be finite and at most 0");
  refused([] { return ftrl(0.0); }, "[ftrl] the learning rate is 0, by which ftrl divides; give one above 0");
  refused([] { return scale_by_zoom_linesearch({.tolerance = -1}); }, "[scale_by_zoom_linesearch] tolerance is -1;");
  refused([] { return scale(INFINITY); }, "[scale] the factor is inf; it must be finite");
}

TEST_CASE("limits are above 0, and counts at least 1") {
  refused([] { return clip_by_block_rms(0); }, "[clip_by_block_rms] threshold is 0; it must be finite and above 0");
  refused([] { return adaptive_grad_clip(0.1, 0); }, "[adaptive_grad_clip] epsilon is 0;");
  refused([] { return normalize_by_update_norm(0); }, "[normalize_by_update_norm] scale is 0;");
  refused([] { return polyak_sgd({.max_rate = 0}); }, "[polyak_sgd] max_rate is 0;");
  refused([] { return prodigy(0.1, {.first_estimate = 0}); }, "[prodigy] first_estimate is 0;");
  refused([] { return norm_is_not_below(0); }, "[norm_is_not_below] max_squared_norm is 0;");
  refused([] { return multi_steps(sgd(0.1), 0); }, "[multi_steps] k is 0; it must be at least 1");
  refused([] { return apply_if_finite(sgd(0.1), -1); }, "[apply_if_finite] max_consecutive_errors is -1;");
  refused([] { return lookahead(sgd(0.1), 0, 0.5); }, "[lookahead] sync_period is 0;");
  refused([] { return lookahead(sgd(0.1), 2, 1.5); }, "[lookahead] slow_step is 1.5; it must be above 0 and at most 1");
  refused([] { return sam(sgd(0.1), sgd(0.1), 0); }, "[sam] sync_period is 0;");
  refused([] { return lbfgs(0.1, 0); }, "[lbfgs] memory is 0;");
  refused([] { return galore(0.1, {.rank = 0}); }, "[galore] rank is 0;");
  refused([] { return galore(0.1, {.update_every = 0}); }, "[galore] update_every is 0;");
  refused([] { return galore(0.1, {.inner = lbfgs(LbfgsOptions{})}); },
          "the gradients of its subspace are those at the parameters alone");
  refused([] { return dog(1, {.value = 0}); }, "[dog] value is 0;");
  refused([] { return dowg(1, {.squared_distance = 0}); }, "[dowg] squared_distance is 0;");
  refused([] { return scale_by_distance_over_gradients(0); }, "[scale_by_distance_over_gradients] relative is 0;");
  refused([] { return cocob(1, {.alpha = 0}); }, "[cocob] alpha is 0;");
  refused([] { return dadapt_adamw(1, {.first_estimate = 0}); }, "[dadapt_adamw] first_estimate is 0;");
  refused([] { return mechanize(sgd(1), {.estimates = 0}); }, "[mechanize] estimates is 0;");
  refused([] { return sophia(0.1, random::key(0), {.interval = 0}); }, "[sophia] interval is 0;");
  refused([] { return keep_params_max_norm(0); }, "[keep_params_max_norm] max_norm is 0;");
  refused([] { return keep_params_norm_between({.least = 2}); },
          "[keep_params_norm_between] least is 2, largest 1 and rate 1; least is at most largest");
  refused([] { return scale_by_backtracking_linesearch({.max_steps = 0}); },
          "[scale_by_backtracking_linesearch] max_steps is 0;");
  refused([] { return scale_by_backtracking_linesearch({.decrease = 1}); },
          "[scale_by_backtracking_linesearch] decrease is 1 and increase 1.5; decrease is above 0");
  refused([] { return scale_by_zoom_linesearch({.increase = 1}); },
          "[scale_by_zoom_linesearch] increase is 1; it must be above 1");
  refused([] { return rprop(0.1, {.shrink = 1}); },
          "[rprop] shrink is 1, grow 1.2, least 1e-06, largest 50; they must");
  refused([] { return reduce_on_plateau({.factor = 1}); }, "[reduce_on_plateau] factor is 1; it must be above 0");
  refused([] { return reduce_on_plateau({.relative = 0}); }, "relative is 0 and absolute 0; relative is at most 1");
  refused([] { return reduce_on_plateau({.patience = 0}); }, "[reduce_on_plateau] patience is 0;");
}

TEST_CASE("schedules say what they cannot be") {
  using namespace schedules;
  refused([] { return linear(1, 0, 0); }, "[linear] steps is 0; it must be at least 1");
  refused([] { return polynomial(1, 0, -1, 5); }, "[polynomial] power is -1; it must be finite and above 0");
  refused([] { return exponential_decay(1, 5, 0); }, "[exponential_decay] rate is 0;");
  refused([] { return exponential_decay(1, 5, 0.5, {.begin = -1}); }, "[exponential_decay] begin is -1;");
  refused([] { return cosine_restarts({}); }, "[cosine_restarts] there is no cycle; give at least one CosineCycle");
  refused([] { return warmup_stable_decay(1, -1, 0, 1); }, "[warmup_stable_decay] warmup_steps is -1;");
  refused([] { return linear_onecycle(0, 1); }, "[linear_onecycle] steps is 0;");
  refused([] { return linear_onecycle(5, 1, {.rise = 0.9}); },
          "[linear_onecycle] rise is 0.9 and fall 0.85; they must");
  refused([] { return cosine_onecycle(5, 1, {.rise = 1}); }, "[cosine_onecycle] rise is 1; it must");
  refused([] { return join({constant(1)}, {3}); }, "[join] 1 boundaries and 1 schedules; give one schedule more");
  refused([] { return join({constant(1), constant(1), constant(1)}, {3, 3}); }, "[join] boundary 3 follows 3;");
  refused(
      [] {
        return join({constant(1), constant(1)}, {-3});
      },
      "[join] boundary -3 is before the first step; steps count from 0");
  refused([] { return join({constant(1), Schedule()}, {3}); }, "[join] schedule 1 is empty;");
  refused(
      [] {
        return piecewise_constant({-1}, {1, 2});
      },
      "[piecewise_constant] boundary -1 is before the first step;");
  refused(
      [] {
        return cosine_restarts({{}, {.decay_steps = 0}});
      },
      "[cosine_restarts] warmup_steps of cycle 1 is 0, decay_steps 0; decay_steps is the whole cycle's");
}

TEST_CASE("no schedule is made of NaN, nor of what makes NaN of infinity") {
  using namespace schedules;
  refused([] { return constant(NAN); }, "[constant] value is nan; give a number");
  refused([] { return piecewise_constant({3}, {1, NAN}); }, "[piecewise_constant] values[1] is nan; give a number");
  for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    CAPTURE(bad);
    const std::string is = " is " + std::string(std::isnan(bad) ? "nan" : bad > 0 ? "inf" : "-inf");
    const std::string finite = is + "; it must be finite";
    refused([&] { return cosine(bad, 5); }, "[cosine] initial" + finite);
    refused([&] { return cosine(1, 5, bad); }, "[cosine] alpha" + finite);
    refused([&] { return warmup_cosine(bad, 1, 2, 5); }, "[warmup_cosine] initial" + finite);
    refused([&] { return warmup_cosine(0, bad, 2, 5); }, "[warmup_cosine] peak" + finite);
    refused([&] { return warmup_cosine(0, 1, 2, 5, bad); }, "[warmup_cosine] end" + finite);
    refused([&] { return linear(bad, 0, 5); }, "[linear] initial" + finite);
    refused([&] { return linear(1, bad, 5); }, "[linear] end" + finite);
    refused([&] { return polynomial(bad, 0, 2, 5); }, "[polynomial] initial" + finite);
    refused([&] { return polynomial(1, bad, 2, 5); }, "[polynomial] end" + finite);
    refused([&] { return polynomial(1, 0, bad, 5); }, "[polynomial] power" + finite);
    refused([&] { return exponential_decay(bad, 5, 0.5); }, "[exponential_decay] initial" + finite);
    refused([&] { return exponential_decay(1, 5, bad); }, "[exponential_decay] rate" + finite);
    refused([&] { return exponential_decay(1, 5, 0.5, {.end = bad}); }, "[exponential_decay] end" + finite);
    refused([&] { return cosine_restarts({{}, {.initial = bad}}); }, "[cosine_restarts] initial of cycle 1" + finite);
    refused([&] { return cosine_restarts({{.peak = bad}}); }, "[cosine_restarts] peak of cycle 0" + finite);
    refused([&] { return cosine_restarts({{.end = bad}}); }, "[cosine_restarts] end of cycle 0" + finite);
    refused([&] { return warmup_stable_decay(bad, 1, 1, 1); }, "[warmup_stable_decay] peak" + finite);
    refused([&] { return warmup_stable_decay(1, 1, 1, 1, bad); }, "[warmup_stable_decay] initial" + finite);
    refused([&] { return warmup_stable_decay(1, 1, 1, 1, 0, bad); }, "[warmup_stable_decay] end" + finite);
    for (const auto& [name, cycle] :
         {std::pair{"linear_onecycle", &linear_onecycle}, {"cosine_onecycle", &cosine_onecycle}}) {
      const std::string of = std::string("[") + name + "] ";
      refused([&, make = cycle] { return make(5, bad, {}); }, of + "peak" + finite);
      refused([&, make = cycle] { return make(5, 1, {.rise = bad}); }, of + "rise" + is);
      refused([&, make = cycle] { return make(5, 1, {.start_divisor = bad}); }, of + "start_divisor" + finite);
      refused([&, make = cycle] { return make(5, 1, {.final_divisor = bad}); }, of + "final_divisor" + finite);
    }
    refused([&] { return linear_onecycle(5, 1, {.fall = bad}); },
            "[linear_onecycle] rise is 0.3 and fall" + is.substr(3));
  }
}

TEST_CASE("schedules count as far as there are numbers, and pass over what no step reaches") {
  using namespace schedules;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(), wide = std::int64_t{1} << 40;
  refused([] { return warmup_stable_decay(1, 1, most, 1); },
          "[warmup_stable_decay] its steps are 1 + 9223372036854775807 + 1 in all, more than can be counted;");
  refused(
      [] {
        return cosine_restarts({{.decay_steps = most}, {.decay_steps = 2}});
      },
      "[cosine_restarts] its steps are 9223372036854775807 + 2 in all");
  const auto at = [](const Schedule& schedule, std::int32_t step) { return schedule(array(step)).item<double>(); };
  constexpr std::int32_t last = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t step : {5, last}) {
    CAPTURE(step);
    CHECK(at(warmup_stable_decay(3, 5, most - 6, 1), step) == 3);
    CHECK(at(piecewise_constant({2, wide}, {1, 2, 3}), step) == 2);
    CHECK(at(piecewise_constant({last}, {1, 2}), step) == 1);
    CHECK(at(join({constant(1), constant(2)}, {most}), step) == 1);
    CHECK(at(join({constant(1), constant(2)}, {last}), step) == (step == last ? 2 : 1));
  }
  CHECK(at(linear_onecycle(wide, 1, {.start_divisor = 4}), 0) == 0.25);
  CHECK(at(cosine_onecycle(wide, 1, {.start_divisor = 4}), 0) == 0.25);
  // What may be meant: no limit yet, a part that is left out, values below 0.
  CHECK(at(piecewise_constant({3}, {INFINITY, 1}), 3) == INFINITY);
  CHECK(at(join({constant(1), constant(2)}, {0}), 0) == 2);
  CHECK(at(warmup_stable_decay(1, 0, 0, 4), 0) == 1);
  CHECK(at(linear(-1, 1, 4), 1) == -0.5);
}

TEST_CASE("leaves that an optimizer cannot take are named") {
  const Tree params = Tree::dict({{"z", Tree(complex(ones({2}), ones({2})))}});
  for (const GradientTransformation& t : {rprop(0.1),
                                          prodigy(),
                                          lbfgs(0.1),
                                          scale_by_sm3(),
                                          keep_params_nonnegative(),
                                          add_noise(1, 1, random::key(0)),
                                          clip_by_value(1),
                                          cocob(),
                                          dadapt_adamw(),
                                          momo(),
                                          momo_adam(),
                                          mechanize(sgd(1)),
                                          ftrl(0.1),
                                          adopt(0.1),
                                          lbfgs(LbfgsOptions{}),
                                          scale_by_backtracking_linesearch(),
                                          scale_by_zoom_linesearch(),
                                          sophia(0.1, random::key(0)),
                                          hutchinson_estimator_diag_hessian(random::key(0)),
                                          madgrad(0.1),
                                          galore(0.1)}) {
    expect_error<DtypeError>([&] { static_cast<void>(t.init(params)); },
                             "leaf 'z' is c64[2]: it takes real leaves alone");
  }
  expect_error<ShapeError>(
      [] {
        static_cast<void>(scale_by_muon().init(Tree::dict({{"b", Tree(zeros({3}))}})));
      },
      "[muon] leaf 'b' is f32[3]: matrices alone", "nadam");
  for (const MatrixAxes& axes : {MatrixAxes{{0}, {0}}, MatrixAxes{{0}, {1}}, MatrixAxes{{}, {0, 1, 2}}}) {
    const auto all = [axes](const std::string&, const Array&) { return std::optional(axes); };
    expect_error<ShapeError>(
        [&] {
          static_cast<void>(scale_by_galore({.axes = all}).init(Tree::dict({{"b", Tree(zeros({3, 2, 4}))}})));
        },
        "[galore] leaf 'b' is f32[3,2,4]; axes are rows [", "each axis of the leaf must be in one of them, once");
  }
  const Tree matrix = Tree::dict({{"b", Tree(ones({3, 2}))}});
  for (const GradientTransformation& inner : {add_decayed_weights(0.1), adamw(0.1), lamb(0.1)}) {
    expect_error<StateError>(
        [&] {
          const GradientTransformation t = scale_by_galore({.inner = inner});
          static_cast<void>(t.update(matrix, t.init(matrix), matrix));
        },
        "[galore] its inner transformation reads the parameters", "as scale_by_adam");
  }
  const Tree deep = Tree(zeros({2, 1, 1, 1, 1, 2}));
  expect_error<ShapeError>([&] { static_cast<void>(adaptive_grad_clip(0.1).update(deep, Tree(), deep)); },
                           "[adaptive_grad_clip] a leaf is f32[2,1,1,1,1,2]");
  expect_error<DtypeError>([] { static_cast<void>(add_noise(1, 1, zeros({2}))); }, "[add_noise] the key is f32[2]");
  expect_error<ShapeError>(
      [] {
        static_cast<void>(keep_params_unit_norm({1}).init(Tree::dict({{"b", Tree(zeros({3}))}})));
      },
      "[keep_params_unit_norm] leaf 'b' is f32[3], which has no dimension 1", "masked");
}

TEST_CASE("a label without a transformation, and one that freezes") {
  const auto label = [](const std::string& path, const Array&) { return path; };
  const auto parts = partition({{"a", sgd(0.1)}}, label);
  expect_error<ValueError>(
      [&] {
        static_cast<void>(parts.init(Tree::dict({{"b", Tree(array(1.0))}})));
      },
      "[partition] leaf 'b' is labelled 'b', for which there is no transformation");
  refused(
      [&] {
        return partition({{"a", freeze(below("x"))}}, label);
      },
      "[partition] the transformation of 'a' freezes leaves");
}

TEST_CASE("what needs the loss says so where there is none") {
  const Tree params = Tree(array(1.0));
  for (const GradientTransformation& t :
       {polyak_sgd(), chain(sgd(0.1), reduce_on_plateau()), multi_steps(polyak_sgd(), 2)}) {
    CHECK(static_cast<bool>(t.update_with_loss));
    expect_error<StateError>([&] { static_cast<void>(t.update(params, t.init(params), params)); },
                             "[update] this transformation needs the loss", "optim::update(");
  }
}

TEST_CASE("what asks for the loss at other parameters says so where there is none, and where it cannot be") {
  const Tree params = Tree(array(1.0));
  for (const GradientTransformation& t : {lbfgs(LbfgsOptions{}), chain(sgd(1), scale_by_backtracking_linesearch()),
                                          sophia(0.1, random::key(0)), mechanize(scale_by_zoom_linesearch())}) {
    CHECK(t.needs_function);
    expect_error<StateError>([&] { static_cast<void>(update(t, params, t.init(params), params, array(1.0))); },
                             "[update] this transformation asks for the loss at other parameters", "{loss, function}");
  }
  CHECK(!lbfgs(0.1).needs_function);
  refused([] { return multi_steps(lbfgs(LbfgsOptions{}), 2); },
          "[multi_steps] the inner transformation asks for the loss at other parameters: its gradients are the mean");
  refused([] { return sam(lbfgs(LbfgsOptions{}), sgd(1)); },
          "[sam] the inner transformation asks for the loss at other parameters: its gradients are those uphill");
}

TEST_CASE("a search in a loop of one's own goes on with the loss and gradient that it came to") {
  const ValueFunction bowl = [](const Tree& p) { return square(p.at("x").array() - 3.0) + square(p.at("y").array()); };
  const GradientTransformation t = lbfgs(LbfgsOptions{});
  Tree params = Tree::dict({{"x", Tree(array(1.0))}, {"y", Tree(array(2.0))}});
  Tree state = t.init(params);
  for (int i = 0; i < 4; ++i) {
    const auto [loss, gradient] = value_and_grad_from_state(bowl, params, state);
    const auto [expected, slope] = value_and_grad(bowl)(params);
    CHECK(loss.item<double>() == doctest::Approx(expected.item<double>()).epsilon(1e-12));
    CHECK(global_norm(map([](const Array& a, const Array& b) { return a - b; }, gradient, slope)).item<double>() <
          1e-12);
    auto [updates, next] = update(t, gradient, state, params, {loss, bowl});
    params = apply_updates(params, updates);
    state = next;
  }
  CHECK(params.at("x").array().item<double>() == doctest::Approx(3).epsilon(1e-6));
  expect_error<StateError>([&] { static_cast<void>(value_and_grad_from_state(bowl, params, Tree())); },
                           "has no \"value\" and \"grad\"; give that of scale_by_zoom_linesearch");
}

TEST_CASE("a search of one part of the parameters leaves the others where they are") {
  const ValueFunction bowl = [](const Tree& p) { return square(p.at("x").array() - 3.0) + square(p.at("y").array()); };
  const Tree params = Tree::dict({{"x", Tree(array(1.0))}, {"y", Tree(array(2.0))}});
  const Tree gradient = grad(bowl)(params);
  const auto label = [](const std::string& path, const Array&) { return path; };
  for (const GradientTransformation& t :
       {chain(masked(lbfgs(LbfgsOptions{}), below("x")), masked(scale(0), below("y"))),
        partition({{"x", lbfgs(LbfgsOptions{})}, {"y", scale(0)}}, label)}) {
    const Tree updates = update(t, gradient, t.init(params), params, {bowl(params), bowl}).first;
    CHECK(updates.at("x").array().item<double>() > 0);
    CHECK(updates.at("y").array().item<double>() == 0);
  }
}

TEST_CASE("each transformation says whether it is linear in the gradients") {
  const auto label = [](const std::string&, const Array&) { return std::string("a"); };
  for (const GradientTransformation& t :
       {identity(), scale(2), scale_by_learning_rate(0.1), trace(0.9), sgd(0.1, 0.9), ema(0.9), centralize(),
        freeze(below("a")), masked(scale(2), below("a")), multi_steps(sgd(0.1), 2), partition({{"a", sgd(0.1)}}, label),
        monitor({{"norm", global_norm}})}) {
    CHECK(t.linear);
  }
  for (const GradientTransformation& t :
       {adam(0.1), lion(0.1), clip_by_value(1), clip_by_global_norm(1), add_decayed_weights(0.1), zero_nans(),
        chain(sgd(0.1), clip_by_value(1)), multi_steps(sgd(0.1), 2, {.skip = not_finite}), apply_if_finite(sgd(0.1), 1),
        rmsprop(0.1), muon(0.1), add_noise(1, 1, random::key(0))}) {
    CHECK(!t.linear);
  }
}

TEST_CASE("monitor measures where it stands") {
  const auto t = chain(monitor({{"before", global_norm}}), scale(0.5), monitor({{"after", global_norm}}));
  const Tree params = Tree(array({3.0F, 4.0F}));
  const Tree state = t.update(params, t.init(params), params).second;
  CHECK(state.at("0/before").array().item<float>() == 5);
  CHECK(state.at("2/after").array().item<float>() == 2.5F);
}

TEST_CASE("a rate in the state is replaced without a new trace") {
  const auto t = inject_hyperparams([](const Named<LearningRate>& v) { return sgd(v.at("rate")); }, {{"rate", 0.5}});
  const Tree params = Tree(array(1.0));
  Tree state = t.init(params);
  const auto step = jit([&](const Tree& g, const Tree& s) { return t.update(g, s, g); });
  auto [half, next] = step(params, state);
  CHECK(half.array().item<double>() == -0.5);
  CHECK(step(params, next.with("values/rate", Tree(array(0.25)))).first.array().item<double>() == -0.25);
  CHECK(step.traces() == 1);
}

TEST_CASE("what sam and schedule_free are evaluated with") {
  const auto s = sam(sgd(1.0), chain(normalize(), sgd(0.5)), 2);
  Tree params = Tree(array(2.0));
  auto [uphill, state] = s.update(Tree(array(4.0)), s.init(params), params);
  const Tree at = apply_updates(params, uphill);
  CHECK(at.array().item<double>() == 2.5);
  CHECK(sam_parameters(state, at).array().item<double>() == 2);
  const auto f = schedule_free_sgd(0.5);
  auto [moved, after] = f.update(Tree(array(1.0)), f.init(params), params);
  // The first z is all of the average.
  CHECK(schedule_free_parameters(after, apply_updates(params, moved)).array().item<double>() == doctest::Approx(1.5));
}
