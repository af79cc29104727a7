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

// Optimizers beside sgd, adam, adamw and lion of optim.h. Each is a rule scale_by_<name> (its direction, by which weights
// are to fall) and what chains it to a learning rate. g are the gradients, t the number of the update from 1 on, p the
// parameters, m^ and v^ averages m and v divided by 1 - b^t. All need reduced gradients. Averages start from 0 and have
// at least float32; what is subnormal in one becomes 0. Squares of complex gradients are |g|^2; what takes real leaves
// alone says so and throws DtypeError naming the leaf. Shares of averages (b1, b2, decay) outside of [0, 1), epsilons
// and decays below 0 and numbers that are not finite throw ValueError.
namespace lockstep::optim {

// ---- by the root of mean squares -------------------------------------------------------------------------------------

/// How `scale_by_rms` averages.
struct RmsOptions {
  double decay = 0.9;            ///< Share of the old average in the new one.
  double epsilon = 1e-8;         ///< Added below the root, or to it.
  double initial = 0;            ///< What the average of squares starts from.
  bool epsilon_in_root = true;   ///< 1 / sqrt(v + epsilon), else 1 / (sqrt(v) + epsilon).
  bool centered = false;         ///< Of v - |m|^2, the variance, m being the average of g.
  bool bias_correction = false;  ///< Of v^ and m^.
};
/// g / sqrt(v + epsilon) of v' = decay v + (1 - decay) |g|^2. Tieleman and Hinton 2012, lecture 6.5. Its state is {"nu"}
/// with {"mu", "count"} where they are needed; centered, nu is the variance itself, and with a bias correction both are the
/// corrected ones.
LOCKSTEP_API GradientTransformation scale_by_rms(RmsOptions options = {});
/// scale_by_rms, then the learning rate, then, with a momentum other than 0, trace(momentum, nesterov).
LOCKSTEP_API GradientTransformation rmsprop(LearningRate rate, RmsOptions options = {}, double momentum = 0,
                                            bool nesterov = false);
/// g / sqrt(s + epsilon) of the sum s of all |g|^2, from `initial` on; 0 where that is 0. Its state is the sums.
LOCKSTEP_API GradientTransformation scale_by_rss(double initial = 0.1, double epsilon = 1e-7);
/// scale_by_rss, then the learning rate. Duchi, Hazan and Singer 2011.
LOCKSTEP_API GradientTransformation adagrad(LearningRate rate, double initial = 0.1, double epsilon = 1e-7);
/// u = g sqrt(x + epsilon) / sqrt(v + epsilon) of the averages v of |g|^2 and x of |u|^2 (the one before). Zeiler 2012.
/// `decay` is the share of old averages in new ones. Its state is {"squares", "moves"}.
LOCKSTEP_API GradientTransformation scale_by_adadelta(double decay = 0.9, double epsilon = 1e-6);
/// scale_by_adadelta, then the learning rate.
LOCKSTEP_API GradientTransformation adadelta(LearningRate rate, double decay = 0.9, double epsilon = 1e-6);

// ---- of Adam's family: b1 and b2 are the shares of the old moments m of g and v of |g|^2 in the new ones, epsilon is
// added to the root; states are {"count", "mu", "nu", ...} ---------------------------------------------------------------

/// Nesterov's momentum: (b1 m / (1 - b1^(t+1)) + (1 - b1) g / (1 - b1^t)) / (sqrt(v^) + epsilon). Dozat 2016.
LOCKSTEP_API GradientTransformation scale_by_nadam(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8);
/// scale_by_nadam, then the learning rate.
LOCKSTEP_API GradientTransformation nadam(LearningRate rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8);
/// With decoupled decay, which the rate multiplies.
LOCKSTEP_API GradientTransformation nadamw(LearningRate rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8,
                                           double weight_decay = 1e-4);
/// m^ / n of n' = max(b2 n, |g| + epsilon). Kingma and Ba 2015, section 7.1.
LOCKSTEP_API GradientTransformation scale_by_adamax(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8);
/// scale_by_adamax, then the learning rate.
LOCKSTEP_API GradientTransformation adamax(LearningRate rate, double b1 = 0.9, double b2 = 0.999,
                                           double epsilon = 1e-8);
/// With decoupled decay, which the rate multiplies.
LOCKSTEP_API GradientTransformation adamaxw(LearningRate rate, double b1 = 0.9, double b2 = 0.999,
                                            double epsilon = 1e-8, double weight_decay = 1e-4);
/// m^ / (sqrt(n) + epsilon) of the largest v^ so far, n. Reddi, Kale and Kumar 2018.
LOCKSTEP_API GradientTransformation scale_by_amsgrad(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8);
/// scale_by_amsgrad, then the learning rate.
LOCKSTEP_API GradientTransformation amsgrad(LearningRate rate, double b1 = 0.9, double b2 = 0.999,
                                            double epsilon = 1e-8);
/// m^ / (sqrt(s^) + epsilon) of the average s of |g - m|^2, to which epsilon_root is added each time. Zhuang et al.
/// 2020.
LOCKSTEP_API GradientTransformation scale_by_belief(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-16,
                                                    double epsilon_root = 1e-16);
/// scale_by_belief, then the learning rate.
LOCKSTEP_API GradientTransformation adabelief(LearningRate rate, double b1 = 0.9, double b2 = 0.999,
                                              double epsilon = 1e-16, double epsilon_root = 1e-16);
/// Adam's direction times sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r)) with R = 2 / (1 - b2) - 1 and
/// r = R - 2 t b2^t / (1 - b2^t), m^ alone while r is below the threshold. Liu et al. 2020.
LOCKSTEP_API GradientTransformation scale_by_radam(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8,
                                                   double threshold = 5);
/// scale_by_radam, then the learning rate.
LOCKSTEP_API GradientTransformation radam(LearningRate rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8,
                                          double threshold = 5);
/// m^ / (sqrt(v^) + epsilon) of v' = v - (1 - b2) sign(v - |g|^2) |g|^2; both moments start from `initial`. Zaheer et al.
/// 2018.
LOCKSTEP_API GradientTransformation scale_by_yogi(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-3,
                                                  double initial = 1e-6);
/// scale_by_yogi, then the learning rate.
LOCKSTEP_API GradientTransformation yogi(LearningRate rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-3);
/// How `scale_by_ademamix` averages.
struct AdemamixOptions {
  double b1 = 0.9;            ///< Share of the old fast average of g in the new one.
  double b2 = 0.999;          ///< The same of |g|^2.
  LearningRate b3 = 0.9999;   ///< The same of the slow average of g; a number or a schedule.
  LearningRate alpha = 5;     ///< What the slow average counts beside the fast one; a number or a schedule.
  double epsilon = 1e-8;      ///< Added to the root.
  double weight_decay = 0.0;  ///< Of `ademamix`: decoupled, the rate multiplies it.
};
/// (m^ + alpha s) / (sqrt(v^) + epsilon) of a fast average m and a slow one s, which is not corrected. Pagliardini et al.
/// 2024.
LOCKSTEP_API GradientTransformation scale_by_ademamix(AdemamixOptions options = {});
/// scale_by_ademamix with decoupled decay, then the learning rate.
LOCKSTEP_API GradientTransformation ademamix(LearningRate rate, AdemamixOptions options = {});
/// How `scale_by_adan` averages.
struct AdanOptions {
  double b1 = 0.98;            ///< Share of the old average m of g in the new one.
  double b2 = 0.92;            ///< The same of the average d of g less the one before.
  double b3 = 0.99;            ///< The same of the average n of |g + (1 - b2) (g - g_before)|^2.
  double epsilon = 1e-8;       ///< Added to the root.
  double epsilon_root = 1e-8;  ///< Added below the root.
  double weight_decay = 0.0;   ///< Of `adan`: decoupled, the rate multiplies it.
};
/// (m^ + (1 - b2) d^) / (sqrt(n^ + epsilon_root) + epsilon). Xie et al. 2022.
LOCKSTEP_API GradientTransformation scale_by_adan(AdanOptions options = {});
/// scale_by_adan with decoupled decay, then the learning rate.
LOCKSTEP_API GradientTransformation adan(LearningRate rate, AdanOptions options = {});

/// g / (sqrt(s^) + epsilon) of the s^ before this gradient (the first gradient as it is), s' = b2 s + (1 - b2) |g - m|^2 +
/// epsilon_root with m before it too, m' = b1 m + (1 - b1) g. Zhuang et al. 2021.
LOCKSTEP_API GradientTransformation scale_by_acprop(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-16,
                                                    double epsilon_root = 1e-16);
/// scale_by_acprop with decoupled decay, then the learning rate.
LOCKSTEP_API GradientTransformation acprop(LearningRate rate, double b1 = 0.9, double b2 = 0.999,
                                           double epsilon = 1e-16, double epsilon_root = 1e-16,
                                           double weight_decay = 0);
/// How `scale_by_adopt` averages.
struct AdoptOptions {
  double b1 = 0.9;        ///< Share of the old average of directions in the new one.
  double b2 = 0.9999;     ///< The same of |g|^2.
  double epsilon = 1e-6;  ///< The least root that is divided by.
  bool nesterov = false;  ///< The average with this direction once more.
  bool clips = true;      ///< Elements of the direction within (t - 1)^(1/4).
};
/// The average of g / max(sqrt(v), epsilon), v being the average of |g|^2 before this gradient; no step at first.
/// Taniguchi et al. 2024. Real leaves.
LOCKSTEP_API GradientTransformation scale_by_adopt(AdoptOptions options = {});
/// scale_by_adopt, then the learning rate.
LOCKSTEP_API GradientTransformation adopt(LearningRate rate, AdoptOptions options = {});
/// How `scale_by_simplified_ademamix` averages.
struct SimplifiedAdemamixOptions {
  double b1 = 0.99;           ///< m' = b1 m + g, a sum that forgets.
  double b2 = 0.95;           ///< Share of the old average of |g|^2 in the new one.
  LearningRate alpha = 0;     ///< What the gradient counts beside the sum; a number or a schedule.
  double epsilon = 1e-8;      ///< Added to the root.
  double epsilon_root = 0;    ///< Added below the root.
  double weight_decay = 0.0;  ///< Of `simplified_ademamix`: decoupled, the rate multiplies it.
};
/// (m + alpha g) / (sqrt(v^ + epsilon_root) + epsilon). Morwani et al. 2025.
LOCKSTEP_API GradientTransformation scale_by_simplified_ademamix(SimplifiedAdemamixOptions options = {});
/// scale_by_simplified_ademamix with decoupled decay, then the learning rate.
LOCKSTEP_API GradientTransformation simplified_ademamix(LearningRate rate, SimplifiedAdemamixOptions options = {});

// ---- layer by layer --------------------------------------------------------------------------------------------------

/// scale_by_adam with decoupled decay, then scale_by_trust_ratio, then the learning rate. You et al. 2020.
LOCKSTEP_API GradientTransformation lamb(LearningRate rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-6,
                                         double weight_decay = 0);
/// How `lars` compares weights and gradients.
struct LarsOptions {
  double weight_decay = 0;     ///< Of the weights, before the ratio.
  double coefficient = 0.001;  ///< The trust ratio is multiplied by it.
  double epsilon = 0;          ///< Added to the norm of the gradients.
  double momentum = 0.9;       ///< Of trace.
  bool nesterov = false;       ///< Of trace.
  Mask decayed = {};           ///< Leaves whose weights decay; empty: all.
  Mask scaled = {};            ///< Leaves that the trust ratio scales; empty: all.
};
/// Decayed weights, scale_by_trust_ratio, the learning rate, trace. You, Gitman and Ginsburg 2017.
LOCKSTEP_API GradientTransformation lars(LearningRate rate, LarsOptions options = {});
/// scale_by_trust_ratio(min_norm) and the rate, weights and updates then divided by sqrt(1 + rate^2). Bernstein et al.
/// 2020.
LOCKSTEP_API GradientTransformation fromage(LearningRate rate, double min_norm = 1e-6);
/// m' = b1 m + g / (sqrt(v) + epsilon) + weight_decay p with one number v for each leaf, v' = b2 v + (1 - b2) |g|^2 (the
/// first |g|^2 itself), |g| the leaf's norm; gives m'. Ginsburg et al. 2019.
LOCKSTEP_API GradientTransformation scale_by_novograd(double b1 = 0.9, double b2 = 0.25, double epsilon = 1e-8,
                                                      double weight_decay = 0);
/// scale_by_novograd, then the learning rate.
LOCKSTEP_API GradientTransformation novograd(LearningRate rate, double b1 = 0.9, double b2 = 0.25,
                                             double epsilon = 1e-6, double weight_decay = 0);

// ---- with less memory ------------------------------------------------------------------------------------------------

/// How `scale_by_factored_rms` keeps squares.
struct FactoredRmsOptions {
  bool factored = true;                ///< false: all squares, as of leaves that are too small.
  double decay = 0.8;                  ///< The share of the old average in the t-th is 1 - t^-decay.
  std::int64_t least_dimension = 128;  ///< Leaves whose second largest dimension is below keep all squares.
  double epsilon = 1e-30;              ///< Added to squares.
};
/// g / sqrt(v), v being an average of |g|^2 + epsilon, of which leaves of rank 2 and more keep the means along their two
/// largest dimensions alone: v = row column / mean(row). Shazeer and Stern 2018. Its state is {"count", "slots"}, of each
/// leaf {"row", "column"} or {"all"}.
LOCKSTEP_API GradientTransformation scale_by_factored_rms(FactoredRmsOptions options = {});
/// How `adafactor` goes on.
struct AdafactorOptions {
  FactoredRmsOptions squares = {};          ///< Of scale_by_factored_rms.
  double clipping_threshold = 1;            ///< Of clip_by_block_rms; 0: none.
  bool multiply_by_parameter_scale = true;  ///< scale_by_param_block_rms(1e-3): the rate is relative to the weights.
  double momentum = 0;                      ///< Of ema without correction; 0: none.
  double weight_decay = 0;                  ///< Of the weights, not multiplied by the rate.
};
/// scale_by_factored_rms, clip_by_block_rms, the learning rate, scale_by_param_block_rms, momentum, decay. Shazeer and
/// Stern 2018.
LOCKSTEP_API GradientTransformation adafactor(LearningRate rate, AdafactorOptions options = {});
/// g / sqrt(a + epsilon), averaged with the share b1 of the old average, of a = |g|^2 + min over dimensions of the
/// largest a of each slice: one number a slice. With b2 below 1 that minimum times b2, and (1 - b2) |g|^2. Anil et al.
/// 2019. Real leaves.
LOCKSTEP_API GradientTransformation scale_by_sm3(double b1 = 0.9, double b2 = 1, double epsilon = 1e-8);
/// scale_by_sm3(momentum), then the learning rate.
LOCKSTEP_API GradientTransformation sm3(LearningRate rate, double momentum = 0.9);

// ---- by signs --------------------------------------------------------------------------------------------------------

/// The sign of g, element by element; of complex g, g / |g|.
LOCKSTEP_API GradientTransformation scale_by_sign();
/// scale_by_sign, then the learning rate. Bernstein et al. 2018.
LOCKSTEP_API GradientTransformation sign_sgd(LearningRate rate);
/// The sign of the average of g (share `momentum` of the old one), then the learning rate. Bernstein et al. 2018.
LOCKSTEP_API GradientTransformation signum(LearningRate rate, double momentum = 0.9);
/// How step sizes of `rprop` change.
struct RpropOptions {
  double shrink = 0.5;  ///< Their factor where the gradient changed its sign.
  double grow = 1.2;    ///< Their factor where it kept it.
  double least = 1e-6;  ///< The smallest step.
  double largest = 50;  ///< The largest step.
};
/// Each weight by a step of its own, from `first_step` on, against the gradient's sign; where that changed, the weight
/// stays for once. Riedmiller and Braun 1993. Real leaves. Throws ValueError unless 0 < shrink < 1 < grow and
/// 0 < least <= largest. (Optax' moves a step later, by the update before.)
LOCKSTEP_API GradientTransformation rprop(double first_step, RpropOptions options = {});

// ---- others ----------------------------------------------------------------------------------------------------------

/// (alpha + beta) g - beta g_before. Mokhtari et al. 2020.
LOCKSTEP_API GradientTransformation scale_by_optimistic_gradient(double alpha = 1, double beta = 1);
/// scale_by_optimistic_gradient, then the learning rate.
LOCKSTEP_API GradientTransformation optimistic_gradient_descent(LearningRate rate, double alpha = 1, double beta = 1);
/// How `optimistic_adam` looks ahead.
struct OptimisticAdamOptions {
  double alpha = 1;       ///< Share of this direction.
  double beta = 1;        ///< Share of its difference from the one before.
  double b1 = 0.9;        ///< Of scale_by_nadam, as are all below.
  double b2 = 0.999;      ///< Of scale_by_nadam.
  double epsilon = 1e-8;  ///< Of scale_by_nadam.
  bool nesterov = true;   ///< false: scale_by_adam.
};
/// scale_by_nadam, scale_by_optimistic_gradient, the learning rate. Daskalakis et al. 2018. (Optax' optimistic_adam_v2;
/// its optimistic_adam is this with rate 1, alpha the rate and beta the optimism)
LOCKSTEP_API GradientTransformation optimistic_adam(LearningRate rate, OptimisticAdamOptions options = {});
/// How `ftrl` regularizes.
struct FtrlOptions {
  double power = -0.5;      ///< Sums of |g|^2 to the power -power divide; at most 0.
  double initial = 0.1;     ///< What those sums start from.
  double l1 = 0;            ///< Weights of less than this are 0.
  double l2 = 0;            ///< Pulls weights to 0.
  double l2_shrinkage = 0;  ///< 2 l2_shrinkage p is added to gradients, not to their squares.
  double beta = 0;          ///< beta / (2 rate) is added to l2.
};
/// Follow the regularized leader: p' = (clip(z, -l1, l1) - z) / (n'^-power / rate + 2 l2) of sums n' = n + g^2 and z' = z +
/// g - (n'^-power - n^-power) / rate p. McMahan et al. 2013. Real leaves. Its state is {"count", "squares", "linear"}.
/// Throws ValueError for a power above 0, a rate given as the number 0 and options that are negative. (Keras' Ftrl)
LOCKSTEP_API GradientTransformation ftrl(LearningRate rate, FtrlOptions options = {});
/// add_noise(eta, gamma, key), then the learning rate.
LOCKSTEP_API GradientTransformation noisy_sgd(LearningRate rate, double eta, double gamma, const Array& key);
/// How `scale_by_polyak` bounds its step.
struct PolyakOptions {
  double least_loss = 0;  ///< What the loss can fall to.
  double max_rate = 1;    ///< The largest factor.
  double epsilon = 0;     ///< Added to |u|^2.
  bool positive = false;  ///< No step where the loss is below least_loss, instead of one back.
};
/// u times min(max_rate, (loss - least_loss) / (|u|^2 + epsilon)), the norm over all leaves; 0 where that is at most
/// 2.2e-16. It needs the loss. Loizou et al. 2021.
LOCKSTEP_API GradientTransformation scale_by_polyak(PolyakOptions options = {});
/// sgd(scaling), then scale_by_polyak.
LOCKSTEP_API GradientTransformation polyak_sgd(PolyakOptions options = {}, LearningRate scaling = 1.0);

/// How `scale_by_muon` makes matrices orthogonal.
struct MuonOptions {
  double beta = 0.95;       ///< Share of the old average of g in the new one.
  bool nesterov = true;     ///< beta m / (1 - beta^(t+1)) + (1 - beta) g / (1 - beta^t), else m^.
  std::int64_t steps = 5;   ///< Of Newton and Schulz' iteration.
  double epsilon = 1e-8;    ///< Added to the norm by which a matrix is divided first; and of `muon`'s nadam.
  Mask matrices = {};       ///< Of `muon`: which leaves of rank 2 it takes; empty: all. Embeddings and heads are not.
  double weight_decay = 0;  ///< Of `muon`: decoupled, of what it takes; the rate multiplies it.
};
/// The average of g made orthogonal: x = m / (|m| + epsilon), then `steps` times x = 3.4445 x + (-4.775 a + 2.0315 a^2) x
/// with a = x x^T, the smaller side first. Jordan et al. 2024. Leaves of rank 2; throws ShapeError for others. Its
/// state is {"count", "mu"}.
LOCKSTEP_API GradientTransformation scale_by_muon(MuonOptions options = {});
/// Leaves [n, m] by scale_by_muon, times sqrt(max(1, m / n)), decoupled decay and the learning rate; all others by
/// nadam with the same rate (adam without `nesterov`). Its state is {"adam", "muon"}.
LOCKSTEP_API GradientTransformation muon(LearningRate rate, MuonOptions options = {});

}  // namespace lockstep::optim
