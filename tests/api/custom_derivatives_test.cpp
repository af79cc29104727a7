#include <doctest/doctest.h>

#include <lockstep/custom_derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/remat.h>

#include "tests/support/array_values.h"
#include "tests/support/counted.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// Functions with derivative rules of their own: that the rules are used, and everywhere.
using namespace lockstep;
using tests::check_equal;
using tests::expect_error;

namespace {

/// Away from zero.
Array away_from_zero(const Shape& shape) { return tests::counted(shape) + 2; }

using One = std::tuple<Array>;

const CustomOptions unchecked{.check = RuleCheck::never};

/// sin, with twice its derivative, so that it shows which one was used.
auto doubled_sin() {
  return custom_vjp([](const Array& x) { return sin(x); }, [](const Array& x) { return std::pair(sin(x), cos(x)); },
                    [](const Array& residual, const Array& g) { return One(residual * g * 2); }, unchecked);
}

auto tripled_sin() {
  return custom_jvp([](const Array& x) { return sin(x); },
                    [](const One& x, const One& dx) {
                      return std::pair(sin(std::get<0>(x)), cos(std::get<0>(x)) * std::get<0>(dx) * 3);
                    },
                    unchecked);
}

template <class F>
auto summed(const F& f) {
  return [f](const Array& x) { return sum(f(x)); };
}

}  // namespace

TEST_CASE("the rules are used in reverse, the function elsewhere") {
  const Array x = away_from_zero({2, 3});
  const auto f = doubled_sin();
  check_equal(f(x), sin(x));
  check_equal(grad(summed(f))(x), cos(x) * 2);
  check_equal(jit([&](const Array& v) { return grad(summed(f))(v); })(x), cos(x) * 2);
  const auto [y, back] = vjp([&](const Array& v) { return f(v); }, x);
  check_equal(y, sin(x));
  check_equal(std::get<0>(back(x)), cos(x) * x * 2);
  const auto g = tripled_sin();
  check_equal(g(x), sin(x));
  check_equal(grad(summed(g))(x), cos(x) * 3);
  const auto [value, tangent] = jvp([&](const Array& v) { return g(v); }, std::tuple(x), std::tuple(x * x));
  check_equal(value, sin(x));
  check_equal(tangent, cos(x) * x * x * 3);
  const Function traced = trace_function([&](const Array& v) { return grad(summed(f))(v); }, x);
  check_equal(traced.eval({x})[0], cos(x) * 2);
}

TEST_CASE("gradients of gradients pass through the rules") {
  const Array x = away_from_zero({4});
  // The backward rule is differentiated in its turn: cos(x) g 2 by x.
  const auto slope = [](const auto& f) { return [f](const Array& v) { return sum(grad(summed(f))(v)); }; };
  check_equal(grad(slope(doubled_sin()))(x), -sin(x) * 2);
  check_equal(grad(slope(tripled_sin()))(x), -sin(x) * 3);
  const auto [y, dy] =
      jvp([&](const Array& v) { return grad(summed(doubled_sin()))(v); }, std::tuple(x), std::tuple(x));
  check_equal(dy, -sin(x) * x * 2);
}

