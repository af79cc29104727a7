#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/out_of_line.h>
#include <lockstep/parallel.h>

/// Counter-based random numbers: Threefry-2x32 with JAX 0.10.2's partitionable layout, so that keys, bits and uniforms
/// equal JAX's. A key is an array of dtype `key`; drawing twice from one key gives the same values.
namespace lockstep {
class Function;
}

namespace lockstep::random {

/// How a draw behaves inside a map. One of the two must be said there: either every replica draws its own block of one
/// larger array (`Cut`), or all replicas draw the same values.
struct Cut {
  std::int64_t dim = 0;  ///< Of the block that a replica draws.
  AxisSet axes = {};     ///< Mesh axes whose replicas have the blocks.
  /// Without axes, the number of the block to draw, which gives a large array piece by piece; -1 without blocks.
  std::int64_t block = -1;
};
}  // namespace lockstep::random

extern template class LOCKSTEP_API lockstep::detail::OutOfLine<std::optional<lockstep::random::Cut>>;

namespace lockstep::random {

/// A draw's place in a map: `cut`, or the same on all replicas; outside of maps neither is needed.
struct Placement {
  lockstep::detail::OutOfLine<std::optional<Cut>> cut = {};
  bool same_on_all = false;
};
/// The same on all replicas.
LOCKSTEP_API extern const Placement same_on_all;
}  // namespace lockstep::random

namespace lockstep::detail {
LOCKSTEP_API extern const random::Placement unplaced;  ///< Neither.
}  // namespace lockstep::detail

