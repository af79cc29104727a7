#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/random.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

// Functions without a useful derivative (argmax, ranks, paths, assignments) made smooth by random perturbations.
namespace lockstep {

/// How `perturbed` draws.
struct PerturbedOptions {
  /// What is drawn for each element.
  enum class Noise : std::uint8_t { gumbel, normal };

  std::int64_t samples = 1000;   ///< Of which the mean is taken.
  double sigma = 0.1;            ///< By which what is drawn is multiplied.
  Noise noise = Noise::gumbel;   ///< Gumbel makes softmax of argmax' one-hot.
  bool subtracts_middle = true;  ///< The function at x is left out of derivatives, which then vary less.
  /// In a map: whether x is a block of a larger array, whose noise and scores are then the whole one's, so that values
  /// and derivatives are those without the map; or the same on all replicas. Leaves that a replica has whole draw the
  /// same on all.
  random::Placement placement = {};
};

namespace detail {
/// On trees; `x` has the leaves that are perturbed.
LOCKSTEP_API Tree perturbed(const TreeFunction& function, const Array& key, const Tree& x,
                            const PerturbedOptions& options);
}  // namespace detail

/// The function of (key, x) that gives the mean of function(x + sigma z) over draws z: an estimate of a smooth function,
/// whose derivatives of any order, by any mode, are estimates without bias of its derivatives. They come from values of
/// the function alone (scores), which is never differentiated. x is an Array or a tree of real floats; the function is
/// one that `vmap` takes, and gives real floats. Each leaf has draws of its own, in float32 at least; those of Optax from
/// the same key. Inside a map the function sees its replica's block. Throws DtypeError for leaves that are no real floats, ValueError for samples below 1 or a sigma that is
/// not above 0. Berthet et al. 2020, "Learning with differentiable perturbed optimizers"; derivatives by Foerster et al.
/// 2018. (optax.perturbations.make_perturbed_fun)
template <class F>
auto perturbed(F function, PerturbedOptions options = {}) {
  return [function = std::move(function), options]<class T>(const Array& key, const T& x) {
    using Result = std::invoke_result_t<const F&, const T&>;
    return from_tree<Result>(detail::perturbed(detail::tree_function<F, T>(function), key, to_tree(x), options));
  };
}

}  // namespace lockstep
