#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/attention.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradient_checks.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_close;
using tests::check_gradient;
using tests::check_rows;
using tests::expect_error;

namespace {

struct Inputs {
  Array query = sin(arange_of({2, 3, 4, 2}, float64)), key = cos(arange_of({2, 4, 2, 2}, float64) * 0.7);
  Array value = sin(arange_of({2, 4, 2, 2}, float64) * 1.3 + 1), bias = sin(arange_of({1, 4, 3, 4}, float64) * 0.9);
  Array mask = reshape(not_equal(rem(arange(8), 3), 0), {2, 1, 1, 4});

  Array attend(const AttentionOptions& options) const { return dot_product_attention(query, key, value, options); }
};

}  // namespace

// Values in rows are JAX's.
TEST_CASE("dot-product attention") {
  const Inputs in;
  check_rows({
      {"plain",
       in.attend({}),
       {2, 3, 4, 2},
       {-0.183334607,  0.329203854,   -0.0982705476, 0.340520742,  0.278476741,  0.0987214314, 0.418058963,
        -0.0453318485, -0.0772390925, 0.36989414,    -0.352495983, 0.171337767,  0.387773394,  -0.0109005791,
        0.51305493,    -0.0566399877, -0.34326217,   0.158828136,  -0.293676227, 0.247711416,  0.52553408,
        -0.0527790549, 0.28604236,    -0.0434815003, 0.490831276,  0.245690245,  0.240813713,  0.0821517157,
        -0.220085862,  -0.357284285,  -0.263356202,  -0.438019921, 0.260770654,  0.0717904983, 0.368642808,
        0.231847774,   -0.254107569,  -0.443925223,  -0.379949277, -0.313429978, 0.319460477,  0.216314328,
        0.551479236,   0.278463782,   -0.359378921,  -0.333550639, -0.35915842,  -0.253574028}},
      {"scale",
       in.attend({.scale = 2}),
       {2, 3, 4, 2},
       {-0.22023098,   0.366235666,  0.0885542813, 0.467154683,  0.264947714,  0.526003373,  0.48803366,
        -0.0764738546, 0.064563501,  0.470290488,  -0.354023393, 0.251990427,  0.421172574,  0.0499467419,
        0.798677682,   0.182264822,  -0.386513434, 0.163021325,  -0.309528305, 0.338661431,  0.814190815,
        0.18733872,    0.151802871,  -0.031650127, 0.623162624,  0.406894746,  0.0886828075, -0.144217541,
        -0.0917373842, -0.391081848, -0.428596495, -0.476128325, 0.131961388,  -0.214831245, 0.334876049,
        0.300171902,   -0.423749958, -0.476655758, -0.410760217, -0.373878177, 0.184457291,  0.314790058,
        0.747737078,   0.351200697,  -0.397991875, -0.396348104, -0.46438794,  -0.127056318}},
      {"bias",
       in.attend({.bias = in.bias}),
       {2, 3, 4, 2},
       {-0.455152255, 0.268334067,   -0.514923575, -0.0325563726, 0.0444228576, -0.287552451,  0.375758738,
        -0.381545415, -0.014101393,  0.311964659,  -0.0590712025, 0.629307451,  0.520749808,   -0.00964794842,
        0.650239005,  0.326537514,   -0.136481628, 0.5999353,     -0.576032658, -0.0924214477, 0.454877561,
        0.0513079946, -0.0187396942, -0.606888034, 0.591502493,   0.41457262,   0.0128563937,  0.571366289,
        -0.390614647, -0.096263141,  -0.678342726, -0.417480476,  0.110019434,  0.158506365,   0.474530033,
        -0.242146664, -0.405381163,  -0.486709289, -0.11475666,   -0.595042389, 0.525042452,   -0.0429066866,
        0.476804892,  0.578824342,   -0.227644492, -0.280191228,  -0.587659042, 0.176801699}},
      {"mask",
       in.attend({.mask = in.mask}),
       {2, 3, 4, 2},
       {-0.718546791, 0.326457501,   -0.739912312, 0.3058961,    0.724674912,   -0.273063023, 0.761419027,
        -0.180515611, -0.797203648,  0.250760862,  -0.180170176, 0.844572738,   0.739811272,  -0.234939219,
        0.86966207,   0.0921157954,  -0.216012863, 0.810078969,  -0.359270276,  0.672212919,  0.86340233,
        0.076349397,  0.788983568,   -0.111088906, 0.372670003,  -0.0975093102, 0.141920532,  -0.0855168798,
        -0.215975358, -0.225443127,  -0.265415754, -0.388261576, 0.153666824,   -0.12042697,  0.289413882,
        0.0817842058, -0.25501598,   -0.407860044, -0.490735805, 0.230187981,   0.237477092,  0.0774894319,
        0.474634384,  -0.0159575147, -0.44051027,  0.119527729,  -0.427268532,  0.173248472}},
      {"nothing seen",
       in.attend({.mask = zeros({1, 1, 1, 1}, bool_)}),
       {2, 3, 4, 2},
       {-0.234824756, 0.25094503,  -0.234824756, 0.25094503,  0.369079759,  -0.0534882235, 0.369079759,  -0.0534882235,
        -0.234824756, 0.25094503,  -0.234824756, 0.25094503,  0.369079759,  -0.0534882235, 0.369079759,  -0.0534882235,
        -0.234824756, 0.25094503,  -0.234824756, 0.25094503,  0.369079759,  -0.0534882235, 0.369079759,  -0.0534882235,
        0.389465115,  0.198059965, 0.389465115,  0.198059965, -0.283503498, -0.349733672,  -0.283503498, -0.349733672,
        0.389465115,  0.198059965, 0.389465115,  0.198059965, -0.283503498, -0.349733672,  -0.283503498, -0.349733672,
        0.389465115,  0.198059965, 0.389465115,  0.198059965, -0.283503498, -0.349733672,  -0.283503498, -0.349733672}},
      {"causal",
       in.attend({.is_causal = true}),
       {2, 3, 4, 2},
       {0.841470985,  0.745705212,  0.841470985,   0.745705212,  -0.442520443,  -0.982452613, -0.442520443,
        -0.982452613, 0.716338362,  0.771730903,   0.0320551749, 0.914051643,   0.186314736,  -0.763719773,
        0.0341302418, -0.816655315, -0.0561001795, 0.800344382,  -0.0922693815, 0.688554882,  0.547571333,
        -0.179716659, 0.261784022,  -0.484114495,  0.189986676,  -0.895187368,  0.189986676,  -0.895187368,
        -0.66890982,  0.537322181,  -0.66890982,   0.537322181,  0.402353004,   -0.654242434, 0.644155795,
        -0.379899668, -0.938048766, -0.383645038,  -0.721856748, 0.356142724,   0.623960516,  -0.0938896261,
        0.715664019,  0.169126357,  -0.513797458,  -0.318204293, -0.524422833,  -0.225177281}},
      {"window",
       in.attend({.local_window_size = std::pair(1, 0)}),
       {2, 3, 4, 2},
       {0.841470985,  0.745705212,  0.841470985,  0.745705212,  -0.442520443, -0.982452613, -0.442520443,
        -0.982452613, 0.716338362,  0.771730903,  0.0320551749, 0.914051643,  0.186314736,  -0.763719773,
        0.0341302418, -0.816655315, -0.216012863, 0.810078969,  -0.359270276, 0.672212919,  0.86340233,
        0.076349397,  0.788983568,  -0.111088906, 0.189986676,  -0.895187368, 0.189986676,  -0.895187368,
        -0.66890982,  0.537322181,  -0.66890982,  0.537322181,  0.402353004,  -0.654242434, 0.644155795,
        -0.379899668, -0.938048766, -0.383645038, -0.721856748, 0.356142724,  0.855918377,  0.334401984,
        0.83475729,   0.410248772,  -0.411850287, -0.880496665, -0.398489786, -0.889762304}},
      {"causal window",
       in.attend({.is_causal = true, .local_window_size = std::pair(1, 2)}),
       {2, 3, 4, 2},
       {0.841470985,  0.745705212,  0.841470985,  0.745705212,  -0.442520443, -0.982452613, -0.442520443,
        -0.982452613, 0.716338362,  0.771730903,  0.0320551749, 0.914051643,  0.186314736,  -0.763719773,
        0.0341302418, -0.816655315, -0.216012863, 0.810078969,  -0.359270276, 0.672212919,  0.86340233,
        0.076349397,  0.788983568,  -0.111088906, 0.189986676,  -0.895187368, 0.189986676,  -0.895187368,
        -0.66890982,  0.537322181,  -0.66890982,  0.537322181,  0.402353004,  -0.654242434, 0.644155795,
        -0.379899668, -0.938048766, -0.383645038, -0.721856748, 0.356142724,  0.855918377,  0.334401984,
        0.83475729,   0.410248772,  -0.411850287, -0.880496665, -0.398489786, -0.889762304}},
      {"lengths",
       in.attend({.query_seq_lengths = array({2, 3}), .key_value_seq_lengths = array({4, 1})}),
       {2, 3, 4, 2},
       {-0.183334607,
        0.329203854,
        -0.0982705476,
        0.340520742,
        0.278476741,
        0.0987214314,
        0.418058963,
        -0.0453318485,
        -0.0772390925,
        0.36989414,
        -0.352495983,
        0.171337767,
        0.387773394,
        -0.0109005791,
        0.51305493,
        -0.0566399877,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0.189986676,
        -0.895187368,
        0.189986676,
        -0.895187368,
        -0.66890982,
        0.537322181,
        -0.66890982,
        0.537322181,
        0.189986676,
        -0.895187368,
        0.189986676,
        -0.895187368,
        -0.66890982,
        0.537322181,
        -0.66890982,
        0.537322181,
        0.189986676,
        -0.895187368,
        0.189986676,
        -0.895187368,
        -0.66890982,
        0.537322181,
        -0.66890982,
        0.537322181}},
      {"all",
       in.attend(
           {.bias = in.bias, .mask = in.mask, .scale = 0.3, .is_causal = true, .key_value_seq_lengths = array({4, 1})}),
       {2, 3, 4, 2},
       {-0.234824756,  0.25094503,    -0.234824756, 0.25094503,    0.369079759,  -0.0534882235, 0.369079759,
        -0.0534882235, -0.0830894028, 0.937999977,  -0.0830894028, 0.937999977,  0.584917193,   -0.625070649,
        0.584917193,   -0.625070649,  -0.267213781, 0.760804942,   -0.596370769, 0.444035481,   0.846255704,
        0.0331623415,  0.705576067,   -0.321167257, 0.189986676,   -0.895187368, 0.189986676,   -0.895187368,
        -0.66890982,   0.537322181,   -0.66890982,  0.537322181,   0.189986676,  -0.895187368,  0.189986676,
        -0.895187368,  -0.66890982,   0.537322181,  -0.66890982,   0.537322181,  0.189986676,   -0.895187368,
        0.189986676,   -0.895187368,  -0.66890982,  0.537322181,   -0.66890982,  0.537322181}},
  });
}

