#include "engine/nn/losses/class_cross_entropy.h"

#include <tuple>
#include <utility>

#include <lockstep/custom_derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>

namespace lockstep::nn {
namespace {

/// A softmax as its class and the others see it. All are relative to the largest logit, on which nothing here depends.
struct Odds {
  Array own;      ///< The class's logit, at most 0. [..., 1]
  Array is_own;   ///< [..., C]
  Array weights;  ///< exp of the other logits, 0 for the class's own. [..., C]
  Array others;   ///< Their sum, at least 1 unless `own` is 0. [..., 1]
};

/// An infinite logit leaves nothing to finite ones.
Array relative(const Array& logits, const Array& largest) {
  const Array infinite = (logits == largest) & isposinf(largest);
  return where(infinite, 0, logits - largest);
}

/// Numbers of classes in a dtype that also holds how many classes there are.
Array wide_numbers(const Array& classes) { return size_of(classes.dtype()) < 4 ? convert(classes, int32) : classes; }

Odds odds(const Array& logits, const Array& given_classes) {
  const Array classes = wide_numbers(given_classes);
  const Array largest = stop_gradient(max(logits, Axes{-1}, true));
  const Array places = expand_dims(classes, -1);
  const Array own = relative(take_along_axis(logits, places, -1, IndexMode::promise_in_bounds), largest);
  const Array is_own = equal(places, arange(logits.dim(-1), classes.dtype()));
  const Array weights = where(is_own, 0, exp(relative(logits, largest)));
  return {own, is_own, weights, sum(weights, Axes{-1}, true)};
}

Array cross_entropy_of(const Odds& found) {
  // Beyond this the class adds nothing to the sum, and 1 plus what the logarithm is taken of stays above 0 for any
  // others.
  const Array own = maximum(found.own, found.own.dtype() == float64 ? -36 : -16);
  return squeeze(log1p(found.others + expm1(own)) - found.own, {-1});
}

}  // namespace

Array class_cross_entropy(const Array& logits, const Array& classes) {
  const auto function = [](const Array& x, const Array& of) { return cross_entropy_of(odds(x, of)); };
  const auto rule = [](const std::tuple<Array, Array>& at, const std::tuple<Array, Array>& tangent) {
    const Odds found = odds(std::get<0>(at), std::get<1>(at));
    const Array total = found.others + exp(found.own);
    const Array slopes = where(found.is_own, -found.others, found.weights) / total;
    return std::pair(cross_entropy_of(found), sum(slopes * std::get<0>(tangent), Axes{-1}));
  };
  return custom_jvp(function, rule, {.check = RuleCheck::never})(logits, classes);
}

}  // namespace lockstep::nn
