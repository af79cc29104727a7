#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/api/custom_op_types.h"
#include "tests/support/array_values.h"
#include "tests/support/counted.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// Derivatives of derivatives of a program's own op, which come from its one rule. The right values are those of the same
// function written with the library's ops, which are held against differences elsewhere.
using namespace lockstep;
using tests::Binary;
using tests::check_equal;
using tests::counted;
using tests::expect_error;
using tests::Leaves;
using tests::Types;

namespace {

/// scale * exp(x / 4), a row of scale for all rows of x.
Array grown(const Array& x, const Array& scale) { return scale * exp(x / 4.0); }

void grown_kernel(const KernelCall& call) {
  const auto x = call.operand<double>(0);
  const auto scale = call.operand<double>(1);
  const auto y = call.result<double>(0);
  const std::size_t n = call.operand_shape(0).dim(-1) > 0 ? static_cast<std::size_t>(call.operand_shape(0).dim(-1)) : 1;
  const std::size_t rows_of_a_scale = scale.empty() ? 1 : x.size() / scale.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = scale[i / n / rows_of_a_scale * n + i % n] * std::exp(x[i] / 4);
  }
}

Array rows_summed(const Array& x, const Array& like) {
  Array sum_of_rows = x;
  while (sum_of_rows.ndim() > like.ndim()) sum_of_rows = sum(sum_of_rows, 0);
  return sum_of_rows;
}

/// By results as well as operands; `quarter` is closed over.
std::vector<Array> grown_vjp(Leaves x, Leaves y, Leaves dy) {
  static const Array quarter = array(0.25);
  return {dy[0] * y[0] * quarter, rows_summed(dy[0] * exp(x[0] * quarter), x[1])};
}
std::vector<Array> grown_jvp(Leaves x, Leaves y, Leaves dx) {
  static const Array quarter = array(0.25);
  return {dx[0] * y[0] * quarter + dx[1] * exp(x[0] * quarter)};
}

CustomOpOptions grown_options(VmapMethod method) {
  return {.name = "grown",
          .infer = [](Types types) { return std::vector<ArrayType>{types[0]}; },
          .kernel = grown_kernel,
          .vmap_method = method,
          .check = RuleCheck::always};
}

std::vector<std::pair<std::string, CustomOp>> grown_forms() {
  CustomOpOptions one_by_one = grown_options(VmapMethod::sequential);
  one_by_one.vjp = grown_vjp;
  CustomOpOptions at_once = grown_options(VmapMethod::broadcast_all);
  at_once.vjp = grown_vjp;
  CustomOpOptions both_modes = grown_options(VmapMethod::sequential);
  both_modes.jvp = grown_jvp;
  CustomOpOptions both_at_once = grown_options(VmapMethod::broadcast_all);
  both_at_once.jvp = grown_jvp;
  CustomOpOptions callback = grown_options(VmapMethod::sequential);
  callback.kernel = nullptr;
  callback.callback = [](Leaves x) { return std::vector<Array>{grown(x[0], x[1])}; };
  callback.vjp = grown_vjp;
  return {{"vjp, one by one", CustomOp(one_by_one)},
          {"vjp, at once", CustomOp(at_once)},
          {"vjp of a callback", CustomOp(callback)},
          {"jvp, one by one", CustomOp(both_modes)},
          {"jvp, at once", CustomOp(both_at_once)}};
}

struct SecondDerivative {
  std::string name;
  bool forward;  ///< Takes forward mode, so a jvp.
  std::function<Array(const Binary& f, const Array& x, const Array& scale)> run;
};

Array product_loss(const Binary& f, const Array& x, const Array& s) { return sum(sin(f(x, s)) * f(x, s)); }

/// Gradient of the squared norm of the gradient, in x.
Array twice(const Binary& f, const Array& x, const Array& s) {
  const auto slope = [&](const Array& v) { return grad([&](const Array& w) { return product_loss(f, w, s); })(v); };
  return grad([&](const Array& v) { return sum(square(slope(v))); })(x);
}

