#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/initializers.h>
#include <lockstep/model.h>

// Normalizations. What goes over rows is joined over all shards.
namespace lockstep {

/// Options of `batch_norm`.
struct BatchNormOptions {
  double momentum = 0.99;  ///< Share of the old moving statistics in the new ones.
  double epsilon = 1e-3;
  bool center = true;  ///< Whether there is a beta,
  bool scale = true;   ///< and a gamma.
  /// Statistics over the whole batch, all shards together. false: per shard, moving statistics averaged over shards
  /// that have rows; a different model.
  bool synchronized = true;
  bool trainable = true;  ///< false: the moving statistics normalise even in training, and stay.
  /// Where a training step has microbatches: statistics of each microbatch alone, over all shards or one as said above,
  /// moving statistics averaged over microbatches that have rows; a different model. false: then a MeshError.
  bool per_microbatch = false;
  Aggregation aggregation = Aggregation::none;  ///< Of gamma and beta; that of the statistics follows from the above.
};
/// Normalises every channel (last dimension) over all others. Rows of weight 0 count in no statistic. Variables gamma,
/// beta [C]; state moving_mean, moving_variance [C] (at least float32), new = momentum * old + (1 - momentum) * batch,
/// biased variance. A training call without a single real row normalises to 0 and keeps the state. Ioffe and Szegedy
/// 2015.
LOCKSTEP_API Array batch_norm(const Scope& scope, const ArrayOperand& x, const BatchNormOptions& options = {});

/// Options of `layer_norm`.
struct LayerNormOptions {
  double epsilon = 1e-3;
  bool center = true;                           ///< Whether there is a beta,
  bool scale = true;                            ///< and a gamma.
  Aggregation aggregation = Aggregation::none;  ///< Of gamma and beta.
};
/// Normalises over the last dimension. Variables gamma, beta. Ba, Kiros and Hinton 2016.
LOCKSTEP_API Array layer_norm(const Scope& scope, const ArrayOperand& x, const LayerNormOptions& options = {});

/// Options of `rms_norm`.
struct RmsNormOptions {
  double epsilon = 1e-6;
  bool scale = true;                            ///< Whether there is a gamma.
  Aggregation aggregation = Aggregation::none;  ///< Of gamma.
};
/// x / sqrt(mean(x^2) + epsilon) over the last dimension, times gamma: floats [..., C], computed in at least float32
/// and rounded once; large numbers, whose squares overflow, too. Variable gamma. Zhang and Sennrich 2019.
LOCKSTEP_API Array rms_norm(const Scope& scope, const ArrayOperand& x, const RmsNormOptions& options = {});

/// Options of `group_norm`.
struct GroupNormOptions {
  std::int64_t groups = 32;  ///< Divides the channels.
  double epsilon = 1e-3;
  bool center = true;                           ///< Whether there is a beta,
  bool scale = true;                            ///< and a gamma.
  Aggregation aggregation = Aggregation::none;  ///< Of gamma and beta.
};
/// Normalises each row's channels in groups of neighbours, over all places: x[N, ..., C]. Variables gamma, beta [C].
/// Throws ValueError for groups that do not divide the channels. Wu and He 2018.
LOCKSTEP_API Array group_norm(const Scope& scope, const ArrayOperand& x, const GroupNormOptions& options = {});
/// group_norm with as many groups as channels: each channel of each row over its places; `groups` is not read. Ulyanov
/// et al. 2016.
LOCKSTEP_API Array instance_norm(const Scope& scope, const ArrayOperand& x, const GroupNormOptions& options = {});

/// Options of `spectral_norm`.
struct SpectralNormOptions {
  std::int64_t iterations = 1;  ///< Of the power method, a training call; at least 1.
  double epsilon = 1e-12;       ///< Vectors are no shorter.
};
/// A kernel [..., out] divided by its largest singular value as a matrix [all but the last merged, out], which the
/// power method finds over training calls: a layer's `kernel_function`. State u [out] (at least float32), of the kernel
/// alone and so the same on all replicas. Throws ValueError for no iteration and a negative epsilon, ShapeError for a
/// kernel below rank 2.
/// Miyato et al. 2018.
LOCKSTEP_API Array spectral_norm(const Scope& scope, const ArrayOperand& kernel,
                                 const SpectralNormOptions& options = {});

/// Options of `weight_norm`.
struct WeightNormOptions {
  double epsilon = 1e-12;                       ///< Added to squared lengths.
  Aggregation aggregation = Aggregation::none;  ///< Of scale.
};
/// A kernel [..., out] whose columns have length 1, times a variable `scale` [out], 1 at first: a layer's
/// `kernel_function`. Salimans and Kingma 2016.
LOCKSTEP_API Array weight_norm(const Scope& scope, const ArrayOperand& kernel, const WeightNormOptions& options = {});

}  // namespace lockstep
