#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/transforms.h>

#include "tests/api/linalg_matrices.h"
#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_close;
using tests::expect_error;
using tests::general;
using tests::infinity;
using tests::larger;
using tests::matrix;
using tests::tall;
using tests::ValueRow;
using tests::wide;

namespace {

// The expected numbers were computed by JAX 0.10.2 in float64 on these.
const Array definite = matrix({4, 1, -0.5, 1, 3, 0.25, -0.5, 0.25, 2}, {3, 3});
const Array sides = matrix({1, -2, 0.5, 3, 2, 1}, {3, 2});
const Array v = array({1.0, -2.0, 0.5});
const Array w = array({3.0, 1.0, -1.0});

void check_linalg(const std::vector<ValueRow>& rows) { tests::check_rows(rows, 1e-12); }

}  // namespace

TEST_CASE("factors are JAX's") {
  const auto thin = linalg::qr(tall);
  const auto full = linalg::qr(tall, true);
  const auto of_wide = linalg::qr(wide);
  const auto parts = linalg::svd(tall, false);
  const auto spectrum = linalg::eigh(definite);
  const auto lu = linalg::lu_factor(general);
  check_linalg({
      {"cholesky",
       linalg::cholesky(definite),
       {3, 3},
       {2, 0, 0, 0.5, 1.6583123951777, 0, -0.25, 0.226133508433323, 1.3734495390671}},
      {"upper cholesky",
       linalg::cholesky(definite, true),
       {3, 3},
       {2, 0.5, -0.25, 0, 1.6583123951777, 0.226133508433323, 0, 0, 1.3734495390671}},
      {"q",
       thin.q,
       {3, 2},
       {-0.312347523777212, 0.416113938348373, -0.937042571331637, -0.282744086313638, -0.156173761888606,
        0.864236641185082}},
      {"r", thin.r, {2, 2}, {-3.20156211871642, -0.312347523777213, 0, 4.57191852775071}},
      {"full q",
       full.q,
       {3, 3},
       {-0.312347523777212, 0.416113938348373, -0.853983732106444, -0.937042571331637, -0.282744086313638,
        0.204956095705547, -0.156173761888606, 0.864236641185082, 0.478230889979608}},
      {"full r", full.r, {3, 2}, {-3.20156211871642, -0.312347523777213, 0, 4.57191852775071, 0, 0}},
      {"q of wide", of_wide.q, {2, 2}, {-0.447213595499958, -0.894427190999916, -0.894427190999916, 0.447213595499958}},
      {"r of wide",
       of_wide.r,
       {2, 3},
       {-2.23606797749979, -0.447213595499958, -3.80131556174964, 0, -3.13049516849971, 1.34164078649987}},
      {"u",
       parts.u,
       {3, 2},
       {0.453637717707578, 0.254803073707147, -0.156826814013169, 0.966125431421623, 0.877278844769176,
        0.0409517324392089}},
      {"s", parts.s, {2}, {4.59262799845113, 3.18712536117466}},
      {"vh", parts.vh, {2, 2}, {0.0918421213725367, 0.995773581062378, 0.995773581062378, -0.0918421213725367}},
      {"eigenvalues", spectrum.eigenvalues, {3}, {1.65832977233659, 2.68979446729803, 4.65187576036538}},
      {"eigenvectors",
       spectrum.eigenvectors,
       {3, 3},
       {0.358077812157063, -0.369610801497121, 0.857419463190256, -0.422077675165987, 0.75504774447908,
        0.501750276216696, 0.832844953498121, 0.541563254822288, -0.114361376605052}},
      {"eigvalsh",
       linalg::eigvalsh(linalg::triu(definite), false, false),
       {3},
       {1.65832977233659, 2.68979446729803, 4.65187576036538}},
      {"lu", lu.lu, {3, 3}, {2, -1, 0.5, 0.15, 1.65, -2.075, -0.6, 0.0606060606060606, 3.42575757575758}},
      {"pivots", lu.pivots, {3}, {0, 1, 2}},
      {"permutation", lu.permutation, {3}, {0, 1, 2}},
  });
}

