#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/scientific.h>

// Rules of derivatives that a program has itself, where it is partitioned first and differentiated then: what they give is
// not what differentiating their bodies would.
namespace lockstep::tests {
namespace {

using RuledProgram = std::function<Array(const Array&, const Array&)>;

const Mesh& square_mesh() {
  static const Mesh mesh({{"data", 2}, {"model", 2}}, devices("cpu:0-1"));
  return mesh;
}

/// x^2 w, whose rule multiplies by 10 and 7 in place of what is right.
Array with_backward_rule(const Array& x, const Array& w) {
  const auto f = [](const Array& a, const Array& b) { return square(a) * b; };
  const auto fwd = [](const Array& a, const Array& b) { return std::pair(square(a) * b, std::pair(a, b)); };
  const auto bwd = [](const std::pair<Array, Array>& kept, const Array& cotangent) {
    return std::tuple(cotangent * 10.0 * kept.second, sum(cotangent * kept.first, {0}) * 7.0);
  };
  return custom_vjp(f, fwd, bwd)(x, w);
}

Array with_tangent_rule(const Array& x, const Array& w) {
  const auto rule = [](const std::tuple<Array, Array>& at, const std::tuple<Array, Array>& along) {
    const auto& [a, b] = at;
    return std::pair(square(a) * b, std::get<0>(along) * b * 5.0 + a * 3.0 * std::get<1>(along));
  };
  return custom_jvp([](const Array& a, const Array& b) { return square(a) * b; }, rule)(x, w);
}

/// A system whose matrix depends on x.
Array solved(const Array& x, const Array& w) {
  const Array matrix = matmul(transpose(x), x) + eye(w.dim(0), x.dtype()) * 3.0;
  return cg(matrix, w, {.tol = 1e-14}) * mean(x, {0});
}

Array solved_by_gmres(const Array& x, const Array& w) {
  const Array matrix = matmul(transpose(x), tanh(x)) + eye(w.dim(0), x.dtype()) * 4.0;
  return gmres(matrix, w, {.tol = 1e-14}) * x;
}

/// The root of y + y^3 / 10 = x w.
Array root_of(const Array& x, const Array& w) {
  const Array right = x * w;
  const auto equation = [&](const Array& y) { return y + y * y * y * 0.1 - right; };
  return custom_root(
      equation, zeros_like(x),
      [](const auto& f, const Array& start) {
        return fori_loop(
            0, 40, [&](const Array&, const Array& y) { return y - f(y) * 0.5; }, start);
      },
      [](const auto& g, const Array& y) { return y / g(ones_like(y)); });
}

const std::vector<std::pair<std::string, RuledProgram>>& ruled_programs() {
  static const std::vector<std::pair<std::string, RuledProgram>> list = {
      {"custom_vjp", with_backward_rule}, {"custom_jvp", with_tangent_rule}, {"cg", solved},
      {"gmres", solved_by_gmres},         {"custom_root", root_of},
  };
  return list;
}

void check_near_in_float32(const Array& given, const Array& expected) {
  REQUIRE(given.shape() == expected.shape());
  CHECK(allclose(given, expected, 1e-9, 1e-9).item<bool>());
}

RuledProgram total(const RuledProgram& f) {
  return [f](const Array& x, const Array& w) { return sum(sin(f(x, w))); };
}

TEST_CASE("derivatives of a partitioned function are by its rules, wherever it lies") {
  const Array x = random::normal(random::key(1), {4, 6}, float64), w = random::normal(random::key(2), {6}, float64);
  const std::vector<std::vector<LayoutMap>> layouts = {
      {sharded("data"), replicated},
      {sharded("model", 1), sharded("model")},
      {sharded({"data", "model"}), replicated},
      {replicated, sharded("data")},
  };
  for (const auto& [name, f] : ruled_programs()) {
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      CAPTURE(name);
      CAPTURE(i);
      const RuledProgram whole = f;
      const RuledProgram cut = partitioned(whole, {.mesh = square_mesh(), .in = layouts[i]});
      check_near_in_float32(cut(x, w), whole(x, w));
      check_near_in_float32(grad<0>(total(cut))(x, w), grad<0>(total(whole))(x, w));
      check_near_in_float32(grad<1>(total(cut))(x, w), grad<1>(total(whole))(x, w));
      const RuledProgram all_cut = partitioned(total(whole), {.mesh = square_mesh(), .in = layouts[i]});
      check_near_in_float32(grad<0>(all_cut)(x, w), grad<0>(total(whole))(x, w));
      check_near_in_float32(jit(grad<1>(all_cut))(x, w), grad<1>(total(whole))(x, w));
      const RuledProgram inside = partitioned(grad<0>(total(whole)), {.mesh = square_mesh(), .in = layouts[i]});
      check_near_in_float32(inside(x, w), grad<0>(total(whole))(x, w));
    }
  }
}

TEST_CASE("so are second derivatives, batches and derivatives forwards") {
  const Array x = random::normal(random::key(3), {4, 6}, float64), w = random::normal(random::key(4), {6}, float64);
  for (const auto& [name, f] : ruled_programs()) {
    CAPTURE(name);
    const RuledProgram whole = total(f);
    const RuledProgram cut = partitioned(whole, {.mesh = square_mesh(), .in = {sharded("data"), replicated}});
    const auto second = [](const RuledProgram& of) {
      return grad<0>(RuledProgram([of](const Array& a, const Array& b) { return sum(square(grad<1>(of)(a, b))); }));
    };
    check_near_in_float32(second(cut)(x, w), second(whole)(x, w));
    const Array many = stack({x, x * 0.5, -x});
    const auto batched = [&](const RuledProgram& of) {
      return vmap(grad<0>(of), {.in_axes = {0, std::nullopt}})(many, w);
    };
    check_near_in_float32(batched(cut), batched(whole));
    if (name == "custom_vjp") continue;  // has no rule forwards
    const auto forwards = [&](const RuledProgram& of) { return jvp(of, std::tuple(x, w), std::tuple(x, w)).second; };
    check_near_in_float32(forwards(cut), forwards(whole));
  }
}

TEST_CASE("solvers of what varies over a map solve with the transpose, too") {
  const Array matrix = random::normal(random::key(5), {6, 6}, float64) * 0.2 + eye(6, float64);
  const Array many = random::normal(random::key(6), {4, 6}, float64);
  const std::vector<std::function<Array(const Array&)>> solvers = {
      [&](const Array& b) { return gmres(matrix, b, {.tol = 1e-14}); },
      [&](const Array& b) { return bicgstab(matrix, b, {.tol = 1e-14}); },
  };
  for (const auto& solve : solvers) {
    const auto each = [&](const Array& rows) { return vmap(solve)(rows); };
    const auto mapped = pmap(each, {.mesh = square_mesh(), .in = {sharded("data")}, .out = {sharded("data")}});
    check_near_in_float32(mapped(many), each(many));
    const auto energy = [&](const auto& f) { return [&](const Array& rows) { return sum(square(f(rows))); }; };
    check_near_in_float32(grad(energy(mapped))(many), grad(energy(each))(many));
  }
}

}  // namespace
}  // namespace lockstep::tests
