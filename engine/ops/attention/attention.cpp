#include <cmath>
#include <limits>

#include "engine/core/lists.h"
#include "engine/ops/attention/decomposition.h"
#include "engine/ops/attention/geometry.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

/// Offset of [b,n,t,s] in an array that is broadcast where its extent is 1.
std::int64_t broadcast_offset(const Shape& shape, std::int64_t b, std::int64_t n, std::int64_t t, std::int64_t s) {
  const auto at = [&](int d, std::int64_t i) { return shape[d] == 1 ? 0 : i; };
  return reference::offset(shape, {at(0, b), at(1, n), at(2, t), at(3, s)});
}

/// One query's row: the probabilities, and which keys are seen.
struct Row {
  std::int64_t b, n, t;
  std::vector<double> p;
  std::vector<bool> seen;
  double lse = 0;
};

class QueryRows {
 public:
  QueryRows(const ir::ReferenceContext& context, std::string_view op) : inputs_(context.inputs) {
    std::vector<ArrayType> types;
    for (const ir::ReferenceArray& input : context.inputs) types.push_back(input.type);
    g = attention_geometry({op, types, context.attrs, {}});
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t b = 0; b < g.batch; ++b) {
      for (std::int64_t n = 0; n < g.heads; ++n) {
        for (std::int64_t t = 0; t < g.queries; ++t) visit(row(b, n, t));
      }
    }
  }

  std::int64_t q(const Row& r, std::int64_t h) const {
    return ((r.b * g.queries + r.t) * g.heads + r.n) * g.features + h;
  }
  std::int64_t k(const Row& r, std::int64_t s, std::int64_t h) const {
    return ((r.b * g.keys + s) * g.key_heads + r.n / g.group()) * g.features + h;
  }
  std::int64_t lse(const Row& r) const { return (r.b * g.queries + r.t) * g.heads + r.n; }
  std::int64_t bias(const Row& r, std::int64_t s) const { return broadcast_offset(g.bias, r.b, r.n, r.t, s); }
  double in(std::size_t operand, std::int64_t i) const { return reference::load<double>(inputs_[operand], i); }
  /// The row's query in one operand times key `s` in another.
  double dot(const Row& r, std::size_t query, std::size_t key, std::int64_t s) const {
    double sum = 0;
    for (std::int64_t h = 0; h < g.features; ++h) sum += in(query, q(r, h)) * in(key, k(r, s, h));
    return sum;
  }

  AttentionGeometry g;

 private:
  Row row(std::int64_t b, std::int64_t n, std::int64_t t) const {
    const auto keys = static_cast<std::size_t>(g.keys);
    Row r{b, n, t, std::vector<double>(keys), std::vector<bool>(keys)};
    double largest = masked_logit();
    bool any = false;
    for (std::size_t i = 0; i < keys; ++i) {
      const auto s = static_cast<std::int64_t>(i);
      const auto masked = static_cast<std::size_t>(broadcast_offset(g.mask, b, n, t, s));
      r.seen[i] = g.in_window(t, s) && inputs_[4].integers()[masked] != 0;
      if (!r.seen[i]) continue;
      r.p[i] = g.scale * dot(r, 0, 1, s) + in(3, bias(r, s));
      largest = any ? std::max(largest, r.p[i]) : r.p[i];
      any = true;
    }
    double sum = any ? 0 : static_cast<double>(g.keys);
    for (std::size_t i = 0; i < keys; ++i) {
      if (r.seen[i]) sum += std::exp(r.p[i] - largest);
    }
    r.lse = largest + std::log(sum);
    for (std::size_t i = 0; i < keys; ++i) {
      r.p[i] = !any ? 1 / sum : r.seen[i] ? std::exp(r.p[i] - largest) / sum : 0;
    }
    return r;
  }

  std::span<const ir::ReferenceArray> inputs_;
};

// ---- attention -----------------------------------------------------------------------------------------------------

