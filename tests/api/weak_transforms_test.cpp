#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/custom_derivatives.h>
#include <lockstep/derivatives.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/reductions.h>
#include <lockstep/remat.h>
#include <lockstep/sequential_map.h>
#include <lockstep/transforms.h>
#include <lockstep/weak_types.h>

#include "tests/support/array_values.h"

using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;

namespace {

/// The formula with the number itself, with the number unknown, and with the number captured: one dtype, one value.
template <class Formula>
void check_composed(const char* what, const Formula& formula) {
  CAPTURE(what);
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    CAPTURE(name(dtype));
    const Array x = convert(convert(arange(8), float32) * 0.37F + 0.25F, dtype);
    const auto compiled = jit(formula);
    for (const double number : {0.1, 0.75, 1.0 / 3}) {
      const Array expected = formula(x, number);
      const Array given = compiled(x, number);
      check_same_bits(given, expected);
      CHECK(given.dtype() == dtype);
    }
    CHECK(compiled.traces() == 1);
  }
}

Array tanh_loss(const Array& x, const Operand& v) { return sum(tanh(x * v) * x) * v; }

}  // namespace

TEST_CASE("numbers pass through transforms, captured or as arguments") {
  check_composed("gradient", [](const Array& x, auto v) {
    return grad([](const Array& a, const auto& b) { return tanh_loss(a, b); })(x, v);
  });
  check_composed("gradient of a captured one",
                 [](const Array& x, auto v) { return grad([&](const Array& a) { return tanh_loss(a, v); })(x); });
  check_composed("second derivative", [](const Array& x, auto v) {
    const auto first = [&](const Array& a) { return sum(grad([&](const Array& b) { return tanh_loss(b, v); })(a)); };
    return grad(first)(x);
  });
  check_composed("gradient by the number", [](const Array& x, auto v) {
    return x * grad<1>([](const Array& a, const auto& b) { return tanh_loss(a, b); })(x, v);
  });
  check_composed("second derivative by the number", [](const Array& x, auto v) {
    const auto by_number = [](const Array& a, const Array& b) {
      return grad<1>([](const Array& c, const Array& d) { return tanh_loss(c, d); })(a, b);
    };
    return x * grad<1>(by_number)(x, v);
  });
  check_composed("vmap", [](const Array& x, auto v) {
    return vmap([](const Array& a, const auto& b) { return a * b + b; }, {.in_axes = {0, std::nullopt}})(x, v);
  });
  check_composed("vmap of a gradient", [](const Array& x, auto v) {
    return vmap(grad([](const Array& a, const auto& b) { return tanh_loss(a, b); }))(x, v);
  });
  check_composed("scan", [](const Array& x, auto v) {
    const auto body = [&](const Array& c, const Array& a) { return std::pair(c * v + a, c); };
    return scan(body, x[0], x).second;
  });
  check_composed("fori_loop", [](const Array& x, auto v) {
    return fori_loop(
        0, 3, [&](const Array&, const Array& c) { return c * v + x; }, x);
  });
  check_composed("while_loop", [](const Array& x, auto v) {
    return while_loop([](const Array& c) { return sum(c) < 100; }, [&](const Array& c) { return c * 2 + v; }, x);
  });
  check_composed("remat", [](const Array& x, auto v) {
    return grad(remat([](const Array& a, const auto& b) { return tanh_loss(a, b); }))(x, v);
  });
  check_composed("cond", [](const Array& x, auto v) {
    const auto plus = [](const Array& a, const auto& b) { return a + b; };
    const auto times = [](const Array& a, const auto& b) { return a * b; };
    return cond(sum(x) > 1, plus, times, x, v);
  });
  check_composed("jvp", [](const Array& x, auto v) {
    return jvp([&](const Array& a) { return a * v + exp(a * v); }, std::tuple(x), std::tuple(ones_like(x))).second;
  });
  check_composed("vjp", [](const Array& x, auto v) {
    const auto [y, back] = vjp([](const Array& a, const auto& b) { return a * b; }, x, v);
    return std::get<0>(back(y));
  });
  check_composed("linearize", [](const Array& x, auto v) {
    return linearize([&](const Array& a) { return a * a * v; }, x).second(x);
  });
  check_composed("jacrev",
                 [](const Array& x, auto v) { return sum(jacrev([&](const Array& a) { return a * v; })(x), Axes{0}); });
  check_composed("a compiled function inside",
                 [](const Array& x, auto v) { return jit([](const Array& a, const auto& b) { return a * b; })(x, v); });
}

TEST_CASE("numbers pass through derivatives of one's own") {
  const auto scaled_jvp = custom_jvp([](const Array& a, const Array& b) { return a * b; },
                                     [](const auto& primals, const auto& tangents) {
                                       const auto& [a, b] = primals;
                                       const auto& [da, db] = tangents;
                                       return std::pair(a * b, da * b + a * db);
                                     });
  const auto scaled_vjp = custom_vjp([](const Array& a, const Array& b) { return a * b; },
                                     [](const Array& a, const Array& b) { return std::pair(a * b, std::pair(a, b)); },
                                     [](const std::pair<Array, Array>& kept, const Array& g) {
                                       return std::tuple(g * kept.second, sum(g * kept.first));
                                     });
  check_composed("custom_jvp", [&](const Array& x, auto v) {
    return grad([&](const Array& a, const auto& b) { return sum(scaled_jvp(a, b) * a); })(x, v);
  });
  check_composed("custom_vjp", [&](const Array& x, auto v) {
    return grad([&](const Array& a, const auto& b) { return sum(scaled_vjp(a, b) * a); })(x, v);
  });
  check_composed("custom_vjp by the number", [&](const Array& x, auto v) {
    return x * grad<1>([&](const Array& a, const auto& b) { return sum(scaled_vjp(a, b) * a); })(x, v);
  });
}

