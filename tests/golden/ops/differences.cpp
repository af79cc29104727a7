#include "tests/golden/ops/differences.h"

#include <algorithm>
#include <sstream>

#include "tests/golden/stored_values.h"

namespace lockstep::tests::golden {
namespace {

/// More room than the dtype's own bound.
struct OpRoom {
  std::string_view op;
  DType dtype;
  double forward;
  double derivative;
  std::string_view reason;
};

const std::vector<OpRoom>& rooms() {
  constexpr std::string_view sums = "long sums in another order";
  constexpr std::string_view series = "JAX sums its series in float32, Lockstep in float64";
  static const std::vector<OpRoom> table = {
      {"dot_general", DType::float32, 1e-5, 1e-5, sums},
      {"conv", DType::float32, 1e-5, 1e-5, sums},
      {"conv_input_grad", DType::float32, 1e-5, 1e-5, sums},
      {"conv_kernel_grad", DType::float32, 1e-5, 1e-5, sums},
      {"attention_tangent", DType::float32, 1e-5, 1e-5, sums},
      {"attention_grad", DType::float32, 1e-5, 1e-5, sums},
      {"igamma", DType::float32, 1e-5, 1e-4, series},
      {"igammac", DType::float32, 1e-5, 1e-4, series},
      {"betainc", DType::float32, 1e-5, 1e-4, series},
      {"hyp1f1", DType::float32, 1e-4, 1e-3, series},
      {"exp2", DType::float16, 3e-3, 1e-2, "JAX rounds x log(2) to float16"},
      {"lgamma", DType::float32, 1e-5, 1e-5, "JAX's sum loses digits between 1 and 2"},
      {"erf_inv", DType::float32, 1e-5, 1e-4, "JAX's polynomial is off by 5e-6 in the tails"},
  };
  return table;
}

const std::vector<Way> derivative_ways = {Way::jvp, Way::vjp, Way::vmap_vjp};

/// More columns of q, or of u and v, than the matrix determines.
bool is_completed(const ir::Sample& sample) {
  const Shape& shape = sample.inputs[0].type.shape;
  return sample.attrs.get<bool>("full_matrices") && shape[shape.rank() - 2] != shape[shape.rank() - 1];
}

bool is_narrow(const ir::Sample& sample) { return size_of(sample.inputs.back().type.dtype) < 4; }

bool is_of_complex(const ir::Sample& sample) { return is_complex(sample.inputs[0].type.dtype); }

bool is_negative(const ir::Sample& sample) { return sample.inputs[0].high <= 0; }

bool reduces_nothing(const ir::Sample& sample) { return sample.inputs[0].type.size() == 0; }

bool is_narrow_or_far(const ir::Sample& sample) {
  return size_of(sample.inputs[0].type.dtype) < 8 || sample.inputs[0].high > 10;
}

bool is_far_in_float32(const ir::Sample& sample) {
  return size_of(sample.inputs[0].type.dtype) == 4 && sample.inputs[0].high > 10;
}

bool is_derivative(Way way) { return way != Way::forward && way != Way::vmap; }

}  // namespace

std::span<const Difference> differences() {
  static const std::vector<Difference> table = {
      {"bessel_j0", {}, {}, "JAX's recurrence overflows in float32 and needs more steps far out", is_narrow_or_far},
      {"bessel_j1", {}, {}, "JAX's recurrence overflows in float32 and needs more steps far out", is_narrow_or_far},
      {"bessel_jn", {}, {}, "JAX's recurrence overflows in float32 and needs more steps far out", is_narrow_or_far},
      {"erfcx", {}, {}, "in float32 JAX's is 0 near 9.4, where erfc underflows", is_far_in_float32},
      {"hyp1f1", {}, {0, 1}, "an error here; JAX has series that end after 250 terms"},
      {"hyp2f1", {}, {0, 1, 2}, "an error here, and JAX's series cannot be compiled; the values are mpmath's"},
      {"collective_start",
       {},
       {},
       "JAX has no such op: a pass makes it of a collective, and its value is that of the wait"},
      {"collective_wait", {}, {}, "JAX has no such op: a pass makes it of a collective"},
      {"with_layout", {}, {}, "JAX has none that knows no mesh: its value is its operand"},
      {"custom_vjp_tangents", {}, {}, "JAX has no such op: linearizing a custom_vjp makes it, which is compared"},
      {"custom_vjp", {Way::jvp}, {}, "neither has forward mode"},
      {"debug_print", {}, {}, "its value says only that it is done; tests hold what it prints"},
      {"fused", {}, {}, "JAX has no such op: a pass makes it of element-wise ops, which are compared"},
      {"error_if", {}, {}, "its value says only that it is done; tests hold what it throws"},
      {"igamma_grad_a", derivative_ways, {}, "JAX has no derivative of it"},
      {"random_gamma", {}, {}, "16-bit floats are drawn in float32 and rounded here, in 16 bits in JAX", is_narrow},
      {"random_poisson", {}, {}, "the distribution is JAX's, its uses of the key are not: tests hold the moments"},
      {"random_binomial", {}, {}, "the distribution is JAX's, its uses of the key are not: tests hold the moments"},
      {"random_gamma_grad", derivative_ways, {}, "JAX has no derivative of it"},
      {"betainc", {}, {0, 1}, "neither has a derivative in a and b"},
      {"while_loop",
       {Way::vjp, Way::vmap_vjp},
       {},
       "neither has reverse mode: how many residuals there are is not known"},
      {"reshard", {}, {}, "JAX has no such op under this name: its value is its operand, which lies elsewhere"},
      {"sign", derivative_ways, {}, "of a complex x, x / |x| has its derivative here and none in JAX", is_of_complex},
      {"nextafter", derivative_ways, {}, "JAX has no derivative of it; here it is zero"},
      {"cholesky", derivative_ways, {}, "where there is no factor, all of the derivative is NaN", is_negative},
      {"qr", derivative_ways, {}, "a matrix does not determine the columns that full_matrices adds", is_completed},
      {"svd", derivative_ways, {}, "a matrix does not determine the columns that full_matrices adds", is_completed},
      {"spence", {Way::vjp, Way::vmap_vjp}, {}, "JAX's gradient is NaN between 1 and 2, of a branch that is not taken"},
      {"reduce_max",
       derivative_ways,
       {},
       "the derivative of an empty maximum is 0 here and 0 / 0 in JAX",
       reduces_nothing},
      {"reduce_min",
       derivative_ways,
       {},
       "the derivative of an empty minimum is 0 here and 0 / 0 in JAX",
       reduces_nothing},
  };
  return table;
}

bool compares(std::string_view op, Way way, const ir::Sample& sample) {
  return std::ranges::none_of(differences(), [&](const Difference& d) {
    const bool named = d.ways.empty() || std::ranges::find(d.ways, way) != d.ways.end();
    return d.op == op && d.operands.empty() && named && (d.where == nullptr || d.where(sample));
  });
}

bool compares_any(std::string_view op) {
  return std::ranges::none_of(differences(), [&](const Difference& d) {
    return d.op == op && d.ways.empty() && d.operands.empty() && d.where == nullptr;
  });
}

std::vector<int> underived_operands(std::string_view op) {
  std::vector<int> operands;
  for (const Difference& d : differences()) {
    if (d.op == op) operands.insert(operands.end(), d.operands.begin(), d.operands.end());
  }
  return operands;
}

double bound(std::string_view op, Way way, DType dtype) {
  const bool derivative = is_derivative(way);
  for (const OpRoom& room : rooms()) {
    if (room.op == op && room.dtype == dtype) return derivative ? room.derivative : room.forward;
  }
  return bound(derivative, dtype);
}

std::string rooms_table() {
  std::ostringstream text;
  for (const OpRoom& room : rooms()) {
    text << "| `" << room.op << "` | " << name(room.dtype) << " | " << room.forward << " | " << room.derivative << " | "
         << room.reason << " |\n";
  }
  return text.str();
}

}  // namespace lockstep::tests::golden
