#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/transform/transforms.h"
#include "tests/support/directions.h"
#include "tests/support/op_functions.h"

// Every op's gradient, differentiated once more: forward over reverse against differences of the gradient, reverse over
// reverse against forward over reverse.
namespace lockstep::tests {
namespace {

Arrays last(const Arrays& a, std::size_t count) { return {a.end() - static_cast<std::ptrdiff_t>(count), a.end()}; }

/// Ops whose derivative is an op without one, as the first-order tests say of it: the second order is refused.
bool refuses_second(const ir::Primitive& op) {
  static const std::set<std::string> ops = {"igamma", "igammac", "igamma_grad_a", "random_gamma"};
  return ops.contains(op.name);
}

/// Ops without reverse mode.
bool has_reverse(const ir::Primitive& op) { return op.name != "while_loop" && op.name != "random_gamma_grad"; }

/// The gradient of <u, op(x)> at operands x in float64, and a direction to move them in.
class Gradient {
 public:
  Gradient(const ir::Primitive& op, const ir::Sample& sample) : sample_(sample), f_(primal_function(op, sample)) {
    for (const ArrayType& type : f_->input_types()) {
      const bool refused = ((op.name == "betainc" || op.name == "hyp1f1") && active_.size() < 2) ||
                           (op.name == "hyp2f1" && active_.size() < 3);
      active_.push_back(is_double(type.dtype) && !refused);
      if (active_.back()) dx_.push_back(direction(whole_type(type, sample.axes), 20 + active_.size()));
    }
    for (const ArrayType& type : f_->output_types()) {
      if (is_double(type.dtype)) u_.push_back(direction(whole_type(type, sample.axes), 90 + u_.size()));
    }
    gradient_ = transform::vjp(f_, active_);
    x_ = draw(sample, 11);
    moving_ = active_;
    moving_.resize(gradient_->inputs().size(), false);
  }

  const Arrays& dx() const { return dx_; }

  Arrays forward_over_reverse() const {
    const FunctionPtr both = transform::jvp(gradient_, moving_);
    return last(run(over_mesh(both), followed_by(followed_by(x_, u_), dx_)), dx_.size());
  }

  /// <w, gradient>'s gradient.
  Arrays reverse_over_reverse(const Arrays& w) const {
    Arrays cotangents;
    for (const ir::ReferenceArray& u : u_) cotangents.push_back(ir::reference_zeros(u.type));
    const FunctionPtr twice = transform::vjp(gradient_, moving_);
    return last(run(over_mesh(twice), followed_by(followed_by(x_, u_), followed_by(cotangents, w))), dx_.size());
  }

  /// Central differences of the gradient along dx, extrapolated once.
  std::vector<std::vector<double>> differences() const {
    std::vector<std::vector<double>> fine = slope(1e-4);
    const std::vector<std::vector<double>> coarse = slope(2e-4);
    for (std::size_t i = 0; i < fine.size(); ++i) {
      for (std::size_t k = 0; k < fine[i].size(); ++k) fine[i][k] += (fine[i][k] - coarse[i][k]) / 3;
    }
    return fine;
  }

 private:
  Arrays at(double step) const {
    Arrays x = x_;
    std::size_t next = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (active_[i]) x[i] = moved(x[i], dx_[next++], step);
    }
    return last(run(over_mesh(gradient_), followed_by(x, u_)), dx_.size());
  }

  std::vector<std::vector<double>> slope(double h) const {
    const Arrays up = at(h), down = at(-h);
    std::vector<std::vector<double>> slopes;
    for (std::size_t i = 0; i < up.size(); ++i) {
      slopes.push_back(parts(up[i]));
      const std::vector<double> below = parts(down[i]);
      for (std::size_t k = 0; k < below.size(); ++k) slopes[i][k] = (slopes[i][k] - below[k]) / (2 * h);
    }
    return slopes;
  }

  const ir::Sample& sample_;
  FunctionPtr f_, gradient_;
  std::vector<bool> active_, moving_;
  Arrays x_, dx_, u_;
};

/// The number of elements held against a difference.
int check_second(const ir::Primitive& op, const ir::Sample& sample) {
  const Gradient gradient(op, sample);
  if (gradient.dx().empty()) return 0;
  const Arrays second = gradient.forward_over_reverse();
  const std::vector<std::vector<double>> expected = gradient.differences();
  int compared = 0;
  bool finite = true;
  Arrays w;
  for (std::size_t i = 0; i < second.size(); ++i) {
    const std::vector<double> given = parts(second[i]);
    for (std::size_t k = 0; k < given.size(); ++k) {
      finite = finite && std::isfinite(given[k]);
      if (!std::isfinite(expected[i][k])) continue;
      ++compared;
      CAPTURE(i);
      CAPTURE(k);
      CHECK(given[k] == doctest::Approx(expected[i][k]).epsilon(1e-5));
    }
    w.push_back(direction(second[i].type, 170 + i));
  }
  if (finite) {
    CHECK(inner_product(gradient.reverse_over_reverse(w), gradient.dx()) ==
          doctest::Approx(inner_product(w, second)).epsilon(1e-8));
  }
  return compared;
}

}  // namespace

TEST_CASE("second derivatives of every op, forward over reverse and reverse over reverse") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (op.derivative.kind == ir::Derivative::Kind::zero || !has_forward_derivative(op) || !has_reverse(op)) continue;
    int compared = 0;
    for (const ir::Sample& sample : op.samples()) {
      if (!all_double(input_types(sample)) || !all_double(output_types(op, sample))) continue;
      CAPTURE(text(op, sample));
      if (refuses_second(op)) {
        CHECK_THROWS_AS(check_second(op, sample), TraceError);
        compared = 1;
      } else {
        compared += check_second(op, sample);
      }
    }
    CAPTURE(op.name);
    CHECK(compared > 0);
  }
}

}  // namespace lockstep::tests
