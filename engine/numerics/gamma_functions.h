#pragma once

// What the gamma and beta functions share.
namespace lockstep::backend::special {

/// mu - log(1 + mu) without cancellation near 0.
double less_log1p(double mu);
/// lgamma(a + 1) less Stirling's (a + 1/2) log(a) - a + log(2 pi) / 2.
double stirling_rest(double a);

}  // namespace lockstep::backend::special
