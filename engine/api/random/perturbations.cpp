#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/parallel.h>
#include <lockstep/perturbations.h>
#include <lockstep/random.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "engine/trace/trace.h"

namespace lockstep::detail {
namespace {

using Noise = PerturbedOptions::Noise;

void check_floats(const Tree& tree, const std::string& whole, const std::string& advice) {
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (is_float(leaves[i].dtype())) continue;
    throw DtypeError(fmt::format("perturbed: {} is {}; {}: convert it first",
                                 paths[i].empty() ? whole : "leaf '" + paths[i] + "' of " + whole,
                                 to_string(leaves[i].type()), advice));
  }
}

void check_perturbed_arguments(const Tree& x, const PerturbedOptions& options) {
  if (options.samples < 1 || !(options.sigma > 0) || !std::isfinite(options.sigma)) {
    throw ValueError(fmt::format("perturbed: samples is {}, sigma {}; give at least one sample, and a sigma above 0",
                                 options.samples, options.sigma));
  }
  check_floats(x, "the argument", "noise is added to real floats");
}

DType noise_dtype(DType dtype) { return promote(dtype, float32); }

/// In float32 at least: of 7 bits of a bfloat16 the smallest would come far too often.
Array drawn_noise(const Array& key, const Array& like, Noise noise, const random::Placement& placement) {
  return noise == Noise::gumbel ? random::gumbel(key, like.shape(), noise_dtype(like.dtype()), placement)
                                : random::normal(key, like.shape(), noise_dtype(like.dtype()), placement);
}

/// The placement of a leaf's draws: cut along those axes alone along which the leaf is.
random::Placement placed(const Array& leaf, random::Placement placement) {
  if (!placement.cut || placement.same_on_all) return placement;
  const AxisSet of_whole = placement.cut->axes.without(tracing::type_in_trace(leaf).varying);
  const AxisSet axes = placement.cut->axes.without(of_whole);
  if (axes.empty()) return random::same_on_all;
  placement.cut->axes = axes;
  return placement;
}

/// But for a constant.
Array log_density(const Array& z, Noise noise) { return sum(noise == Noise::gumbel ? -z - exp(-z) : -0.5 * square(z)); }

/// 1, whose derivative is that of x: a product with it has the derivative of the expectation. ("magic box")
Array one_with_derivative_of(const Array& x) { return exp(x - stop_gradient(x)); }

}  // namespace

Tree perturbed(const TreeFunction& function, const Array& key, const Tree& x, const PerturbedOptions& options) {
  check_perturbed_arguments(x, options);
  const std::vector<Array> leaves = x.leaves();
  std::vector<random::Placement> placements;
  for (const Array& leaf : leaves) placements.push_back(placed(leaf, options.placement));
  const auto fixed = [](const Array& leaf) { return stop_gradient(leaf); };
  const Tree middle = options.subtracts_middle ? function({map(fixed, x)}) : Tree();
  const auto sample = [&](const Array& of_sample) {
    const Array keys = random::split(of_sample, static_cast<std::int64_t>(leaves.size()));
    std::vector<Array> places;
    Array density = zeros({});
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Array& leaf = leaves[i];
      const Array z = drawn_noise(keys[static_cast<std::int64_t>(i)], leaf, options.noise, placements[i]);
      const Array x_wide = convert(leaf, z.dtype());
      places.push_back(stop_gradient(convert(x_wide + options.sigma * z, leaf.dtype())));
      const Array own = log_density((convert(places.back(), z.dtype()) - x_wide) / options.sigma, options.noise);
      density = density + (placements[i].cut ? psum(own, placements[i].cut->axes) : own);
    }
    const Array one = one_with_derivative_of(density);
    const auto weighted = [&](const Array& value) {
      return convert(convert(value, promote(value.dtype(), one.dtype())) * one, value.dtype());
    };
    const Tree value = function({x.unflatten(std::move(places))});
    check_floats(value, "the function's result", "the mean of real floats is taken");
    if (!options.subtracts_middle) return map(weighted, value);
    const auto around = [&](const Array& v, const Array& m) { return weighted(v - m) + m; };
    return map(around, value, middle);
  };
  return map([](const Array& all) { return mean(all, Axes{0}); },
             lockstep::vmap(sample)(random::split(key, options.samples)));
}

}  // namespace lockstep::detail