TEST_CASE("batches, whichever argument has one") {
  const auto scaled = [](const auto& with_rules) {
    const Array w = away_from_zero({3}), x = away_from_zero({4, 3});
    for (const bool batched_w : {false, true}) {
      for (const bool batched_x : {false, true}) {
        if (!batched_w && !batched_x) continue;
        const Array a = batched_w ? stack(std::vector<Array>{w, w * 2, w + 1, w * w}, 0) : w;
        const Array b = batched_x ? x : away_from_zero({3});
        const VmapOptions axes{.in_axes = {batched_w ? std::optional<std::int64_t>(0) : std::nullopt,
                                           batched_x ? std::optional<std::int64_t>(0) : std::nullopt}};
        const auto plain = [](const Array& u, const Array& v) { return sin(u * v) * v; };
        const auto loss = [&](const auto& f) {
          return [&, f](const Array& u, const Array& v) { return sum(square(vmap(f, axes)(u, v))); };
        };
        const auto f = [&](const Array& u, const Array& v) { return with_rules(u, v); };
        check_equal(vmap(f, axes)(a, b), vmap(plain, axes)(a, b));
        check_equal(grad<0>(loss(f))(a, b), grad<0>(loss(plain))(a, b));
        check_equal(grad<1>(loss(f))(a, b), grad<1>(loss(plain))(a, b));
        const auto per_example = [&](const auto& h) {
          return vmap(
              [&](const Array& u, const Array& v) {
                return grad<0>([&](const Array& p, const Array& q) { return sum(h(p, q)); })(u, v);
              },
              axes)(a, b);
        };
        check_equal(per_example(f), per_example(plain));
      }
    }
  };
  scaled(custom_vjp([](const Array& u, const Array& v) { return sin(u * v) * v; },
                    [](const Array& u, const Array& v) { return std::pair(sin(u * v) * v, std::pair(u, v)); },
                    [](const std::pair<Array, Array>& r, const Array& g) {
                      const auto& [u, v] = r;
                      return std::tuple(cos(u * v) * v * v * g, (cos(u * v) * u * v + sin(u * v)) * g);
                    }));
  scaled(custom_jvp([](const Array& u, const Array& v) { return sin(u * v) * v; },
                    [](const std::tuple<Array, Array>& x, const std::tuple<Array, Array>& dx) {
                      const auto& [u, v] = x;
                      const auto& [du, dv] = dx;
                      return std::pair(sin(u * v) * v, cos(u * v) * v * (du * v + u * dv) + sin(u * v) * dv);
                    }));
}

TEST_CASE("inside maps and over named batches cotangents are summed as their arguments are shared") {
  const Array x = away_from_zero({8, 3}), w = away_from_zero({3});
  const auto layer = custom_vjp([](const Array& a, const Array& b) { return a * b; },
                                [](const Array& a, const Array& b) { return std::pair(a * b, std::pair(a, b)); },
                                [](const std::pair<Array, Array>& r, const Array& g) {
                                  return std::tuple(sum(g * r.second, Axes{0}), g * r.first);
                                });
  const auto whole = [](const Array& a) { return sum(square(sin(a * away_from_zero({8, 3})))); };
  for (const tests::Replicas& replicas : tests::replica_counts) {
    const auto step = pmap(
        [&](const Array& a, const Array& b) {
          return grad([&](const Array& v) { return psum(sum(square(sin(layer(v, b)))), {"batch"}); })(a);
        },
        {.mesh = tests::mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {replicated}});
    check_equal(step(w, x), grad(whole)(w));
    const auto mapped =
        pmap([&](const Array& a, const Array& b) { return sin(layer(a, b)); },
             {.mesh = tests::mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {sharded("batch")}});
    check_equal(grad([&](const Array& v) { return sum(square(mapped(v, x))); })(w), grad(whole)(w));
  }
  const Array blocks = reshape(x, {4, 2, 3});
  const Array of_batch = vmap(
      [&](const Array& a, const Array& b) {
        return grad([&](const Array& v) { return psum(sum(square(sin(layer(v, b)))), {"i"}); })(a);
      },
      {.in_axes = {std::nullopt, 0}, .axis_name = "i"})(w, blocks);
  check_equal(of_batch, broadcast_to(grad(whole)(w), {4, 3}));
  const auto batched = [&](const Array& a) {
    return sum(vmap([&](const Array& b) { return psum(sum(square(sin(layer(a, b)))), {"i"}); },
                    {.axis_name = "i"})(blocks)) /
           4;
  };
  check_equal(grad(batched)(w), grad(whole)(w));
}

