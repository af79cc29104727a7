#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/gradient_transformations.h>
#include <lockstep/named.h>
#include <lockstep/optim.h>
#include <lockstep/tree.h>

// Transformations around others. They need reduced gradients, and the loss, where the inner one does; what the inner one
// freezes stays frozen. Where a step makes no update its updates are -0, which added leaves every bit of a parameter.
namespace lockstep::optim {

/// How `multi_steps` accumulates.
struct MultiStepsOptions {
  bool mean = true;  ///< The inner transformation sees the mean of the gradients, else their sum.
  /// Whether a step's gradients are left out, as if it had not been: one bool, as `not_finite` gives. Empty: never.
  std::function<Array(const Tree& gradients)> skip = {};
};
/// Gradient accumulation over steps: gradients are added up (in at least float32), and every k-th step the inner
/// transformation makes its update of their mean, from the k steps' parameters, which did not move; the other steps
/// make none. Its state is {"mini_step", "gradient_step",
/// "gradients", "inner"}. Linear where the inner one is and nothing is skipped. Throws ValueError for k below 1.
/// (Optax' MultiSteps, Keras' gradient_accumulation_steps; within a step: DataParallelOptions::microbatches)
LOCKSTEP_API GradientTransformation multi_steps(GradientTransformation inner, std::int64_t k,
                                                MultiStepsOptions options = {});
/// k(n), n being the number of updates made so far.
LOCKSTEP_API GradientTransformation multi_steps(GradientTransformation inner, Schedule k,
                                                MultiStepsOptions options = {});
/// One bool: whether the last update of that state of multi_steps was one of the inner transformation.
LOCKSTEP_API Array has_updated(const Tree& multi_steps_state);
/// One bool: whether an element is infinite or NaN. For `skip`. (Optax' skip_not_finite)
LOCKSTEP_API Array not_finite(const Tree& gradients);
/// Whether the sum of squares over all leaves is not below the limit, or NaN. For `skip`. (Optax' skip_large_updates)
LOCKSTEP_API std::function<Array(const Tree&)> norm_is_not_below(double max_squared_norm);

}  // namespace lockstep::optim

namespace lockstep::detail {
LOCKSTEP_API extern const std::optional<std::uint64_t> no_seed;  ///< Nothing.
}  // namespace lockstep::detail