TEST_CASE("factors multiply to their matrix, in any size") {
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 2}, Shape{2, 2, 4}, Shape{1, 1}, Shape{0, 0}, Shape{3, 0},
                             Shape{0, 2}, Shape{0, 2, 2}}) {
    CAPTURE(to_string(shape));
    const Array a = sin(arange_of(shape, float64) * 1.7);
    const std::vector<double> elements = tests::values(a);
    for (const bool all : {false, true}) {
      const auto [q, r] = linalg::qr(a, all);
      check_close(matmul(q, r), shape, elements, 1e-12);
      const auto [u, s, vh] = linalg::svd(a, all);
      check_close(linalg::svdvals(a), s.shape(), tests::values(s), 1e-12);
      const std::int64_t k = s.dim(-1);
      check_close(matmul(slice_in_dim(u, 0, k, -1) * expand_dims(s, -2), slice_in_dim(vh, 0, k, -2)), shape, elements,
                  1e-12);
      for (const Array& columns : {q, u, swapaxes(vh, -1, -2)}) {
        const Array gram = matmul(swapaxes(columns, -1, -2), columns);
        const Array ones = broadcast_to(eye(columns.dim(-1), float64), gram.shape());
        check_close(gram, gram.shape(), tests::values(ones), 1e-12);
      }
    }
    const auto lu = linalg::lu_factor(a);
    const std::int64_t k = std::min(a.dim(-1), a.dim(-2));
    const Array l = linalg::tril(slice_in_dim(lu.lu, 0, k, -1), -1);
    const Array u = linalg::triu(slice_in_dim(lu.lu, 0, k, -2));
    const Array rows = broadcast_to(expand_dims(lu.permutation, -1), shape);
    check_close(matmul(l, u) + pad(u, 0, Axes(u.shape().to_vector().size(), 0),
                                   [&] {
                                     Axes high(u.shape().to_vector().size(), 0);
                                     high[high.size() - 2] = a.dim(-2) - k;
                                     return high;
                                   }()),
                shape, a.size() == 0 ? elements : tests::values(take_along_axis(a, rows, -2)), 1e-12);
  }
}

TEST_CASE("systems are solved as by JAX") {
  const Array factor = linalg::cholesky(definite);
  const auto of_vector = linalg::lstsq(tall, v);
  const auto of_matrix = linalg::lstsq(tall, sides);
  check_linalg({
      {"solve",
       linalg::solve(general, sides),
       {3, 2},
       {0.891198584697037, -0.0442282176028307, 1.15877930119416, 1.8531623175586, 0.752764263600177,
        -0.116762494471473}},
      {"solve a vector", linalg::solve(general, v), {3}, {-0.0154798761609907, -0.851393188854489, 0.359133126934985}},
      {"inv",
       linalg::inv(general),
       {3, 3},
       {0.521892967713401, 0.296329057938965, 0.110570544007077, 0.132684652808492, 0.583812472357364,
        0.367094206103494, 0.177797434763379, -0.0176912870411322, 0.291906236178682}},
      {"lu_solve",
       linalg::lu_solve(linalg::lu_factor(general), v),
       {3},
       {-0.0154798761609907, -0.851393188854489, 0.359133126934985}},
      {"lu_solve transposed",
       linalg::lu_solve(linalg::lu_factor(general), v, true),
       {3},
       {0.345422379478107, -0.880141530296329, -0.477664750110571}},
      {"cho_solve", linalg::cho_solve(factor, v), {3}, {0.533132530120482, -0.885542168674699, 0.493975903614458}},
      {"cho_solve upper",
       linalg::cho_solve(transpose(factor), v, false),
       {3},
       {0.533132530120482, -0.885542168674699, 0.493975903614458}},
      {"solve_triangular", linalg::solve_triangular(definite, v), {3}, {0.453125, -0.6875, 0.25}},
      {"transposed",
       linalg::solve_triangular(definite, v, {.lower = true, .transposed = true}),
       {3},
       {0.453125, -0.6875, 0.25}},
      {"unit diagonal",
       linalg::solve_triangular(definite, v, {.lower = true, .unit_diagonal = true}),
       {3},
       {1, -3, 1.75}},
      {"pinv",
       linalg::pinv(tall),
       {2, 3},
       {0.088681446907818, 0.298716452742124, 0.0303383897316219, 0.0910151691948658, -0.0618436406067678,
        0.189031505250875}},
      {"pinv of wide",
       linalg::pinv(wide),
       {3, 2},
       {0.0886814469078181, 0.0910151691948659, 0.298716452742124, -0.0618436406067678, 0.0303383897316219,
        0.189031505250875}},
      {"lstsq", of_vector.x, {2}, {-0.493582263710619, 0.309218203033839}},
      {"residuals", of_vector.residuals, {1}, {1.05017502917153}},
      {"rank", of_vector.rank, {}, {2}},
      {"singular values", of_vector.s, {2}, {4.59262799845113, 3.18712536117466}},
      {"lstsq of columns",
       of_matrix.x,
       {2, 2},
       {0.298716452742124, 0.749124854142357, 0.438156359393232, -0.17852975495916}},
      {"their residuals", of_matrix.residuals, {2}, {0.0420070011668612, 7.84597432905484}},
      {"least norm",
       linalg::lstsq(wide, array({1.0, 2.0})).x,
       {3},
       {0.27071178529755, 0.175029171528588, 0.408401400233372}},
  });
  CHECK(linalg::lstsq(wide, array({1.0, 2.0})).residuals.size() == 0);
}