namespace lockstep::random {

// ---- keys ------------------------------------------------------------------------------------------------------------

/// Key with words (seed >> 32, seed & 0xffffffff). A negative integer is 2^64 more, as in JAX; a float does not
/// compile.
LOCKSTEP_API Array key(std::uint64_t seed);
template <std::floating_point T>
Array key(T seed) = delete;
/// n new keys, shape [n]; an array of keys gives each n.
LOCKSTEP_API Array split(const ArrayOperand& key, std::int64_t n = 2);
/// A new key for a key and a number: a scalar of 32 bits, 0 to 4294967295, for any other of which a ValueError is
/// thrown, or an array of integers, of which the low 32 bits count. Throws DtypeError for data that are no integers.
LOCKSTEP_API Array fold_in(const ArrayOperand& key, const Operand& data);
/// The key's two words, uint32[..., 2], and back.
LOCKSTEP_API Array key_data(const ArrayOperand& key);
/// Keys of such words. Throws ShapeError for another dtype or last extent.
LOCKSTEP_API Array wrap_key_data(const ArrayOperand& words);

/// The same key as one that has not been used: for drawing the same numbers again on purpose.
LOCKSTEP_API Array clone(const ArrayOperand& key);

// A key is used up by a draw and by a split; fold_in and key_data leave it as it is. Using it once more gives numbers
// that depend on the first ones, which is hardly ever meant.

/// Throws KeyReuseError naming both uses, each with its layer path, where the function uses a key twice: also a key
/// that a scan body captures and draws from, and one that was split before.
LOCKSTEP_API void check_key_reuse(const Function& function);
/// Whether jit checks what it traces, and calls without a trace remember which keys they used. The default is what the
/// environment variable LOCKSTEP_CHECK_KEYS says (0 or 1), else true in debug builds and false in others.
LOCKSTEP_API void set_key_reuse_checks(bool enabled);
LOCKSTEP_API bool key_reuse_checks();  ///< Whether they are on.

// ---- draws -----------------------------------------------------------------------------------------------------------
// Every draw takes one key and the shape of its result; uniform, normal and bits take an array of keys too and draw for
// each. Parameters are scalars or arrays that broadcast to the shape; a ShapeError is thrown where they do not. Draws of
// floats throw DtypeError for another dtype, draws of integers likewise. Parameters outside their range give NaN unless
// said otherwise. Bits are those of jax.random 0.10.2 up to the rounding of elementary functions, but for poisson and
// binomial.

/// Unsigned integers of 8, 16, 32 or 64 random bits.
LOCKSTEP_API Array bits(const ArrayOperand& key, const Shape& shape, int width = 32,
                        const Placement& placement = lockstep::detail::unplaced);
/// x in a narrower float dtype, bfloat16 or float16, rounded up or down at random: of the two numbers beside x, the
/// nearer one more often, so that the mean over draws is x. What the dtype holds stays, as infinities and NaN do; beyond
/// its largest number is infinity. Element i takes random bits i of the key, whatever devices there are; x is widened or
/// rounded to float32 first. Throws DtypeError for x that is no float and for other dtypes. (Gupta et al. 2015, "Deep
/// learning with limited numerical precision")
LOCKSTEP_API Array round_stochastically(const ArrayOperand& key, const ArrayOperand& x, DType dtype = bfloat16,
                                        const Placement& placement = lockstep::detail::unplaced);
/// Uniform on [low, high), which never is high, whatever is rounded (the number below stands for it; JAX gives high);
/// low where high is not above low. The two may be farther apart than the dtype's largest number.
LOCKSTEP_API Array uniform(const ArrayOperand& key, const Shape& shape, DType dtype = float32, const Operand& low = 0.0,
                           const Operand& high = 1.0, const Placement& placement = lockstep::detail::unplaced);
/// Standard normal.
LOCKSTEP_API Array normal(const ArrayOperand& key, const Shape& shape, DType dtype = float32,
                          const Placement& placement = lockstep::detail::unplaced);
/// Standard normal conditioned on (low, high), neither of which it ever is, however far out they lie; finite where one
/// is infinite. Bounds on one side and beyond 2 are drawn by the inverse of the tail, where JAX's formula has few
/// numbers left. Scalars with low >= high throw ValueError.
LOCKSTEP_API Array truncated_normal(const ArrayOperand& key, const Operand& low, const Operand& high,
                                    const Shape& shape, DType dtype = float32,
                                    const Placement& placement = lockstep::detail::unplaced);
/// exp(sigma * standard normal).
LOCKSTEP_API Array lognormal(const ArrayOperand& key, const Operand& sigma, const Shape& shape, DType dtype = float32,
                             const Placement& placement = lockstep::detail::unplaced);
/// Density exp(-x) for x >= 0.
LOCKSTEP_API Array exponential(const ArrayOperand& key, const Shape& shape, DType dtype = float32,
                               const Placement& placement = lockstep::detail::unplaced);
/// Density exp(-|x|) / 2.
LOCKSTEP_API Array laplace(const ArrayOperand& key, const Shape& shape, DType dtype = float32,
                           const Placement& placement = lockstep::detail::unplaced);
/// Distribution function 1 / (1 + exp(-x)).
LOCKSTEP_API Array logistic(const ArrayOperand& key, const Shape& shape, DType dtype = float32,
                            const Placement& placement = lockstep::detail::unplaced);
/// Distribution function exp(-exp(-x)).
LOCKSTEP_API Array gumbel(const ArrayOperand& key, const Shape& shape, DType dtype = float32,
                          const Placement& placement = lockstep::detail::unplaced);
/// Density 1 / (pi (1 + x^2)).
LOCKSTEP_API Array cauchy(const ArrayOperand& key, const Shape& shape, DType dtype = float32,
                          const Placement& placement = lockstep::detail::unplaced);
/// Density b / x^(b + 1) for x >= 1.
LOCKSTEP_API Array pareto(const ArrayOperand& key, const Operand& b, const Shape& shape, DType dtype = float32,
                          const Placement& placement = lockstep::detail::unplaced);
/// Density x / scale^2 exp(-x^2 / (2 scale^2)) for x >= 0.
LOCKSTEP_API Array rayleigh(const ArrayOperand& key, const Operand& scale, const Shape& shape, DType dtype = float32,
                            const Placement& placement = lockstep::detail::unplaced);
/// Distribution function 1 - exp(-(x / scale)^concentration) for x >= 0.
LOCKSTEP_API Array weibull_min(const ArrayOperand& key, const Operand& scale, const Operand& concentration,
                               const Shape& shape, DType dtype = float32,
                               const Placement& placement = lockstep::detail::unplaced);
/// The length of a standard normal vector in three dimensions.
LOCKSTEP_API Array maxwell(const ArrayOperand& key, const Shape& shape, DType dtype = float32,
                           const Placement& placement = lockstep::detail::unplaced);
/// location + scale * (maxwell with a random sign).
LOCKSTEP_API Array double_sided_maxwell(const ArrayOperand& key, const Operand& location, const Operand& scale,
                                        const Shape& shape, DType dtype = float32,
                                        const Placement& placement = lockstep::detail::unplaced);
/// Triangular on [left, right] with its peak at mode.
LOCKSTEP_API Array triangular(const ArrayOperand& key, const Operand& left, const Operand& mode, const Operand& right,
                              const Shape& shape, DType dtype = float32,
                              const Placement& placement = lockstep::detail::unplaced);
/// The inverse Gaussian distribution of scale 1.
LOCKSTEP_API Array wald(const ArrayOperand& key, const Operand& mean, const Shape& shape, DType dtype = float32,
                        const Placement& placement = lockstep::detail::unplaced);

// The gamma distribution and what is made of it. They have derivatives in their parameters, those of a draw at a fixed
// quantile (Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients", NeurIPS 2018), once: a second one throws
// TraceError.

/// Density x^(a - 1) exp(-x) / Gamma(a) for x >= 0.
LOCKSTEP_API Array gamma(const ArrayOperand& key, const Operand& a, const Shape& shape, DType dtype = float32,
                         const Placement& placement = lockstep::detail::unplaced);
/// The logarithm of `gamma`, exact where that underflows (small a).
LOCKSTEP_API Array loggamma(const ArrayOperand& key, const Operand& a, const Shape& shape, DType dtype = float32,
                            const Placement& placement = lockstep::detail::unplaced);
/// Density x^(a - 1) (1 - x)^(b - 1) / B(a, b) on [0, 1].
LOCKSTEP_API Array beta(const ArrayOperand& key, const Operand& a, const Operand& b, const Shape& shape,
                        DType dtype = float32, const Placement& placement = lockstep::detail::unplaced);
/// Points of a simplex, shape + [n], of density prod x_i^(alpha_i - 1); alpha is [..., n] and broadcasts.
LOCKSTEP_API Array dirichlet(const ArrayOperand& key, const ArrayOperand& alpha, const Shape& shape,
                             DType dtype = float32, const Placement& placement = lockstep::detail::unplaced);
/// The sum of df squared standard normals.
LOCKSTEP_API Array chisquare(const ArrayOperand& key, const Operand& df, const Shape& shape, DType dtype = float32,
                             const Placement& placement = lockstep::detail::unplaced);
/// (chisquare(d1) / d1) / (chisquare(d2) / d2).
LOCKSTEP_API Array f(const ArrayOperand& key, const Operand& d1, const Operand& d2, const Shape& shape,
                     DType dtype = float32, const Placement& placement = lockstep::detail::unplaced);
/// Student's t of df degrees of freedom.
LOCKSTEP_API Array t(const ArrayOperand& key, const Operand& df, const Shape& shape, DType dtype = float32,
                     const Placement& placement = lockstep::detail::unplaced);
/// Density proportional to exp(-|x|^p).
LOCKSTEP_API Array generalized_normal(const ArrayOperand& key, double p, const Shape& shape, DType dtype = float32,
                                      const Placement& placement = lockstep::detail::unplaced);
/// Uniform in the unit ball of the p-norm in d dimensions: shape + [d].
LOCKSTEP_API Array ball(const ArrayOperand& key, std::int64_t d, double p, const Shape& shape, DType dtype = float32,
                        const Placement& placement = lockstep::detail::unplaced);

/// Normal vectors of the mean [..., n] and covariance [..., n, n] (by its Cholesky factor: NaN where that has none),
/// shape + [n]. Throws ShapeError where their extents disagree.
LOCKSTEP_API Array multivariate_normal(const ArrayOperand& key, const ArrayOperand& mean,
                                       const ArrayOperand& covariance, const Shape& shape, DType dtype = float32,
                                       const Placement& placement = lockstep::detail::unplaced);
/// Uniform among orthogonal matrices: shape + [n, m] of orthonormal rows if n <= m, else columns; m = 0 stands for n.
/// float32 and float64. Mezzadri, "How to generate random matrices from the classical compact groups", Notices of the
/// AMS 54 (2007).
LOCKSTEP_API Array orthogonal(const ArrayOperand& key, std::int64_t n, const Shape& shape = {}, DType dtype = float32,
                              std::int64_t m = 0, const Placement& placement = lockstep::detail::unplaced);

// ---- draws of integers -----------------------------------------------------------------------------------------------

/// bool: true with probability p. Compares uniforms of p's dtype with p, of a C++ number in float32: JAX's bits for p of that
/// dtype. (JAX with x64 takes a Python number in float64: give p as a float64 array for its bits.) A scalar p outside
/// [0, 1] or NaN throws ValueError.
LOCKSTEP_API Array bernoulli(const ArrayOperand& key, const Operand& p, const Shape& shape,
                             const Placement& placement = lockstep::detail::unplaced);
/// -1 or 1 with probability 1/2 each, of any signed integer or float dtype.
LOCKSTEP_API Array rademacher(const ArrayOperand& key, const Shape& shape, DType dtype = int32,
                              const Placement& placement = lockstep::detail::unplaced);
/// Integers of [low, high), low where high <= low. Bounds are clamped to the dtype, high to one above its largest
/// value. The bias is below span^2 / 2^64 (span^2 / 2^128 for 64-bit integers).
LOCKSTEP_API Array randint(const ArrayOperand& key, const Shape& shape, const Operand& low, const Operand& high,
                           DType dtype = int32, const Placement& placement = lockstep::detail::unplaced);
/// 0, 1, ..., n-1 in random order.
LOCKSTEP_API Array permutation(const ArrayOperand& key, std::int64_t n,
                               const Placement& placement = lockstep::detail::unplaced);
/// `x` with its slices along `axis` in random order; `independent`: each line along the axis in an order of its own. A
/// Cut throws MeshError.
LOCKSTEP_API Array permutation(const ArrayOperand& key, const ArrayOperand& x, std::int64_t axis = 0,
                               bool independent = false, const Placement& placement = lockstep::detail::unplaced);
/// How `choice` draws.
struct ChoiceOptions {
  bool replace = true;
  std::optional<Array> p = {};  ///< Probabilities [n], in any scale; even where there are none.
  std::int64_t axis = 0;        ///< Along which slices are chosen.
};
/// Integers below n. Throws ValueError for more draws without replacement than n, ShapeError for a p not of shape [n].
LOCKSTEP_API Array choice(const ArrayOperand& key, std::int64_t n, const Shape& shape,
                          const ChoiceOptions& options = {}, const Placement& placement = lockstep::detail::unplaced);
/// Slices of `x`: the axis gives way to `shape`.
LOCKSTEP_API Array choice(const ArrayOperand& key, const ArrayOperand& x, const Shape& shape,
                          const ChoiceOptions& options = {}, const Placement& placement = lockstep::detail::unplaced);
/// How `categorical` draws.
struct CategoricalOptions {
  std::int64_t axis = -1;  ///< Of the classes.
  std::optional<Shape> shape =
      {};               ///< Of the result; logits without the axis broadcast to it. None: that shape itself.
  bool replace = true;  ///< Otherwise the leading dimensions of `shape` hold distinct classes.
};
/// int32 classes of probabilities softmax(logits), by the Gumbel-max trick.
LOCKSTEP_API Array categorical(const ArrayOperand& key, const ArrayOperand& logits,
                               const CategoricalOptions& options = {},
                               const Placement& placement = lockstep::detail::unplaced);
/// Trials of probability p up to the first success: 1, 2, ..., the dtype's largest integer for more; 0 for a p of an
/// array outside (0, 1]. A scalar p outside throws ValueError.
LOCKSTEP_API Array geometric(const ArrayOperand& key, const Operand& p, const Shape& shape, DType dtype = int32,
                             const Placement& placement = lockstep::detail::unplaced);
/// int32 or int64; -1 for a rate that is negative or NaN, the largest integer for one too large.
LOCKSTEP_API Array poisson(const ArrayOperand& key, const Operand& rate, const Shape& shape, DType dtype = int32,
                           const Placement& placement = lockstep::detail::unplaced);
/// Successes among n trials of probability p, as floats; NaN for a negative n or a p outside [0, 1].
LOCKSTEP_API Array binomial(const ArrayOperand& key, const Operand& n, const Operand& p, const Shape& shape,
                            DType dtype = float32, const Placement& placement = lockstep::detail::unplaced);

}  // namespace lockstep::random