namespace lockstep::optim {

/// The inner transformation with what it keeps for each element of a parameter (moments, averages, traces) in bfloat16
/// or float16 between updates, and computed in float32: half the memory. With a seed it is rounded at random
/// (random::round_stochastically), keyed by seed, number of the update and path, on all replicas alike: without, an
/// average that changes by less than a 512th of itself, as squares with b2 = 0.999 do, stays where it is. Slots of
/// complex or float64 parameters stay as they are, so do copies and averages of parameters, to which parameters are taken
/// back (`sam`, `lookahead`, `average_parameters`), and in float16 averages of squares, which it cannot hold: they are 0
/// below 6e-8, infinite above 65504. Its state is {"count", "inner"}. Throws DtypeError for another dtype. (Optax'
/// mu_dtype, of all moments)
LOCKSTEP_API GradientTransformation moments_dtype(GradientTransformation inner, DType dtype,
                                                  const std::optional<std::uint64_t>& seed = detail::no_seed);
/// For parameters kept in bfloat16 or float16 without a wider copy, last in a chain: what the inner updates lead to is
/// rounded up or down at random (random::round_stochastically) and not to the nearest, in which updates smaller than
/// half a digit of the parameter are lost. Keyed by seed, number of the update, path and element, on all replicas alike.
/// Wider parameters get the inner updates. Its state is {"count", "inner"}.
LOCKSTEP_API GradientTransformation stochastic_rounding(GradientTransformation inner, std::uint64_t seed);

/// The inner transformation where all gradients are finite, else no update and its state as it was; after more than
/// `max_consecutive_errors` such steps in a row they are let through, so that what is wrong shows. Its state is
/// {"not_finite", "last_finite", "total_not_finite", "inner"}. Throws ValueError for a negative number.
LOCKSTEP_API GradientTransformation apply_if_finite(GradientTransformation inner, std::int64_t max_consecutive_errors);

/// How `average_parameters` keeps its average.
struct AverageParametersOptions {
  std::int64_t overwrite_every = 0;  ///< Every so many updates parameters become the average; 0: never.
};
/// The moving average of the parameters as they will be once the updates are added, so last in a chain: from the first
/// update's parameters on, a' = decay a + (1 - decay) p. Updates as they come, but where parameters are overwritten: there
/// they lead to the average, rounded once. Its state is {"count", "average"}, the average in at least float32. Throws
/// ValueError unless decay is in [0, 1) and overwrite_every >= 0. Polyak and Juditsky 1992. (Keras' use_ema,
/// ema_overwrite_frequency)
LOCKSTEP_API GradientTransformation average_parameters(double decay, AverageParametersOptions options = {});

/// Every `sync_period`-th update parameters go back to the share `slow_step` of the way they made since, from where they
/// were then; other updates are the fast transformation's. Zhang et al. 2019. Its state is {"count", "slow", "fast"}.
/// Throws ValueError unless sync_period >= 1 and slow_step is in (0, 1].
LOCKSTEP_API GradientTransformation lookahead(GradientTransformation fast, std::int64_t sync_period, double slow_step);

/// Sharpness-aware minimisation in steps of a training loop: sync_period - 1 steps go uphill by the adversary's updates
/// turned round, then one goes back and makes the optimizer's update with the gradients found there. The adversary
/// is usually chain(normalize(), sgd(0.05)). Foret et al. 2021. Parameters between updates are the uphill ones;
/// `sam_parameters` has the others. Its state is {"count", "start", "inner", "adversary"}. Throws ValueError for a
/// period below 1.
LOCKSTEP_API GradientTransformation sam(GradientTransformation optimizer, GradientTransformation adversary,
                                        std::int64_t sync_period = 2);
/// The parameters to be used where training stops: those of the last update of sam.
LOCKSTEP_API Tree sam_parameters(const Tree& state, const Tree& params);

/// How `schedule_free` averages.
struct ScheduleFreeOptions {
  double b1 = 0.9;          ///< Gradients are taken at y = b1 x + (1 - b1) z.
  double weight_power = 2;  ///< An iterate's weight in the average is the largest rate so far to this power.
};
/// Training without a schedule: the base transformation, without momentum, moves z; x is the average of all z; the
/// parameters are y = b1 x + (1 - b1) z. `rate` is the base's, which weights z. Defazio et al. 2024. Evaluate with
/// `schedule_free_parameters`. Its state is {"count", "weight_sum", "max_rate", "z", "base"}. Throws ValueError unless b1
/// is in (0, 1).
LOCKSTEP_API GradientTransformation schedule_free(GradientTransformation base, LearningRate rate,
                                                  ScheduleFreeOptions options = {});
/// x, to evaluate with: (params - (1 - b1) z) / b1.
LOCKSTEP_API Tree schedule_free_parameters(const Tree& state, const Tree& params, double b1 = 0.9);
/// schedule_free of sgd.
LOCKSTEP_API GradientTransformation schedule_free_sgd(LearningRate rate = 1.0, ScheduleFreeOptions options = {});
/// schedule_free of scale_by_rms with correction (b2, epsilon added to the root), decoupled decay and the rate.
LOCKSTEP_API GradientTransformation schedule_free_adamw(LearningRate rate = 0.0025, double b2 = 0.999,
                                                        double epsilon = 1e-8, double weight_decay = 0,
                                                        ScheduleFreeOptions options = {});

/// When `reduce_on_plateau` reduces.
struct PlateauOptions {
  double factor = 0.1;            ///< What the scale is multiplied by, in (0, 1).
  std::int64_t patience = 10;     ///< After so many averages in a row that are no better than the best one.
  double relative = 1e-4;         ///< Better is below best * (1 - relative) - absolute.
  double absolute = 0;            ///< See `relative`; not both are 0.
  std::int64_t cooldown = 0;      ///< Averages behind a reduction that do not count.
  std::int64_t average_over = 1;  ///< Losses of so many updates make one average.
  double min_scale = 0;           ///< The scale's lower end.
};
/// scale * u; the scale starts at 1 and falls by the factor where the loss, which it needs, has stopped falling. Behind
/// an optimizer in a chain. Its state is {"scale", "best", "plateau", "cooldown", "count", "average"}. Throws ValueError
/// for options out of range. (Optax' contrib.reduce_on_plateau; Keras' and PyTorch's ReduceLROnPlateau)
LOCKSTEP_API GradientTransformation reduce_on_plateau(PlateauOptions options = {});

/// Rates that stand in the state, where they are seen and may be changed between steps without a new trace: `make` is
/// given one for each name and makes the transformation. A number stands there until it is replaced
/// (`state.with("values/rate", array(0.1))`, a float64 scalar); a schedule writes its value of each step. The state is
/// {"count", "values", "inner"}. (Optax' inject_hyperparams, of whatever takes a LearningRate)
LOCKSTEP_API GradientTransformation inject_hyperparams(
    std::function<GradientTransformation(const Named<LearningRate>& values)> make, Named<LearningRate> values);

}  // namespace lockstep::optim
