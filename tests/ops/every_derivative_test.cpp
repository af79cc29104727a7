#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/ops/numbers.h"
#include "tests/support/directions.h"
#include "tests/support/op_functions.h"

// Derivatives of every op against differences of its reference, and transposes against the op itself.
namespace lockstep::tests {
namespace {

bool differences_exist(const ir::Primitive& op, const ir::Sample& sample) {
  return all_double(input_types(sample)) && all_double(output_types(op, sample));
}

/// x + step * dx for the active operands.
Arrays moved_along(Arrays x, const Arrays& dx, const std::vector<bool>& active, double step) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (active[i]) x[i] = tests::moved(x[i], dx[next++], step);
  }
  return x;
}

/// Central differences of the inexact results, extrapolated once.
Arrays differences(const FunctionPtr& function, const Arrays& x, const Arrays& dx, const std::vector<bool>& active) {
  const auto inexact_results = [&](double step) {
    Arrays y = run(function, moved_along(x, dx, active, step));
    std::erase_if(y, [](const ir::ReferenceArray& array) { return !is_inexact(array.type.dtype); });
    return y;
  };
  const auto slope = [&](double h) {
    const Arrays up = inexact_results(h), down = inexact_results(-h);
    std::vector<std::vector<double>> slopes;
    for (std::size_t i = 0; i < up.size(); ++i) {
      slopes.push_back(parts(up[i]));
      const std::vector<double> below = parts(down[i]);
      for (std::size_t k = 0; k < below.size(); ++k) slopes[i][k] = (slopes[i][k] - below[k]) / (2 * h);
    }
    return slopes;
  };
  std::vector<std::vector<double>> fine = slope(5e-5);
  const std::vector<std::vector<double>> coarse = slope(1e-4);
  Arrays results = inexact_results(0);
  for (std::size_t i = 0; i < fine.size(); ++i) {
    for (std::size_t k = 0; k < fine[i].size(); ++k) fine[i][k] += (fine[i][k] - coarse[i][k]) / 3;
    results[i] = from_parts(results[i].type, fine[i]);
  }
  return results;
}

/// Operands that an op refuses to differentiate in.
const std::set<std::size_t>& refused_operands(const ir::Primitive& op) {
  static const std::map<std::string, std::set<std::size_t>> refused = {
      {"igamma_grad_a", {0}}, {"betainc", {0, 1}}, {"hyp1f1", {0, 1}}, {"hyp2f1", {0, 1, 2}}};
  static const std::set<std::size_t> none;
  const auto found = refused.find(op.name);
  return found == refused.end() ? none : found->second;
}

/// All inexact operands at once, and each alone.
std::vector<std::vector<bool>> active_sets(const ir::Primitive& op, const ir::Sample& sample) {
  std::vector<bool> all;
  for (const ir::SampleInput& input : sample.inputs) {
    all.push_back(is_double(input.type.dtype) && !refused_operands(op).contains(all.size()));
  }
  std::vector<std::vector<bool>> sets = {all};
  if (std::count(all.begin(), all.end(), true) < 2) return sets;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<bool> one(all.size(), false);
    one[i] = all[i];
    if (all[i]) sets.push_back(one);
  }
  return sets;
}

/// Compares jvp and differences; the number of elements compared (an infinite result has no difference).
int check_jvp(const ir::Primitive& op, const ir::Sample& sample, const std::vector<bool>& active) {
  const Arrays x = draw(sample, 3);
  Arrays dx;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (active[i]) dx.push_back(direction(x[i].type, 100 + i));
  }
  Arrays arguments = x;
  arguments.insert(arguments.end(), dx.begin(), dx.end());
  const Arrays by_rule = run(over_mesh(jvp_function(op, sample, active)), arguments);
  const Arrays expected = differences(over_mesh(primal_function(op, sample)), x, dx, active);
  REQUIRE(by_rule.size() == expected.size());
  int compared = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> slopes = parts(expected[i]), tangents = parts(by_rule[i]);
    for (std::size_t k = 0; k < slopes.size(); ++k) {
      if (!std::isfinite(slopes[k])) continue;
      ++compared;
      CAPTURE(k);
      CAPTURE(tangents[k]);
      CAPTURE(slopes[k]);
      CHECK(close(tangents[k], slopes[k], 1e-7));
    }
  }
  return compared;
}

