#include <lockstep/activations.h>
#include <lockstep/elementwise.h>
#include <lockstep/linalg.h>
#include <lockstep/losses.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>
#include <lockstep/transforms.h>

#include "tests/golden/sweep/sweep.h"

namespace lockstep::tests::sweep {
namespace {

using Map = std::map<std::string, Call, std::less<>>;

Call call_of_one(Array (*f)(const ArrayOperand&)) {
  return [f](const Arrays& x) { return f(x[0]); };
}
Call call_of_one(Array (*f)(const Operand&)) {
  return [f](const Arrays& x) { return f(x[0]); };
}
Call call_of_two(Array (*f)(const Operand&, const Operand&)) {
  return [f](const Arrays& x) { return f(x[0], x[1]); };
}
/// Of the variables as the elements of rows.
Call of_rows(Array (*f)(const Array&)) {
  return [f](const Arrays& x) { return f(stack(x, 1)); };
}
/// A loss of each point alone: a batch of one row.
Call of_pairs(Weighted (*f)(const ArrayOperand&, const ArrayOperand&, const Array&)) {
  return [f](const Arrays& x) {
    const auto row = [f](const Array& a, const Array& b) { return f(reshape(a, {1}), reshape(b, {1}), {}).sum; };
    return vmap(row)(x[0], x[1]);
  };
}
Call of_logits(const std::function<Array(const Array&)>& f) {
  return [f](const Arrays& x) {
    const auto row = [f](const Array& logits) { return f(reshape(logits, {1, -1})); };
    return vmap(row)(stack(x, 1));
  };
}

void add_elementary(Map& map) {
  map["exp"] = call_of_one(exp);
  map["exp2"] = call_of_one(exp2);
  map["expm1"] = call_of_one(expm1);
  map["log"] = call_of_one(log);
  map["log2"] = call_of_one(log2);
  map["log10"] = call_of_one(log10);
  map["log1p"] = call_of_one(log1p);
  map["sqrt"] = call_of_one(sqrt);
  map["rsqrt"] = call_of_one(rsqrt);
  map["cbrt"] = call_of_one(cbrt);
  map["square"] = call_of_one(square);
  map["reciprocal"] = call_of_one(reciprocal);
  map["integer_pow(3)"] = [](const Arrays& x) { return integer_pow(x[0], 3); };
  map["integer_pow(-2)"] = [](const Arrays& x) { return integer_pow(x[0], -2); };
  map["abs"] = call_of_one(abs);
  map["sin"] = call_of_one(sin);
  map["cos"] = call_of_one(cos);
  map["tan"] = call_of_one(tan);
  map["asin"] = call_of_one(asin);
  map["acos"] = call_of_one(acos);
  map["atan"] = call_of_one(atan);
  map["sinh"] = call_of_one(sinh);
  map["cosh"] = call_of_one(cosh);
  map["tanh"] = call_of_one(tanh);
  map["asinh"] = call_of_one(asinh);
  map["acosh"] = call_of_one(acosh);
  map["atanh"] = call_of_one(atanh);
  map["sinc"] = call_of_one(sinc);
}

void add_special(Map& map) {
  map["logistic"] = call_of_one(logistic);
  map["erf"] = call_of_one(erf);
  map["erfc"] = call_of_one(erfc);
  map["erf_inv"] = call_of_one(erf_inv);
  map["lgamma"] = call_of_one(lgamma);
  map["digamma"] = call_of_one(digamma);
  map["polygamma(1)"] = [](const Arrays& x) { return polygamma(1, x[0]); };
  map["gamma"] = call_of_one(gamma);
  map["bessel_i0e"] = call_of_one(bessel_i0e);
  map["bessel_i1e"] = call_of_one(bessel_i1e);
  map["i0"] = call_of_one(i0);
  map["i1"] = call_of_one(i1);
  map["bessel_j0"] = call_of_one(bessel_j0);
  map["bessel_j1"] = call_of_one(bessel_j1);
  map["exp1"] = call_of_one(exp1);
  map["expi"] = call_of_one(expi);
  map["spence"] = call_of_one(spence);
  map["dawsn"] = call_of_one(dawsn);
  map["erfcx"] = call_of_one(erfcx);
  map["sin_integral"] = call_of_one(sin_integral);
  map["cos_integral"] = call_of_one(cos_integral);
  map["fresnel_s"] = call_of_one(fresnel_s);
  map["fresnel_c"] = call_of_one(fresnel_c);
  map["expn(3)"] = [](const Arrays& x) { return expn(3, x[0]); };
  map["bessel_jn(4)"] = [](const Arrays& x) { return bessel_jn(4, x[0]); };
  map["hyp1f1(0.5,1.25)"] = [](const Arrays& x) { return hyp1f1(0.5, 1.25, x[0]); };
  map["hyp2f1(0.5,0.75,1.25)"] = [](const Arrays& x) { return hyp2f1(0.5, 0.75, 1.25, x[0]); };
  map["entr"] = call_of_one(entr);
  map["logit"] = call_of_one(logit);
  map["ndtr"] = call_of_one(ndtr);
  map["log_ndtr"] = call_of_one(log_ndtr);
  map["ndtri"] = call_of_one(ndtri);
  map["igamma(0.5)"] = [](const Arrays& x) { return igamma(0.5, x[0]); };
  map["igamma(3)"] = [](const Arrays& x) { return igamma(3.0, x[0]); };
  map["igammac(3)"] = [](const Arrays& x) { return igammac(3.0, x[0]); };
  map["betainc(2,3)"] = [](const Arrays& x) { return betainc(2.0, 3.0, x[0]); };
}

void add_activations(Map& map) {
  map["relu"] = call_of_one(relu);
  map["relu6"] = call_of_one(relu6);
  map["sigmoid"] = call_of_one(sigmoid);
  map["silu"] = call_of_one(silu);
  map["softplus"] = call_of_one(softplus);
  map["log_sigmoid"] = call_of_one(log_sigmoid);
  map["gelu(approximate)"] = [](const Arrays& x) { return gelu(x[0]); };
  map["gelu"] = [](const Arrays& x) { return gelu(x[0], false); };
  map["elu"] = [](const Arrays& x) { return elu(x[0]); };
  map["elu(0.25)"] = [](const Arrays& x) { return elu(x[0], 0.25); };
  map["celu(0.25)"] = [](const Arrays& x) { return celu(x[0], 0.25); };
  map["selu"] = call_of_one(selu);
  map["leaky_relu"] = [](const Arrays& x) { return leaky_relu(x[0]); };
  map["hard_tanh"] = call_of_one(hard_tanh);
  map["hard_sigmoid"] = call_of_one(hard_sigmoid);
  map["hard_silu"] = call_of_one(hard_silu);
  map["mish"] = call_of_one(mish);
  map["squareplus"] = [](const Arrays& x) { return squareplus(x[0]); };
  map["soft_sign"] = call_of_one(soft_sign);
  map["sparse_plus"] = call_of_one(sparse_plus);
  map["sparse_sigmoid"] = call_of_one(sparse_sigmoid);
  map["log1mexp"] = call_of_one(log1mexp);
}

void add_pairs(Map& map) {
  map["logaddexp"] = call_of_two(logaddexp);
  map["logaddexp2"] = call_of_two(logaddexp2);
  map["hypot"] = call_of_two(hypot);
  map["atan2"] = call_of_two(atan2);
  map["div"] = call_of_two(div);
  map["mul"] = call_of_two(mul);
  map["pow"] = call_of_two(pow);
  map["maximum"] = call_of_two(maximum);
  map["minimum"] = call_of_two(minimum);
  map["xlogy"] = call_of_two(xlogy);
  map["xlog1py"] = call_of_two(xlog1py);
  map["rel_entr"] = call_of_two(rel_entr);
  map["kl_div"] = call_of_two(kl_div);
  map["boxcox"] = call_of_two(boxcox);
  map["boxcox1p"] = call_of_two(boxcox1p);
  map["betaln"] = call_of_two(betaln);
  map["beta"] = call_of_two(beta);
  map["glu"] = [](const Arrays& x) { return squeeze(glu(stack(x, 1)), 1); };
}

/// A column more, which the mask leaves out.
Call of_masked_rows(Array (*f)(const Array& rows, const Array& mask)) {
  return [f](const Arrays& x) {
    const Array rows = stack(x, 1), more = concatenate({rows, full_like(slice_in_dim(rows, 0, 1, 1), 7)}, 1);
    return f(more, less(iota(more.shape(), 1), more.dim(1) - 1));
  };
}

Array first(const Array& rows) { return squeeze(slice_in_dim(rows, 0, 1, 1), 1); }
Array last(const Array& rows) { return squeeze(slice_in_dim(rows, rows.dim(1) - 1, rows.dim(1), 1), 1); }

void add_losses(Map& map) {
  map["binary_cross_entropy"] = of_pairs(
      [](const ArrayOperand& p, const ArrayOperand& y, const Array& w) { return binary_cross_entropy(p, y, w); });
  map["binary_cross_entropy(0)"] = of_logits([](const Array& x) { return binary_cross_entropy(x, zeros_like(x)).sum; });
  map["binary_cross_entropy(1)"] = of_logits([](const Array& x) { return binary_cross_entropy(x, ones_like(x)).sum; });
  map["mean_squared_error"] = of_pairs(mean_squared_error);
  map["mean_absolute_error"] = of_pairs(mean_absolute_error);
  map["huber"] = of_pairs([](const ArrayOperand& p, const ArrayOperand& t, const Array& w) { return huber(p, t, w); });
  map["logsumexp"] = [](const Arrays& x) { return logsumexp(stack(x, 1), 1); };
  map["logmeanexp"] = [](const Arrays& x) { return logmeanexp(stack(x, 1), 1); };
  map["logsumexp(weights)"] = [](const Arrays& x) {
    return logsumexp(stack(Arrays{x[0], x[1]}, 1), stack(Arrays{x[2], x[3]}, 1), 1);
  };
  map["softmax"] = of_rows([](const Array& x) { return first(softmax(x)); });
  map["log_softmax"] = of_rows([](const Array& x) { return first(log_softmax(x)); });
  map["softmax(mask)"] = of_masked_rows([](const Array& x, const Array& mask) { return first(softmax(x, mask)); });
  map["log_softmax(mask)"] =
      of_masked_rows([](const Array& x, const Array& mask) { return first(log_softmax(x, mask)); });
  map["logsumexp(mask)"] =
      of_masked_rows([](const Array& x, const Array& mask) { return logsumexp(x, Where(mask), Axes{1}); });
  map["prod"] = of_rows([](const Array& x) { return prod(x, Axes{1}); });
  map["cumprod"] = of_rows([](const Array& x) { return last(cumprod(x, 1)); });
  map["cumlogsumexp"] = of_rows([](const Array& x) { return last(cumlogsumexp(x, 1)); });
  map["var"] = of_rows([](const Array& x) { return var(x, Axes{1}); });
  map["stddev"] = of_rows([](const Array& x) { return stddev(x, Axes{1}); });
  map["norm"] = of_rows([](const Array& x) { return linalg::norm(x, {.axes = Axes{1}}); });
  map["norm(3)"] = of_rows([](const Array& x) { return linalg::norm(x, {.order = 3, .axes = Axes{1}}); });
  map["softmax_cross_entropy(integer)"] =
      of_logits([](const Array& x) { return softmax_cross_entropy(x, zeros({1}, int32)).sum; });
  map["softmax_cross_entropy(dense)"] = of_logits([](const Array& x) {
    return softmax_cross_entropy(x, convert(array({0.25F, 0.75F, 0.0F}, {1, 3}), x.dtype())).sum;
  });
}

}  // namespace

const Map& calls() {
  static const Map map = [] {
    Map all;
    add_elementary(all);
    add_special(all);
    add_activations(all);
    add_pairs(all);
    add_losses(all);
    return all;
  }();
  return map;
}

}  // namespace lockstep::tests::sweep