TEST_CASE("attention in other dtypes and ranks, and its residual") {
  const Inputs in;
  const auto narrow = [](const Array& x, DType dtype) { return convert(x, dtype); };
  const std::vector<double> expected = tests::values(in.attend({.bias = in.bias, .is_causal = true}));
  for (const auto& [dtype, tolerance] :
       {std::pair(float32, 1e-5), std::pair(float16, 4e-3), std::pair(bfloat16, 3e-2)}) {
    const Array y = dot_product_attention(narrow(in.query, dtype), narrow(in.key, dtype), narrow(in.value, dtype),
                                          {.bias = in.bias, .is_causal = true});
    CHECK(y.dtype() == dtype);
    check_close(y, in.query.shape(), expected, tolerance);
  }
  const auto row = [](const Array& x) { return reshape(slice_in_dim(x, 0, 1, 0), {x.dim(1), x.dim(2), x.dim(3)}); };
  const Array unbatched =
      dot_product_attention(row(in.query), row(in.key), row(in.value), {.bias = in.bias, .is_causal = true});
  check_close(unbatched, {3, 4, 2}, {expected.begin(), expected.begin() + 24}, 1e-12);
  const auto [out, residual] =
      dot_product_attention_with_residual(in.query, in.key, in.value, {.bias = in.bias, .is_causal = true});
  check_close(out, in.query.shape(), expected, 1e-12);
  check_close(residual, {2, 3, 4},
              {0.45508862, -0.2616446, 0.63261116, 0.56464684,  0.56765646,  1.64552712, 1.32526922, -0.34435004,
               2.04970384, 1.26221156, 0.50899363, 1.66150737,  -0.20355807, -0.3398861, 0.22415902, -0.07769113,
               0.39494962, 1.40438008, 1.96657181, -0.02865714, 1.85922408,  1.44711709, 0.72189802, 1.94103909});
}

