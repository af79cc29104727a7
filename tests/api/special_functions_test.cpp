#include <string>

#include <doctest/doctest.h>

#include <lockstep/activations.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"
#include "tests/support/slopes.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::check_close;
using tests::check_slopes;
using tests::expect_error;
using tests::infinity;
using tests::not_a_number;
using tests::ValueRow;

namespace {

void check_special(const std::vector<ValueRow>& rows) { tests::check_rows(rows, 1e-11); }

}  // namespace

// Expected numbers are those of JAX 0.10 in float64; of SciPy for large operands of beta and for log_ndtr(-20), where
// JAX loses half of the digits.
TEST_CASE("special functions have JAX's values") {
  const Array x = array({-2.5, -0.5, 0.0, 0.3, 1.7, 4.0}), q = array({0.2, 0.7, 1.0, 1.5, 3.0, 8.0}),
              p = array({0.05, 0.2, 0.5, 0.7, 0.9, 0.99}), k = array({2, 0, 3, 1, 4, 5});
  check_special({
      {"zeta",
       zeta(2.5, q),
       {6},
       {56.82216233865938, 2.902867577757347, 1.341487257250917, 0.5902563850764314, 0.1647105619542803,
        0.03236819726000301}},
      {"polygamma(0)",
       polygamma(0, q),
       {6},
       {-5.289039896592188, -1.220023553697935, -0.5772156649015334, 0.03648997397857712, 0.9227843350984669,
        2.01564147795561}},
      {"polygamma(1)",
       polygamma(1, q),
       {6},
       {26.26737720542378, 2.834049156694611, 1.644934066848226, 0.9348022005446794, 0.3949340668482265,
        0.1331370146940314}},
      {"polygamma(4)",
       polygamma(4, q),
       {6},
       {-75010.21249797268, -144.7082536430248, -24.8862661234409, -3.474249826667227, -0.1362661234408783,
        -0.001868795150637615}},
      {"gamma",
       gamma(q),
       {6},
       {4.590843711998805, 1.298055332647559, 1, 0.8862269254527583, 1.999999999999998, 5040.000000000011}},
      {"gamma below 0",
       gamma(array({-0.5, -1.5, -2.5})),
       {3},
       {-3.544907701811031, 2.363271801207353, -0.9453087204829413}},
      {"gammasgn", gammasgn(x), {6}, {-1, -1, 1, 1, 1, 1}},
      {"factorial", factorial(convert(k, float64)), {6}, {2, 1, 6, 1, 24, 120}},
      {"multigammaln",
       multigammaln(q + 1.0, 3),
       {6},
       {3.416651807733238, 1.796780287895388, 1.596312591138855, 1.880995461611775, 5.402975080909174,
        30.39612634988577}},
      {"beta",
       beta(q, p),
       {6},
       {24.65353995214943, 5.576463695849881, 2, 1.044081490141948, 0.4033071183706387, 0.1284537710120608}},
      {"beta below 0", beta(array(-0.5), array(2.2)), {}, {-4.298504999373283}},
      {"betaln",
       betaln(q, p),
       {6},
       {3.204920498784438, 1.718554829227709, 0.6931471805599454, 0.04313754210578136, -0.9080569269470529,
        -2.05218619803654}},
      {"random_gamma_grad",
       random_gamma_grad(q, p),
       {6},
       {0.714510180983902, 0.6076487374760295, 0.806979116825318, 0.7402100424043953, 0.5433959151754159,
        0.3004447638663441}},
      {"i0",
       i0(x),
       {6},
       {3.289839144050123, 1.063483370741324, 1, 1.022626879351597, 1.86396496207384, 11.30192195213633}},
      {"i1",
       i1(x),
       {6},
       {-2.516716245288698, -0.2578943053908964, 0, 0.1516938400035928, 1.196346565634482, 9.759465153704449}},
      {"bessel_i0e",
       bessel_i0e(x),
       {6},
       {0.2700464416122028, 0.6450352704491501, 1, 0.7575806251825477, 0.3405156879824709, 0.2070019212239867}},
      {"bessel_i1e",
       bessel_i1e(x),
       {6},
       {-0.2065846495312665, -0.1564208031848717, 0, 0.1123775606398388, 0.2185528065984935, 0.1787508395024353}},
      {"igamma",
       igamma(q, p),
       {6},
       {0.5933164794883026, 0.3291078997900334, 0.3934693402873665, 0.2944652687959088, 0.06285693429791912,
        9.540825089156478e-06}},
      {"igammac",
       igammac(q, p),
       {6},
       {0.4066835205116974, 0.6708921002099666, 0.6065306597126334, 0.7055347312040912, 0.9371430657020808,
        0.9999904591749108}},
      {"betainc",
       betainc(q, q * 0.5, p),
       {6},
       {0.1895664799686274, 0.1445642920048116, 0.2928932188134526, 0.474329696772628, 0.8776593830222358,
        0.9999968802454255}},
      {"xlogy",
       xlogy(x, q),
       {6},
       {4.023594781085251, 0.1783374719693662, 0, 0.1216395324324493, 1.867640890735787, 8.317766166719343}},
      {"xlogy of 0", xlogy(0.0, array({0.0, infinity, not_a_number})), {3}, {0, 0, not_a_number}},
      {"xlog1py",
       xlog1py(x, p),
       {6},
       {-0.12197541042358, -0.09116077839697731, 0, 0.1591884753186511, 1.091151606493071, 2.752538554945604}},
      {"entr", entr(x), {6}, {-infinity, -infinity, -0, 0.3611918412977808, -0.9020680268056896, -5.545177444479562}},
      {"rel_entr",
       rel_entr(x, q),
       {6},
       {infinity, infinity, 0, -0.4828313737302301, -0.965572863930097, -2.772588722239781}},
      {"kl_div", kl_div(x, q), {6}, {infinity, infinity, 1, 0.7171686262697698, 0.3344271360699032, 1.227411277760219}},
      {"logit",
       logit(p),
       {6},
       {-2.94443897916644, -1.386294361119891, 0, 0.8472978603872034, 2.19722457733622, 4.595119850134589}},
      {"ndtr",
       ndtr(x),
       {6},
       {0.006209665325776132, 0.3085375387259869, 0.5, 0.6179114221889527, 0.955434537241457, 0.9999683287581669}},
      {"ndtr far out",
       ndtr(x * 8.0),
       {6},
       {2.753624118606155e-89, 3.167124183311986e-05, 0.5, 0.9918024640754038, 1, 1}},
      {"log_ndtr",
       log_ndtr(x),
       {6},
       {-5.081648277278691, -1.175911761593619, -0.6931471805599453, -0.4814101615884812, -0.04558902917006889,
        -3.167174337748932e-05}},
      {"log_ndtr far out",
       log_ndtr(x * 40.0),
       {6},
       {-5005.524208694205, -203.9171553710973, -0.6931471805599453, -1.776482112077654e-33, -0, -0}},
      {"ndtri",
       ndtri(p),
       {6},
       {-1.644853626951473, -0.8416212335729141, 0, 0.5244005127080406, 1.2815515655446, 2.326347874040841}},
      {"ndtri far out",
       ndtri(array({0.0, 1e-300, 1e-12, 1 - 1e-9, 1.0, 1.5})),
       {6},
       {-infinity, -37.0470962993612, -7.034483825301131, 5.997807019601637, infinity, not_a_number}},
      {"boxcox",
       boxcox(q, array({0.0, 1.0, 0.5, -1.0, 0.0, 2.0})),
       {6},
       {-1.6094379124341, -0.3000000000000001, 0, 0.3333333333333333, 1.09861228866811, 31.49999999999999}},
      {"boxcox1p",
       boxcox1p(q, 0.3),
       {6},
       {0.1873998947975272, 0.5751964142418067, 0.7704813778163877, 1.054607347780791, 1.719055221701327,
        3.110606816439209}},
      {"erfc",
       erfc(x),
       {6},
       {1.999593047982555, 1.520499877813047, 1, 0.6713732405408726, 0.01620954140922544, 1.541725790028002e-08}},
      {"lgamma",
       lgamma(q),
       {6},
       {1.524063822430785, 0.2608672465316673, 0, -0.120782237635245, 0.6931471805599441, 8.525161361065416}},
      {"digamma",
       digamma(q),
       {6},
       {-5.289039896592188, -1.220023553697935, -0.5772156649015334, 0.03648997397857712, 0.9227843350984669,
        2.01564147795561}},
  });
}

