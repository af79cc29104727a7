#include "engine/ops/attention/decomposition.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "engine/ops/attention/geometry.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

using ops::operator+;
using ops::operator-;
using ops::operator*;

/// A value with its tangent: formulas in these are differentiated as they are written down.
struct Dual {
  Value x;
  Tangent dx;
};

using Linear = std::function<Value(const Value&)>;
using Bilinear = std::function<Value(const Value&, const Value&)>;

Dual map_dual(const Dual& a, const Linear& f) { return {f(a.x), a.dx ? Tangent(f(*a.dx)) : Tangent()}; }

Dual product(const Dual& a, const Dual& b, const Bilinear& f) {
  Tangent dx;
  if (a.dx) dx = f(*a.dx, b.x);
  if (b.dx) dx = derivative::add_tangents(dx, f(a.x, *b.dx));
  return {f(a.x, b.x), dx};
}

Dual operator+(const Dual& a, const Dual& b) { return {a.x + b.x, derivative::add_tangents(a.dx, b.dx)}; }
Dual operator-(const Dual& a, const Dual& b) {
  const Tangent minus = b.dx ? Tangent(neg(*b.dx)) : Tangent();
  return {a.x - b.x, derivative::add_tangents(a.dx, minus)};
}
Dual operator*(const Dual& a, const Dual& b) {
  return product(a, b, [](const Value& u, const Value& v) { return u * v; });
}
Dual operator*(double factor, const Dual& a) {
  return map_dual(a, [factor](const Value& u) { return factor * u; });
}

Value dot(const Value& a, const Value& b, const Dims& contract_a, const Dims& contract_b, const Dims& batch_a,
          const Dims& batch_b) {
  return apply_one(
      primitives::dot_general(), {a, b},
      {{"contract", std::vector<Dims>{contract_a, contract_b}}, {"batch", std::vector<Dims>{batch_a, batch_b}}});
}

/// Attention in whole matrices. Queries are [B,T,K,G,H], keys [B,S,K,H], matrices [B,K,T,G,S], columns [B,K,T,G].
class Matrices {
 public:
  explicit Matrices(const JvpContext& context) : context_(context) {
    std::vector<ArrayType> types;
    for (const Value& input : context.inputs) types.push_back(input.type());
    g_ = attention_geometry({"attention", types, context.attrs, {}});
    wide_ = logits_dtype(types[0].dtype);
  }

  /// Operand `i` in the dtype of the logits.
  Dual operand(std::size_t i) const {
    return map_dual({context_.inputs[i], context_.tangents[i]}, [this](const Value& x) { return convert(x, wide_); });
  }
  Dual queries(std::size_t i) const {
    return map_dual(operand(i), [this](const Value& x) { return reshape(x, grouped()); });
  }
  Dual column(std::size_t i) const {
    return map_dual(operand(i), [this](const Value& x) {
      return transpose(reshape(x, grouped().erase(4)), {0, 2, 1, 3});
    });
  }
  /// A bias [b,n,t,s] at every logit.
  Dual bias(std::size_t i) const {
    return map_dual(operand(i), [this](const Value& x) { return at_logits(x); });
  }

