#include <limits>
#include <map>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

/// Attention with T x S matrices in memory: logits are [B, N, T, S], queries [B, T, N, H], keys [B, S, K, H] with K a
/// divisor of N. What is not an operand of the forward product is in the dtype of the logits.
class Matrices {
 public:
  explicit Matrices(const Lowering& l, DType wide)
      : l_(l),
        q_(l.x().type.shape),
        keys_(l.operands[1].type.shape),
        logits_{wide, {q_[0], q_[2], q_[1], keys_[1]}, {}} {}

  Term wide(const Term& x) const { return l_.out.convert(x, logits_.dtype); }
  Term queries(std::size_t i) const { return wide(l_.operands[i]); }
  Term keys(std::size_t i) const { return wide(repeated(i)); }

  /// Keys with each head repeated for the queries that share it: [B, S, N, H].
  Term repeated(std::size_t i) const {
    const Term& x = l_.operands[i];
    if (keys_[2] == q_[2]) return x;
    const Shape apart{keys_[0], keys_[1], keys_[2], q_[2] / keys_[2], keys_[3]};
    return l_.out.reshape(l_.out.broadcast(x, apart, {0, 1, 2, 4}), {keys_[0], keys_[1], q_[2], keys_[3]});
  }
  /// The transpose of that: summed over the queries that share a head.
  Term shared(const Term& x) const {
    if (keys_[2] == q_[2]) return x;
    return l_.out.reduce("stablehlo.add", l_.out.reshape(x, {keys_[0], keys_[1], keys_[2], q_[2] / keys_[2], keys_[3]}),
                         {3});
  }

  Term scores(const Term& queries, const Term& keys) const {
    return l_.out.dot(queries, keys, {{3}, {3}}, {{0, 2}, {0, 2}}, logits_);
  }
  /// A matrix by keys, at the queries.
  Term mixed(const Term& matrix, const Term& keys) const {
    const ArrayType type{logits_.dtype, {q_[0], q_[2], q_[1], q_[3]}, {}};
    return l_.out.transpose(l_.out.dot(matrix, keys, {{3}, {1}}, {{0, 1}, {0, 2}}, type), {0, 2, 1, 3});
  }
  /// A transposed matrix by queries, at the keys.
  Term collected(const Term& matrix, const Term& queries) const {
    const ArrayType type{logits_.dtype, {q_[0], q_[2], keys_[1], q_[3]}, {}};
    return shared(l_.out.transpose(l_.out.dot(matrix, queries, {{2}, {1}}, {{0, 1}, {0, 2}}, type), {0, 2, 1, 3}));
  }

  /// Which keys a query sees: the mask, and the window around it.
  Term visible() const {
    Term visible = l_.out.broadcast(l_.operands[4], logits_.shape, {0, 1, 2, 3});
    const auto window = l_.attrs().get<Integers>("window");
    const ArrayType places{DType::int32, logits_.shape, {}};
    for (std::size_t side = 0; side < 2; ++side) {
      if (window[side] < 0) continue;
      const Term query = l_.out.iota(places, 2), key = l_.out.iota(places, 3);
      const Term ahead =
          side == 0 ? l_.out.binary("stablehlo.subtract", query, key) : l_.out.binary("stablehlo.subtract", key, query);
      const Term inside = l_.out.compare("LE", ahead, l_.out.splat_integer(places, window[side]));
      visible = l_.out.binary("stablehlo.and", visible, inside);
    }
    return visible;
  }
  Term where_seen(const Term& x) const { return l_.out.select(visible(), x, l_.out.splat(logits_, 0)); }
  Term scaled(const Term& x) const {
    return l_.out.binary("stablehlo.multiply", x, l_.out.splat(logits_, l_.attrs().get<double>("scale")));
  }
  /// A bias at every logit, and the transpose of that.
  Term bias(std::size_t i) const { return wide(l_.out.broadcast(l_.operands[i], logits_.shape, {0, 1, 2, 3})); }
  Term bias_sum(const Term& x) const {
    const Shape& shape = l_.operands[3].type.shape;
    Integers summed;
    for (int d = 0; d < 4; ++d) {
      if (shape[d] != logits_.shape[d]) summed.push_back(d);
    }
    return l_.out.reshape(summed.empty() ? x : l_.out.reduce("stablehlo.add", x, summed), shape.to_vector());
  }
  /// A number of each query, [B, N, T], beside every logit.
  Term spread(const Term& x) const { return l_.out.broadcast(x, logits_.shape, {0, 1, 2}); }
  Term row_sums(const Term& x) const { return l_.out.reduce("stablehlo.add", x, {3}); }
  /// [B, N, T] as [B, T, N] and back.
  Term turned(const Term& x) const { return l_.out.transpose(x, {0, 2, 1}); }