TEST_CASE("activations have JAX's values") {
  const Array x = array({-2.5, -0.5, 0.0, 0.3, 1.7, 4.0}), y = array({1.5, -2.0, 3.0, 0.3, -0.7, 2.0}),
              q = array({0.2, 0.7, 1.0, 1.5, 3.0, 8.0});
  check_special({
      {"relu6", relu6(x * 2.0), {6}, {0, 0, 0, 0.6, 3.4, 6}},
      {"elu", elu(x, 0.7), {6}, {-0.6425405009632708, -0.2754285382011565, 0, 0.3, 1.7, 4}},
      {"celu", celu(x, 0.7), {6}, {-0.6803190381757196, -0.3573208383101328, 0, 0.3, 1.7, 4}},
      {"selu",
       selu(x),
       {6},
       {-1.613785758873242, -0.6917581878028712, 0, 0.3152102962066441, 1.786191678504317, 4.202803949421922}},
      {"glu", glu(x), {3}, {-1.436106292029148, -0.4227673674582326, 0}},
      {"leaky_relu", leaky_relu(x, 0.2), {6}, {-0.5, -0.1, 0, 0.3, 1.7, 4}},
      {"hard_tanh", hard_tanh(x), {6}, {-1, -0.5, 0, 0.3, 1, 1}},
      {"hard_sigmoid",
       hard_sigmoid(x),
       {6},
       {0.08333333333333333, 0.4166666666666666, 0.5, 0.5499999999999999, 0.7833333333333333, 1}},
      {"hard_silu", hard_silu(x), {6}, {-0.2083333333333333, -0.2083333333333333, 0, 0.165, 1.331666666666667, 4}},
      {"log_sigmoid",
       log_sigmoid(x),
       {6},
       {-2.57888973429255, -0.9740769841801067, -0.6931471805599453, -0.554355244468527, -0.1677860293862659,
        -0.01814992791780974}},
      {"mish",
       mish(x),
       {6},
       {-0.1968162039065334, -0.22074377465173, 0, 0.208001372348115, 1.620768073975541, 3.997412806976239}},
      {"squareplus",
       squareplus(x),
       {6},
       {0.3507810593582121, 0.7807764064044151, 1, 1.161187420807834, 2.162440474840669, 4.23606797749979}},
      {"soft_sign",
       soft_sign(x),
       {6},
       {-0.7142857142857143, -0.3333333333333333, 0, 0.2307692307692308, 0.6296296296296295, 0.8}},
      {"sparse_plus", sparse_plus(x), {6}, {0, 0.0625, 0.25, 0.4225, 1.7, 4}},
      {"sparse_sigmoid", sparse_sigmoid(x), {6}, {0, 0.25, 0.5, 0.65, 1, 1}},
      {"log1mexp",
       log1mexp(q),
       {6},
       {-1.70777180097052, -0.6863410028083852, -0.4586751453870813, -0.252482458925454, -0.05106918094270159,
        -0.0003355189080768202}},
      {"standardize",
       standardize(x),
       {6},
       {-1.500623513553795, -0.5002078378512649, -0.2501039189256324, -0.100041567570253, 0.6002494054215178,
        1.750727432479427}},
      {"softmax of some",
       softmax(x, greater(y, 0)),
       {6},
       {0.001439327784645335, 0, 0.01753460204391451, 0.02366923700631818, 0, 0.957356833165122}},
      {"log_softmax of some",
       log_softmax(x, greater(y, 0)),
       {6},
       {-6.543579090605357, -infinity, -4.043579090605357, -3.743579090605357, -infinity, -0.04357909060535681}},
  });
}

