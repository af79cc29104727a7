#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/gradient_transformations.h>
#include <lockstep/optim.h>
#include <lockstep/tree.h>

// Rarely used optimizers: projected gradients, and rules that find their learning rate themselves. Notation and errors are
// those of optimizers.h.
namespace lockstep::optim {

/// A leaf as a matrix: its axes, in this order, as rows and as columns; each is in one of both.
struct MatrixAxes {
  std::vector<std::int64_t> rows{0};
  std::vector<std::int64_t> columns{1};
};
/// How `galore` projects.
struct GaloreOptions {
  std::int64_t rank = 128;          ///< Of the subspace; at most the smaller side of a matrix.
  std::int64_t update_every = 200;  ///< Updates until the subspace is looked for again.
  double scale = 1;                 ///< Of what comes back from the subspace.
  /// In the subspace, of gradients alone; scale_by_adam unless given.
  std::optional<GradientTransformation> inner = std::nullopt;
  /// Which leaves are projected, and as what matrix; unless given those of rank 2.
  std::function<std::optional<MatrixAxes>(const std::string& path, const Array& leaf)> axes = {};
  double weight_decay = 0;  ///< Of `galore`: decoupled, of whole leaves; the rate multiplies it.
};
/// The inner transformation on the gradients of matrices [n, m] in a subspace of their smaller side: p^T g with n >= m,
/// else g p, p being the singular vectors [max(n, m), rank] of the first gradient and each `update_every`-th from then on;
/// its updates go back by p. Its slots are as small as the subspace. Zhao et al. 2024. Real leaves. Leaves that are not
/// projected pass the inner transformation as they are. Its state is {"count", "inner", "projectors"}. Throws ShapeError
/// where axes do not make a matrix of a leaf, StateError where the inner transformation reads the parameters.
LOCKSTEP_API GradientTransformation scale_by_galore(GaloreOptions options = {});
/// scale_by_galore, decoupled decay, the learning rate.
LOCKSTEP_API GradientTransformation galore(LearningRate rate, GaloreOptions options = {});

/// Averages of where gradients alone would have led from the start: p' = momentum p + (1 - momentum) (p_0 - s / (v^(1/3) +
/// epsilon)) of sums s of w g and v of w g^2, w = (rate + epsilon) sqrt(t). Defazio and Jelassi 2022. Real leaves. What it
/// gives is the update itself. Its state is {"count", "squares", "sum", "start"}.
LOCKSTEP_API GradientTransformation scale_by_madgrad(LearningRate rate, double momentum = 0.9, double epsilon = 1e-6);
/// Decay added to gradients, scale_by_madgrad.
LOCKSTEP_API GradientTransformation madgrad(LearningRate rate, double momentum = 0.9, double weight_decay = 0,
                                            double epsilon = 1e-6);

/// How `prodigy` finds its rate.
struct ProdigyOptions {
  double b1 = 0.9;                ///< Share of the old average of g in the new one.
  double b2 = 0.999;              ///< The same of |g|^2; its root is that of the sums that estimate the distance.
  double epsilon = 1e-8;          ///< Added to the root, times the estimate.
  double first_estimate = 1e-6;   ///< Of the distance to the solution.
  double coefficient = 1;         ///< Of the estimate.
  double weight_decay = 0;        ///< Decoupled; estimate and rate multiply it.
  bool safeguard_warmup = false;  ///< The rate is no part of the sums, as a warm-up wants it.
};
/// Adam whose rate is d * rate, d an estimate of how far the solution is, from inner products of gradients and the way
/// made so far; it never falls. Mishchenko and Defazio 2023. Real leaves. Where all gradients have been 0 it stays, where
/// Optax has NaN. Its state has three slots a leaf and the parameters at the start.
LOCKSTEP_API GradientTransformation prodigy(LearningRate rate = 1.0, ProdigyOptions options = {});

/// What `dog` starts with.
enum class DogStart : std::uint8_t {
  heuristic,  ///< The distance `value` (1 + |p|), of all parameters at `init`.
  distance,   ///< The distance `value`.
  rate,       ///< A first factor of `value`.
};
/// How `scale_by_dog` begins.
struct DogOptions {
  DogStart start = DogStart::heuristic;
  double value = 1e-6;      ///< What `start` says.
  double epsilon = 1e-8;    ///< Added to the sum of squares.
  double weight_decay = 0;  ///< Of `dog`: added to gradients.
};
/// u r / sqrt(s + epsilon) of the largest distance r from where parameters started and the sum s of all |u|^2, over all
/// leaves. Ivgi, Hinder and Carmon 2023. Its state is {"count", "start", "distance", "squares"}.
LOCKSTEP_API GradientTransformation scale_by_dog(DogOptions options = {});
/// Decay, scale_by_dog, the learning rate. Average the parameters (`average_parameters`), as its authors do.
LOCKSTEP_API GradientTransformation dog(LearningRate rate = 1.0, DogOptions options = {});
/// scale_by_dog leaf by leaf: each has a distance, from `relative` (1 + |p|) on, and a sum of its own. Its state is
/// {"start", "distance", "squares"}. (Optax' scale_by_distance_over_gradients)
LOCKSTEP_API GradientTransformation scale_by_distance_over_gradients(double relative = 1e-6, double epsilon = 1e-8);
/// How `scale_by_dowg` begins.
struct DowgOptions {
  double epsilon = 1e-4;                                  ///< Added to the root.
  std::optional<double> squared_distance = std::nullopt;  ///< The first one; epsilon unless given.
  double weight_decay = 0;                                ///< Of `dowg`: added to gradients.
};
/// u d / (sqrt(s) + epsilon) of the largest squared distance d from where parameters started and the sum s of all d |u|^2.
/// Khaled, Mishchenko and Jin 2023. Its state is {"start", "squared_distance", "squares"}.
LOCKSTEP_API GradientTransformation scale_by_dowg(DowgOptions options = {});
/// Decay, scale_by_dowg, the learning rate.
LOCKSTEP_API GradientTransformation dowg(LearningRate rate = 1.0, DowgOptions options = {});
/// How `cocob` bets.
struct CocobOptions {
  double alpha = 100;       ///< The more, the smaller the first bets.
  double epsilon = 1e-8;    ///< The largest gradient there was before the first.
  double weight_decay = 0;  ///< Of `cocob`: added to gradients.
};
/// Each weight is where a gambler's bets on its gradients' signs have led, p' = p_0 + c / (l max(s + l, alpha l)) (l + w) of
/// the largest |g| l, the sum of all |g| s and of all -g c, and the reward w. Orabona and Tommasi 2017. Real leaves. Its
/// state is {"start", "sum", "largest", "magnitudes", "reward"}. What it gives is the update itself.
LOCKSTEP_API GradientTransformation scale_by_cocob(CocobOptions options = {});
/// Decay, gradients times the rate, scale_by_cocob.
LOCKSTEP_API GradientTransformation cocob(LearningRate rate = 1.0, CocobOptions options = {});
/// How `dadapt_adamw` finds its rate.
struct DadaptOptions {
  double b1 = 0.9;               ///< Share of the old average of g in the new one.
  double b2 = 0.999;             ///< The same of |g|^2; its root is that of the sums that estimate the distance.
  double epsilon = 1e-8;         ///< Added to the root.
  double first_estimate = 1e-6;  ///< Of the rate.
  double weight_decay = 0;       ///< Decoupled; estimate and rate multiply it.
};
/// Adam whose rate is d * rate, d a lower bound of the distance to the solution, which never falls. Defazio and Mishchenko
/// 2023. Real leaves. Where all gradients have been 0 it stays, where Optax has NaN. Its state is {"count", "mu", "nu", "sum", "estimate",
/// "numerator"}.
LOCKSTEP_API GradientTransformation dadapt_adamw(LearningRate rate = 1.0, DadaptOptions options = {});
/// How `momo` and `momo_adam` bound their step.
struct MomoOptions {
  double least_loss = 0;    ///< What the loss can fall to.
  bool adapts = false;      ///< That bound is estimated, from least_loss on.
  double weight_decay = 0;  ///< The rate multiplies it.
};
/// -min(rate, (f - least_loss + <m, p> - c) / |m|^2) m of averages m of g, f of the loss and c of <g, p>, which need the loss:
/// sgd with momentum and a rate from a model of the loss. Schaipp et al. 2024. Real leaves. Its state is {"count", "mu", "loss", "product",
/// "least_loss"}.
LOCKSTEP_API GradientTransformation momo(LearningRate rate = 1.0, double beta = 0.9, MomoOptions options = {});
/// The same in Adam's norm, with corrected averages. Its state has "nu" too.
LOCKSTEP_API GradientTransformation momo_adam(LearningRate rate = 0.01, double b1 = 0.9, double b2 = 0.999,
                                              double epsilon = 1e-8, MomoOptions options = {});

/// How `mechanize` scales.
struct MechanizeOptions {
  double weight_decay = 1e-2;  ///< Of the gradients that the scale is learned from, relative to both norms.
  double epsilon = 1e-8;       ///< Added to roots and norms.
  double first_scale = 1e-6;   ///< The first scale.
  std::int64_t estimates = 6;  ///< Scales that are learned beside each other, with averages of 10, 100, ... steps.
};
/// The inner transformation's updates times a scale that is learned from how they agree with later gradients: p = start +
/// scale * sum of updates. Cutkosky, Defazio and Mehta 2023. Real leaves. Its state is {"count", "start", "sums", "largest",
/// "squares", "scales", "inner"}. Throws ValueError for options that are negative or estimates below 1. (Optax' contrib.mechanize)
LOCKSTEP_API GradientTransformation mechanize(GradientTransformation inner, MechanizeOptions options = {});

}  // namespace lockstep::optim