std::vector<ArrayType> attention_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 5);
  const AttentionGeometry g = attention_geometry(context);
  const DType dtype = context.inputs[0].dtype;
  return {{dtype, g.q(), {}}, {logits_dtype(dtype), g.lse(), {}}};
}

std::vector<Tangent> attention_jvp(const JvpContext& context) {
  std::vector<Value> operands(context.inputs.begin(), context.inputs.end());
  operands.insert(operands.end(), context.outputs.begin(), context.outputs.end());
  for (std::size_t i = 0; i < 4; ++i) {
    operands.push_back(derivative::or_zeros(context.builder, context.tangents[i], context.inputs[i].type()));
  }
  const std::vector<Value> tangents = apply(primitives::attention_tangent(), operands, context.attrs);
  return {tangents[0], tangents[1]};
}

void attention_reference(const ir::ReferenceContext& context) {
  const QueryRows rows(context, "attention");
  rows.for_each([&](const Row& r) {
    for (std::int64_t h = 0; h < rows.g.features; ++h) {
      double sum = 0;
      for (std::int64_t s = 0; s < rows.g.keys; ++s) sum += nth(r.p, s) * rows.in(2, rows.k(r, s, h));
      reference::store(context.outputs[0], rows.q(r, h), sum);
    }
    reference::store(context.outputs[1], rows.lse(r), r.lse);
  });
}

std::vector<ir::Sample> attention_samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    for (const AttentionCase& c : attention_cases(dtype)) {
      list.push_back({attention_inputs(dtype, c), attention_attrs(c), {}});
    }
  }
  return list;
}

// ---- attention_tangent and attention_grad --------------------------------------------------------------------------

/// Checks operand `i` to be of a type.
void expect_operand_type(const ir::InferContext& context, std::size_t i, DType dtype, const Shape& shape) {
  const ArrayType& given = context.inputs[i];
  if (given.dtype != dtype || given.shape != shape) {
    infer::shape_error(context, to_string(ArrayType{dtype, shape, {}}) + " for operand " + std::to_string(i),
                       "pass what attention gave, and (co)tangents of its operands' and results' types");
  }
}

AttentionGeometry infer_saved(const ir::InferContext& context, std::size_t operands) {
  infer::expect_operands(context, operands);
  const AttentionGeometry g = attention_geometry(context);
  const DType dtype = context.inputs[0].dtype;
  expect_operand_type(context, 5, dtype, g.q());
  expect_operand_type(context, 6, logits_dtype(dtype), g.lse());
  return g;
}

std::vector<ArrayType> tangent_infer(const ir::InferContext& context) {
  const AttentionGeometry g = infer_saved(context, 11);
  const DType dtype = context.inputs[0].dtype;
  for (std::size_t i = 7; i < 11; ++i) expect_operand_type(context, i, dtype, context.inputs[i - 7].shape);
  return {{dtype, g.q(), {}}, {logits_dtype(dtype), g.lse(), {}}};
}

std::vector<ArrayType> grad_infer(const ir::InferContext& context) {
  const AttentionGeometry g = infer_saved(context, 9);
  const DType dtype = context.inputs[0].dtype;
  expect_operand_type(context, 7, dtype, g.q());
  expect_operand_type(context, 8, logits_dtype(dtype), g.lse());
  return {{dtype, g.q(), {}}, {dtype, g.k(), {}}, {dtype, g.k(), {}}, {dtype, g.bias, {}}};
}

/// The first `count` operands, which the op is not linear in.
std::vector<Value> fixed_operands(const TransposeContext& context, std::size_t count) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < count; ++i) operands.push_back(*context.inputs[i]);
  return operands;
}

std::vector<Tangent> transpose_by(const TransposeContext& context, const Primitive& other) {
  std::vector<Value> operands = fixed_operands(context, 7);
  for (std::size_t i = 0; i < context.cotangents.size(); ++i) {
    operands.push_back(derivative::or_zeros(context.builder, context.cotangents[i], context.output_types[i]));
  }
  std::vector<Tangent> result(7);
  for (const Value& ct : apply(other, operands, context.attrs)) result.emplace_back(ct);
  return result;
}