/// <u, A t> = <transpose(A) u, t>, A being the op in the operands `linear`. Other operands that the op is jointly
/// linear in are zero.
void check_duality(const ir::Primitive& op, const ir::Sample& sample, const std::vector<std::size_t>& linear) {
  Arrays operands = draw(sample, 4);
  const std::vector<ArrayType> types = input_types(sample);
  if (op.derivative.kind == Kind::linear) {
    for (const std::size_t i : linear_operands(op.derivative, types))
      operands[i] = ir::reference_zeros(operands[i].type);
  }
  Arrays t, others;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (std::find(linear.begin(), linear.end(), i) == linear.end()) {
      others.push_back(operands[i]);
    } else {
      operands[i] = direction(operands[i].type, 200 + i);
      t.push_back(operands[i]);
    }
  }
  const Arrays image = run(over_mesh(primal_function(op, sample)), operands);
  Arrays u;
  for (const ir::ReferenceArray& y : image) u.push_back(direction(y.type, 300));
  Arrays arguments = others;
  arguments.insert(arguments.end(), u.begin(), u.end());
  const Arrays back = run(over_mesh(transpose_function(op, sample, linear)), arguments);
  CHECK(inner_product(u, image) == doctest::Approx(inner_product(back, t)).epsilon(1e-10));
}

/// The sets of operands a transpose must serve.
std::vector<std::vector<std::size_t>> linear_sets(const ir::Derivative& derivative,
                                                  const std::vector<ArrayType>& types) {
  if (derivative.kind == Kind::bilinear) return {{0}, {1}};
  const std::vector<std::size_t> all = linear_operands(derivative, types);
  std::vector<std::vector<std::size_t>> sets;
  if (!all.empty()) sets.push_back(all);
  if (all.size() > 1) {
    for (const std::size_t i : all) sets.push_back({i});
  }
  return sets;
}

bool differentiable(const ir::Primitive& op) { return op.derivative.kind != Kind::zero && has_forward_derivative(op); }

/// The derivative of a gamma draw is that of its distribution's quantile, not of the path through the sampler; it is
/// checked in tests/ops/random.
bool follows_differences(const ir::Primitive& op) {
  return op.name != "random_gamma" && op.name != "random_gamma_grad";
}

/// A wait's rules are those of the op it completes, pmax among them. What an op with sub-functions is linear in they
/// decide: tests/transform goes over those.
bool transposable(const ir::Primitive& op, const ir::Sample& sample) {
  if (!op.derivative.transpose || op.derivative.kind == Kind::joint) return false;
  if (op.name != "collective_wait") return true;
  return bool(ops::find_primitive(sample.attrs.get<std::string>("op"))->derivative.transpose);
}

}  // namespace

TEST_CASE("every derivative agrees with finite differences, for all operands and for each alone") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (!differentiable(op) || !follows_differences(op)) continue;
    int compared = 0;
    for (const ir::Sample& sample : op.samples()) {
      if (!differences_exist(op, sample)) continue;
      CAPTURE(text(op, sample));
      for (const std::vector<bool>& active : active_sets(op, sample)) compared += check_jvp(op, sample, active);
    }
    CAPTURE(op.name);
    CHECK(compared > 0);
  }
}

TEST_CASE("every transpose is the dual of its op") {
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    if (!differentiable(op)) continue;
    for (const ir::Sample& sample : op.samples()) {
      if (!transposable(op, sample) || !differences_exist(op, sample)) continue;
      CAPTURE(text(op, sample));
      for (const auto& linear : linear_sets(op.derivative, input_types(sample))) check_duality(op, sample, linear);
    }
  }
}

TEST_CASE("an op without a derivative in an operand says which") {
  const ArrayType x{DType::float64, Shape{2}, {}};
  const auto refusal = [&x](const ir::Primitive& op, std::size_t operands, std::size_t active) {
    ir::Sample sample;
    sample.inputs.assign(operands, {x});
    std::vector<bool> actives(operands, false);
    actives[active] = true;
    try {
      jvp_function(op, sample, actives);
    } catch (const TraceError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(ops::primitives::igamma_grad_a(), 2, 0) ==
        "igamma_grad_a has no derivative in its operand a; put stop_gradient on that operand");
  CHECK(refusal(ops::primitives::betainc(), 3, 0) ==
        "betainc has no derivative in its operand a; put stop_gradient on that operand");
  CHECK(refusal(ops::primitives::betainc(), 3, 1) ==
        "betainc has no derivative in its operand b; put stop_gradient on that operand");
  CHECK(refusal(ops::primitives::hyp1f1(), 3, 0) ==
        "hyp1f1 has no derivative in its operand a; put stop_gradient on that operand");
  CHECK(refusal(ops::primitives::hyp1f1(), 3, 1) ==
        "hyp1f1 has no derivative in its operand b; put stop_gradient on that operand");
  CHECK(refusal(ops::primitives::hyp2f1(), 4, 0) ==
        "hyp2f1 has no derivative in its operand a; put stop_gradient on that operand");
  CHECK(refusal(ops::primitives::hyp2f1(), 4, 1) ==
        "hyp2f1 has no derivative in its operand b; put stop_gradient on that operand");
  CHECK(refusal(ops::primitives::hyp2f1(), 4, 2) ==
        "hyp2f1 has no derivative in its operand c; put stop_gradient on that operand");
}

}  // namespace lockstep::tests
