#pragma once

#include <string>
#include <utility>

#include "engine/ops/rules/define.h"

// Whole definitions of pointwise ops of one operand, which are alike but for their formulas.
namespace lockstep::ops {

using UnaryRule = std::function<Value(const Value& x, const Value& y, const Value& dx)>;

namespace pointwise {

/// y = f(x) on floats; `f` takes a double.
template <class F>
Primitive of_floats(std::string name, PrimitiveGetter self, F f, UnaryRule rule, samples::Samples samples,
                    const ir::Traits& traits = pointwise_traits) {
  return {.name = std::move(name),
          .infer = infer::same_shape(infer::floating),
          .derivative = derivative::unary(std::move(rule)),
          .batch = batch::pointwise(self),
          .reference = reference::unary<double>(f),
          .samples = std::move(samples),
          .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
          .traits = traits};
}

/// y = f(x) on floats and complex numbers; `f` takes a double and a Complex.
template <class F>
Primitive of_inexact(std::string name, PrimitiveGetter self, F f, UnaryRule rule, samples::Samples samples,
                     const ir::Traits& traits = pointwise_traits) {
  return {.name = std::move(name),
          .infer = infer::same_shape(infer::inexact),
          .derivative = derivative::unary(std::move(rule)),
          .batch = batch::pointwise(self),
          .reference = reference::unary<double, Complex>(f),
          .samples = std::move(samples),
          .error_samples = samples::elementwise_errors(1, DType::float32, DType::int32),
          .traits = traits};
}

}  // namespace pointwise

}  // namespace lockstep::ops
