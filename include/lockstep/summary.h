#pragma once

#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/function.h>
#include <lockstep/model.h>
#include <lockstep/random.h>
#include <lockstep/tree.h>

namespace lockstep {

namespace detail {
/// Of variables and of the function that calls them.
LOCKSTEP_API std::string summary(const std::vector<Variable>& variables, const Function& call);
}  // namespace detail

/// The variables of a model as a table: path, type, parameters, bytes, aggregation, whether they are trained; below it the
/// totals, and the arithmetic operations of one evaluation call on such an input as its kernels count them. (Keras'
/// model.summary) Values of the example are not read.
template <class X, class Y>
std::string summary(const Model<X, Y>& model, const X& example) {
  const auto call = [&model](const Tree& trainable, const Tree& non_trainable, const Tree& x) {
    return to_tree(model.stateless_call(trainable, non_trainable, from_tree<X>(x), false).first);
  };
  const auto [trainable, non_trainable] = model.init(random::key(0), example);
  return detail::summary(model.variables(example), trace_function(call, trainable, non_trainable, to_tree(example)));
}
/// Of an input of that type.
template <class Y>
std::string summary(const Model<Array, Y>& model, const ArrayType& type) {
  return summary(model, detail::example_of(type));
}

}  // namespace lockstep