/// The same in the scale.
Array twice_in_scale(const Binary& f, const Array& x, const Array& s) {
  const auto slope = [&](const Array& v) { return grad([&](const Array& w) { return product_loss(f, x, w); })(v); };
  return grad([&](const Array& v) { return sum(square(slope(v))); })(s);
}

Array thrice(const Binary& f, const Array& x, const Array& s) {
  return grad([&](const Array& v) { return sum(sin(twice(f, v, s))); })(x);
}

auto gradient_of(const Binary& f, const Array& s) {
  return grad([f, s](const Array& v) { return product_loss(f, v, s); });
}

Array twice_over_shards(const Binary& f, const Array& x, const Array& s, const tests::Replicas& replicas) {
  const auto body = [&](const Array& scale, const Array& rows) {
    const auto loss = [&](const Array& v) { return psum(product_loss(f, rows, v), {"batch"}); };
    return grad([&](const Array& u) { return sum(square(grad(loss)(u))); })(scale);
  };
  return pmap(body, {.mesh = tests::mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {replicated}})(s,
                                                                                                                   x);
}

Binary over_rows(const Binary& f) { return vmap(f, {.in_axes = {0, std::nullopt}}); }

const std::vector<SecondDerivative> second_derivatives = {
    {"grad of grad", false, twice},
    {"grad of grad in the scale", false, twice_in_scale},
    {"third derivative", false, thrice},
    {"compiled", false,
     [](const Binary& f, const Array& x, const Array& s) {
       return jit([f](const Array& v, const Array& w) { return twice(f, v, w); })(x, s);
     }},
    {"Hessian by reverse mode", false,
     [](const Binary& f, const Array& x, const Array& s) { return jacrev(gradient_of(f, s))(x); }},
    {"Hessian", true,
     [](const Binary& f, const Array& x, const Array& s) {
       return hessian([&](const Array& v) { return product_loss(f, v, s); })(x);
     }},
    {"jvp of grad", true,
     [](const Binary& f, const Array& x, const Array& s) {
       return jvp(gradient_of(f, s), std::tuple(x), std::tuple(cos(x))).second;
     }},
    {"linearized gradient", true,
     [](const Binary& f, const Array& x, const Array& s) { return linearize(gradient_of(f, s), x).second(cos(x)); }},
    {"vmap of grad", false, [](const Binary& f, const Array& x, const Array& s) { return vmap(gradient_of(f, s))(x); }},
    {"vmap of grad of grad", false,
     [](const Binary& f, const Array& x, const Array& s) {
       return vmap([&](const Array& row) { return twice(f, row, s); })(x);
     }},
    {"grad of grad of vmap", false,
     [](const Binary& f, const Array& x, const Array& s) { return twice(over_rows(f), x, s); }},
    {"grad of grad of vmap in what is shared", false,
     [](const Binary& f, const Array& x, const Array& s) { return twice_in_scale(over_rows(f), x, s); }},
    {"grad of grad of vmap of vmap", false,
     [](const Binary& f, const Array& x, const Array&) {
       return twice_in_scale(vmap(over_rows(f), {.in_axes = {std::nullopt, 0}}), x, cos(x));
     }},
    {"grad of a scan of gradients", false,
     [](const Binary& f, const Array& x, const Array& s) {
       const auto total = [&](const Array& v) {
         const auto step = [&](const Array& carry, const Array& row) {
           return std::pair(carry + gradient_of(f, v)(row), carry);
         };
         return sum(scan(step, zeros_like(v), x).first);
       };
       return grad(total)(s);
     }},
    {"grad of grad of remat", false,
     [](const Binary& f, const Array& x, const Array& s) { return twice(remat(f), x, s); }},
    {"grad of grad of cond", false,
     [](const Binary& f, const Array& x, const Array& s) {
       const Binary branch = [f](const Array& v, const Array& w) {
         return cond(
             sum(v) > -1000.0, [&](const Array& a) { return f(a, w); }, [&](const Array& a) { return a; }, v);
       };
       return twice(branch, x, s);
     }},
    {"over 8 shards", false,
     [](const Binary& f, const Array& x, const Array& s) {
       return twice_over_shards(f, concatenate({x, sin(x)}, 0), s, {8, 1});
     }},
    {"over 8 shards on two devices", false,
     [](const Binary& f, const Array& x, const Array& s) {
       return twice_over_shards(f, concatenate({x, sin(x)}, 0), s, {8, 2});
     }},
};

}  // namespace