  Dual scores(const Dual& q, const Dual& k) const {
    return product(q, k, [](const Value& a, const Value& b) { return dot(a, b, {4}, {3}, {0, 2}, {0, 2}); });
  }
  /// [B,K,T,G,S] times keys: queries.
  Dual mixed(const Dual& p, const Dual& v) const {
    return product(p, v, [](const Value& a, const Value& b) {
      return transpose(dot(a, b, {4}, {1}, {0, 1}, {0, 2}), {0, 2, 1, 3, 4});
    });
  }
  /// [B,K,T,G,S] transposed times queries: keys.
  Dual collected(const Dual& p, const Dual& q) const {
    return product(p, q, [](const Value& a, const Value& b) {
      return transpose(dot(a, b, {2, 3}, {1, 3}, {0, 1}, {0, 2}), {0, 2, 1, 3});
    });
  }
  Dual row_sums(const Dual& p) const {
    return map_dual(p, [](const Value& x) { return reduce_sum(x, {4}); });
  }
  /// A column beside every logit.
  Dual spread(const Dual& column) const {
    return map_dual(column, [this](const Value& x) { return broadcast_in_dim(x, logits(), {0, 1, 2, 3}); });
  }
  /// A column beside every feature of the queries.
  Dual per_feature(const Dual& column) const {
    return map_dual(column, [this](const Value& x) {
      return broadcast_in_dim(transpose(x, {0, 2, 1, 3}), grouped(), {0, 1, 2, 3});
    });
  }
  Dual feature_sums(const Dual& q) const {
    return map_dual(q, [](const Value& x) { return transpose(reduce_sum(x, {4}), {0, 2, 1, 3}); });
  }

  /// x where the key is seen, else 0.
  Dual seen(const Dual& x) const {
    const Value mask = visible();
    return map_dual(x, [&](const Value& v) { return select(mask, v, full_like(v, 0)); });
  }
  /// The softmax of the logits of the keys that are seen, 0 for the others; the same for all keys where a query sees none.
  /// The saved log-sum-exp only shifts exponents: where logits are large, it has lost the row's sum.
  Dual probabilities() const {
    const Dual all = g_.scale * scores(queries(0), operand(1)) + bias(3);
    const Value mask = visible();
    const Value none = full_like(all.x, 0), ones = full_like(all.x, 1);
    const auto sums = [this](const Value& x) { return broadcast_in_dim(reduce_sum(x, {4}), logits(), {0, 1, 2, 3}); };
    const Value is_blind = equal(sums(select(mask, ones, none)), none);
    const Value blind = select(is_blind, full_like(none, 1.0 / static_cast<double>(g_.keys)), none);
    const Value weights = select(mask, exp(select(mask, all.x - spread(column(6)).x, none)), none);
    const Value p = select(mask, weights / select(is_blind, ones, sums(weights)), blind);
    Tangent dp;
    if (all.dx) {
      const Value seen_dx = select(mask, *all.dx, none);
      dp = p * (seen_dx - sums(p * seen_dx));
    }
    return {p, dp};
  }

  /// Back to [B,T,N,H] or [B,T,N], tangents only, in the dtype of operand 0 or of the logits.
  Tangent query_tangent(const Dual& q) const { return shaped(q.dx, g_.q(), context_.inputs[0].dtype()); }
  Tangent key_tangent(const Dual& k) const { return shaped(k.dx, g_.k(), context_.inputs[0].dtype()); }
  Tangent column_tangent(const Dual& column) const {
    return column.dx ? Tangent(reshape(transpose(*column.dx, {0, 2, 1, 3}), g_.lse())) : Tangent();
  }
  /// Summed to the shape of the bias.
  Tangent bias_tangent(const Dual& p) const {
    if (!p.dx) return {};
    const Value whole = reshape(transpose(*p.dx, {0, 1, 3, 2, 4}), whole_bias());
    Dims summed;
    for (int d = 0; d < 4; ++d) {
      if (g_.bias[d] == 1 && whole.shape()[d] != 1) summed.push_back(d);
    }
    return shaped(reduce_sum(whole, summed), g_.bias, context_.inputs[0].dtype());
  }
  double scale() const { return g_.scale; }

 private:
  Shape grouped() const { return {g_.batch, g_.queries, g_.key_heads, g_.group(), g_.features}; }
  Shape logits() const { return {g_.batch, g_.key_heads, g_.queries, g_.group(), g_.keys}; }
  Shape whole_bias() const { return {g_.batch, g_.heads, g_.queries, g_.keys}; }