TEST_CASE("long sequences are taken in blocks") {
  const Array q = tests::wavy({1, 150, 2, 4}), k = tests::wavy({1, 70, 1, 4}, 1), v = tests::wavy({1, 70, 1, 4}, 2);
  const Array logits = matmul(transpose(q, {0, 2, 1, 3}), transpose(k, {0, 2, 3, 1})) * 0.5;
  const Array mixed = matmul(softmax(logits), transpose(v, {0, 2, 1, 3}));
  check_close(dot_product_attention(q, k, v), {1, 150, 2, 4}, tests::values(transpose(mixed, {0, 2, 1, 3})), 1e-12);
  const auto fused = [&](const Array& x) { return sum(square(dot_product_attention(q, x, v))); };
  const auto written_out = [&](const Array& x) {
    const Array s = matmul(transpose(q, {0, 2, 1, 3}), transpose(x, {0, 2, 3, 1})) * 0.5;
    return sum(square(matmul(softmax(s), transpose(v, {0, 2, 1, 3}))));
  };
  check_close(grad(fused)(k), k.shape(), tests::values(grad(written_out)(k)), 1e-10);
}

TEST_CASE("the derivatives of attention, first and second") {
  const Inputs in;
  const AttentionOptions options{.bias = in.bias, .mask = in.mask, .is_causal = true};
  check_gradient([&](const Array& q) { return dot_product_attention(q, in.key, in.value, options); }, in.query);
  check_gradient([&](const Array& k) { return dot_product_attention(in.query, k, in.value, options); }, in.key);
  check_gradient([&](const Array& v) { return dot_product_attention(in.query, in.key, v, options); }, in.value);
  check_gradient([&](const Array& b) { return in.attend({.bias = b}); }, in.bias);
  check_gradient([&](const Array& v) { return in.attend({.bias = v, .mask = zeros({1, 1, 1, 1}, bool_)}); }, in.bias);
  const Array q = tests::wavy({1, 2, 2, 2}), k = tests::wavy({1, 3, 1, 2}, 1);
  check_gradient([&](const Array& x) { return dot_product_attention(x, k, square(k)); }, q, 2);
  check_gradient(
      [&](const Array& x) { return dot_product_attention(q, x, square(x), {.local_window_size = std::pair(1, 1)}); }, k,
      2);
}

