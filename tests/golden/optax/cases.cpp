#include "tests/golden/optax/cases.h"

#include <lockstep/optim_contrib.h>

namespace lockstep::tests::optax {
namespace {

using optim::chain;
using optim::GradientTransformation;
using optim::MatrixAxes;
using optim::scale;

GradientTransformation descending(GradientTransformation t) { return chain(std::move(t), scale(-0.1)); }

Schedule ramp() { return schedules::linear(0.1, 0.01, 8); }

/// 1 while fewer than two updates have been made, then 3.
Array one_then_three(const Array& updates) { return where(updates < 2, full({}, 1.0, float64), 3.0); }

std::optional<MatrixAxes> matrix_of_conv(const std::string& path, const Array&) {
  if (path != "conv") return std::nullopt;
  return MatrixAxes{.rows = {0, 2}, .columns = {3, 1}};
}

std::vector<Case> with_moments() {
  using namespace optim;
  return {
      {"sgd", {"optim::sgd"}, sgd(0.1, 0.9, true)},
      {"adam", {"optim::adam"}, adam(0.1, 0.8, 0.95, 1e-6)},
      {"adamw", {"optim::adamw"}, adamw(ramp(), 0.9, 0.999, 1e-8, 0.01)},
      {"lion", {"optim::lion"}, lion(0.01, 0.9, 0.99, 0.1)},
      {"rmsprop", {"optim::rmsprop", "optim::scale_by_rms"}, rmsprop(0.01, {.decay = 0.8, .epsilon = 1e-6})},
      {"rmsprop_centered",
       {"optim::rmsprop"},
       rmsprop(0.01, {.decay = 0.8, .initial = 0.5, .centered = true}, 0.7, true)},
      {"rmsprop_corrected",
       {"optim::rmsprop"},
       rmsprop(0.01, {.decay = 0.8, .epsilon_in_root = false, .bias_correction = true})},
      {"adagrad", {"optim::adagrad", "optim::scale_by_rss"}, adagrad(0.1)},
      {"adadelta", {"optim::adadelta", "optim::scale_by_adadelta"}, adadelta(0.5, 0.8, 1e-4)},
      {"nadam", {"optim::nadam", "optim::scale_by_nadam"}, nadam(0.1)},
      {"nadamw", {"optim::nadamw"}, nadamw(0.1, 0.9, 0.999, 1e-8, 0.01)},
      {"adamax", {"optim::adamax", "optim::scale_by_adamax"}, adamax(0.1)},
      {"adamaxw", {"optim::adamaxw"}, adamaxw(0.1, 0.9, 0.999, 1e-8, 0.01)},
      {"amsgrad", {"optim::amsgrad", "optim::scale_by_amsgrad"}, amsgrad(0.1, 0.9, 0.7)},
      {"adabelief", {"optim::adabelief", "optim::scale_by_belief"}, adabelief(0.1)},
      {"radam", {"optim::radam", "optim::scale_by_radam"}, radam(0.1, 0.9, 0.9)},
      {"yogi", {"optim::yogi", "optim::scale_by_yogi"}, yogi(0.1)},
      {"ademamix",
       {"optim::ademamix", "optim::scale_by_ademamix"},
       ademamix(0.1, {.b3 = 0.99, .alpha = schedules::linear(0.0, 5.0, 6), .weight_decay = 0.01})},
      {"adan", {"optim::adan", "optim::scale_by_adan"}, adan(0.1, {.weight_decay = 0.01})},
      {"acprop", {"optim::acprop", "optim::scale_by_acprop"}, acprop(0.1, 0.9, 0.99, 1e-16, 1e-16, 0.01)},
      {"adopt", {"optim::adopt", "optim::scale_by_adopt"}, adopt(0.1, {.b2 = 0.99}), false, false},
      {"adopt_nesterov", {"optim::adopt"}, adopt(0.1, {.b2 = 0.9, .nesterov = true, .clips = false}), false, false},
      {"simplified_ademamix",
       {"optim::simplified_ademamix", "optim::scale_by_simplified_ademamix"},
       simplified_ademamix(0.01, {.b1 = 0.9,
                                  .b2 = 0.95,
                                  .alpha = schedules::linear(0.0, 5.0, 6),
                                  .epsilon_root = 1e-4,
                                  .weight_decay = 0.01})},
  };
}

std::vector<Case> by_layer() {
  using namespace optim;
  return {
      {"lamb", {"optim::lamb"}, lamb(0.1, 0.9, 0.999, 1e-6, 0.01)},
      {"lars", {"optim::lars"}, lars(0.5, {.weight_decay = 0.01, .coefficient = 0.1, .momentum = 0.8})},
      {"lars_masked",
       {"optim::lars"},
       lars(0.5, {.weight_decay = 0.01,
                  .coefficient = 0.1,
                  .epsilon = 1e-3,
                  .momentum = 0.8,
                  .nesterov = true,
                  .decayed = below("kernel"),
                  .scaled = below("conv")})},
      {"fromage", {"optim::fromage"}, fromage(0.1)},
      {"novograd", {"optim::novograd", "optim::scale_by_novograd"}, novograd(0.1, 0.9, 0.25, 1e-6, 0.01)},
      {"adafactor",
       {"optim::adafactor", "optim::scale_by_factored_rms"},
       adafactor(0.1, {.squares = {.least_dimension = 2}})},
      {"adafactor_momentum",
       {"optim::adafactor"},
       adafactor(0.1, {.squares = {.factored = false}, .momentum = 0.9, .weight_decay = 0.01})},
      {"sm3",
       {"optim::sm3", "optim::scale_by_sm3"},
       chain(masked(scale_by_sm3(0.9), [](std::string_view path) { return path != "scale"; }), scale(-0.1)),
       false,
       false},
      {"sm3_averaged",
       {"optim::scale_by_sm3"},
       chain(masked(scale_by_sm3(0.5, 0.9), below("conv")), scale(-0.1)),
       false,
       false},
      {"muon", {"optim::muon", "optim::scale_by_muon"}, muon(0.1, {.weight_decay = 0.01})},
      {"muon_plain", {"optim::muon"}, muon(0.1, {.beta = 0.8, .nesterov = false, .steps = 3})},
      {"galore",
       {"optim::galore", "optim::scale_by_galore"},
       galore(0.1, {.rank = 1, .update_every = 3, .scale = 0.5, .weight_decay = 0.01}),
       false,
       false},
      {"galore_axes",
       {"optim::galore"},
       galore(ramp(), {.rank = 5, .update_every = 4, .inner = scale_by_lion(), .axes = matrix_of_conv}),
       false,
       false},
  };
}

std::vector<Case> other_cases() {
  using namespace optim;
  return {
      {"sign_sgd", {"optim::sign_sgd", "optim::scale_by_sign"}, sign_sgd(0.01)},
      {"signum", {"optim::signum"}, signum(0.01, 0.8)},
      {"rprop", {"optim::rprop"}, rprop(0.1), false, false},
      {"optimistic",
       {"optim::optimistic_gradient_descent", "optim::scale_by_optimistic_gradient"},
       optimistic_gradient_descent(0.1, 0.7, 0.4)},
      {"optimistic_adam", {"optim::optimistic_adam"}, optimistic_adam(ramp(), {.alpha = 0.7, .beta = 0.4, .b2 = 0.95})},
      {"ftrl", {"optim::ftrl"}, ftrl(0.1, {.l1 = 0.05, .l2 = 0.02}), false, false},
      {"ftrl_power",
       {"optim::ftrl"},
       ftrl(0.2, {.power = -0.3, .initial = 0.3, .l1 = 0.01, .l2_shrinkage = 0.03, .beta = 0.4}),
       false,
       false},
      {"noisy_sgd", {"optim::noisy_sgd", "optim::add_noise"}, noisy_sgd(0.1, 0.02, 0.6, random::key(7)), false, false},
      {"polyak_sgd",
       {"optim::polyak_sgd", "optim::scale_by_polyak"},
       polyak_sgd({.least_loss = 0.1, .max_rate = 0.2}, 0.5)},
      {"madgrad", {"optim::madgrad", "optim::scale_by_madgrad"}, madgrad(0.1, 0.9, 0.01), false, false},
      {"madgrad_ramp", {"optim::madgrad"}, madgrad(ramp(), 0.5, 0, 1e-3), false, false},
      {"prodigy", {"optim::prodigy"}, prodigy(1.0, {.first_estimate = 0.01, .weight_decay = 0.01}), false, false},
      {"prodigy_warmup",
       {"optim::prodigy"},
       prodigy(ramp(), {.first_estimate = 0.01, .safeguard_warmup = true}),
       false,
       false},
      {"lbfgs", {"optim::lbfgs"}, lbfgs(0.1, 3), false, false},
      {"sam", {"optim::sam", "optim::sam_parameters"}, sam(adam(0.1), chain(normalize(), sgd(0.05)), 3)},
      {"lookahead", {"optim::lookahead"}, lookahead(adam(0.1), 3, 0.4)},
      {"schedule_free_sgd",
       {"optim::schedule_free_sgd", "optim::schedule_free", "optim::schedule_free_parameters"},
       schedule_free_sgd(0.1)},
      {"schedule_free_adamw",
       {"optim::schedule_free_adamw"},
       schedule_free_adamw(schedules::linear(0.0, 0.1, 4), 0.999, 1e-8, 0.01)},
  };
}

std::vector<Case> wrappers() {
  using namespace optim;
  return {
      {"multi_steps", {"optim::multi_steps", "optim::has_updated"}, multi_steps(adam(0.1), 3)},
      {"multi_steps_schedule",
       {"optim::multi_steps"},
       multi_steps(adam(0.1), Schedule(one_then_three), {.mean = false})},
      {"multi_steps_skip",
       {"optim::multi_steps", "optim::not_finite"},
       multi_steps(sgd(0.1), 2, {.skip = not_finite}),
       true},
      {"multi_steps_large",
       {"optim::multi_steps", "optim::norm_is_not_below"},
       multi_steps(sgd(0.1), 2, {.skip = norm_is_not_below(12.0)})},
      {"apply_if_finite", {"optim::apply_if_finite", "optim::all_finite"}, apply_if_finite(adam(0.1), 5), true},
      {"inject_hyperparams",
       {"optim::inject_hyperparams"},
       inject_hyperparams([](const Named<LearningRate>& values) { return sgd(values.at("rate")); },
                          {{"rate", ramp()}})},
      {"reduce_on_plateau",
       {"optim::reduce_on_plateau"},
       chain(sgd(0.1), reduce_on_plateau({.factor = 0.5, .patience = 2, .cooldown = 1}))},
      {"reduce_on_plateau_mean",
       {"optim::reduce_on_plateau"},
       chain(
           sgd(0.1),
           reduce_on_plateau(
               {.factor = 0.5, .patience = 1, .relative = 0, .absolute = 0.01, .average_over = 2, .min_scale = 0.3}))},
      {"partition",
       {"optim::partition"},
       partition({{"a", adam(0.1)}, {"b", sgd(0.2)}},
                 [](const std::string& path, const Array&) { return std::string(path < "d" ? "a" : "b"); })},
      {"masked", {"optim::masked"}, chain(masked(clip_by_value(0.2), below("conv")), sgd(0.1)), false, false},
  };
}

std::vector<Case> transformations() {
  using namespace optim;
  return {
      {"add_decayed_weights", {"optim::add_decayed_weights"}, descending(add_decayed_weights(ramp(), below("kernel")))},
      {"ema", {"optim::ema"}, descending(ema(0.8))},
      {"trace", {"optim::trace", "optim::scale"}, descending(trace(0.8))},
      {"clip", {"optim::clip_by_value"}, descending(clip_by_value(0.5)), false, false},
      {"clip_by_global_norm", {"optim::clip_by_global_norm"}, descending(clip_by_global_norm(1.5))},
      {"clip_by_block_rms", {"optim::clip_by_block_rms"}, descending(clip_by_block_rms(0.7))},
      {"adaptive_grad_clip", {"optim::adaptive_grad_clip"}, descending(adaptive_grad_clip(0.3))},
      {"zero_nans", {"optim::zero_nans"}, descending(zero_nans()), true},
      {"keep_params_nonnegative",
       {"optim::keep_params_nonnegative"},
       chain(sgd(1.0), keep_params_nonnegative()),
       false,
       false},
      {"centralize", {"optim::centralize"}, descending(centralize())},
      {"normalize", {"optim::normalize"}, descending(normalize())},
      {"normalize_by_update_norm", {"optim::normalize_by_update_norm"}, descending(normalize_by_update_norm(1.5, 0.1))},
      {"scale_by_trust_ratio",
       {"optim::scale_by_trust_ratio"},
       descending(scale_by_trust_ratio({.min_norm = 0.2, .coefficient = 0.5, .epsilon = 0.1}))},
      {"scale_by_param_block_norm", {"optim::scale_by_param_block_norm"}, descending(scale_by_param_block_norm(0.5))},
      {"scale_by_param_block_rms", {"optim::scale_by_param_block_rms"}, descending(scale_by_param_block_rms(0.5))},
      {"max_norm",
       {"optim::keep_params_max_norm"},
       chain(sgd(0.1), masked(keep_params_max_norm(0.8), below("kernel"))),
       false,
       true},
      {"max_norm_of_filters",
       {"optim::keep_params_max_norm"},
       chain(sgd(0.1), masked(keep_params_max_norm(0.5, {0, 1, 2}), below("conv")))},
      {"min_max_norm",
       {"optim::keep_params_norm_between"},
       chain(sgd(0.1), masked(keep_params_norm_between({.least = 0.9, .largest = 1.1, .rate = 0.7}), below("kernel")))},
      {"unit_norm",
       {"optim::keep_params_unit_norm"},
       chain(sgd(0.1), masked(keep_params_unit_norm(), below("kernel")))},
  };
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> joined;
    for (const auto& part : {with_moments(), by_layer(), other_cases(), rate_free_cases(), second_order_cases(),
                             wrappers(), transformations()}) {
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }();
  return all;
}

const std::vector<ScheduleCase>& schedule_cases() {
  using namespace schedules;
  static const std::vector<ScheduleCase> all = {
      {"linear", {"schedules::linear"}, linear(0.3, 0.1, 8, 2)},
      {"polynomial", {"schedules::polynomial"}, polynomial(0.3, 0.1, 2.5, 8, 1)},
      {"exponential_decay", {"schedules::exponential_decay"}, exponential_decay(0.3, 4, 0.5, {.begin = 2})},
      {"exponential_staircase",
       {"schedules::exponential_decay"},
       exponential_decay(0.3, 4, 0.5, {.begin = 1, .staircase = true, .end = 0.1})},
      {"cosine", {"schedules::cosine"}, schedules::cosine(0.3, 9, 0.1)},
      {"warmup_cosine", {"schedules::warmup_cosine"}, warmup_cosine(0.0, 0.3, 4, 10, 0.05)},
      {"cosine_restarts",
       {"schedules::cosine_restarts"},
       cosine_restarts({{.peak = 0.3, .warmup_steps = 1, .decay_steps = 4},
                        {.initial = 0.1, .peak = 0.2, .warmup_steps = 2, .decay_steps = 6, .end = 0.02}})},
      {"linear_onecycle", {"schedules::linear_onecycle"}, linear_onecycle(12, 0.3)},
      {"cosine_onecycle",
       {"schedules::cosine_onecycle"},
       cosine_onecycle(12, 0.3, {.rise = 0.4, .start_divisor = 10, .final_divisor = 100})},
      {"cosine_onecycle_late",
       {"schedules::cosine_onecycle"},
       cosine_onecycle(10, 0.3, {.rise = 0.9, .start_divisor = 10, .final_divisor = 100})},
      {"join",
       {"schedules::join"},
       schedules::join({schedules::constant(0.2), linear(0.3, 0.0, 4), exponential_decay(0.1, 2, 0.5)}, {3, 7})},
      {"warmup_stable_decay", {"schedules::warmup_stable_decay"}, warmup_stable_decay(0.3, 3, 4, 4, 0.01, 0.02)},
  };
  return all;
}

}  // namespace lockstep::tests::optax