TEST_CASE("trees, integers and static values as arguments and results") {
  using Params = std::map<std::string, Array>;
  using Result = std::pair<Array, Array>;
  const auto f = [](const Params& p, const Array& index, int power_of) {
    const Array y = p.at("a") * p.at("b");
    return Result(power_of == 2 ? y * y : y, index + 1);
  };
  const auto g = custom_vjp(
      f, [&](const Params& p, const Array& index, int k) { return std::pair(f(p, index, k), std::pair(p, k)); },
      [](const std::pair<Params, int>& residual, const Result& cotangent) {
        const auto& [p, k] = residual;
        CHECK(k == 2);
        CHECK(cotangent.second.dtype() == int32);
        const Array common = p.at("a") * p.at("b") * 2 * cotangent.first;
        return std::tuple(Params{{"a", common * p.at("b")}, {"b", common * p.at("a")}}, Tree(), Tree());
      });
  const Params p = {{"a", away_from_zero({2})}, {"b", away_from_zero({2}) * 3}};
  const Array index = arange(2);
  check_equal(g(p, index, 2).second, index + 1);
  const auto loss = [&](const auto& h) { return [&, h](const Params& q) { return sum(h(q, index, 2).first); }; };
  const Params given = grad(loss(g))(p), expected = grad(loss(f))(p);
  check_equal(given.at("a"), expected.at("a"));
  check_equal(given.at("b"), expected.at("b"));

  const auto h = custom_jvp([](const Array& x, const Array& i) { return std::pair(x * convert(i, float64), i * 2); },
                            [](const std::tuple<Array, Array>& primals, const std::tuple<Array, Array>& tangents) {
                              const auto& [x, i] = primals;
                              CHECK(std::get<1>(tangents).dtype() == int32);
                              const Array dy = std::get<0>(tangents) * convert(i, float64);
                              return std::pair(std::pair(x * convert(i, float64), i * 2), std::pair(dy, i));
                            });
  const Array x = away_from_zero({2});
  check_equal(grad([&](const Array& v) { return sum(h(v, index).first); })(x), convert(index, float64));
}

TEST_CASE("an empty tree stands for zero cotangents") {
  const auto f = custom_vjp([](const Array& a, const Array& b) { return a * b; },
                            [](const Array& a, const Array& b) { return std::pair(a * b, a); },
                            [](const Array& a, const Array& g) { return std::tuple(Tree(), a * g); }, unchecked);
  const Array a = away_from_zero({3}), b = away_from_zero({3}) + 1;
  const auto loss = [&](const Array& u, const Array& v) { return sum(f(u, v)); };
  check_equal(grad<0>(loss)(a, b), zeros({3}, float64));
  check_equal(grad<1>(loss)(a, b), a);
}

TEST_CASE("what the functions close over") {
  const Array x = away_from_zero({3}), c = away_from_zero({3}) * 5;
  const auto f = [&](const Array& shift) {
    return custom_vjp([&, shift](const Array& v) { return sin(v) * c + shift; },
                      [&, shift](const Array& v) { return std::pair(sin(v) * c + shift, cos(v)); },
                      [&](const Array& r, const Array& g) { return One(r * c * g); });
  };
  check_equal(grad(summed(f(x)))(x), cos(x) * c);
  const Array batch = stack(std::vector<Array>{x, x + 1}, 0);
  check_equal(vmap([&](const Array& s) { return grad(summed(f(s)))(x); })(batch),
              stack(std::vector<Array>{cos(x) * c, cos(x) * c}, 0));
  expect_error<TraceError>([&] { grad([&](const Array& s) { return sum(f(s)(x)); })(x); }, "custom_vjp",
                           "closes over a value that is being differentiated, f64[3]", "make it an argument");
  const auto g = [](const Array& s) {
    return custom_jvp([s](const Array& v) { return v * s; },
                      [s](const One& v, const One& dv) { return std::pair(std::get<0>(v) * s, std::get<0>(dv) * s); });
  };
  check_equal(grad(summed(g(c)))(x), c);
  expect_error<TraceError>([&] { grad([&](const Array& s) { return sum(g(s)(x)); })(x); }, "custom_jvp",
                           "closes over a value", "stop_gradient");
}