TEST_CASE("attention over a batch") {
  const Inputs in;
  const auto f = [](const Array& q, const Array& k) { return dot_product_attention(q, k, k, {.is_causal = true}); };
  const Array wide = stack(std::vector<Array>{in.query, in.query * 0.5}, 0);
  const Array both = vmap(f, {.in_axes = {0, std::nullopt}})(wide, in.key);
  const std::vector<double> first = tests::values(f(in.query, in.key)),
                            second = tests::values(f(in.query * 0.5, in.key));
  std::vector<double> expected = first;
  expected.insert(expected.end(), second.begin(), second.end());
  check_close(both, {2, 2, 3, 4, 2}, expected, 1e-12);
}

TEST_CASE("what attention refuses") {
  const Inputs in;
  const auto f = [](const Array& q, const Array& k, const Array& v) { dot_product_attention(q, k, v); };
  expect_error<ShapeError>(
      [&] {
        f(ones({3, 4}), in.key, in.value);
      },
      "the query must have shape [B, length, heads, H]", "[3,4]");
  expect_error<ShapeError>([&] { f(in.query, in.key, ones({2, 4, 1, 2})); }, "keys and values of one shape");
  expect_error<ShapeError>(
      [&] {
        f(in.query, ones({2, 4, 3, 2}), ones({2, 4, 3, 2}));
      },
      "a multiple of those of the keys");
  expect_error<ShapeError>(
      [&] {
        in.attend({.bias = ones({2, 2, 2})});
      },
      "the bias must broadcast to [B, N, T, S]", "got [2,2,2]");
  expect_error<ShapeError>([&] { in.attend({.mask = ones({1, 1, 1, 1, 1}, bool_)}); }, "the mask must broadcast");
  expect_error<DtypeError>(
      [&] {
        in.attend({.mask = ones({1, 1, 1, 1})});
      },
      "the mask must be of bool", "got f32[1,1,1,1]", "is the bias");
  expect_error<ShapeError>([&] { in.attend({.key_value_seq_lengths = array({1})}); }, "key_value_seq_lengths", "[2]");
  expect_error<ShapeError>(
      [&] {
        in.attend({.query_seq_lengths = array({1.f, 2.f})});
      },
      "query_seq_lengths", "integers");
  expect_error<ValueError>([&] { in.attend({.local_window_size = std::pair(-1, 0)}); }, "local_window_size", "(-1, 0)");
}