std::vector<Tangent> tangent_transpose(const TransposeContext& context) {
  return transpose_by(context, primitives::attention_grad());
}

std::vector<Tangent> grad_transpose(const TransposeContext& context) {
  return transpose_by(context, primitives::attention_tangent());
}

void tangent_reference(const ir::ReferenceContext& context) {
  const QueryRows rows(context, "attention_tangent");
  const AttentionGeometry& g = rows.g;
  rows.for_each([&](const Row& r) {
    std::vector<double> ds(r.p.size());
    double dlse = 0;
    for (std::size_t i = 0; i < ds.size(); ++i) {
      const auto s = static_cast<std::int64_t>(i);
      if (r.seen[i]) ds[i] = g.scale * (rows.dot(r, 7, 1, s) + rows.dot(r, 0, 8, s)) + rows.in(10, rows.bias(r, s));
      dlse += r.p[i] * ds[i];
    }
    for (std::int64_t h = 0; h < g.features; ++h) {
      double sum = -dlse * rows.in(5, rows.q(r, h));
      for (std::size_t i = 0; i < ds.size(); ++i) {
        const std::int64_t at = rows.k(r, static_cast<std::int64_t>(i), h);
        sum += r.p[i] * (ds[i] * rows.in(2, at) + rows.in(9, at));
      }
      reference::store(context.outputs[0], rows.q(r, h), sum);
    }
    reference::store(context.outputs[1], rows.lse(r), dlse);
  });
}

void grad_reference(const ir::ReferenceContext& context) {
  const QueryRows rows(context, "attention_grad");
  const AttentionGeometry& g = rows.g;
  const auto add = [&](std::size_t result, std::int64_t at, double term) {
    nth(context.outputs[result].floats(), at) += term;
  };
  rows.for_each([&](const Row& r) {
    double constant = rows.in(8, rows.lse(r));
    for (std::int64_t h = 0; h < g.features; ++h) constant -= rows.in(7, rows.q(r, h)) * rows.in(5, rows.q(r, h));
    for (std::size_t i = 0; i < r.p.size(); ++i) {
      const auto s = static_cast<std::int64_t>(i);
      const double ds = r.seen[i] ? r.p[i] * (rows.dot(r, 7, 2, s) + constant) : 0;
      add(3, rows.bias(r, s), ds);
      for (std::int64_t h = 0; h < g.features; ++h) {
        const std::int64_t q = rows.q(r, h);
        const std::int64_t k = rows.k(r, s, h);
        add(0, q, g.scale * ds * rows.in(1, k));
        add(1, k, g.scale * ds * rows.in(0, q));
        add(2, k, r.p[i] * rows.in(7, q));
      }
    }
  });
}

/// The saved results are drawn like any operand: the rules do not need them to belong to the rest.
std::vector<ir::SampleInput> saved_inputs(DType dtype, const AttentionCase& c) {
  std::vector<ir::SampleInput> inputs = attention_inputs(dtype, c);
  inputs.push_back(samples::input(dtype, c.q));
  inputs.push_back(samples::input(logits_dtype(dtype), Shape{c.q[0], c.q[1], c.q[2]}));
  return inputs;
}

std::vector<ir::Sample> attention_tangent_samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    for (const AttentionCase& c : attention_cases(dtype)) {
      std::vector<ir::SampleInput> inputs = saved_inputs(dtype, c);
      for (const Shape& shape : {c.q, c.k, c.k, c.bias}) inputs.push_back(samples::input(dtype, shape));
      list.push_back({inputs, attention_attrs(c), {}});
    }
  }
  return list;
}