TEST_CASE("forward mode through a custom_vjp is refused") {
  const Array x = away_from_zero({3});
  const auto f = doubled_sin();
  const auto call = [&](const Array& v) { return f(v); };
  expect_error<TraceError>([&] { jvp(call, std::tuple(x), std::tuple(x)); }, "jvp", "custom_vjp", "reverse mode",
                           "custom_jvp, which serves both");
  expect_error<TraceError>([&] { linearize(call, x); }, "linearize", "custom_vjp");
  const auto inner = [&](const Array& v) {
    return sum(jvp([&](const Array& u) { return remat(call)(u); }, std::tuple(v), std::tuple(v)).second);
  };
  expect_error<TraceError>([&] { grad(inner)(x); }, "jvp", "custom_vjp");
}

TEST_CASE("rules whose results do not fit") {
  const Array x = away_from_zero({3});
  const auto run = [&](const auto& f) { return [&, f] { grad(summed(f))(x); }; };
  const auto value = [](const Array& v) { return sin(v); };
  const auto fwd = [](const Array& v) { return std::pair(sin(v), v); };
  const auto with_bwd = [&](const auto& bwd) { return run(custom_vjp(value, fwd, bwd)); };
  expect_error<StateError>(with_bwd([](const Array&, const Array& g) { return std::tuple(g, g); }),
                           "bwd rule must produce a tuple of 1 cotangents", "got 2 cotangents");
  expect_error<StateError>(with_bwd([](const Array&, const Array& g) { return g; }),
                           "bwd rule must produce a tuple of 1 cotangents");
  expect_error<ShapeError>(with_bwd([](const Array&, const Array& g) { return One(sum(g)); }),
                           "bwd rule must produce a cotangent of type float64[3] for argument 0", "got f64[]");
  expect_error<DtypeError>(with_bwd([](const Array&, const Array& g) { return One(convert(g, float32)); }),
                           "bwd rule must produce a cotangent", "got f32[3]");
  expect_error<StateError>(
      with_bwd([](const Array&, const Array& g) { return std::tuple<std::pair<Array, Array>>(std::pair(g, g)); }),
      "bwd rule must produce an array for argument 0");
  expect_error<StateError>(run(custom_vjp(
                               value, [](const Array& v) { return std::pair(std::pair(v, v), v); },
                               [](const Array&, const Array& g) { return One(g); })),
                           "custom_vjp", "the result of the fwd rule");
  expect_error<ShapeError>(run(custom_vjp(
                               value, [](const Array& v) { return std::pair(sum(v), v); },
                               [](const Array&, const Array& g) { return One(g); })),
                           "custom_vjp: the result of the fwd rule", "f64[]", "f64[3]");
  const auto with_rule = [&](const auto& rule) { return run(custom_jvp(value, rule)); };
  expect_error<StateError>(with_rule([](const One& v, const One&) { return std::get<0>(v); }),
                           "custom_jvp: the rule must produce the pair of a result and its tangent");
  expect_error<ShapeError>(
      with_rule([](const One& v, const One& dv) { return std::pair(std::get<0>(v), sum(std::get<0>(dv))); }),
      "custom_jvp: the rule's tangent");
  using Params = std::map<std::string, Array>;
  const auto dict = custom_vjp([](const Params& p) { return p.at("w") * 2; },
                               [](const Params& p) { return std::pair(p.at("w") * 2, p.at("w")); },
                               [](const Array&, const Array& g) {
                                 return std::tuple(Params{{"v", g}});
                               });
  expect_error<StateError>(
      [&] {
        grad([&](const Params& p) { return sum(dict(p)); })(Params{{"w", x}});
      },
      "a cotangent of the structure of argument 0");
}

TEST_CASE("a rule that is not linear in the tangents has no reverse mode") {
  const Array x = away_from_zero({3});
  const auto squared = custom_jvp(
      [](const Array& v) { return v; },
      [](const One& v, const One& dv) { return std::pair(std::get<0>(v), square(std::get<0>(dv))); }, unchecked);
  expect_error<TraceError>([&] { grad(summed(squared))(x); }, "linear");
}

