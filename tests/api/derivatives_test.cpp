#include <doctest/doctest.h>

#include <lockstep/custom_derivatives.h>
#include <lockstep/derivatives.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/remat.h>

#include "tests/support/array_values.h"
#include "tests/support/counted.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// Jacobians, Hessians, gradients of several arguments, transposes of linear functions, and the checks of derivatives.
using namespace lockstep;
using tests::check_equal;
using tests::counted;
using tests::expect_error;

namespace {

using NamedParams = std::map<std::string, Array>;

/// Two dense layers on a fixed batch.
Array mlp_loss(const NamedParams& p) {
  const Array x = counted({4, 3});
  const Array h = tanh(matmul(x, p.at("w1")) + p.at("b1"));
  return mean(square(matmul(h, p.at("w2")) - 1));
}

NamedParams mlp_params() {
  return {{"w1", counted({3, 2})}, {"b1", counted({2}) * 0.5}, {"w2", counted({2, 2}) + 0.3}};
}

}  // namespace

TEST_CASE("Jacobians of arrays, by columns and by rows") {
  const Array x = counted({2, 3}), a = counted({3, 4});
  const auto f = [&](const Array& v) { return matmul(sin(v), a); };
  // d y[i,k] / d x[l,j] = (i == l) cos(x[l,j]) a[j,k]
  const Array expected =
      reshape(eye(2, float64), {2, 1, 2, 1}) * reshape(cos(x), {1, 1, 2, 3}) * reshape(transpose(a), {1, 4, 1, 3});
  check_equal(jacfwd(f)(x), expected);
  check_equal(jacrev(f)(x), expected);
  check_equal(jit([&](const Array& v) { return jacrev(f)(v); })(x), expected);
  const auto two = [](const Array& u, const Array& v) { return u * sum(v * v); };
  const Array u = counted({2}), v = counted({3});
  check_equal(jacfwd<1>(two)(u, v), reshape(u, {2, 1}) * 2 * v);
  check_equal(jacrev<1>(two)(u, v), reshape(u, {2, 1}) * 2 * v);
  check_equal(jacrev([](const Array& w) { return sum(w * w); })(u), u * 2);
  check_equal(jacfwd([](const Array& w) { return zeros({0}, float64) * sum(w); })(u), zeros({0, 2}, float64));
  const Array rows = stack(std::vector<Array>{u, u * 3}, 0);
  check_equal(vmap([](const Array& w) { return jacfwd([](const Array& p) { return p * p; })(w); })(rows),
              expand_dims(rows * 2, 2) * eye(2, float64));
}

TEST_CASE("Jacobians of trees") {
  const NamedParams p = {{"a", counted({2})}, {"b", counted({3})}};
  const auto f = [](const NamedParams& q) {
    return std::pair(q.at("a") * sum(q.at("b")), std::map<std::string, Array>{{"n", arange(3)}, {"s", sum(q.at("b"))}});
  };
  for (const Tree& jacobian : {jacfwd(f)(p), jacrev(f)(p)}) {
    check_equal(jacobian.at("0/a").array(), eye(2, float64) * sum(p.at("b")));
    check_equal(jacobian.at("0/b").array(), broadcast_to(expand_dims(p.at("a"), 1), {2, 3}));
    check_equal(jacobian.at("1/s/a").array(), zeros({2}, float64));
    check_equal(jacobian.at("1/s/b").array(), ones({3}, float64));
    CHECK(jacobian.at("1/n").kind() == Tree::Kind::none);
  }
  expect_error<DtypeError>([&] { jacrev([](const Array& v) { return v * 2; })(arange(3)); }, "jacrev", "argument 0",
                           "only float and complex leaves");
  expect_error<ValueError>(
      [&] {
        jacfwd<2>([](const std::tuple<Array, Array, Array>& v) { return std::get<0>(v); });
        detail::jacfwd([](const std::vector<Tree>& t) { return t[0]; }, {Tree(ones({2}))}, 2);
      },
      "jacfwd: there is no argument 2");
}

