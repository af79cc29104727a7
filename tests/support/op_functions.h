#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

// One op's rules as functions that run: the op itself, its derivative, its transpose, its batching. Of engine/transform
// only what ops with sub-functions are handed is used.
namespace lockstep::tests {

using Arrays = std::vector<ir::ReferenceArray>;
using ir::FunctionPtr;
using ir::Tangent;
using ir::Value;

/// The tangents of a custom_vjp have no value, only a transpose.
inline bool has_value(const ir::Primitive& op) { return &op != &ops::primitives::custom_vjp_tangents(); }
/// A custom_vjp, and so its tangents, has the backward direction alone: tests/api/custom_derivatives_test.cpp.
inline bool has_forward_derivative(const ir::Primitive& op) {
  return has_value(op) && &op != &ops::primitives::custom_vjp();
}

/// Its value is that of what is in it, so it has no reference.
inline bool has_sub_functions(const ir::Primitive& op) { return op.name == "pmap" || op.traits.loop || op.traits.call; }

/// What a failed check names: the op, its operands and, but for sub-functions, its attributes.
inline std::string text(const ir::Primitive& op, const ir::Sample& sample, const std::vector<bool>& batched = {}) {
  std::string result = op.name;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    result += (i < batched.size() && batched[i] ? " batched " : " ") + to_string(sample.inputs[i].type);
  }
  return result + (has_sub_functions(op) ? std::string() : " " + to_string(sample.attrs));
}

inline Arrays followed_by(Arrays a, const Arrays& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::vector<ArrayType> input_types(const ir::Sample& sample) {
  std::vector<ArrayType> types;
  for (const ir::SampleInput& input : sample.inputs) types.push_back(input.type);
  return types;
}

inline std::vector<ArrayType> output_types(const ir::Primitive& op, const ir::Sample& sample) {
  return ir::infer_types(op, input_types(sample), sample.attrs, sample.axes);
}

/// The op on a builder's values, of which there may be none.
inline std::vector<Value> emit(ir::Builder& builder, const ir::Primitive& op, std::span<const Value> inputs,
                               const Attrs& attrs) {
  std::vector<ir::Var> vars;
  for (const Value& input : inputs) vars.push_back(input.var());
  std::vector<Value> results;
  for (const ir::Var var : builder.apply(op, vars, attrs)) results.emplace_back(builder, var);
  return results;
}

/// A function of whole arrays (see whole_type) that maps the body of a mesh over it; without a mesh the body itself.
inline FunctionPtr over_mesh(const FunctionPtr& body) {
  const ir::AxisSizes& axes = body->axes();
  if (axes.empty()) return body;
  using Layout = std::vector<std::string>;
  const auto layout_of = [&](const ArrayType& local) {
    Layout layout;
    for (const auto& axis : axes.axes()) {
      if (local.varying.contains(axis.name)) layout.push_back(axis.name);
    }
    layout.resize(layout.size() + static_cast<std::size_t>(local.shape.rank()));
    return layout;
  };
  // A shard sees extent 1 in each dimension that stands for an axis.
  const auto cut_type = [&](const ArrayType& local) {
    Shape shape = local.shape;
    for (std::size_t i = 0; i < local.varying.size(); ++i) shape = shape.insert(0, 1);
    return ArrayType{local.dtype, shape, local.varying};
  };
  std::vector<ArrayType> cut, whole;
  std::vector<Layout> in, out;
  for (const ArrayType& type : body->input_types()) {
    cut.push_back(cut_type(type));
    whole.push_back(whole_type(type, axes));
    in.push_back(layout_of(type));
  }
  for (const ArrayType& type : body->output_types()) out.push_back(layout_of(type));
  const FunctionPtr mapped = make_function(
      cut,
      [&](ir::Builder& builder, std::span<const Value> inputs) {
        std::vector<ir::Var> arguments;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          arguments.push_back(ops::reshape(inputs[i], body->type(body->inputs()[i]).shape).var());
        }
        std::vector<Value> results;
        for (const ir::Var var : builder.inline_function(*body, arguments)) {
          const Value local(builder, var);
          results.push_back(ops::reshape(local, cut_type(local.type()).shape));
        }
        return results;
      },
      axes);
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (const auto& axis : axes.axes()) {
    names.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  const Attrs attrs = {{"body", std::shared_ptr<const AttrObject>(mapped)}, {"axes", names}, {"sizes", sizes},
                       {"devices", std::vector<std::string>{"cpu:0"}},      {"in", in},      {"out", out}};
  return make_function(whole, [&](ir::Builder& builder, std::span<const Value> inputs) {
    return emit(builder, ops::primitives::pmap(), inputs, attrs);
  });
}

/// Runs a function on reference arrays.
inline std::vector<ir::ReferenceArray> run(const FunctionPtr& function, std::span<const ir::ReferenceArray> inputs) {
  const auto backend = ops::reference_backend();
  std::vector<eval::HostArray> arrays;
  for (const ir::ReferenceArray& input : inputs) {
    arrays.push_back(eval::host_array(input.type, ir::reference_to_bytes(input), *backend));
  }
  std::vector<ir::ReferenceArray> results;
  for (const eval::HostArray& result : eval::eval(*function, arrays, *backend)) {
    results.push_back(ir::reference_from_bytes(result.type, eval::host_bytes(result)));
  }
  return results;
}

/// (x...) -> (y...).
inline FunctionPtr primal_function(const ir::Primitive& op, const ir::Sample& sample) {
  return make_function(
      input_types(sample),
      [&](ir::Builder& builder, std::span<const Value> inputs) { return emit(builder, op, inputs, sample.attrs); },
      sample.axes);
}

/// Operands that a linear op may be transposed in: those it names, of float or complex dtype.
inline std::vector<std::size_t> linear_operands(const ir::Derivative& derivative, const std::vector<ArrayType>& types) {
  std::vector<std::size_t> operands;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto& named = derivative.linear_in;
    const bool linear = named.empty() || std::find(named.begin(), named.end(), static_cast<int>(i)) != named.end();
    if (linear && is_inexact(types[i].dtype)) operands.push_back(i);
  }
  return operands;
}

