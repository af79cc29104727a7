#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/named.h>
#include <lockstep/optim.h>
#include <lockstep/out_of_line.h>
#include <lockstep/tree.h>

// What gradients pass through on their way, beside the optimizers of optimizers.h: limits, norms, noise, averages,
// measurements. All need reduced gradients but those that say they are linear; all take complex leaves, by |x|, but
// where another word is said; none has a state but where one is named.
namespace lockstep::optim {

/// One bool: whether no element of any leaf is infinite or NaN. Trees without floats are finite.
LOCKSTEP_API Array all_finite(const Tree& tree);

// ---- limits ----------------------------------------------------------------------------------------------------------

/// Each leaf u / max(1, rms(u) / threshold), rms the root of the mean of |u|^2: its root mean square is at most the
/// threshold. Shazeer and Stern 2018, "Adafactor". Throws ValueError unless threshold is > 0.
LOCKSTEP_API GradientTransformation clip_by_block_rms(double threshold);
/// Unit by unit u * min(1, clipping * max(|p|, epsilon) / |u|), with the norms of a unit's weights p and of their
/// updates u: a unit is a leaf with at most one dimension other than 1, a column of rank 2 and 3 (norms along dimension
/// 0), an output channel of kernels of rank 4 and 5 (norms along all but the last). `clipping` is the largest ratio of
/// the two, `epsilon` the least norm that weights count with. Brock et al. 2021, "High-performance large-scale image
/// recognition without normalization". Throws ValueError unless both are > 0, ShapeError for a leaf of rank 6 and more.
LOCKSTEP_API GradientTransformation adaptive_grad_clip(double clipping, double epsilon = 1e-3);
/// NaN becomes 0. Its state says of each leaf whether there was one the last time: a tree of bools.
LOCKSTEP_API GradientTransformation zero_nans();
/// u, or -p where p + u would be negative: parameters that were not negative stay so. Real leaves; throws DtypeError for
/// complex ones.
LOCKSTEP_API GradientTransformation keep_params_nonnegative();

/// The parameters that come out have norms of at most `max_norm` along those dimensions, as if each p + u were multiplied
/// by min(|p + u|, max_norm) / (|p + u| + 1e-7): along dimension 0 the columns of a matrix [in, out], along {0, 1, 2} the
/// filters of a kernel [rows, columns, in, out]. Last in a chain, of leaves that have those dimensions (`masked` chooses
/// them): throws ShapeError naming one that has not, ValueError unless max_norm is > 0. (Keras' MaxNorm)
LOCKSTEP_API GradientTransformation keep_params_max_norm(double max_norm = 2.0, std::vector<std::int64_t> axes = {0});
/// How `keep_params_norm_between` bounds norms.
struct NormBounds {
  double least = 0.0;    ///< The smallest norm.
  double largest = 1.0;  ///< The largest norm.
  double rate = 1.0;     ///< The share of the way to the bound that an update goes, in (0, 1].
  lockstep::detail::OutOfLine<std::vector<std::int64_t>> axes = {0};
};
/// Likewise, norms between two bounds. Throws ValueError unless 0 <= least <= largest, largest > 0 and rate is in (0, 1].
/// (Keras' MinMaxNorm)
LOCKSTEP_API GradientTransformation keep_params_norm_between(NormBounds bounds = {});
/// Likewise, norms of 1: (p + u) / (|p + u| + 1e-7). (Keras' UnitNorm)
LOCKSTEP_API GradientTransformation keep_params_unit_norm(std::vector<std::int64_t> axes = {0});

// ---- norms -----------------------------------------------------------------------------------------------------------

/// Leaves of rank 2 and more less their means over all dimensions but the first; others as they are. Linear. Yong et
/// al. 2020, "Gradient centralization".
LOCKSTEP_API GradientTransformation centralize();
/// u / |u| with the norm over all leaves; NaN where all are 0. (Optax' contrib.normalize)
LOCKSTEP_API GradientTransformation normalize();
/// scale * u / (|u| + epsilon) with the norm over all leaves. `scale` is the norm that comes out, `epsilon` what keeps
/// zeros finite. Throws ValueError unless scale is > 0 and epsilon >= 0.
LOCKSTEP_API GradientTransformation normalize_by_update_norm(double scale = 1.0, double epsilon = 1e-6);
/// How `scale_by_trust_ratio` compares weights and updates.
struct TrustRatioOptions {
  double min_norm = 0;     ///< Norms below count as this.
  double coefficient = 1;  ///< The ratio is multiplied by it.
  double epsilon = 0;      ///< Added to the norm of the updates.
};
/// Each leaf u * coefficient |p| / (|u| + epsilon), u where one of both norms is 0. You, Gitman and Ginsburg 2017.
/// Throws ValueError for an option that is negative.
LOCKSTEP_API GradientTransformation scale_by_trust_ratio(TrustRatioOptions options = {});
/// Each leaf u * max(|p|, min_scale), with the norm of the leaf's parameters. Throws ValueError for a negative
/// min_scale.
LOCKSTEP_API GradientTransformation scale_by_param_block_norm(double min_scale = 1e-3);
/// Each leaf u * max(rms(p), min_scale), rms the root of the mean of |p|^2. Throws ValueError for a negative min_scale.
LOCKSTEP_API GradientTransformation scale_by_param_block_rms(double min_scale = 1e-3);

// ---- averages and noise ----------------------------------------------------------------------------------------------

/// m' = decay m + (1 - decay) u from m = 0 on; gives m', or m' / (1 - decay^t) of the t-th update with `debias`. Linear.
/// Its state is {"count": int32, "ema"}; what is subnormal in an average becomes 0. Throws ValueError unless decay is
/// in [0, 1).
LOCKSTEP_API GradientTransformation ema(double decay, bool debias = true);
/// u + normal noise of the variance eta / t^gamma at the t-th update: `eta` is the first variance, `gamma` how fast it
/// falls. Neelakantan et al. 2015, "Adding gradient noise improves learning for very deep networks". The draws are
/// those of Optax from the same key; the key moves on in the state, {"count": int32, "key": its words}, so that a
/// resumed run draws on, and all replicas draw the same. Real leaves; throws DtypeError for complex ones and for a key
/// that is none, ValueError unless eta and gamma are >= 0.
LOCKSTEP_API GradientTransformation add_noise(double eta, double gamma, const Array& key);

// ---- measurements ----------------------------------------------------------------------------------------------------

/// Updates as they come; the state holds what each function, a pure one, gives of them: {"global_norm": ...}. Where in
/// a chain it stands is what it measures. `init` measures zeros. Linear. (Optax' monitor, snapshot)
LOCKSTEP_API GradientTransformation monitor(Named<std::function<Array(const Tree& updates)>> measures);

}  // namespace lockstep::optim