std::vector<ir::Sample> grad_samples() {
  std::vector<ir::Sample> list;
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
    for (const AttentionCase& c : attention_cases(dtype)) {
      std::vector<ir::SampleInput> inputs = saved_inputs(dtype, c);
      inputs.push_back(samples::input(dtype, c.q));
      inputs.push_back(samples::input(logits_dtype(dtype), Shape{c.q[0], c.q[1], c.q[2]}));
      list.push_back({inputs, attention_attrs(c), {}});
    }
  }
  return list;
}

// ---- errors --------------------------------------------------------------------------------------------------------

std::vector<ir::ErrorSample> shape_errors(const std::vector<ArrayType>& rest) {
  const ArrayType q{DType::float32, {2, 3, 4, 5}, {}}, k{DType::float32, {2, 6, 2, 5}, {}};
  const ArrayType bias{DType::float32, {1, 1, 1, 1}, {}}, mask{DType::bool_, {1, 1, 1, 1}, {}};
  const Attrs attrs = {{"scale", 1.0}, {"window", Dims{-1, -1}}};
  std::vector<ir::ErrorSample> list;
  const auto add = [&](std::vector<ArrayType> types, const std::string& text) {
    types.insert(types.end(), rest.begin(), rest.end());
    list.push_back({types, attrs, text, {}});
  };
  const auto f32 = [](const Shape& shape) { return ArrayType{DType::float32, shape, {}}; };
  add({{DType::int32, {2, 3, 4, 5}, {}}, k, k, bias, mask}, "a float dtype for operand 0");
  add({q, k, {DType::float64, {2, 6, 2, 5}, {}}, bias, mask}, "queries, keys, values and bias of one dtype");
  add({q, k, k, bias, bias}, "a mask of bool");
  add({f32({3, 4, 5}), k, k, bias, mask}, "rank 4 for operand 0");
  add({q, k, f32({2, 5, 2, 5}), bias, mask}, "keys and values of one shape");
  add({q, f32({2, 6, 2, 4}), f32({2, 6, 2, 4}), bias, mask}, "of one B and H");
  add({q, f32({2, 6, 3, 5}), f32({2, 6, 3, 5}), bias, mask}, "a multiple of those of the keys");
  add({q, f32({2, 0, 2, 5}), f32({2, 0, 2, 5}), bias, mask}, "at least one key");
  add({q, k, k, f32({2, 4, 3, 5}), mask}, "a bias with the extents of [B,N,T,S] = [2,4,3,6] or 1");
  add({q, k, k, bias, {DType::bool_, {6}, {}}}, "rank 4 for operand 4");
  std::vector<ArrayType> good = {q, k, k, bias, mask};
  good.insert(good.end(), rest.begin(), rest.end());
  list.push_back({good, attrs.with("window", Dims{-2, 0}), "window=[left,right], each -1", {}});
  good.pop_back();
  list.push_back({good, attrs, " operands; instead pass", {}});
  if (!rest.empty()) {
    good.push_back(f32({7}));
    list.push_back({good, attrs, "for operand " + std::to_string(good.size() - 1), {}});
  }
  return list;
}

/// Of so many products of queries with keys, or of weights with values.
ir::Flops attention_flops(double products) {
  return [products](const ir::CostContext& context) {
    const ArrayType& q = context.inputs[0];
    const ArrayType& k = context.inputs[1];
    return 2 * products * static_cast<double>(q.size()) * static_cast<double>(k.shape[1]);
  };
}