TEST_CASE("a rule that takes a tangent in places alone has reverse mode in each argument alone") {
  const auto larger = [](const Array& x, const Array& y) { return where(x > y, x, y); };
  const auto rule = [larger](const std::tuple<Array, Array>& at, const std::tuple<Array, Array>& along) {
    const auto& [x, y] = at;
    const auto& [dx, dy] = along;
    const Array of_x = where(x > y, dx * 3, 0), of_y = where(x > y, 0, broadcast_to(dy, x.shape()) * 5);
    return std::pair(larger(x, y), of_x + of_y);
  };
  const auto f = custom_jvp(larger, rule, unchecked);
  const Array x = array({1.0F, 4.0F, 2.0F}), y = array({2.0F, 3.0F, 2.0F});
  check_equal(grad<0>([&](const Array& a, const Array& b) { return sum(f(a, b)); })(x, y), array({0.0F, 3.0F, 0.0F}));
  check_equal(grad<1>([&](const Array& a, const Array& b) { return sum(f(a, b)); })(x, y), array({5.0F, 0.0F, 5.0F}));
  check_equal(jit(grad<1>([&](const Array& a, const Array& b) { return sum(f(a, b)); }))(x, y),
              array({5.0F, 0.0F, 5.0F}));
  const auto of_level = grad([&](const Array& b) { return sum(f(x, b)); });
  CHECK(of_level(full({}, 1.5F)).item<float>() == 5);
  check_equal(vmap(of_level)(array({0.0F, 1.5F, 5.0F})), array({0.0F, 5.0F, 15.0F}));
}

TEST_CASE("inside a map a rule's result may not vary where the function's does not") {
  const auto f = custom_vjp([](const Array& v) { return psum(sum(v), {"batch"}); },
                            [](const Array& v) { return std::pair(sum(v), v); },
                            [](const Array& v, const Array& g) { return One(broadcast_to(g, v.shape())); });
  const auto mapped = pmap([&](const Array& v) { return grad([&](const Array& u) { return f(u); })(v); },
                           {.mesh = tests::mesh_of({2, 1}), .in = {sharded("batch")}, .out = {sharded("batch")}});
  expect_error<MeshError>([&] { mapped(away_from_zero({4})); }, "a result of the fwd rule", "varies along batch",
                          "psum it");
}

TEST_CASE("a rule is compared with differences where that is asked for") {
  const Array x = away_from_zero({3});
  const CustomOptions checked{.check = RuleCheck::always};
  const auto fwd = [](const Array& v) { return std::pair(sin(v), cos(v)); };
  const auto value = [](const Array& v) { return sin(v); };
  const auto with_factor = [&](double factor) {
    return custom_vjp(
        value, fwd, [factor](const Array& r, const Array& g) { return One(r * g * factor); }, checked);
  };
  check_equal(grad(summed(with_factor(1)))(x), cos(x));
  check_equal(jit([&](const Array& v) { return grad(summed(with_factor(1)))(v); })(x), cos(x));
  expect_error<DerivativeError>([&] { with_factor(1.01)(x); }, "custom_vjp: the rule gives",
                                "differences of the function", "RuleCheck::never");
  expect_error<DerivativeError>([&] { grad(summed(with_factor(1.01)))(x); }, "custom_vjp");
  const auto forward = [&](double factor) {
    return custom_jvp(
        value,
        [factor](const One& v, const One& dv) {
          return std::pair(sin(std::get<0>(v)), cos(std::get<0>(v)) * std::get<0>(dv) * factor);
        },
        checked);
  };
  check_equal(grad(summed(forward(1)))(convert(x, float32)), cos(convert(x, float32)));
  expect_error<DerivativeError>([&] { forward(0.9)(x); }, "custom_jvp: the rule gives");
  const auto in_map = pmap([&](const Array& v) { return with_factor(2)(v); },
                           {.mesh = tests::mesh_of({1, 1}), .in = {replicated}, .out = {replicated}});
  check_equal(in_map(x), sin(x));  // One replica alone cannot be run.
  const auto index =
      custom_vjp([](const Array& v, const Array& i) { return v * convert(i, float64); },
                 [](const Array& v, const Array& i) { return std::pair(v * convert(i, float64), i); },
                 [](const Array& i, const Array& g) { return std::tuple(convert(i, float64) * g, Tree()); }, checked);
  check_equal(index(x, arange(3)), x * convert(arange(3), float64));
}