/// Tangents of the results as the op's derivative states them.
inline std::vector<Tangent> result_tangents(const ir::Primitive& op, const ir::JvpContext& context) {
  using Kind = ir::Derivative::Kind;
  const ir::Derivative& derivative = op.derivative;
  if (derivative.jvp) return derivative.jvp(context);
  if (derivative.joint) return derivative.joint(context).tangents;
  std::vector<Tangent> results(context.outputs.size());
  if (derivative.kind == Kind::zero) return results;
  std::vector<Value> operands(context.inputs.begin(), context.inputs.end());
  if (derivative.kind == Kind::linear) {
    std::vector<ArrayType> types;
    for (const Value& input : context.inputs) types.push_back(input.type());
    for (const std::size_t i : linear_operands(derivative, types)) {
      operands[i] = context.tangents[i] ? *context.tangents[i] : ops::zeros(context.builder, types[i]);
    }
    const std::vector<Value> tangents = emit(context.builder, op, operands, context.attrs);
    return {tangents.begin(), tangents.end()};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (!context.tangents[i]) continue;
    std::vector<Value> term = operands;
    term[i] = *context.tangents[i];
    const Value product = emit(context.builder, op, term, context.attrs).front();
    results[0] = results[0] ? ops::add(*results[0], product) : product;
  }
  return results;
}

/// `value` made varying like `type`.
inline Value as_varying(const Value& value, const ArrayType& type) {
  const AxisSet missing = type.varying.without(value.type().varying);
  return missing.empty() ? value : ops::pvary(value, missing);
}

