#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/metrics.h>
#include <lockstep/optim.h>
#include <lockstep/tree.h>
#include <lockstep/weighted.h>

// Differentially private training (DP-SGD): clipped gradients of each example, noise, and what both guarantee.
namespace lockstep {

namespace detail {
using ExampleLoss = std::function<Array(const Tree& trainable, const Tree& row)>;
/// What clipped_per_example below calls with trees.
LOCKSTEP_API Weighted clipped_per_example(const ExampleLoss& loss, const Tree& trainable, const Tree& rows,
                                          const Array& weight, double clip);
}  // namespace detail

/// A loss term whose value is the mean of the examples' losses, and whose gradient with respect to `trainable` is the mean
/// of the examples' gradients, each scaled to a global norm of at most `clip`. Rows of weight 0 do not count, other weights
/// count as 1. `loss(trainable, row)` is given a batch of one row and returns its Weighted, or a float scalar; it is traced
/// once and mapped over the rows, so that it means the same on any number of shards and microbatches. All gradients of a
/// shard's microbatch are held at once. The gradient is a constant: it cannot be differentiated again. Throws ValueError
/// unless clip > 0. Abadi et al. 2016, "Deep Learning with Differential Privacy", algorithm 1.
template <class F>
Weighted clipped_per_example(F loss, const Tree& trainable, const Batch& batch, double clip) {
  const auto of_row = [loss = std::move(loss)](const Tree& w, const Tree& row) -> Array {
    if constexpr (std::is_convertible_v<std::invoke_result_t<F&, const Tree&, const Batch&>, Weighted>) {
      return local_value(loss(w, from_tree<Batch>(row)));
    } else {
      return loss(w, from_tree<Batch>(row));
    }
  };
  return detail::clipped_per_example(of_row, trainable, to_tree(batch), batch.weight, clip);
}

/// How much noise there is, and how often rows are read.
struct PrivacyOptions {
  double noise_multiplier =
      1;  ///< Standard deviation of the noise in a sum of gradients, over the norm they are clipped to.
  double sampling_rate = 0.01;  ///< Rows of a batch over rows of the data set.
  std::int64_t steps = 1000;
  double delta = 1e-5;
};
/// The epsilon of (epsilon, delta)-differential privacy, for data sets that differ by one row, of training with
/// `clipped_per_example` and `optim::private_noise`: by Renyi divergences of the orders 2 to 512 (Mironov, Talwar and Zhang
/// 2019, "Renyi Differential Privacy of the Sampled Gaussian Mechanism"), converted as Balle et al. 2020. It holds for
/// batches whose rows are drawn independently with that rate; of shuffled epochs it is the usual approximation. Throws
/// ValueError unless noise_multiplier > 0, 0 < sampling_rate <= 1, steps >= 0 and 0 < delta < 1.
LOCKSTEP_API double privacy_epsilon(const PrivacyOptions& options);

namespace optim {
/// u + normal noise of the standard deviation noise_multiplier * clip / batch, the noise of a mean over `batch` gradients of
/// norm `clip`: first in a chain. Its state and draws are those of add_noise, the same on all replicas. Throws ValueError
/// unless all three are > 0.
LOCKSTEP_API GradientTransformation private_noise(double noise_multiplier, double clip, std::int64_t batch,
                                                  const Array& key);
}  // namespace optim

}  // namespace lockstep
