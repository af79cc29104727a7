#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/special_functions.h>

#include "tests/support/non_finite.h"

// The special functions against SciPy 1.16 and JAX 0.10, which agree with each other here.
namespace lockstep::tests {
namespace {

struct Case {
  std::string what;
  double given;
  double expected;
};

bool agrees(double given, double expected, double relative) {
  if (std::isnan(expected) || std::isinf(expected)) return std::isnan(expected) ? std::isnan(given) : given == expected;
  return std::abs(given - expected) <= relative * std::abs(expected);
}

}  // namespace

TEST_CASE("special functions have the values of SciPy") {
  using namespace backend::special;
  const std::vector<Case> cases = {
      {"lgamma(0.5)", lgamma(0.5), 0.57236494292469997},
      {"lgamma(3.2)", lgamma(3.2), 0.88540482715490909},
      {"lgamma(10.5)", lgamma(10.5), 13.940625219403763},
      {"lgamma(-2.3)", lgamma(-2.3), 0.36956666345500805},
      {"lgamma(100.25)", lgamma(100.25), 360.28455963776423},
      {"lgamma(0.001)", lgamma(0.001), 6.9071788853838534},
      {"digamma(0.5)", digamma(0.5), -1.9635100260214235},
      {"digamma(1)", digamma(1.0), -0.57721566490153287},
      {"digamma(3.2)", digamma(3.2), 0.99883889128659975},
      {"digamma(-2.3)", digamma(-2.3), 3.3173231575618236},
      {"digamma(50.5)", digamma(50.5), 3.912039670928392},
      {"digamma(0.001)", digamma(0.001), -1000.5755719318103},
      {"zeta(2, 1)", zeta(2.0, 1.0), 1.6449340668482266},
      {"zeta(1.5, 3.25)", zeta(1.5, 3.25), 1.2012173113703717},
      {"zeta(7, 0.4)", zeta(7.0, 0.4), 610.44884027612022},
      {"zeta(2, 250)", zeta(2.0, 250.0), 0.0040080106666325324},
      {"zeta(30, 2.5)", zeta(30.0, 2.5), 1.1529691685630241e-12},
      {"igamma(0.5, 0.3)", igamma(0.5, 0.3), 0.56142197391900028},
      {"igammac(0.5, 0.3)", igammac(0.5, 0.3), 0.43857802608099972},
      {"igamma(2, 5)", igamma(2.0, 5.0), 0.95957231800548726},
      {"igammac(2, 5)", igammac(2.0, 5.0), 0.040427681994512792},
      {"igamma(10, 9.5)", igamma(10.0, 9.5), 0.47817397776279236},
      {"igammac(10, 9.5)", igammac(10.0, 9.5), 0.52182602223720764},
      {"igamma(100, 120)", igamma(100.0, 120.0), 0.97213626010947929},
      {"igammac(100, 120)", igammac(100.0, 120.0), 0.027863739890520652},
      {"igamma(0.01, 2)", igamma(0.01, 2.0), 0.99950333546278147},
      {"igammac(0.01, 2)", igammac(0.01, 2.0), 0.00049666453721852657},
      {"igamma(2500, 2400)", igamma(2500.0, 2400.0), 0.021659687865363323},
      {"igammac(2500, 2400)", igammac(2500.0, 2400.0), 0.97834031213463668},
      {"igamma(3, 40)", igamma(3.0, 40.0), 0.99999999999999645},
      {"igammac(3, 40)", igammac(3.0, 40.0), 3.5728659287002333e-15},
      {"igamma_grad_a(0.5, 0.3)", igamma_grad_a(0.5, 0.3), -0.77057035137535201},
      {"igamma_grad_a(2, 5)", igamma_grad_a(2.0, 5.0), -0.055859896052536752},
      {"igamma_grad_a(10, 9.5)", igamma_grad_a(10.0, 9.5), -0.12882764167930755},
      {"igamma_grad_a(3, 0.2)", igamma_grad_a(3.0, 0.2), -0.0033057113352103419},
      {"betainc(0.5, 0.5, 0.3)", betainc(0.5, 0.5, 0.3), 0.36901011956554536},
      {"betainc(2, 5, 0.6)", betainc(2.0, 5.0, 0.6), 0.95904},
      {"betainc(30, 40, 0.4)", betainc(30.0, 40.0, 0.4), 0.31814380259056413},
      {"betainc(200, 3, 0.97)", betainc(200.0, 3.0, 0.97), 0.056734536940793848},
      {"betainc(0.01, 20, 0.001)", betainc(0.01, 20.0, 0.001), 0.96670032759611702},
      {"bessel_i0e(0.3)", bessel_i0e(0.3), 0.7575806251825481},
      {"bessel_i1e(0.3)", bessel_i1e(0.3), 0.11237756063983881},
      {"bessel_i0e(5.5)", bessel_i0e(5.5), 0.17448325638192988},
      {"bessel_i1e(5.5)", bessel_i1e(5.5), 0.15770100901675649},
      {"bessel_i0e(-12)", bessel_i0e(-12.0), 0.11642622121344044},
      {"bessel_i1e(-12)", bessel_i1e(-12.0), -0.11146429929018099},
      {"bessel_i0e(30)", bessel_i0e(30.0), 0.073145946482237295},
      {"bessel_i1e(30)", bessel_i1e(30.0), 0.071916330598647549},
      {"bessel_i0e(700)", bessel_i0e(700.0), 0.015081295651531355},
      {"bessel_i1e(700)", bessel_i1e(700.0), 0.015070519444716846},
      {"bessel_j0(0.3)", bessel_j0(0.3), 0.97762624653829609},
      {"bessel_j1(0.3)", bessel_j1(0.3), 0.148318816273104},
      {"bessel_j0(-5.5)", bessel_j0(-5.5), -0.0068438694178191968},
      {"bessel_j1(-5.5)", bessel_j1(-5.5), 0.34143821542904335},
      {"bessel_j0(17)", bessel_j0(17.0), -0.16985425215118355},
      {"bessel_j1(17)", bessel_j1(17.0), -0.09766849275778065},
      {"bessel_j0(400)", bessel_j0(400.0), -0.038825181530783956},
      {"bessel_j1(400)", bessel_j1(400.0), -0.0092220584285863513},
      {"exp1(1e-05)", exp1(1e-05), 10.935719800043696},
      {"exp1(0.4)", exp1(0.4), 0.70238011886566244},
      {"exp1(0.7)", exp1(0.7), 0.37376884323350918},
      {"exp1(3)", exp1(3.0), 0.013048381094197037},
      {"exp1(50)", exp1(50.0), 3.783264029550459e-24},
      {"exp1(720)", exp1(720.0), 2.8186334271551168e-316},
      {"expi(-2)", expi(-2.0), -0.04890051070806112},
      {"expi(1e-05)", expi(1e-05), -10.935699800043695},
      {"expi(0.3725)", expi(0.3725), -2.8874183188745965e-5},
      {"expi(0.5)", expi(0.5), 0.45421990486317358},
      {"expi(3)", expi(3.0), 9.9338325706254166},
      {"expi(44)", expi(44.0), 2.9904447186323367e+17},
      {"expi(100)", expi(100.0), 2.7155527448538798e+41},
      {"expi(712)", expi(712.0), 2.3216800841052113e+306},
      {"dawsn(0.3)", dawsn(0.3), 0.28263166502131192},
      {"dawsn(0.7)", dawsn(0.7), 0.51050405755923177},
      {"dawsn(-5.5)", dawsn(-5.5), -0.09249323231075476},
      {"dawsn(12.0)", dawsn(12.0), 0.04181287645398826},
      {"dawsn(60.0)", dawsn(60.0), 0.0083344912233290511},
      {"erfcx(-3.0)", erfcx(-3.0), 16205.988853999587},
      {"erfcx(0.5)", erfcx(0.5), 0.61569034419292587},
      {"erfcx(12.0)", erfcx(12.0), 0.046854221014893763},
      {"erfcx(49.0)", erfcx(49.0), 0.011511676863882963},
      {"erfcx(60.0)", erfcx(60.0), 0.0094018542751763886},
      {"sin_integral(0.3)", sin_integral(0.3), 0.29850404380704315},
      {"sin_integral(5.5)", sin_integral(5.5), 1.4687240726650987},
      {"sin_integral(-6.5)", sin_integral(-6.5), -1.4217942744358817},
      {"sin_integral(40.0)", sin_integral(40.0), 1.5869851193547845},
      {"cos_integral(0.3)", cos_integral(0.3), -0.64917293297116178},
      {"cos_integral(0.7)", cos_integral(0.7), 0.10051470700889778},
      {"cos_integral(5.5)", cos_integral(5.5), -0.14205294755151926},
      {"cos_integral(6.5)", cos_integral(6.5), 0.011101519514930109},
      {"cos_integral(40.0)", cos_integral(40.0), 0.019020007896208767},
      {"fresnel_s(0.3)", fresnel_s(0.3), 0.014116998006576584},
      {"fresnel_c(0.3)", fresnel_c(0.3), 0.2994009760520472},
      {"fresnel_s(2.1)", fresnel_s(2.1), 0.37427335937810375},
      {"fresnel_c(2.1)", fresnel_c(2.1), 0.58156413506083399},
      {"fresnel_s(-2.3)", fresnel_s(-2.3), -0.55315164156070196},
      {"fresnel_c(-2.3)", fresnel_c(-2.3), -0.62656170979195218},
      {"fresnel_s(40.0)", fresnel_s(40.0), 0.4920422537902731},
      {"fresnel_c(40.0)", fresnel_c(40.0), 0.49999841685744546},
      {"owens_t(0.5, 0.3)", owens_t(0.5, 0.3), 0.040786707344250106},
      {"owens_t(1.5, 1.0)", owens_t(1.5, 1.0), 0.031171999563740178},
      {"owens_t(2.0, 4.0)", owens_t(2.0, 4.0), 0.011375065974089603},
      {"owens_t(12.0, 0.2)", owens_t(12.0, 0.2), 8.7430759462423573e-34},
      {"hyp1f1(0.5, 1.5, 2.0)", hyp1f1(0.5, 1.5, 2.0), 2.3644538928052093},
      {"hyp1f1(2.0, 3.5, -30.0)", hyp1f1(2.0, 3.5, -30.0), 0.0040240458284276052},
      {"hyp1f1(-2.5, 1.2, 6.0)", hyp1f1(-2.5, 1.2, 6.0), 3.8194582881846848},
      {"hyp1f1(-3.0, 2.0, -5.0)", hyp1f1(-3.0, 2.0, -5.0), 26.208333333333333},
      {"hyp1f1(1.0, 2.0, 300.0)", hyp1f1(1.0, 2.0, 300.0), 6.4747546508041865e+127},
      {"hyp2f1(1.2, 0.7, 2.5, 0.4)", hyp2f1(1.2, 0.7, 2.5, 0.4), 1.17347097941395715},
      {"hyp2f1(1.2, 0.7, 2.5, -0.9)", hyp2f1(1.2, 0.7, 2.5, -0.9), 0.791259555346537026},
      {"hyp2f1(0.5, 1.5, 3.0, 0.95)", hyp2f1(0.5, 1.5, 3.0, 0.95), 1.54747618282162589},
      {"hyp2f1(2.0, 3.0, 4.5, 0.99)", hyp2f1(2.0, 3.0, 4.5, 0.99), 74.6108369245751446},
      {"hyp2f1(1.0, 2.0, 3.0, 0.9999)", hyp2f1(1.0, 2.0, 3.0, 0.9999), 16.4241654127934899},
      {"hyp2f1(0.3, 2.3, 1.7, -25.0)", hyp2f1(0.3, 2.3, 1.7, -25.0), 0.332493713347220421},
      {"hyp2f1(-3.0, 2.2, 1.3, 4.0)", hyp2f1(-3.0, 2.2, 1.3, 4.0), -98.0769230769230899},
      {"hyp2f1(4.2, 3.1, 2.2, -0.5)", hyp2f1(4.2, 3.1, 2.2, -0.5), 0.0743190118224429962},
      {"hyp2f1(-12.5, 13.5, 1.0, 0.3)", hyp2f1(-12.5, 13.5, 1.0, 0.3), -0.0331308681187480504},
      {"hyp2f1(1.0, 1.0, 2.0, -1000000.0)", hyp2f1(1.0, 1.0, 2.0, -1000000.0), 1.38155115579637741e-05},
      {"hyp2f1(4.0, -2.0, -0.9344784656621674, 0.9999506517127831)",
       hyp2f1(4.0, -2.0, -0.9344784656621674, 0.9999506517127831), -317.05272898985425},
      {"hyp2f1(300.0, 2.5, 302.5, 0.99)", hyp2f1(300.0, 2.5, 302.5, 0.99), 29789.123180756649},
      {"hyp1f1(100.23144568038646, 155.1470120730503, -292.9753195760917)",
       hyp1f1(100.23144568038646, 155.1470120730503, -292.9753195760917), 6.760399103098151e-56},
      {"hyp1f1(18.37437902305477, 9.991633551823234, -45.040304235526435)",
       hyp1f1(18.37437902305477, 9.991633551823234, -45.040304235526435), 1.4386075499274789e-18},
      {"expn(0, 0.5)", expn(0, 0.5), 1.2130613194252668},
      {"expn(2, 0.3)", expn(2, 0.3), 0.46911522517896386},
      {"expn(3, 1.0)", expn(3, 1.0), 0.10969196719776014},
      {"expn(5, 4.0)", expn(5, 4.0), 0.0021555113535254602},
      {"expn(40, 2.0)", expn(40, 2.0), 0.003296850259258574},
      {"bessel_jn(2, 0.3)", bessel_jn(2, 0.3), 0.011165861949063963},
      {"bessel_jn(3, 5.5)", bessel_jn(3, 5.5), 0.256117865140107},
      {"bessel_jn(7, -4.0)", bessel_jn(7, -4.0), -0.015176069422058451},
      {"bessel_jn(20, 30.0)", bessel_jn(20, 30.0), 0.0048310199934040645},
      {"spence(1e-09)", spence(1e-09), 1.6449340451249606},
      {"spence(0.2)", spence(0.2), 1.0747946000082483},
      {"spence(0.7)", spence(0.7), 0.32612951007547612},
      {"spence(1.0001)", spence(1.0001), -9.9997500111093849e-5},
      {"spence(3.5)", spence(3.5), -1.6988958419950142},
      {"spence(100)", spence(100.0), -12.192421669033171},
      {"spence(10000000000.0)", spence(10000000000.0), -266.73983958836554},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    CAPTURE(c.given);
    CAPTURE(c.expected);
    CHECK(agrees(c.given, c.expected, 1e-12));
  }
}

TEST_CASE("special functions at the ends of their domains") {
  using namespace backend::special;
  const std::vector<Case> cases = {
      {"lgamma(0)", lgamma(0), infinity},
      {"lgamma(-1)", lgamma(-1), infinity},
      {"lgamma(-inf)", lgamma(-infinity), infinity},
      {"lgamma(nan)", lgamma(not_a_number), not_a_number},
      {"digamma(0)", digamma(0), not_a_number},
      {"digamma(-1)", digamma(-1), not_a_number},
      {"digamma(inf)", digamma(infinity), infinity},
      {"digamma(-inf)", digamma(-infinity), not_a_number},
      {"zeta(1, 2)", zeta(1, 2), infinity},
      {"zeta(0.5, 2)", zeta(0.5, 2), not_a_number},
      {"zeta(2, 0)", zeta(2, 0), infinity},
      {"zeta(2, -1)", zeta(2, -1), infinity},
      {"zeta(2.5, -0.5)", zeta(2.5, -0.5), not_a_number},
      {"igamma(1, 0)", igamma(1, 0), 0},
      {"igamma(1, inf)", igamma(1, infinity), 1},
      {"igamma(0, 1)", igamma(0, 1), 1},
      {"igamma(0, 0)", igamma(0, 0), not_a_number},
      {"igamma(-1, 1)", igamma(-1, 1), not_a_number},
      {"igamma(1, -1)", igamma(1, -1), not_a_number},
      {"igamma(nan, 1)", igamma(not_a_number, 1), not_a_number},
      {"igammac(1, 0)", igammac(1, 0), 1},
      {"igammac(1, inf)", igammac(1, infinity), 0},
      {"igammac(0, 1)", igammac(0, 1), 0},
      {"igamma_grad_a(1, 0)", igamma_grad_a(1, 0), 0},
      {"igamma_grad_a(0, 1)", igamma_grad_a(0, 1), not_a_number},
      {"betainc(1, 1, 0)", betainc(1, 1, 0), 0},
      {"betainc(1, 1, 1)", betainc(1, 1, 1), 1},
      {"betainc(0, 1, 0.5)", betainc(0, 1, 0.5), 1},
      {"betainc(1, 0, 0.5)", betainc(1, 0, 0.5), 0},
      {"betainc(1, 1, 1.5)", betainc(1, 1, 1.5), not_a_number},
      {"betainc(-1, 1, 0.5)", betainc(-1, 1, 0.5), not_a_number},
      {"bessel_i0e(0)", bessel_i0e(0), 1},
      {"bessel_i0e(inf)", bessel_i0e(infinity), 0},
      {"bessel_i1e(0)", bessel_i1e(0), 0},
      {"bessel_i1e(-inf)", bessel_i1e(-infinity), -0.0},
      {"bessel_i1e(nan)", bessel_i1e(not_a_number), not_a_number},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    CAPTURE(c.given);
    CHECK(agrees(c.given, c.expected, 0));
  }
}

TEST_CASE("the incomplete functions' parts add up, and small tails keep their digits") {
  for (const double a : {1e-8, 0.01, 0.7, 3.0, 40.0, 900.0, 30000.0}) {
    for (const double ratio : {0.1, 0.9, 1.0, 1.1, 3.0}) {
      CAPTURE(a);
      CAPTURE(ratio);
      CHECK(std::abs(backend::special::igamma(a, a * ratio) + backend::special::igammac(a, a * ratio) - 1) < 1e-12);
    }
    CHECK(std::abs(backend::special::betainc(a, 2.5, 0.3) + backend::special::betainc(2.5, a, 0.7) - 1) < 1e-12);
  }
}

TEST_CASE("reduce_precision rounds to the nearest, and to even") {
  const auto to_bfloat16 = [](double x) { return backend::special::reduce_precision(x, 8, 8, 7); };
  const auto to_float16 = [](double x) { return backend::special::reduce_precision(x, 8, 5, 10); };
  CHECK(to_bfloat16(1 + 0x1p-8) == 1);
  CHECK(to_bfloat16(1 + 0x3p-8) == 1 + 0x1p-6);
  CHECK(to_bfloat16(1e5) == 99840);
  CHECK(to_bfloat16(0x1p-133 * 1.2) == 0x1p-133);
  CHECK(to_float16(70000) == infinity);
  CHECK(to_float16(65519) == 65504);
  CHECK(to_float16(-6e-5) == 0);
  CHECK(std::signbit(to_float16(-1e-6)));
  CHECK(std::isnan(to_float16(not_a_number)));
  CHECK(backend::special::reduce_precision(1 + 0x1p-52, 11, 11, 52) == 1 + 0x1p-52);
}

}  // namespace lockstep::tests