/// (x..., tangent of each active x...) -> (tangent of each float or complex y...).
inline FunctionPtr jvp_function(const ir::Primitive& op, const ir::Sample& sample, const std::vector<bool>& active) {
  const std::vector<ArrayType> primals = input_types(sample);
  std::vector<ArrayType> types = primals;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    if (active[i]) types.push_back(primals[i]);
  }
  return make_function(
      types,
      [&](ir::Builder& builder, std::span<const Value> inputs) {
        std::vector<Tangent> tangents(primals.size());
        std::size_t next = primals.size();
        for (std::size_t i = 0; i < primals.size(); ++i) {
          if (active[i]) tangents[i] = inputs[next++];
        }
        const std::span<const Value> x = inputs.first(primals.size());
        const std::vector<Value> y = emit(builder, op, x, sample.attrs);
        const std::vector<Tangent> dy =
            result_tangents(op, {builder, sample.attrs, x, y, tangents, &transform::transforms()});
        REQUIRE(dy.size() == y.size());
        std::vector<Value> results;
        for (std::size_t i = 0; i < y.size(); ++i) {
          if (!is_inexact(y[i].dtype())) continue;
          results.push_back(as_varying(dy[i] ? *dy[i] : ops::zeros(builder, y[i].type()), y[i].type()));
          CHECK(results.back().type() == y[i].type());
        }
        return results;
      },
      sample.axes);
}

/// (operands that are not in `linear`..., cotangents...) -> (cotangent of each operand in `linear`...).
inline FunctionPtr transpose_function(const ir::Primitive& op, const ir::Sample& sample,
                                      const std::vector<std::size_t>& linear) {
  const std::vector<ArrayType> primals = input_types(sample);
  const std::vector<ArrayType> results = output_types(op, sample);
  const auto is_linear = [&](std::size_t i) { return std::find(linear.begin(), linear.end(), i) != linear.end(); };
  std::vector<ArrayType> types;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    if (!is_linear(i)) types.push_back(primals[i]);
  }
  types.insert(types.end(), results.begin(), results.end());
  return make_function(
      types,
      [&](ir::Builder& builder, std::span<const Value> inputs) {
        std::vector<Tangent> operands(primals.size());
        std::size_t next = 0;
        for (std::size_t i = 0; i < primals.size(); ++i) {
          if (!is_linear(i)) operands[i] = inputs[next++];
        }
        const std::vector<Tangent> cotangents(inputs.begin() + static_cast<std::ptrdiff_t>(next), inputs.end());
        const std::vector<Tangent> given = op.derivative.transpose(
            {builder, sample.attrs, operands, primals, results, cotangents, &transform::transforms()});
        REQUIRE(given.size() == primals.size());
        std::vector<Value> wanted;
        for (const std::size_t i : linear) {
          wanted.push_back(as_varying(given[i] ? *given[i] : ops::zeros(builder, primals[i]), primals[i]));
          CHECK(wanted.back().type() == primals[i]);
        }
        return wanted;
      },
      sample.axes);
}

/// (x..., batched ones with a leading dimension) -> (y by the batching rule..., y by a loop over the batch...).
inline FunctionPtr batch_function(const ir::Primitive& op, const ir::Sample& sample, const std::vector<bool>& batched,
                                  std::int64_t size) {
  std::vector<ArrayType> types = input_types(sample);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (batched[i]) types[i].shape = types[i].shape.insert(0, size);
  }
  return make_function(
      types,
      [&](ir::Builder& builder, std::span<const Value> inputs) {
        std::vector<Value> by_rule =
            op.batch({builder, sample.attrs, inputs, batched, size, "", &transform::transforms()});
        std::vector<std::vector<Value>> rows(by_rule.size());
        for (std::int64_t b = 0; b < size; ++b) {
          std::vector<Value> example;
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!batched[i]) {
              example.push_back(inputs[i]);
              continue;
            }
            ops::Dims start(static_cast<std::size_t>(inputs[i].rank()), 0), limit = inputs[i].shape().to_vector();
            const ops::Dims strides(start.size(), 1);
            start[0] = b;
            limit[0] = b + 1;
            example.push_back(ops::reshape(ops::slice(inputs[i], start, limit, strides), inputs[i].shape().erase(0)));
          }
          const std::vector<Value> y = emit(builder, op, example, sample.attrs);
          REQUIRE(y.size() == rows.size());
          for (std::size_t k = 0; k < y.size(); ++k) {
            rows[k].push_back(ops::reshape(y[k], y[k].shape().insert(0, 1)));
          }
        }
        std::vector<Value> results = by_rule;
        for (std::size_t k = 0; k < rows.size(); ++k) {
          if (size > 0) results.push_back(ops::concatenate(rows[k], 0));
        }
        return results;
      },
      sample.axes);
}

}  // namespace lockstep::tests
