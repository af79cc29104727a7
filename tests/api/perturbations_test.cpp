#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// Perturbed functions against Optax 0.2.8's make_perturbed_fun in float64, from the same keys.
namespace lockstep::tests {
namespace {

using Values = std::vector<double>;
using Noise = PerturbedOptions::Noise;

Array place() { return array(Values{0.3, -0.2, 0.5, 0.1}); }
Array top(const Array& x) { return one_hot(argmax(x, 0), 4, x.dtype()); }

void check_values(const Array& given, const Values& expected) {
  const Values values = reshape(given, {-1}).to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

struct Known {
  Noise noise;
  bool subtracts_middle;
  Values value, gradient, hessian;  ///< Of the second derivative two rows.
};

auto perturbed_loss(const PerturbedOptions& options) {
  return [options](const Array& x) {
    return sum(array(Values{1, 2, -1, 0.5}) * perturbed(top, options)(random::key(7), x));
  };
}

}  // namespace

TEST_CASE("values and derivatives of a perturbed argmax are Optax'") {
  const std::vector<Known> all = {
      {Noise::gumbel,
       true,
       {0.375, 0.0625, 0.375, 0.1875},
       {0.6526785208665588, 0.42987067747789753, -0.6517904660558601, -0.2767139895046771},
       {0.0051808411236639595, 0.8595710430527207, -0.8196909764236957, -2.083743751974155, 0.8595710430527206,
        -2.3166211646056367, -1.4277288854985846, 1.9416157602582116}},
      {Noise::gumbel,
       false,
       {0.375, 0.0625, 0.375, 0.1875},
       {0.820374061852278, 0.18277402460443898, -0.8930840082300686, -0.18655855444790248},
       {-2.5314973224723087, 1.0499774711587004, 0.3398082704176427, 0.016263971325832238, 1.0499774711587002,
        -0.6690004320450553, -1.3756764965224113, 0.9544988205952459}},
      {Noise::normal,
       true,
       {0.3125, 0.0625, 0.4375, 0.1875},
       {0.27038858911756825, 0.4385636752721517, -1.1906378715379495, 0.4380939521795489},
       {-1.6110366509006475, 1.050111906752877, -1.185187523051064, -1.351418709013041, 1.0501119067528768,
        -1.0201635525251178, -1.6668132019622535, 1.2402810668315307}},
      {Noise::normal,
       false,
       {0.3125, 0.0625, 0.4375, 0.1875},
       {0.4032361033609987, 0.3865303283231378, -1.3569055775890075, 0.5356281967366179},
       {-1.4950993782733573, 0.9776855111631539, 0.4746744501229696, 0.6782976428373328, 0.9776855111631539,
        0.21111559168241295, -1.855460141455236, -0.13579481394839588}}};
  for (const Known& k : all) {
    const PerturbedOptions options{
        .samples = 16, .sigma = 0.5, .noise = k.noise, .subtracts_middle = k.subtracts_middle};
    check_values(perturbed(top, options)(random::key(7), place()), k.value);
    const auto loss = perturbed_loss(options);
    check_values(grad(loss)(place()), k.gradient);
    check_values(slice(hessian(loss)(place()), {0, 0}, {2, 4}), k.hessian);
  }
}

TEST_CASE("a perturbed function of a tree draws for each leaf") {
  const auto largest = [](const Tree& t) { return maximum(max(t.at("a").array()), t.at("b").array()); };
  const auto smooth = perturbed(largest, {.samples = 16, .sigma = 0.5});
  const Tree x = Tree::dict({{"a", Tree(place())}, {"b", Tree(full({}, 0.7, float64))}});
  check_values(smooth(random::key(7), x), {1.625809800201083});
  const Tree gradient = grad([&](const Tree& t) { return smooth(random::key(7), t); })(x);
  check_values(gradient.at("a").array(),
               {-1.3141087574641166, 0.31763219537085086, 0.25497685687566424, 0.33541584500590405});
  check_values(gradient.at("b").array(), {1.2876555428208365});
}

TEST_CASE("a perturbed function means the same in jit, vmap, scan, remat and forward mode") {
  const auto loss = perturbed_loss({.samples = 8, .sigma = 0.5});
  const Array x = place(), expected = grad(loss)(x);
  const Values known = expected.to_vector<double>();
  check_values(jit(grad(loss))(x), known);
  check_values(grad(remat(loss))(x), known);
  check_values(jacfwd(loss)(x), known);
  check_values(vmap(grad(loss))(stack({x, 2 * x}, 0))[0], known);
  check_values(vmap(grad(loss))(stack({2 * x, x}, 0))[1], known);
  const auto next = [&](const Array& sum, const Array& row) { return std::pair(sum + loss(row), loss(row)); };
  const auto in_scan = [&](const Array& row) { return scan(next, full({}, 0.0, float64), stack({row, row}, 0)).first; };
  check_values(grad(in_scan)(x), (2 * expected).to_vector<double>());
}

TEST_CASE("in a pmap each replica folds its index into the key, and has what vmap gives") {
  const auto loss = [](const Array& x, const Array& i) {
    const Array key = random::fold_in(random::key(3), i);
    return sum(arange(4, float32) * perturbed(top, {.samples = 8})(key, x));
  };
  const Array x = random::normal(random::key(1), {4, 4});
  const Array expected = vmap(grad<0>(loss))(x, arange(4));
  for (const char* devices : {"cpu:0", "cpu:0-1", "cpu:0-3"}) {
    const Mesh mesh({{"batch", 4}}, lockstep::devices(devices));
    const auto own = [&](const Array& row) {
      const auto of_row = [&](const Array& r) { return loss(squeeze(r, {0}), axis_index("batch")); };
      return grad(of_row)(row);
    };
    const auto mapped = pmap(own, {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
    CHECK(fingerprint(to_tree(mapped(x))) == fingerprint(to_tree(expected)));
  }
}

namespace {

/// Of rows that are perturbed, and of weights that every replica has: each row's largest place.
Tree tops(const Tree& t) {
  const Array scaled = t.at("rows").array() * t.at("weights").array();
  return Tree(one_hot(argmax(scaled, 1), 3, float64) * arange(1, 4));
}

/// Of whole arrays, or of blocks in a map; and its derivatives twice.
Tree smooth_values(const Array& key, const Tree& t, const random::Placement& placement, const AxisSet& axes) {
  const auto loss = [&](const Tree& x) {
    const auto smooth = perturbed(tops, {.samples = 8, .sigma = 0.5, .placement = placement});
    const Array total = sum(square(smooth(key, x).array()));
    return axes.empty() ? total : psum(total, axes);
  };
  const auto slope = [&](const Tree& x) {
    const Tree g = grad(loss)(x);
    const Array rows = sum(sin(g.at("rows").array()));
    return sum(square(g.at("weights").array())) + (axes.empty() ? rows : psum(rows, axes));
  };
  return Tree::dict({{"value", Tree(loss(t))}, {"first", grad(loss)(t)}, {"second", grad(slope)(t)}});
}

}  // namespace

TEST_CASE("perturbed blocks of a larger array have its values and derivatives, on any number of shards") {
  const Array rows = random::normal(random::key(1), {8, 3}, float64), weights = array(Values{1, 0.5, 1.5});
  const auto tree = [](const Array& x, const Array& w) {
    return Tree::dict({{"rows", Tree(x)}, {"weights", Tree(w)}});
  };
  const Tree expected = jit(
      [&](const Array& x, const Array& w) { return smooth_values(random::key(3), tree(x, w), {}, {}); })(rows, weights);
  const auto near = [](const Array& given, const Array& whole) {
    check_values(given, reshape(whole, {-1}).to_vector<double>());
  };
  for (const std::int64_t shards : {1, 2, 4}) {
    CAPTURE(shards);
    const Mesh mesh({{"batch", shards}}, devices(shards == 1 ? "cpu:0" : "cpu:0-1"));
    const auto own = [&](const Array& x, const Array& w) {
      const Tree all = smooth_values(random::key(3), tree(x, w), {.cut = random::Cut{0, {"batch"}}}, {"batch"});
      const auto of = [&](const char* which, const char* leaf) { return all.at(which).at(leaf).array(); };
      return std::tuple(all.at("value").array(), of("first", "rows"), of("first", "weights"), of("second", "rows"),
                        of("second", "weights"));
    };
    const auto [value, first, of_weights, second, twice] =
        pmap(own, {.mesh = mesh,
                   .in = {sharded("batch"), replicated},
                   .out = {replicated, sharded("batch"), replicated, sharded("batch"), replicated}})(rows, weights);
    near(value, expected.at("value").array());
    near(first, expected.at("first").at("rows").array());
    near(of_weights, expected.at("first").at("weights").array());
    near(second, expected.at("second").at("rows").array());
    near(twice, expected.at("second").at("weights").array());
  }
}

TEST_CASE("narrow floats are perturbed in their dtype, and sizes 0 and 1 pass") {
  const auto total = [](const Array& x) { return sum(x); };
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const auto smooth = [&](const Array& x) { return sum(perturbed(total, {.samples = 1024})(random::key(1), x)); };
    const Array gradient = grad(smooth)(ones({1}, dtype));
    CHECK(gradient.dtype() == dtype);
    CHECK(gradient.shape() == Shape{1});
    CHECK(std::abs(convert(gradient, float64)[0].item<double>() - 1) < 0.2);
    CHECK(grad(smooth)(zeros({0}, dtype)).shape() == Shape{0});
  }
}

TEST_CASE("what cannot be perturbed is named") {
  expect_error<ValueError>([] { static_cast<void>(perturbed(top, {.samples = 0})(random::key(0), place())); },
                           "perturbed: samples is 0, sigma 0.1");
  expect_error<ValueError>([] { static_cast<void>(perturbed(top, {.sigma = 0})(random::key(0), place())); },
                           "sigma 0; give at least one sample, and a sigma above 0");
  expect_error<DtypeError>([] { static_cast<void>(perturbed(top)(random::key(0), arange(4))); },
                           "perturbed: the argument is i32[4]; noise is added to real floats: convert it first");
  const auto of_tree = [](const Tree& t) { return sum(t.at("n").array()); };
  expect_error<DtypeError>(
      [&] {
        static_cast<void>(perturbed(of_tree)(random::key(0), Tree::dict({{"n", Tree(arange(2))}})));
      },
      "perturbed: leaf 'n' of the argument is i32[2]");
  const auto index = [](const Array& x) { return argmax(x, 0); };
  expect_error<DtypeError>([&] { static_cast<void>(perturbed(index)(random::key(0), place())); },
                           "perturbed: the function's result is i32[]; the mean of real floats is taken");
}

}  // namespace lockstep::tests
