#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/named.h>
#include <lockstep/out_of_line.h>
#include <lockstep/schedules.h>
#include <lockstep/tree.h>

namespace lockstep::optim {

/// Which leaves are meant, by path.
using Mask = std::function<bool(std::string_view path)>;

/// A choice of leaves that a transformation makes, and what it is called in messages.
struct Selection {
  std::string text;  ///< "freeze(below(\"encoder\"))"
  Mask mask;
  bool optional = false;  ///< Whether it may select no leaf.
};
}  // namespace lockstep::optim

extern template class LOCKSTEP_API lockstep::detail::OutOfLine<std::vector<lockstep::optim::Selection>>;

namespace lockstep::optim {

/// The loss of a step's batch as a function of the parameters: a float scalar. It may be differentiated.
using ValueFunction = std::function<Array(const Tree& params)>;

/// What an update may be told of the loss beside the gradients.
struct LOCKSTEP_API KnownLoss {
  KnownLoss();
  KnownLoss(const KnownLoss& other);
  KnownLoss(KnownLoss&& other) noexcept;
  KnownLoss& operator=(const KnownLoss& other);
  KnownLoss& operator=(KnownLoss&& other) noexcept;
  ~KnownLoss();
  KnownLoss(Array at_params);  // NOLINT: implicit by design
  KnownLoss(Array at_params, ValueFunction of_params);

  Array value = {};             ///< At the parameters; nothing: not known.
  ValueFunction function = {};  ///< At other parameters; empty: not known.
  /// Its gradients before any transformation; None: those that `update` is given.
  Tree gradients = {};
};

/// A pair of pure functions on trees. `update` maps gradients (already reduced over the mesh) to updates to be added to
/// the parameters.
///
/// A training step hands every transformation reduced gradients. `linear` says whether it would have to: what is linear
/// in the gradients gives the same where each replica's own ones go through it and its results are summed; all else
/// (moments of squares, norms, signs, clipping, decay, noise) needs reduced gradients, and what is made of one that
/// does needs them too.
struct GradientTransformation {
  std::function<Tree(const Tree& params)> init;
  /// (gradients, state, params) -> (updates, state').
  std::function<std::pair<Tree, Tree>(const Tree& gradients, const Tree& state, const Tree& params)> update;
  /// Leaves whose update is 0 whatever their gradient is; empty: none. A training step neither differentiates nor
  /// reduces them, gives them no slots, and leaves them out of grad_norm.
  Mask frozen = {};
  /// Each choice of leaves in it; one that takes none is a finding of `lint`.
  lockstep::detail::OutOfLine<std::vector<Selection>> selections = {};
  /// In place of `update` where the loss is needed too; empty where it is not. Training steps give it.
  std::function<std::pair<Tree, Tree>(const Tree& gradients, const Tree& state, const Tree& params,
                                      const KnownLoss& loss)>
      update_with_loss = {};
  bool linear = false;          ///< Linear in the gradients; false: it needs reduced ones.
  bool needs_function = false;  ///< It asks for the loss at other parameters, `KnownLoss::function`.
};
}  // namespace lockstep::optim

extern template class LOCKSTEP_API lockstep::Named<lockstep::optim::GradientTransformation>;

namespace lockstep::optim {

/// `update_with_loss` where it has one, else `update`. Throws StateError where it needs the loss, or the loss at other
/// parameters, and `loss` does not have it.
LOCKSTEP_API std::pair<Tree, Tree> update(const GradientTransformation& transformation, const Tree& gradients,
                                          const Tree& state, const Tree& params, const KnownLoss& loss = {});

/// A constant or a schedule of the number of updates made so far.
class LOCKSTEP_API LearningRate {
 public:
  LearningRate(const LearningRate& other);
  LearningRate(LearningRate&& other) noexcept;
  LearningRate& operator=(const LearningRate& other);
  LearningRate& operator=(LearningRate&& other) noexcept;
  ~LearningRate();
  LearningRate(double value);       // NOLINT: implicit by design. Throws ValueError unless finite and >= 0.
  LearningRate(Schedule schedule);  // NOLINT: implicit by design
  const Schedule& schedule() const { return schedule_; }
  bool is_number() const { return is_number_; }  ///< A constant that was given as one.

 private:
  Schedule schedule_;
  bool is_number_ = false;
};

// Parameters narrower than float32 (float16, bfloat16) have slots, moments and updates of float32, and epsilon is added
// in it; a new parameter is rounded once, when the update is applied.

/// params + updates, leaf by leaf, added in the wider dtype and rounded once to the parameter's. Throws StateError where
/// the trees differ in structure; naming the leaf, ShapeError for an update of another shape and DtypeError for one of
/// floats to integers or of complex numbers to floats.
LOCKSTEP_API Tree apply_updates(const Tree& params, const Tree& updates);
/// One after the other; its state is the list of their states. What one of them freezes stays, wherever in the chain it
/// stands.
LOCKSTEP_API GradientTransformation chain(std::vector<GradientTransformation> transformations);
}  // namespace lockstep::optim

namespace lockstep::detail {
/// optim::chain of transformations that are given as arguments.
LOCKSTEP_API optim::GradientTransformation chain(std::initializer_list<optim::GradientTransformation> transformations);
}  // namespace lockstep::detail