TEST_CASE("derivatives of special functions and activations agree with differences") {
  const Array p = array({0.05, 0.2, 0.5, 0.7, 0.9, 0.99}), q = array({0.2, 0.7, 1.1, 1.5, 3.0, 8.0});
  using F = Array (*)(const Array&, const Array&);
  const std::vector<std::pair<std::string, F>> functions = {
      {"xlogy", [](const Array& a, const Array& b) { return xlogy(a, b); }},
      {"xlog1py", [](const Array& a, const Array& b) { return xlog1py(a, b); }},
      {"entr", [](const Array& a, const Array&) { return entr(a); }},
      {"rel_entr", [](const Array& a, const Array& b) { return rel_entr(a, b); }},
      {"kl_div", [](const Array& a, const Array& b) { return kl_div(a, b); }},
      {"logit", [](const Array& a, const Array&) { return logit(a); }},
      {"log_ndtr", [](const Array& a, const Array& b) { return log_ndtr(a - 4.0 * b); }},
      {"ndtri", [](const Array& a, const Array&) { return ndtri(a * 0.98); }},
      {"beta", [](const Array& a, const Array& b) { return beta(a, b); }},
      {"polygamma", [](const Array&, const Array& b) { return polygamma(2, b); }},
      {"igamma", [](const Array& a, const Array& b) { return igamma(b, a) + igammac(a, b); }},
      {"i0", [](const Array& a, const Array& b) { return i0(a) + i1(b); }},
      {"boxcox", [](const Array& a, const Array& b) { return boxcox(b, a) + boxcox1p(a, b); }},
      {"gamma", [](const Array& a, const Array& b) { return gamma(a) + multigammaln(b + 1.0, 2); }},
      {"elu", [](const Array& a, const Array& b) { return elu(a - b, 0.7) + celu(a - b, 0.7) + selu(a - b); }},
      {"glu",
       [](const Array& a, const Array& b) {
         return glu(concatenate({a, b}, 0));
       }},
      {"mish", [](const Array& a, const Array& b) { return mish(a - b) + squareplus(a - b) + soft_sign(a - b); }},
      {"sparse_plus", [](const Array& a, const Array& b) { return sparse_plus(a - b) * sparse_sigmoid(a - b); }},
      {"standardize", [](const Array& a, const Array& b) { return standardize(a) * b; }},
      {"softmax", [](const Array& a, const Array& b) { return softmax(a, greater(b, 1)) * b; }},
      {"log1mexp", [](const Array& a, const Array& b) { return log1mexp(a) + log_sigmoid(b) + hard_silu(a - b); }},
  };
  for (const auto& [what, f] : functions) {
    CAPTURE(what);
    check_slopes([f = f](const Array& a, const Array& b) { return sum(f(a, b)); }, p, q);
  }
}