  Value at_logits(const Value& x) const {
    const Value whole = broadcast_in_dim(x, whole_bias(), {0, 1, 2, 3});
    return transpose(reshape(whole, {g_.batch, g_.key_heads, g_.group(), g_.queries, g_.keys}), {0, 1, 3, 2, 4});
  }
  /// Which keys each query sees.
  Value visible() const {
    ir::Builder& builder = context_.builder;
    Value mask = at_logits(context_.inputs[4]);
    const Value distance = iota(builder, DType::int64, logits(), 4) - iota(builder, DType::int64, logits(), 2);
    const auto bound = [&](std::int64_t n) { return full_like(distance, static_cast<double>(n)); };
    if (g_.left >= 0) mask = bitwise_and(mask, greater_equal(distance, bound(-g_.left)));
    if (g_.right >= 0) mask = bitwise_and(mask, less_equal(distance, bound(g_.right)));
    return mask;
  }
  Tangent shaped(const Tangent& x, const Shape& shape, DType dtype) const {
    return x ? Tangent(convert(reshape(*x, shape), dtype)) : Tangent();
  }

  const JvpContext& context_;
  AttentionGeometry g_;
  DType wide_;
};

std::vector<Tangent> written_out_tangent(const JvpContext& context) {
  const Matrices m(context);
  const Dual k = m.operand(1), v = m.operand(2), q = m.queries(0);
  const Dual p = m.probabilities();
  const Dual logits = m.seen(m.scale() * (m.scores(m.queries(7), k) + m.scores(q, m.operand(8))) + m.bias(10));
  const Dual weighted = p * logits;
  const Dual lse = m.row_sums(weighted);
  const Dual out = m.mixed(weighted, v) + m.mixed(p, m.operand(9)) - m.per_feature(lse) * m.queries(5);
  return {m.query_tangent(out), m.column_tangent(lse)};
}

std::vector<Tangent> written_out_grad(const JvpContext& context) {
  const Matrices m(context);
  const Dual k = m.operand(1), v = m.operand(2), q = m.queries(0), ct = m.queries(7);
  const Dual p = m.probabilities();
  const Dual constant = m.column(8) - m.feature_sums(ct * m.queries(5));
  const Dual logits = m.seen(p * (m.scores(ct, v) + m.spread(constant)));
  return {m.query_tangent(m.scale() * m.mixed(logits, k)), m.key_tangent(m.scale() * m.collected(logits, q)),
          m.key_tangent(m.collected(p, ct)), m.bias_tangent(logits)};
}

/// From operand 7 on the ops are linear, so these tangents go through the op itself; only those of the operands before
/// need it written out.
std::vector<Tangent> by_parts(const JvpContext& context, const Primitive& self,
                              std::vector<Tangent> (*written_out)(const JvpContext&)) {
  constexpr std::ptrdiff_t first_linear = 7;
  const auto present = [](const Tangent& t) { return t.has_value(); };
  std::vector<Tangent> tangents(context.tangents.begin(), context.tangents.end());
  const bool linear = std::any_of(tangents.begin() + first_linear, tangents.end(), present);
  std::fill(tangents.begin() + first_linear, tangents.end(), Tangent());
  std::vector<Tangent> result(context.outputs.size());
  if (std::any_of(tangents.begin(), tangents.end(), present)) {
    result = written_out({context.builder, context.attrs, context.inputs, context.outputs, tangents});
  }
  if (!linear) return result;
  std::vector<Value> operands(context.inputs.begin(), context.inputs.begin() + first_linear);
  for (std::size_t i = first_linear; i < context.inputs.size(); ++i) {
    operands.push_back(derivative::or_zeros(context.builder, context.tangents[i], context.inputs[i].type()));
  }
  const std::vector<Value> through = apply(self, operands, context.attrs);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = derivative::add_tangents(result[i], through[i]);
  return result;
}

}  // namespace

std::vector<Tangent> tangent_of_attention_tangent(const JvpContext& context) {
  return by_parts(context, primitives::attention_tangent(), written_out_tangent);
}

std::vector<Tangent> tangent_of_attention_grad(const JvpContext& context) {
  return by_parts(context, primitives::attention_grad(), written_out_grad);
}

}  // namespace lockstep::ops
