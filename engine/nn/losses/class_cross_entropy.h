#pragma once

#include <lockstep/array.h>

namespace lockstep::nn {

/// -log softmax(logits)[class], [...] of logits [..., C] in a float dtype and integer classes [...] within [0, C).
/// Value and derivatives keep what is left beside an almost certain class: -log(1 - q) is q and not 0, its gradient
/// there -q.
Array class_cross_entropy(const Array& logits, const Array& classes);

}  // namespace lockstep::nn