TEST_CASE("the Hessian of an MLP: forward over reverse, reverse over reverse, and products with it") {
  const NamedParams p = mlp_params();
  const Tree forward = hessian(mlp_loss)(p);
  const Tree reverse = jacrev([](const NamedParams& q) { return jacrev(mlp_loss)(q); })(p);
  REQUIRE(forward.paths() == reverse.paths());
  CHECK(forward.paths().size() == 9);
  for (const std::string& path : forward.paths()) {
    CAPTURE(path);
    check_equal(forward.at(path).array(), reverse.at(path).array());
  }
  check_equal(forward.at("w1/b1").array(), transpose(forward.at("b1/w1").array(), Axes{1, 2, 0}));
  const NamedParams v = {{"w1", counted({3, 2}) + 1}, {"b1", counted({2})}, {"w2", counted({2, 2}) * 2}};
  const NamedParams product = hvp(mlp_loss, p, v);
  for (const auto& [name, direction] : v) {
    Array expected = zeros(direction.shape(), float64);
    for (const auto& [by, other] : v) {
      const Array block = forward.at(name + "/" + by).array();
      std::vector<std::int64_t> shape = direction.shape().to_vector();
      shape.push_back(-1);
      expected = expected + sum(reshape(block, shape) * reshape(other, {-1}), Axes{-1});
    }
    check_equal(product.at(name), expected);
  }
}

TEST_CASE("gradients of several arguments at once") {
  const Array a = counted({3}), b = counted({3}) + 2, c = counted({3}) * 3;
  const auto f = [](const Array& u, const Array& v, const Array& w) { return sum(u * v * w * w); };
  const auto [value, gradients] = value_and_grad<0, 2>(f)(a, b, c);
  check_equal(value, f(a, b, c));
  check_equal(std::get<0>(gradients), b * c * c);
  check_equal(std::get<1>(gradients), a * b * c * 2);
  const auto [ga, gb, gc] = grad<0, 1, 2>(f)(a, b, c);
  check_equal(ga, grad<0>(f)(a, b, c));
  check_equal(gb, grad<1>(f)(a, b, c));
  check_equal(gc, grad<2>(f)(a, b, c));
  const auto [gb_first, ga_last] = grad<1, 0>(f)(a, b, c);
  check_equal(gb_first, gb);
  check_equal(ga_last, ga);
  const auto with_aux = [](const NamedParams& p, const Array& x) { return std::pair(sum(p.at("w") * x), x + 1); };
  const auto [result, both] = value_and_grad<0, 1>(with_aux)(NamedParams{{"w", a}}, b);
  check_equal(result.second, b + 1);
  check_equal(std::get<0>(both).at("w"), b);
  check_equal(std::get<1>(both), a);
}

TEST_CASE("per-example gradients are those of a loop") {
  const NamedParams p = mlp_params();
  const Array xs = counted({5, 3});
  const auto loss = [](const NamedParams& q, const Array& x) {
    return sum(square(matmul(tanh(matmul(x, q.at("w1")) + q.at("b1")), q.at("w2"))));
  };
  const auto one = [&](const NamedParams& q, const Array& x) { return grad(loss)(q, x); };
  const VmapOptions rows{.in_axes = {std::nullopt, 0}};
  const NamedParams all = vmap(one, rows)(p, xs);
  const NamedParams compiled = jit([&](const NamedParams& q, const Array& x) { return vmap(one, rows)(q, x); })(p, xs);
  for (std::int64_t i = 0; i < 5; ++i) {
    const NamedParams expected = one(p, squeeze(slice_in_dim(xs, i, i + 1, 0), Axes{0}));
    for (const auto& [name, gradient] : expected) {
      CAPTURE(name);
      check_equal(squeeze(slice_in_dim(all.at(name), i, i + 1, 0), Axes{0}), gradient);
      check_equal(squeeze(slice_in_dim(compiled.at(name), i, i + 1, 0), Axes{0}), gradient);
    }
  }
}

