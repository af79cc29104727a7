#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/optim.h>
#include <lockstep/tree.h>

// Optimizers that look at more of the loss than its gradient: line searches, which ask for it at other parameters, and
// estimates of its curvature. What asks for the loss at other parameters says so (`GradientTransformation::needs_function`)
// and is given it by training steps: the loss of the same rows, microbatches, masks and draws, over all shards, each time a
// forward pass (and a backward one where its gradient is asked for) with the reductions of a step. All need reduced
// gradients and real leaves, and throw DtypeError naming a complex one. `multi_steps` refuses them, since its gradients are
// of batches that are gone: take microbatches. A step whose variables declare how replicas' gradients combine refuses
// them too.
namespace lockstep::optim {

/// How `scale_by_backtracking_linesearch` searches.
struct BacktrackingOptions {
  std::int64_t max_steps = 15;  ///< Of the search; it evaluates the loss once more than that.
  double slope_share = 1e-4;    ///< Of the decrease that the slope promises, which has to be reached.
  double decrease = 0.8;        ///< The factor of a step that is too long.
  double increase = 1.5;        ///< The factor of the last search's step that is tried first.
  double max_rate = 1.0;        ///< The longest step.
  double absolute = 0;          ///< How much the decrease may fall short.
  double relative = 0;          ///< The same as a share of the loss.
  bool keeps_gradient = false;  ///< The gradient at the new parameters is computed, too, and kept as "grad".
};
/// Updates u times the first rate of a falling series at which the loss is at most f + slope_share * rate * <u, g>: Armijo's
/// condition. Behind the direction of descent: chain(sgd(1.0), scale_by_backtracking_linesearch()). Where every loss on the
/// way is infinite or NaN the rate is 0. Its state is {"learning_rate", "value", "steps", "error"}: the rate, the loss it has
/// led to, evaluations, and what the decrease falls short. Throws ValueError for options out of range.
LOCKSTEP_API GradientTransformation scale_by_backtracking_linesearch(BacktrackingOptions options = {});

/// How `scale_by_zoom_linesearch` searches.
struct ZoomOptions {
  std::int64_t max_steps = 20;                    ///< Evaluations of loss and gradient at most.
  std::optional<double> max_rate = std::nullopt;  ///< The longest step; nothing: none.
  double tolerance = 0;                           ///< How much the conditions may be missed.
  double increase = 2;                            ///< The factor of a step that is too short.
  double slope_share = 1e-4;                      ///< Of the decrease that the slope promises.
  double curvature_share = 0.9;                   ///< The slope falls to this share of its size.
  std::optional<double> approximate = 1e-6;       ///< Near a minimum, Hager and Zhang's decrease by slopes.
  double least_interval = 1e-5;                   ///< Intervals below are searched no further.
  bool keeps_rate = true;                         ///< The first step tried is the last search's, else 1.
};
/// Updates u times a rate that meets Wolfe's strong conditions, found by doubling steps and then by interpolation within an
/// interval. Nocedal and Wright 2006, algorithms 3.5 and 3.6; Hager and Zhang 2006. Where none is found, the last that met
/// Armijo's condition, else the last tried. Its state is {"learning_rate", "value", "grad", "steps", "decrease_error",
/// "curvature_error"}, value and grad at the parameters it leads to: `value_and_grad_from_state` takes them. Throws
/// ValueError for options out of range.
LOCKSTEP_API GradientTransformation scale_by_zoom_linesearch(ZoomOptions options = {});

/// The loss and its gradient at `params`, which a search has led to: those in its state (anywhere below `state`, as a chain
/// has it) where they are finite, else computed. For loops of one's own over one function; the batches of a training step
/// differ. Throws StateError where the state has no "value" and "grad".
LOCKSTEP_API std::pair<Array, Tree> value_and_grad_from_state(const ValueFunction& loss, const Tree& params,
                                                              const Tree& state);

/// H g, H the inverse curvature from the last `memory` differences of parameters and gradients, by the two-loop recursion;
/// at first the identity times min(1, 1 / |g|), then times (dp dg) / |dg|^2. Liu and Nocedal 1989. It asks for no loss.
/// Throws ValueError for a memory below 1.
LOCKSTEP_API GradientTransformation scale_by_lbfgs(std::int64_t memory = 10);
/// scale_by_lbfgs, then the learning rate, without a search: take a rate that the problem bears, and whole batches.
LOCKSTEP_API GradientTransformation lbfgs(LearningRate rate, std::int64_t memory = 10);
/// How `lbfgs` with a line search goes.
struct LbfgsOptions {
  std::int64_t memory = 10;
  ZoomOptions search = {.keeps_rate = false};
};
/// scale_by_lbfgs, the other way round, scale_by_zoom_linesearch: its steps need no rate.
LOCKSTEP_API GradientTransformation lbfgs(LbfgsOptions options = {});

/// In place of the gradients z * (H z), H the loss's second derivatives at the parameters and z of random signs: on average
/// the diagonal of H. Hutchinson 1989. The draws are those of Optax from the same key, the same on all replicas; the key
/// moves on in the state, {"key": its words}. Throws DtypeError for a key that is none.
LOCKSTEP_API GradientTransformation hutchinson_estimator_diag_hessian(const Array& key);
/// How `scale_by_sophia` averages.
struct SophiaOptions {
  double b1 = 0.965;                  ///< Share of the old average of g in the new one.
  double b2 = 0.99;                   ///< The same of the diagonal of second derivatives.
  double epsilon = 1e-8;              ///< The least that is divided by.
  double gamma = 0.01;                ///< Of the diagonal.
  std::optional<double> limit = 1.0;  ///< Elements are clipped to it; nothing: none are.
  std::int64_t interval = 10;         ///< Steps from one estimate of the diagonal to the next.
  double weight_decay = 1e-4;         ///< Of `sophia`: decoupled, the rate multiplies it.
};
/// m^ / max(gamma h, epsilon), elements clipped, of averages m of g and h of the `diagonal` that a transformation gives for
/// gradients every `interval` steps, for which alone it is computed (the first one counts from the second step on). Liu et
/// al. 2024. Its state is {"count", "mu", "nu", "diagonal"}. Throws ValueError for options out of range.
LOCKSTEP_API GradientTransformation scale_by_sophia(GradientTransformation diagonal, SophiaOptions options = {});
/// scale_by_sophia with Hutchinson's estimate from that key, decoupled decay, the learning rate.
LOCKSTEP_API GradientTransformation sophia(LearningRate rate, const Array& key, SophiaOptions options = {});
/// The same with another estimate.
LOCKSTEP_API GradientTransformation sophia(LearningRate rate, GradientTransformation diagonal,
                                           SophiaOptions options = {});

}  // namespace lockstep::optim