/// Batch and heads run on; heads that share a key are the inner factor of the queries' dimension. Where a bias or mask has
/// extent 1 it is whole, and its cotangent a sum over what it was spread over.
ir::Factors attention_factors(const ir::LayoutContext& context) {
  using Kind = ir::Factor::Kind;
  ir::Factors factors;
  const Shape& q = context.inputs[0].shape;
  const Shape& k = context.inputs[1].shape;
  const int batch = factors.add(q[0]);
  const int groups = factors.add(k[2]);
  const int shared = factors.add(q[2] / k[2]);
  const auto whole = [&](std::int64_t extent) { return std::vector<int>{factors.add(extent, Kind::whole)}; };
  const auto queries = [&](const Shape& shape) {  // [B,T,N,H] or [B,T,N]
    ir::FactorDims dims = {{batch}, whole(shape[1]), {groups, shared}};
    if (shape.rank() == 4) dims.push_back(whole(shape[3]));
    return dims;
  };
  const auto keys = [&](const Shape& shape) {
    return ir::FactorDims{{batch}, whole(shape[1]), {groups}, whole(shape[3])};
  };
  const auto logits = [&](const Shape& shape) {  // [B,N,T,S], each of these or 1
    ir::FactorDims dims;
    dims.push_back(shape[0] == q[0] ? std::vector<int>{batch} : whole(1));
    dims.push_back(shape[1] == q[2] ? std::vector<int>{groups, shared} : whole(1));
    dims.push_back(whole(shape[2]));
    dims.push_back(whole(shape[3]));
    return dims;
  };
  const auto dims_of = [&](std::size_t place, const Shape& shape) {
    switch (place % 7) {  // q, k, v, bias, mask, out, lse
      case 1:
      case 2:
        return keys(shape);
      case 3:
      case 4:
        return logits(shape);
      default:
        return queries(shape);
    }
  };
  const bool is_grad = context.outputs.size() == 4;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    factors.operands.push_back(is_grad && i >= 7 ? queries(context.inputs[i].shape)
                                                 : dims_of(i, context.inputs[i].shape));
  }
  for (std::size_t i = 0; i < context.outputs.size(); ++i) {
    factors.results.push_back(is_grad ? dims_of(i, context.outputs[i].shape) : queries(context.outputs[i].shape));
  }
  return factors;
}

}  // namespace

const Primitive& primitives::attention() {
  static const Primitive op{
      .name = "attention",
      .infer = attention_infer,
      .derivative = derivative::jvp(attention_jvp),
      .batch = [](const ir::BatchContext& c) { return batch_attention(c, primitives::attention(), false); },
      .reference = attention_reference,
      .flops = attention_flops(2),
      .samples = attention_samples,
      .error_samples = [] { return shape_errors({}); },
      .traits = {},
      .layout = {.factors = attention_factors}};
  return op;
}

const Primitive& primitives::attention_tangent() {
  static const Primitive op{
      .name = "attention_tangent",
      .infer = tangent_infer,
      .derivative = derivative::linear(tangent_transpose, {7, 8, 9, 10}, tangent_of_attention_tangent),
      .batch = [](const ir::BatchContext& c) { return batch_attention(c, primitives::attention_tangent(), false); },
      .reference = tangent_reference,
      .flops = attention_flops(5),
      .samples = attention_tangent_samples,
      .error_samples =
          [] {
            const ArrayType q{DType::float32, {2, 3, 4, 5}, {}}, k{DType::float32, {2, 6, 2, 5}, {}};
            const ArrayType lse{DType::float32, {2, 3, 4}, {}}, bias{DType::float32, {1, 1, 1, 1}, {}};
            return shape_errors({q, lse, q, k, k, bias});
          },
      .traits = {},
      .layout = {.factors = attention_factors}};
  return op;
}

const Primitive& primitives::attention_grad() {
  static const Primitive op{
      .name = "attention_grad",
      .infer = grad_infer,
      .derivative = derivative::linear(grad_transpose, {7, 8}, tangent_of_attention_grad),
      .batch = [](const ir::BatchContext& c) { return batch_attention(c, primitives::attention_grad(), true); },
      .reference = grad_reference,
      .flops = attention_flops(5),
      .samples = grad_samples,
      .error_samples =
          [] {
            const ArrayType q{DType::float32, {2, 3, 4, 5}, {}}, lse{DType::float32, {2, 3, 4}, {}};
            return shape_errors({q, lse, q, lse});
          },
      .traits = {},
      .layout = {.factors = attention_factors}};
  return op;
}

}  // namespace lockstep::ops