TEST_CASE("derivatives of activations at their kinks are JAX's") {
  const auto slope = [](const auto& f, double x) { return grad(f)(array(x)).template item<double>(); };
  CHECK(slope([](const Array& x) { return relu6(x); }, 0) == 0);
  CHECK(slope([](const Array& x) { return relu6(x); }, 6) == 0);
  CHECK(slope([](const Array& x) { return elu(x); }, 0) == 1);
  CHECK(slope([](const Array& x) { return celu(x); }, 0) == 1);
  CHECK(slope([](const Array& x) { return leaky_relu(x); }, 0) == 1);
  CHECK(slope([](const Array& x) { return log_sigmoid(x); }, 0) == 0.5);
  CHECK(slope([](const Array& x) { return squareplus(x); }, 0) == 0.5);
  CHECK(slope([](const Array& x) { return soft_sign(x); }, 0) == 1);
  CHECK(slope([](const Array& x) { return sparse_plus(x); }, 1) == 1);
  CHECK(slope([](const Array& x) { return sparse_sigmoid(x); }, 1) == 0.25);
  CHECK(slope([](const Array& x) { return hard_tanh(x); }, 1) == 1);
  CHECK(slope([](const Array& x) { return hard_sigmoid(x); }, 3) == 0);
  const Array none = full({2}, false, bool_);
  check_close(softmax(ones({2}), none), {2}, {0, 0}, 0);
  check_close(grad([&](const Array& x) { return sum(softmax(x, none)); })(ones({2})), {2}, {0, 0}, 0);
}

TEST_CASE("special functions refuse what they cannot take") {
  expect_error<ValueError>([] { zeta(1, array(2.f)); }, "zeta", "above 1");
  expect_error<ValueError>([] { polygamma(-1, array(2.f)); }, "polygamma", "-1");
  expect_error<ValueError>([] { multigammaln(array(2.f), 0); }, "multigammaln", "0 dimensions");
  expect_error<ShapeError>([] { glu(ones({3})); }, "split", "2 parts");
  expect_error<TraceError>([] { grad([](const Array& a) { return betainc(a, 1.0, 0.5); })(array(2.0)); }, "betainc",
                           "operand a");
}