TEST_CASE("the check of a rule takes what is closed over at its value, and the same in the function and its rules") {
  const CustomOptions always{.check = RuleCheck::always};
  const auto scaled_by = [&](const Array& factor) {
    return custom_vjp([factor](const Array& v) { return v * factor; },
                      [factor](const Array& v) { return std::pair(v * factor, v); },
                      [factor](const Array&, const Array& dy) { return std::tuple(dy * factor); }, always);
  };
  const auto tripled = custom_jvp([](const Array& v) { return v * 3.0; },
                                  [factor = array(3.0)](const One& v, const One& dv) {
                                    return std::pair(std::get<0>(v) * factor, std::get<0>(dv) * factor);
                                  },
                                  always);
  const Array x = full({2}, 3.0, float64);
  const auto by_value = [&](const Array& v) { return sum(scaled_by(array(3.0))(v)); };
  const auto by_traced = [&](const Array& v) { return sum(scaled_by(stop_gradient(v))(v)); };
  const auto forward = [&](const Array& v) { return sum(tripled(v)); };
  for (const Array& slope : {grad(by_value)(x), grad(by_traced)(x), grad(forward)(x)}) {
    CHECK(slope.to_vector<double>() == std::vector<double>{3, 3});
  }
}

TEST_CASE("a rule on complex numbers is compared with differences, too") {
  // The derivative of sin is cos, of |z|^2 in a cotangent g of reals 2 g conj(z): jax.vjp pairs them without a conjugate.
  const CustomOptions checked{.check = RuleCheck::always};
  for (const DType dtype : {complex64, complex128}) {
    CAPTURE(name(dtype));
    const Array z = convert(complex(away_from_zero({3}), away_from_zero({3}) * 0.5), dtype);
    const auto holomorphic = [&](bool conjugated) {
      return custom_vjp([](const Array& v) { return sin(v); }, [](const Array& v) { return std::pair(sin(v), cos(v)); },
                        [=](const Array& r, const Array& g) { return One(g * (conjugated ? conj(r) : r)); }, checked);
    };
    check_equal(real(holomorphic(false)(z)), real(sin(z)), 1e-6);
    expect_error<DerivativeError>([&] { holomorphic(true)(z); }, "custom_vjp: the rule gives");
    const auto square_of_abs = [&](bool conjugated) {
      const auto value = [](const Array& v) { return real(v * conj(v)); };
      return custom_vjp(
          value, [=](const Array& v) { return std::pair(value(v), v); },
          [=](const Array& r, const Array& g) { return One(2 * convert(g, r.dtype()) * (conjugated ? conj(r) : r)); },
          checked);
    };
    check_equal(square_of_abs(true)(z), real(z * conj(z)), 1e-6);
    expect_error<DerivativeError>([&] { square_of_abs(false)(z); }, "custom_vjp: the rule gives");
    const auto forward = [&](double factor) {
      return custom_jvp([](const Array& v) { return exp(v); },
                        [=](const One& v, const One& dv) {
                          return std::pair(exp(std::get<0>(v)), exp(std::get<0>(v)) * std::get<0>(dv) * factor);
                        },
                        checked);
    };
    check_equal(real(forward(1)(z)), real(exp(z)), 1e-6);
    expect_error<DerivativeError>([&] { forward(0.5)(z); }, "custom_jvp: the rule gives");
  }
}