TEST_CASE("numbers pass through maps and microbatches") {
  for (const std::int64_t shards : {1, 8}) {
    CAPTURE(shards);
    const Mesh mesh({{"batch", shards}}, devices("cpu:0"));
    check_composed("pmap", [&](const Array& x, auto v) {
      return pmap([](const Array& a, const auto& b) { return a * b + b; },
                  {.mesh = mesh, .in = {sharded("batch"), replicated}, .out = {sharded("batch")}})(x, v);
    });
    check_composed("gradient in a map", [&](const Array& x, auto v) {
      const auto step = [](const Array& w, const Array& a, const auto& b) {
        return w - b * grad([&](const Array& u) { return psum(sum(u * a * a), {"batch"}); })(w);
      };
      return pmap(step, {.mesh = mesh, .in = {replicated, sharded("batch"), replicated}, .out = {replicated}})(x[0], x,
                                                                                                               v);
    });
    check_composed("microbatches", [&](const Array& x, auto v) {
      return sequential_map([&](const Array& a) { return psum(sum(a * v), {"part"}); }, x,
                            {.axis = "part", .parts = shards});
    });
  }
}

TEST_CASE("the gradient of a number is one") {
  // JAX: grad(lambda v: v * v)(3.0) is 6.0, float32 and weak.
  const auto square_of = [](const Array& v) { return v * v; };
  for (const Array& g : {grad(square_of)(3.0), jit(grad(square_of))(3.0)}) {
    CHECK(g.dtype() == float32);
    CHECK(is_weak_type(g));
    check_close(g, {}, {6});
  }
  const auto compiled = jit(grad(grad([](const Array& v) { return v * v * v; })));
  for (int i = 0; i < 50; ++i) check_close(compiled(0.5 * i), {}, {3.0 * i});
  CHECK(compiled.traces() == 1);
  // Its digits are those of a double: d(v^3)/dv at 0.1 in a float64 formula is 0.03 to 1e-17.
  const auto wide = [](const Array& x, const Array& v) {
    return x * grad([](const Array& u) { return u * u * u; })(v);
  };
  check_close(jit(wide)(ones({1}, float64), 0.1), {1}, {0.03}, 1e-15);
  CHECK(jit(hessian([](const Array& v) { return exp(v); }))(0.0).dtype() == float32);
  const auto [y, dy] = jvp([](const Array& v) { return v * v; }, std::tuple(3.0), std::tuple(1.0));
  check_close(y, {}, {9});
  check_close(dy, {}, {6});
}

TEST_CASE("a carry that starts weak takes the dtype that its body returns") {
  // JAX promotes a weak carry so: lax.scan(lambda c, a: (c + a, c), 0.0, float64 xs) carries float64.
  const Array xs = convert(arange(4), float64) * 0.1;
  const auto add_up = [](const Array& c, const Array& a) { return std::pair(c + a, c); };
  const auto [total, before] = scan(add_up, 0.0, xs);
  CHECK(total.dtype() == float64);
  check_close(total, {}, {0.6}, 1e-15);
  CHECK(before.dtype() == float64);
  CHECK(scan(add_up, 0, convert(xs, float32)).first.dtype() == float32);
  CHECK(scan(add_up, 0.0, convert(xs, float32)).first.dtype() == float32);
  const auto compiled = jit([&](const Array& v, const Array& x) { return scan(add_up, v, x).first; });
  for (const double v : {0.0, 0.1, 0.2}) check_same_bits(compiled(v, xs), scan(add_up, v, xs).first);
  CHECK(compiled.traces() == 1);
  CHECK(fori_loop(
            0, 3, [&](const Array&, const Array& c) { return c + xs[1]; }, 0)
            .dtype() == float64);
  CHECK(while_loop([](const Array& c) { return c < 1; }, [&](const Array& c) { return c + xs[1]; }, 0.0).dtype() ==
        float64);
}

TEST_CASE("branches of which one is weak give the other's dtype") {
  // JAX: lax.cond(p, lambda: x, lambda: 0.1) of a bfloat16 x is bfloat16.
  const auto chosen = jit([](const Array& p, const Array& x, const Array& v) {
    return cond(
        p > 0, [&] { return x; }, [&] { return v; });
  });
  for (const DType dtype : {bfloat16, float32, float64}) {
    const Array x = array(3.F).astype(dtype);
    check_same_bits(chosen(array(1.F), x, 0.1), x);
    check_same_bits(chosen(array(-1.F), x, 0.1), array(0.1).astype(dtype));
  }
  CHECK(chosen.traces() == 3);
  const auto both = jit([](const Array& p, const Array& v) {
    return cond(
        p > 0, [&] { return v * 2; }, [&] { return exp(v); });
  });
  CHECK(both(array(1.F), 0.1).dtype() == float32);
  CHECK(is_weak_type(both(array(1.F), 0.1)));
  const auto numbers = jit([](const Array& x, const Array& p, const Array& v) {
    return x * cond(
                   p > 0, [&] { return v * 2; }, [&] { return v; });
  });
  check_same_bits(numbers(ones({2}, float64), array(1.F), 0.1), ones({2}, float64) * 0.2);
}