TEST_CASE("systems broadcast over batches") {
  const Array batch = stack(std::vector<Array>{general, definite}, 0);
  const Array each = linalg::solve(batch, sides);
  CHECK(to_string(each.shape()) == "[2,3,2]");
  check_close(slice_in_dim(each, 1, 2, 0), {1, 3, 2}, tests::values(linalg::solve(definite, sides)), 1e-14);
  const Array many = linalg::solve(definite, stack(std::vector<Array>{sides, sides * 2}, 0));
  check_close(slice_in_dim(many, 1, 2, 0), {1, 3, 2}, tests::values(linalg::solve(definite, sides) * 2), 1e-14);
  check_close(
      linalg::solve(batch, v), {2, 3},
      [&] {
        auto expected = tests::values(linalg::solve(general, v));
        for (const double x : tests::values(linalg::solve(definite, v))) expected.push_back(x);
        return expected;
      }(),
      1e-14);
  CHECK(linalg::solve(arange(4).dtype() == int32 ? convert(definite, int32) : definite, v).dtype() == float64);
  CHECK(linalg::inv(eye(2, int32)).dtype() == float32);
}

TEST_CASE("numbers of a matrix are JAX's") {
  const auto sign_and_log = linalg::slogdet(-slice(larger, {0, 0}, {3, 3}));
  check_linalg({
      {"det of 2", linalg::det(slice(general, {0, 0}, {2, 2})), {}, {3.3}},
      {"det of 3", linalg::det(general), {}, {11.305}},
      {"det of 4", linalg::det(larger), {}, {23.2285}},
      {"sign", sign_and_log.sign, {}, {-1}},
      {"logabsdet", sign_and_log.logabsdet, {}, {2.42524510572993}},
      {"trace", linalg::trace(arange_of({3, 4}, float64), 1), {}, {18}},
      {"norm None", linalg::norm(tall, {}), {}, {5.59016994374947}},
      {"norm fro", linalg::norm(tall, {.order = "fro"}), {}, {5.59016994374947}},
      {"norm nuc", linalg::norm(tall, {.order = "nuc"}), {}, {7.7797533596258}},
      {"norm 1", linalg::norm(tall, {.order = 1}), {}, {7}},
      {"norm -1", linalg::norm(tall, {.order = -1}), {}, {4.5}},
      {"norm 2", linalg::norm(tall, {.order = 2}), {}, {4.59262799845113}},
      {"norm -2", linalg::norm(tall, {.order = -2}), {}, {3.18712536117466}},
      {"norm inf", linalg::norm(tall, {.order = infinity}), {}, {4.5}},
      {"norm -inf", linalg::norm(tall, {.order = -infinity}), {}, {3}},
      {"vnorm None", linalg::norm(v, {}), {}, {2.29128784747792}},
      {"vnorm 0", linalg::norm(v, {.order = 0}), {}, {3}},
      {"vnorm 1", linalg::norm(v, {.order = 1}), {}, {3.5}},
      {"vnorm 2", linalg::norm(v, {.order = 2}), {}, {2.29128784747792}},
      {"vnorm 3", linalg::norm(v, {.order = 3}), {}, {2.08966959819062}},
      {"vnorm -1", linalg::norm(v, {.order = -1}), {}, {0.285714285714286}},
      {"vnorm inf", linalg::norm(v, {.order = infinity}), {}, {2}},
      {"vnorm -inf", linalg::norm(v, {.order = -infinity}), {}, {0.5}},
      {"vnorm 0.5", linalg::norm(v, {.order = 0.5}), {}, {9.74264068711928}},
      {"cond None", linalg::cond(general), {}, {3.32474922041846}},
      {"cond 1", linalg::cond(general, 1), {}, {4.93808049535604}},
      {"cond inf", linalg::cond(general, infinity), {}, {5.30959752321982}},
      {"cond fro", linalg::cond(general, "fro"), {}, {4.70440060073642}},
      {"cond -2", linalg::cond(general, -2), {}, {0.300774564847973}},
      {"cond 2", linalg::cond(general, 2), {}, {3.32474922041846}},
      {"cond of tall", linalg::cond(tall), {}, {1.44099383551027}},
  });
  check_close(
      linalg::norm(stack(std::vector<Array>{tall, tall * 2}, 0), {.order = "nuc", .axes = Axes{1, 2}, .keep = true}),
      {2, 1, 1}, {7.7797533596257983, 15.559506719251597}, 1e-12);
  check_close(linalg::norm(tall, {.order = 1, .axes = Axes{1, 0}}), {}, {4.5}, 1e-12);
  check_close(linalg::matrix_rank(matmul(tall, wide)), {}, {2});
  check_close(linalg::matrix_rank(zeros({2, 2})), {}, {0});
  check_close(linalg::det(zeros({0, 0}, float64)), {}, {1});
}