TEST_CASE("lengths of a dtype that does not count all places are those of a wider one") {
  const Array x = cos(reshape(arange(1200), {2, 300, 1, 2}));
  const Array lengths = array({100, 50});
  const auto of = [&](const Array& n) {
    return dot_product_attention(x, x, x, {.query_seq_lengths = n, .key_value_seq_lengths = n});
  };
  const Array expected = of(lengths);
  for (const DType dtype : {int8, uint8, int16, int64}) {
    CHECK_MESSAGE(array_equal(of(convert(lengths, dtype)), expected).item<bool>(), name(dtype));
  }
}

TEST_CASE("softmax of what a mask shows") {
  const Array x = array(std::vector<float>{1, 2, 3, 5, 1, 1}, {2, 3});
  const Array shown = array(std::vector<bool>{true, false, true, false, false, false}, {2, 3});
  const double infinity = std::numeric_limits<double>::infinity();
  check_close(softmax(x, -1, shown), {2, 3}, {0.11920292, 0, 0.88079708, 0, 0, 0});
  check_close(log_softmax(x, 1, shown), {2, 3}, {-2.12692801, -infinity, -0.12692801, -infinity, -infinity, -infinity});
  check_close(softmax(x + 1000, -1, array({true, true, false})), {2, 3},
              {0.26894142, 0.73105858, 0, 0.98201379, 0.01798621, 0});
  check_gradient([&](const Array& a) { return softmax(a, -1, shown); }, tests::wavy({2, 3}));
  check_gradient([&](const Array& a) { return where(shown, log_softmax(a, -1, shown), 0); }, tests::wavy({2, 3}));
  expect_error<DtypeError>([&] { softmax(x, -1, x); }, "softmax", "of bool", "f32[2,3]");
  expect_error<ShapeError>([&] { log_softmax(x, -1, ones({2}, bool_)); }, "log_softmax", "[2]");
}

