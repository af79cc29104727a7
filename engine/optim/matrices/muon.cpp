#include <algorithm>
#include <cmath>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/optimizers.h>

#include "engine/optim/adam_family.h"
#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

namespace lockstep::optim {
namespace {

void check_matrices(const Tree& params) {
  const std::vector<std::string> paths = params.paths();
  const Leaves leaves = params.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].shape().rank() == 2) continue;
    throw ShapeError("[muon] leaf '" + paths[i] + "' is " + to_string(leaves[i].type()) +
                     ": matrices alone are made orthogonal; use muon, which gives other leaves to nadam, or masked");
  }
}

/// Newton and Schulz' iteration towards the nearest matrix whose singular values are 1.
Array orthogonal(const Array& matrix, const MuonOptions& options) {
  const bool is_tall = matrix.shape()[0] > matrix.shape()[1];
  Array x = is_tall ? transpose(matrix) : matrix;
  x = x / (leaf_norm(x) + options.epsilon);
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const Array a = matmul(x, conj(transpose(x)));
    x = 3.4445 * x + matmul(-4.775 * a + matmul(2.0315 * a, a), x);
  }
  return is_tall ? transpose(x) : x;
}

/// Updates of wide matrices [n, m] are as large as those of square ones, row by row.
GradientTransformation scale_by_shape() {
  return leafwise([](const Array& u, const Array&) {
    const auto rows = static_cast<double>(u.shape()[0]), columns = static_cast<double>(u.shape()[1]);
    return std::sqrt(std::max(1.0, columns / rows)) * u;
  });
}

}  // namespace

GradientTransformation scale_by_muon(MuonOptions options) {
  check_share("muon", "beta", options.beta);
  check_not_negative("muon", "epsilon", options.epsilon);
  check_count("muon", "steps", options.steps, 0);
  auto init = [](const Tree& params) {
    check_matrices(params);
    return Tree::dict({{"count", Tree(first_count())}, {"mu", zeros_of(params)}});
  };
  auto update = [o = options](const Tree& gradients, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree mu = next_averages(o.beta, state.at("mu"), gradients);
    const Array scale = correction(o.beta, count);
    const Tree average = o.nesterov ? looking_ahead(o.beta, count, mu, gradients)
                                    : map([&](const Array& m) { return times(scale, m); }, mu);
    Tree updates = map([&](const Array& m) { return orthogonal(m, o); }, average);
    return std::pair(std::move(updates), Tree::dict({{"count", Tree(count)}, {"mu", std::move(mu)}}));
  };
  return {init, update};
}

GradientTransformation muon(LearningRate rate, MuonOptions options) {
  const auto label = [matrices = options.matrices](const std::string& path, const Array& leaf) {
    return std::string(leaf.shape().rank() == 2 && (!matrices || matrices(path)) ? "muon" : "adam");
  };
  return partition(
      {{"muon", chain(scale_by_muon(options), scale_by_shape(), add_decayed_weights(options.weight_decay),
                      scale_by_learning_rate(rate))},
       {"adam", options.nesterov ? nadam(rate, 0.9, 0.999, options.epsilon) : adam(rate, 0.9, 0.999, options.epsilon)}},
      label);
}

}  // namespace lockstep::optim