TEST_CASE("second and third derivatives of an op of one's own are those of the same function of library ops") {
  const Array x = counted({4, 3}) / 5.0;
  const Array scale = counted({3}) / 3.0 + 1.0;
  for (const auto& [form, op] : grown_forms()) {
    const Binary own = [op = op](const Array& a, const Array& b) { return op(a, b); };
    for (const SecondDerivative& program : second_derivatives) {
      CAPTURE(form);
      CAPTURE(program.name);
      if (program.forward && form.starts_with("vjp")) {
        // as jax.custom_vjp: what has a backward direction alone cannot be pushed forward
        expect_error<TraceError>([&] { program.run(own, x, scale); }, "jvp");
        continue;
      }
      check_equal(program.run(own, x, scale), program.run(grown, x, scale));
    }
  }
}

TEST_CASE("an op of one's own without a derivative, and a rule of the wrong shape, are refused in second derivatives") {
  const Array x = counted({4, 3}), scale = counted({3}) + 1.0;
  CustomOpOptions options = grown_options(VmapMethod::sequential);
  const CustomOp slope_only(options);
  options.check = RuleCheck::never;
  options.vjp = [slope_only](Leaves in, Leaves, Leaves dy) {
    return std::vector<Array>{dy[0] * slope_only(in[0], in[1]) / 4.0, Array()};
  };
  const CustomOp op(options);
  const Binary own = [op](const Array& a, const Array& b) { return op(a, b); };
  check_equal(grad([&](const Array& v) { return sum(own(v, scale)); })(x),
              grad([&](const Array& v) { return sum(grown(v, scale)); })(x));
  expect_error<TraceError>([&] { twice(own, x, scale); }, "custom op \"grown\" has no derivative", "give it one");
}

TEST_CASE("an op of one's own in narrow dtypes has the values and derivatives of the library's op there") {
  CustomOpOptions options{.name = "narrow", .infer = [](Types types) { return std::vector<ArrayType>{types[0]}; }};
  options.callback = [](Leaves x) { return std::vector<Array>{tanh(x[0])}; };
  options.vmap_method = VmapMethod::sequential;
  options.jvp = [](Leaves, Leaves y, Leaves dx) { return std::vector<Array>{dx[0] * (1.0 - y[0] * y[0])}; };
  const CustomOp op(options);
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    CAPTURE(name(dtype));
    const Array x = convert(counted({4, 3}), dtype);
    const double unit = dtype == bfloat16 ? 0x1p-7 : dtype == float16 ? 0x1p-10 : 1e-6;
    const auto own = [&](const Array& v) { return sum(op(v)); };
    const auto same = [](const Array& v) { return sum(tanh(v)); };
    CHECK(jit([&](const Array& v) { return op(v); })(x).dtype() == dtype);
    check_equal(convert(jit(grad(own))(x), float64), convert(grad(same)(x), float64), 4 * unit);
    check_equal(convert(vmap(grad(own))(x), float64), convert(grad(same)(x), float64), 4 * unit);
    const auto twice_of = [](const auto& f, const Array& v) {
      return grad([&](const Array& u) { return sum(grad(f)(u)); })(v);
    };
    check_equal(convert(twice_of(own, x), float64), convert(twice_of(same, x), float64), 16 * unit);
  }
}