namespace lockstep::optim {
/// The same of transformations that are given as arguments.
template <class... Ts>
GradientTransformation chain(GradientTransformation first, Ts... rest) {
  return lockstep::detail::chain({std::move(first), std::move(rest)...});
}
LOCKSTEP_API GradientTransformation identity();  ///< Updates as they come; no state.

/// The inner transformation on the leaves the mask takes; the others pass unchanged and have no state.
LOCKSTEP_API GradientTransformation masked(GradientTransformation inner, Mask mask);
/// Zero updates for the leaves the mask takes: a frozen sub-tree, which costs a training step no backward pass.
LOCKSTEP_API GradientTransformation freeze(Mask frozen);
/// Each leaf's updates by the transformation of the label it has, `label(path, leaf)`: other rates or rules for other
/// leaves. Its state is a dict by label. Where the labels of `transformations` do not have the label, a ValueError says
/// so when a tree is met. A leaf's label must depend on its path and type alone. (Optax' partition)
LOCKSTEP_API GradientTransformation
partition(Named<GradientTransformation> transformations,
          std::function<std::string(const std::string& path, const Array& leaf)> label);
/// True for every path at or below `prefix`.
LOCKSTEP_API Mask below(std::string prefix);
/// The same mask, which may select no leaf. TrainStep::init throws ValueError for another one that selects none.
LOCKSTEP_API Mask optional(Mask mask);

/// -rate(count) * u, count being the number of updates made before, 0 for the first: its state is {"count": int32}.
LOCKSTEP_API GradientTransformation scale_by_learning_rate(LearningRate rate);
/// factor * u. Linear. Throws ValueError for a factor that is not finite.
LOCKSTEP_API GradientTransformation scale(double factor);
/// v' = decay v + u, from v = 0 on; gives v', or u + decay v' with nesterov. Sutskever et al. 2013. What is subnormal
/// in v' becomes 0. Throws ValueError unless decay is in [0, 1).
LOCKSTEP_API GradientTransformation trace(double decay, bool nesterov = false);
/// Bias-corrected moments of the gradients g, the t-th of them: m' = b1 m + (1 - b1) g and v' = b2 v + (1 - b2) |g|^2,
/// both from 0 on, give m' / (1 - b1^t) / (sqrt(v' / (1 - b2^t)) + epsilon). Kingma and Ba 2015. Its state is {"count",
/// "mu", "nu"}. What is subnormal in a moment becomes 0. Throws ValueError unless b1 and b2 are in [0, 1) and epsilon is
/// not negative, as all that is made of it does.
LOCKSTEP_API GradientTransformation scale_by_adam(double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8);
/// The sign of b1 m + (1 - b1) g, element by element, of gradients g and their average m, which then becomes b2 m +
/// (1 - b2) g, from 0 on: every weight moves by the same amount. Chen et al. 2023, "Symbolic discovery of optimization
/// algorithms". Its state is the averages. What is subnormal in one becomes 0. Throws ValueError unless b1 and b2 are in
/// [0, 1).
LOCKSTEP_API GradientTransformation scale_by_lion(double b1 = 0.9, double b2 = 0.99);
/// u + decay * param: before scale_by_learning_rate, weights shrink by rate * decay each update. Loshchilov and Hutter
/// 2019. Throws ValueError for a decay that is negative or not finite.
LOCKSTEP_API GradientTransformation add_decayed_weights(double decay);
/// The leaves alone that the mask takes.
LOCKSTEP_API GradientTransformation add_decayed_weights(double decay, Mask mask);
/// decay(count), count being the number of updates made before: its state is {"count": int32}.
LOCKSTEP_API GradientTransformation add_decayed_weights(Schedule decay);
/// Both.
LOCKSTEP_API GradientTransformation add_decayed_weights(Schedule decay, Mask mask);
/// Scaled so that the norm over all leaves is at most `max_norm`, also where the norm, or its square, is beyond the
/// dtype. An infinite element becomes NaN, the others 0. Throws ValueError unless max_norm is > 0.
LOCKSTEP_API GradientTransformation clip_by_global_norm(double max_norm);
/// Each element clipped to [-limit, limit]; NaN stays. Real leaves. Throws ValueError unless limit is > 0.
LOCKSTEP_API GradientTransformation clip_by_value(double limit);

/// -rate g, or with a momentum other than 0 -rate v' of trace(momentum, nesterov): v' = momentum v + g, with nesterov
/// -rate (g + momentum v'). Sutskever et al. 2013.
LOCKSTEP_API GradientTransformation sgd(LearningRate rate, double momentum = 0.0, bool nesterov = false);
/// scale_by_adam, then the learning rate: the update is -rate m_hat / (sqrt(v_hat) + epsilon) of the corrected moments
/// m_hat and v_hat. b1 and b2 are the shares of the old moments in the new ones, epsilon is added to the root (Optax's
/// eps; there is no eps_root) and bounds the step where gradients vanish. Kingma and Ba 2015.
LOCKSTEP_API GradientTransformation adam(LearningRate rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8);
/// -rate (m_hat / (sqrt(v_hat) + epsilon) + weight_decay param): adam, with a decay of the weights that the moments do
/// not see and the rate multiplies (of all leaves; of some, chain scale_by_adam, masked(add_decayed_weights(decay),
/// mask) and scale_by_learning_rate). Loshchilov and Hutter 2019.
LOCKSTEP_API GradientTransformation adamw(LearningRate rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8,
                                          double weight_decay = 1e-4);

/// -rate (sign(b1 m + (1 - b1) g) + weight_decay param): scale_by_lion with decoupled decay. A rate is three to ten times
/// smaller than Adam's, the decay larger by as much. Chen et al. 2023.
LOCKSTEP_API GradientTransformation lion(LearningRate rate, double b1 = 0.9, double b2 = 0.99,
                                         double weight_decay = 1e-3);

/// Square root of the sum of squares over all leaves, added in path order, in at least float32. Where squares would
/// overflow or vanish they are those of the leaves times a power of two, so that it is exact to rounding wherever the
/// norm itself has a value in the dtype; 0 of zeros, inf of an infinity. Of complex leaves, |x|^2.
LOCKSTEP_API Array global_norm(const Tree& tree);

}  // namespace lockstep::optim