TEST_CASE("functions of a matrix and products are JAX's") {
  const Array left = arange_of({2, 3, 2}, float64);
  const Array right = arange_of({2, 2, 3}, float64);
  const Array m = arange_of({3, 4}, float64);
  check_linalg({
      {"third power",
       linalg::matrix_power(general, 3),
       {3, 3},
       {-0.145, -4.675, 21.35, 17.685, -8.82, -25.925, -18.675, 17.215, 9.405}},
      {"power -2",
       linalg::matrix_power(general, -2),
       {3, 3},
       {0.33134974700325, 0.325696516181835, 0.198762900956374, 0.211978550585951, 0.373660952078403, 0.336142278322442,
        0.142344048585704, 0.0371939553073959, 0.0983740408335405}},
      {"expm",
       linalg::expm(general),
       {3, 3},
       {1.27543537237603, -1.3470266489774, 11.2121517572867, 9.42950603714075, -2.91095742971201, -11.8815842393685,
        -8.85836813259305, 8.67125350500272, 5.32467700412215}},
      {"expm of a large one",
       linalg::expm(definite * 4),
       {3, 3},
       {88624653.7171416, 51844881.7791532, -11828951.7813803, 51844881.7791533, 30373640.5251718, -6897786.93494288,
        -11828951.7813803, -6897786.93494286, 1590831.83215802}},
      {"expm of a small one",
       linalg::expm(general * 0.01),
       {3, 3},
       {1.02015496433562, -0.0101582757248387, 0.00522858904537708, 0.00317547424336926, 1.01502600941222,
        -0.0204468422245636, -0.0122926306570697, 0.00722039054155609, 1.03035156087661}},
      {"cross", linalg::cross(v, w), {3}, {1.5, 2.5, 7}},
      {"cross of 2", linalg::cross(slice_in_dim(v, 0, 2, 0), slice_in_dim(w, 0, 2, 0)), {}, {7}},
      {"cross of 2 and 3", linalg::cross(slice_in_dim(v, 0, 2, 0), w), {3}, {2, 1, 7}},
      {"outer", linalg::outer(v, w), {3, 3}, {3, 1, -1, -6, -2, 2, 1.5, 0.5, -0.5}},
      {"inner", linalg::inner(tall, sides), {3, 3}, {-3, 6.5, 4, 5, -1.5, 5, -7.5, 12.25, 5}},
      {"kron", linalg::kron(slice_in_dim(tall, 0, 2, 0), w), {2, 6}, {3, 1, -1, 6, 2, -2, 9, 3, -3, -3, -1, 1}},
      {"tensordot", linalg::tensordot(wide, sides, 1), {2, 2}, {3.5, 7.5, 9.5, -3}},
      {"tensordot of pairs", linalg::tensordot(left, right, {{2, 1}, {0, 2}}), {2, 2}, {77, 122, 221, 374}},
      {"vdot", linalg::vdot(tall, sides), {}, {0.5}},
      {"multi_dot", linalg::multi_dot(std::vector<Array>{v, general, tall, array({1.0, 2.0})}), {}, {51.35}},
      {"diagonal 0", linalg::diagonal(m, 0), {3}, {0, 5, 10}},
      {"diagonal 1", linalg::diagonal(m, 1), {3}, {1, 6, 11}},
      {"diagonal -1", linalg::diagonal(m, -1), {2}, {4, 9}},
      {"diagonal 3", linalg::diagonal(m, 3), {1}, {3}},
      {"diagonal -2", linalg::diagonal(m, -2), {1}, {8}},
      {"diagonal of outer axes",
       linalg::diagonal(arange_of({2, 3, 4}, float64), 0, 0, 2),
       {3, 2},
       {0, 13, 4, 17, 8, 21}},
      {"diag", linalg::diag(v, 1), {4, 4}, {0, 1, 0, 0, 0, 0, -2, 0, 0, 0, 0, 0.5, 0, 0, 0, 0}},
      {"diag below", linalg::diag(v, -2), {5, 5}, {0, 0, 0, 0,  0, 0, 0, 0, 0, 0,   1, 0, 0,
                                                   0, 0, 0, -2, 0, 0, 0, 0, 0, 0.5, 0, 0}},
      {"diag of a matrix", linalg::diag(m, 1), {3}, {1, 6, 11}},
      {"tril", linalg::tril(m, -1), {3, 4}, {0, 0, 0, 0, 4, 0, 0, 0, 8, 9, 0, 0}},
      {"triu", linalg::triu(m, 1), {3, 4}, {0, 1, 2, 3, 0, 0, 6, 7, 0, 0, 0, 11}},
  });
  check_close(linalg::matrix_power(general, 0), {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  check_close(linalg::matrix_power(convert(definite, int32), 1), {3, 3}, {4, 1, 0, 1, 3, 0, 0, 0, 2});
  check_close(linalg::expm(zeros({2, 2})), {2, 2}, {1, 0, 0, 1});
  CHECK(std::isnan(tests::values(linalg::expm(general * 1e6))[0]));
  check_close(linalg::diagonal(m, 9), {0}, {});
  check_close(linalg::tril(m, 100), {3, 4}, tests::values(m));
  CHECK(linalg::diag(arange(2)).dtype() == int32);
}

TEST_CASE("a matrix without a result gives NaN, alone in its batch") {
  const Array batch = stack(std::vector<Array>{definite, -definite, definite * infinity}, 0);
  const auto all_nan = [](const std::vector<double>& x, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      if (!std::isnan(x[i])) return false;
    }
    return true;
  };
  const auto l = tests::values(linalg::cholesky(batch));
  CHECK(l[0] == doctest::Approx(2));
  for (std::size_t i = 9; i < 27; ++i) {
    const bool above = i % 3 > i / 3 % 3;  // the diagonal
    CHECK((above ? l[i] == 0 : std::isnan(l[i])));
  }
  const auto eigenvalues = tests::values(linalg::eigvalsh(batch));
  CHECK(eigenvalues[5] == doctest::Approx(-eigenvalues[0]));
  CHECK(all_nan(eigenvalues, 6, 9));
  const auto s = tests::values(linalg::svdvals(batch));
  CHECK(s[0] == doctest::Approx(s[3]));
  CHECK(all_nan(s, 6, 9));
  CHECK(all_nan(tests::values(linalg::svd(batch).u), 18, 27));
  CHECK(all_nan(tests::values(linalg::pinv(batch)), 18, 27));
  CHECK(!std::isfinite(tests::values(linalg::solve(zeros({2, 2}), ones({2})))[0]));
  CHECK(tests::values(linalg::slogdet(zeros({2, 2})).logabsdet)[0] == -infinity);
}

TEST_CASE("complex matrices are the products of their factors; their eigenvalues and singular values are real") {
  const auto adjoint = [](const Array& x) { return conj(transpose(x)); };
  const auto check = [](const Array& given, const Array& expected) {
    CHECK(given.dtype() == complex128);
    CHECK(max(abs(given - expected)).item<double>() < 1e-13);
  };
  const Array a = complex(general, cos(general));
  const Array positive = matmul(a, adjoint(a)) + eye(3, complex128);
  const Array l = linalg::cholesky(positive);
  check(matmul(l, adjoint(l)), positive);
  const Array upper = linalg::cholesky(positive, true);
  check(matmul(adjoint(upper), upper), positive);
  const auto [q, r] = linalg::qr(a);
  check(matmul(q, r), a);
  const auto [u, s, vh] = linalg::svd(a);
  CHECK(s.dtype() == float64);
  check(matmul(u * s, vh), a);
  const auto [eigenvalues, vectors] = linalg::eigh(positive);
  CHECK(eigenvalues.dtype() == float64);
  check(matmul(vectors * eigenvalues, adjoint(vectors)), positive);
  check(matmul(linalg::inv(a), a), eye(3, complex128));
  check(matmul(a, linalg::solve(a, adjoint(a))), adjoint(a));
  check(linalg::cho_solve(linalg::cho_factor(positive), positive), eye(3, complex128));
  check(linalg::det(adjoint(a)), conj(linalg::det(a)));
}

TEST_CASE("what linalg refuses") {
  const Array flat = ones({3});
  const Array oblong = ones({2, 3});
  expect_error<ShapeError>([&] { linalg::qr(flat); }, "linalg.qr", "rank 2 or more, got f32[3]", "reshape");
  expect_error<ShapeError>([&] { linalg::inv(oblong); }, "linalg.inv", "square matrices, got f32[2,3]", "pinv");
  expect_error<ShapeError>([&] { linalg::solve(definite, ones({})); }, "linalg.solve", "a vector or matrices");
  expect_error<ShapeError>([&] { linalg::solve(definite, ones({2})); }, "linalg.solve", "has 2 rows, expected 3");
  expect_error<DtypeError>([&] { linalg::cholesky(ones({2, 2}, float16)); }, "cholesky", "float32");
  expect_error<ShapeError>([&] { linalg::lstsq(ones({2, 2, 2}), flat); }, "linalg.lstsq", "rank 2", "vmap");
  expect_error<ShapeError>([&] { linalg::lstsq(oblong, flat); }, "linalg.lstsq", "has 3 rows, expected 2");
  expect_error<ShapeError>([&] { linalg::lstsq(oblong, ones({2, 1, 1})); }, "linalg.lstsq", "vector or a matrix");
  expect_error<ShapeError>([&] { linalg::norm(ones({2, 2, 2}), {.order = 1}); }, "linalg.norm", "one axis or two");
  expect_error<ShapeError>([&] { linalg::norm(oblong, {.axes = Axes{0, -2}}); }, "linalg.norm", "two different");
  expect_error<ValueError>([&] { linalg::norm(oblong, {.order = 3}); }, "linalg.norm", "matrices of order 3", "nuc");
  expect_error<ValueError>([&] { linalg::norm(oblong, {.order = "max"}); }, "order \"max\"", "infinity");
  expect_error<ValueError>([&] { linalg::norm(flat, {.order = "fro"}); }, "vectors of order \"fro\"", "a number");
  expect_error<ShapeError>([&] { linalg::cond(ones({2, 0})); }, "linalg.cond", "no singular values");
  expect_error<ValueError>([&] { linalg::multi_dot(std::vector<Array>{oblong}); }, "linalg.multi_dot", "got 1");
  expect_error<ShapeError>([&] { linalg::multi_dot(std::vector<Array>{oblong, oblong}); }, "3 columns", "2 rows");
  expect_error<ShapeError>([&] { linalg::cross(ones({4}), flat); }, "linalg.cross", "2 or 3 elements along axis -1");
  expect_error<ShapeError>([&] { linalg::tensordot(flat, oblong, 2); }, "linalg.tensordot", "over 2 dimensions");
  expect_error<ShapeError>([&] { linalg::vdot(flat, oblong); }, "linalg.vdot", "arrays of one size");
  expect_error<ShapeError>([&] { linalg::diagonal(oblong, 0, 1, -1); }, "linalg.diagonal", "axes 1 and -1");
  expect_error<ShapeError>([&] { linalg::diag(ones({2, 2, 2})); }, "linalg.diag", "rank 1");
  expect_error<ShapeError>([&] { linalg::tril(flat); }, "linalg.tril", "rank 2 or more");
  expect_error<ShapeError>([&] { linalg::cho_factor(oblong); }, "linalg.cho_factor", "square matrices, got f32[2,3]");
  expect_error<ShapeError>([&] { linalg::vander(oblong); }, "linalg.vander", "an array of rank 1, got f32[2,3]");
  expect_error<ShapeError>([&] { linalg::dot(oblong, oblong); }, "[2,3]");
  expect_error<ShapeError>([&] { linalg::matvec(oblong, ones({2})); }, "[2,3]");
  expect_error<ShapeError>([&] { linalg::vecmat(flat, oblong); }, "[2,3]");
  expect_error<TraceError>([&] { grad([](const Array& a) { return sum(linalg::qr(a, true).q); })(tall); }, "qr",
                           "all 3 columns of q", "full_matrices=false");
  expect_error<TraceError>([&] { grad([](const Array& a) { return sum(linalg::svd(a).u); })(tall); }, "svd",
                           "beyond the first 2", "full_matrices=false");
}