namespace {

/// Halves between -1 and 1, so that products are exact in every dtype.
Array halves(const Shape& shape, std::int64_t step) {
  return convert(rem(arange_of(shape, int64) * step + arange_of(shape, int64) / 3, 5) - 2, float64) * 0.5;
}

/// The same in matrices, by a softmax that subtracts the largest logit.
Array written_out(const Array& q, const Array& k, const Array& v, const Array& bias, const Array& mask) {
  const auto heads_first = [](const Array& x) { return transpose(x, {0, 2, 1, 3}); };
  const Array scores = matmul(heads_first(q), transpose(heads_first(k), {0, 1, 3, 2})) * 0.5;
  const Array p = softmax(scores + bias, -1, broadcast_to(mask, scores.shape()));
  return heads_first(matmul(p, heads_first(v)));
}

using Four = std::tuple<Array, Array, Array, Array>;

/// The gradients of f at four arrays, and of their weighted sum those again.
template <class F>
std::pair<Four, Four> first_and_second(const F& f, const Four& at) {
  const auto first = grad<0, 1, 2, 3>(f);
  const auto joined = [&](const Array& q, const Array& k, const Array& v, const Array& bias) {
    const auto total = [](const auto&... g) { return (sum(g * convert(halves(g.shape(), 19), g.dtype())) + ...); };
    return std::apply(total, first(q, k, v, bias));
  };
  return {std::apply(first, at), std::apply(grad<0, 1, 2, 3>(joined), at)};
}

void check_four(const Four& given, const Four& expected, double tolerance) {
  const auto check_one = [&](const Array& a, const Array& b) {
    check_close(a, b.shape(), tests::values(b), tolerance);
  };
  check_one(std::get<0>(given), std::get<0>(expected));
  check_one(std::get<1>(given), std::get<1>(expected));
  check_one(std::get<2>(given), std::get<2>(expected));
  check_one(std::get<3>(given), std::get<3>(expected));
}

struct Biased {
  DType dtype;
  double bias, tolerance;
};

std::vector<Biased> biases() {
  std::vector<Biased> list;
  for (const double bias : {0., -1e4, -1e6, -1e7, -1e9, 1e9, -1e30, -3.4028234663852886e38}) {
    list.push_back({float32, bias, 2e-5});
    list.push_back({bfloat16, std::max(bias, -3.3895313892515355e38), 2e-2});
  }
  for (const double bias : {-1e17, -1.7976931348623157e308}) list.push_back({float64, bias, 1e-13});
  for (const double bias : {-1e4, -65504., 65504.}) list.push_back({float16, bias, 4e-3});
  return list;
}

}  // namespace

TEST_CASE("a bias that all keys of a query share leaves attention's derivatives as exact as its values") {
  const Shape shape{2, 70, 2, 4}, logits{2, 2, 70, 70};
  const Array order = arange(70);
  const Array mask = (not_equal(rem(arange_of({2, 1, 70, 70}, int64), 3), 0) | eye(70, bool_)) &
                     greater_equal(expand_dims(order, 1), order);
  for (const Biased& c : biases()) {
    CAPTURE(name(c.dtype));
    CAPTURE(c.bias);
    const DType wide = promote(c.dtype, float32);
    const auto in = [&](std::int64_t step) { return convert(halves(shape, step), c.dtype); };
    const Four operands(in(7), in(11), in(13), full(logits, c.bias, c.dtype));
    const auto weighted = [&](const Array& y) { return sum(convert(y, wide) * convert(halves(shape, 17), wide)); };
    const auto fused = [&](const Array& q, const Array& k, const Array& v, const Array& bias) {
      return weighted(dot_product_attention(q, k, v, {.bias = bias, .mask = mask, .is_causal = true}));
    };
    const auto plain = [&](const Array& q, const Array& k, const Array& v, const Array& bias) {
      const auto widened = [&](const Array& x) { return convert(x, wide); };
      return weighted(written_out(widened(q), widened(k), widened(v), widened(bias), mask));
    };
    const auto [first, second] = first_and_second(fused, operands);
    const auto [first_expected, second_expected] = first_and_second(plain, operands);
    check_four(first, first_expected, c.tolerance);
    if (c.dtype == wide) check_four(second, second_expected, 10 * c.tolerance);
  }
}