  struct Softmax {
    Term weights, log_sums;
  };
  Softmax softmax() const {
    const Term scores_here = scores(l_.x(), repeated(1));
    const Term least = l_.out.splat(logits_, -0.7 * static_cast<double>(std::numeric_limits<float>::max()));
    const Term masked = l_.out.select(visible(), l_.out.binary("stablehlo.add", scaled(scores_here), bias(3)), least);
    const Term largest = l_.out.reduce("stablehlo.maximum", masked, {3});
    const Term apart = l_.out.binary("stablehlo.subtract", masked, spread(largest));
    const Term raised = l_.out.op("stablehlo.exponential", {apart}, logits_);
    const Term sums = row_sums(raised);
    return {l_.out.binary("stablehlo.divide", raised, spread(sums)),
            l_.out.binary("stablehlo.add", l_.out.op("stablehlo.log", {sums}, sums.type), largest)};
  }

 private:
  const Lowering& l_;
  Shape q_, keys_;
  ArrayType logits_;
};

/// softmax(scale q k^T + bias) v, and the log-sum-exp of the logits.
Terms attention(const Lowering& l) {
  const Matrices m(l, l.types[1].dtype);
  const Shape& q = l.x().type.shape;
  const auto [weights, log_sums] = m.softmax();
  const Term v = m.repeated(2);
  const ArrayType mixed{l.type().dtype, Shape{q[0], q[2], q[3], q[1]}, {}};
  const Term out = l.out.dot(v, l.out.convert(weights, v.type.dtype), {{1}, {3}}, {{0, 2}, {0, 1}}, mixed);
  return {l.out.transpose(out, {0, 3, 1, 2}), l.out.convert(m.turned(log_sums), l.types[1].dtype)};
}

/// Of what attention gave (operands 5 and 6), for tangents of queries, keys, values and bias (from operand 7 on).
Terms attention_tangent(const Lowering& l) {
  const Matrices m(l, l.types[1].dtype);
  const Term p = m.softmax().weights;
  const Term products =
      l.out.binary("stablehlo.add", m.scores(m.queries(7), m.keys(1)), m.scores(m.queries(0), m.keys(8)));
  const Term ds = m.where_seen(l.out.binary("stablehlo.add", m.scaled(products), m.bias(10)));
  const Term pds = l.out.binary("stablehlo.multiply", p, ds);
  const Term log_sums = m.turned(m.row_sums(pds));
  const Term sum = l.out.binary("stablehlo.add", m.mixed(pds, m.keys(2)), m.mixed(p, m.keys(9)));
  const Term moved =
      l.out.binary("stablehlo.multiply", l.out.broadcast(log_sums, sum.type.shape, {0, 1, 2}), m.queries(5));
  return {l.out.convert(l.out.binary("stablehlo.subtract", sum, moved), l.type().dtype), log_sums};
}

/// Likewise, for cotangents of its results (operands 7 and 8).
Terms attention_grad(const Lowering& l) {
  const Matrices m(l, l.operands[6].type.dtype);
  const Term p = m.softmax().weights, cotangent = m.queries(7);
  const Term projected =
      l.out.reduce("stablehlo.add", l.out.binary("stablehlo.multiply", cotangent, m.queries(5)), {3});
  const Term rest = m.turned(l.out.binary("stablehlo.subtract", l.operands[8], projected));
  const Term slope = l.out.binary("stablehlo.add", m.scores(cotangent, m.keys(2)), m.spread(rest));
  const Term ds = m.where_seen(l.out.binary("stablehlo.multiply", p, slope)), scaled = m.scaled(ds);
  const Terms wide = {m.mixed(scaled, m.keys(1)), m.collected(scaled, m.queries(0)), m.collected(p, cotangent),
                      m.bias_sum(ds)};
  Terms results;
  for (const Term& x : wide) results.push_back(l.out.convert(x, l.type().dtype));
  return results;
}

}  // namespace

LoweringRule attention_rule(const ir::Primitive& primitive) {
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::attention(), attention},
      {&primitives::attention_tangent(), attention_tangent},
      {&primitives::attention_grad(), attention_grad},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