TEST_CASE("transposes of linear functions") {
  const Array a = counted({3, 4}), x = counted({3}), y = counted({4});
  const auto f = [&](const Array& v, const Array& index) { return std::pair(matmul(v, a) * 2, index + 1); };
  const auto back = linear_transpose(f, x, arange(2));
  const auto [cotangent, none] = back({y, arange(2)});
  check_equal(cotangent, matmul(a, y) * 2);
  CHECK(none.dtype() == int32);
  const auto two = [](const Array& u, const Array& v) { return concatenate({u, v * 3}, 0); };
  const auto [du, dv] = linear_transpose(two, ones({2}, float64), ones({2}, float64))(y);
  check_equal(du, slice_in_dim(y, 0, 2, 0));
  check_equal(dv, slice_in_dim(y, 2, 4, 0) * 3);
  const auto mapped = pmap([](const Array& v) { return psum(v, {"batch"}); },
                           {.mesh = tests::mesh_of({2, 1}), .in = {sharded("batch")}, .out = {replicated}});
  const auto spread = linear_transpose([&](const Array& v) { return mapped(v); }, ones({4}, float64));
  check_equal(std::get<0>(spread(counted({2}))), concatenate({counted({2}), counted({2})}, 0));
  expect_error<TraceError>([&] { linear_transpose([](const Array& v) { return sin(v); }, x); }, "sin", "not linear");
  expect_error<ShapeError>([&] { linear_transpose(two, x, x)(y); }, "linear_transpose: cotangent", "f64[6]");
}

TEST_CASE("types of results without running") {
  const NamedParams p = mlp_params();
  const ResultTypes types = eval_shape(
      [](const NamedParams& q, const Array& x) { return std::pair(matmul(x, q.at("w1")), convert(sum(x), int32)); }, p,
      ones({7, 3}, float64));
  CHECK(types.paths == std::vector<std::string>{"0", "1"});
  CHECK(types.at("0") == ArrayType{float64, {7, 2}, {}});
  CHECK(types.at("1") == ArrayType{int32, {}, {}});
  CHECK(eval_shape([](const Array& x) { return x; }, ones({2})).at("") == ArrayType{float32, {2}, {}});
  expect_error<StateError>([&] { types.at("2"); }, "no leaf \"2\"", "\"0\", \"1\"");
}

TEST_CASE("check_grads passes what is right, at every order and in both modes") {
  check_grads(mlp_loss, std::tuple(mlp_params()), {.order = 3});
  const auto f = [](const Array& x, const Array& index, const NamedParams& p) {
    return std::pair(sin(x) * p.at("w") * convert(index, float64), index);
  };
  check_grads(f, std::tuple(counted({3}), arange(3), NamedParams{{"w", counted({3})}}), {.order = 2});
  check_grads([](const Array& x) { return tanh(x); }, std::tuple(convert(counted({3}), float32)));
  check_grads(remat([](const Array& x) { return exp(sin(x)); }), std::tuple(counted({4})), {.order = 2});
}

TEST_CASE("check_grads finds what is wrong and says by how much") {
  const auto wrong_vjp = custom_vjp(
      [](const Array& x) { return sin(x); }, [](const Array& x) { return std::pair(sin(x), x); },
      [](const Array& x, const Array& g) { return std::tuple(cos(x) * g * 1.01); }, {.check = RuleCheck::never});
  const Array x = counted({3});
  expect_error<DerivativeError>([&] { check_grads(wrong_vjp, std::tuple(x), {.forward = false}); },
                                "check_grads: the vjp of the function is", "differences give", "they differ by");
  const auto wrong_second = custom_jvp([](const Array& v) { return v * v * v; },
                                       [](const std::tuple<Array>& v, const std::tuple<Array>& dv) {
                                         const Array& at = std::get<0>(v);
                                         return std::pair(at * at * at, stop_gradient(at * at) * 3 * std::get<0>(dv));
                                       });
  check_grads(wrong_second, std::tuple(x));
  expect_error<DerivativeError>([&] { check_grads(wrong_second, std::tuple(x), {.order = 2, .reverse = false}); },
                                "the jvp of the jvp of the function");
  expect_error<DerivativeError>([&] { check_grads(wrong_second, std::tuple(x), {.order = 2, .forward = false}); },
                                "the vjp of the vjp of the function");
}
