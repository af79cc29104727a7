#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Terms product(const Lowering& l) {
  return {l.out.dot(l.x(), l.operands[1], l.attrs().get<std::vector<Integers>>("contract"),
                    l.attrs().get<std::vector<Integers>>("batch"), l.type())};
}

/// A convolution as it is here: window, strides, padding and dilations per spatial dimension.
struct Geometry {
  Integers strides, dilation;
  Pairs padding;
  std::int64_t groups = 1;
  std::size_t count = 0;

  explicit Geometry(const Lowering& l)
      : strides(l.attrs().get<Integers>("strides")),
        dilation(l.attrs().get<Integers>("dilation")),
        groups(l.attrs().get<std::int64_t>("groups")),
        count(strides.size()) {
    for (const Integers& pair : l.attrs().get<std::vector<Integers>>("padding")) padding.emplace_back(pair[0], pair[1]);
  }
};

/// "[b, 0, 1, f]" with the spatial dimensions where `text` has '*'.
std::string numbered(std::string_view text, std::size_t count) {
  std::string spatial;
  for (std::size_t d = 0; d < count; ++d) spatial += (d == 0 ? "" : ", ") + std::to_string(d);
  std::string result;
  for (const char c : text) result += c == '*' ? spatial : std::string(1, c);
  return result;
}

Term convolution(const Lowering& l, const Term& x, const Term& kernel, std::string_view numbers,
                 const Integers& strides, const Pairs& padding, const Integers& lhs_dilation,
                 const Integers& rhs_dilation, std::int64_t groups) {
  return l.out.op(
      "stablehlo.convolution", {x, kernel}, l.type(),
      fmt::format(
          "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<{}>, feature_group_count = {} : i64, "
          "lhs_dilation = {}, padding = {}, rhs_dilation = {}, window_strides = {}",
          numbered(numbers, strides.size()), groups, array_attribute(lhs_dilation), pairs_attribute(padding),
          array_attribute(rhs_dilation), array_attribute(strides)));
}

Terms convolved(const Lowering& l) {
  const Geometry g(l);
  return {convolution(l, l.x(), l.operands[1], "[b, *, f]x[*, i, o]->[b, *, f]", g.strides, g.padding,
                      Integers(g.count, 1), g.dilation, g.groups)};
}

/// The kernel flipped, each group's inputs and outputs exchanged: [window..., O/g, C].
Term flipped_kernel(const Lowering& l, const Geometry& g) {
  const Term& kernel = l.operands[1];
  Integers dims, shape = kernel.type.shape.to_vector();
  for (std::size_t d = 0; d < g.count; ++d) dims.push_back(static_cast<std::int64_t>(d));
  const Term flipped = l.out.op("stablehlo.reverse", {kernel}, kernel.type, "dimensions = " + array_attribute(dims));
  const std::int64_t inputs = shape[g.count], outputs = shape[g.count + 1] / g.groups;
  shape.resize(g.count);
  Integers split = shape, order = dims;
  split.insert(split.end(), {inputs, g.groups, outputs});
  const auto at = static_cast<std::int64_t>(g.count);
  order.insert(order.end(), {at + 2, at + 1, at});
  shape.insert(shape.end(), {outputs, g.groups * inputs});
  return l.out.reshape(l.out.transpose(l.out.reshape(flipped, split), order), shape);
}

Terms input_gradient(const Lowering& l) {
  const Geometry g(l);
  const Integers spatial = l.attrs().get<Integers>("spatial");
  Pairs padding;
  for (std::size_t d = 0; d < g.count; ++d) {
    const auto i = static_cast<int>(d);
    const std::int64_t reach = (l.operands[1].type.shape[i] - 1) * g.dilation[d];
    const std::int64_t low = reach - g.padding[d].first;
    const std::int64_t dilated = (l.x().type.shape[i + 1] - 1) * g.strides[d] + 1;
    padding.emplace_back(low, spatial[d] - dilated - low + reach);
  }
  return {convolution(l, l.x(), flipped_kernel(l, g), "[b, *, f]x[*, i, o]->[b, *, f]", Integers(g.count, 1), padding,
                      g.strides, g.dilation, g.groups)};
}

Terms kernel_gradient(const Lowering& l) {
  const Geometry g(l);
  if (g.groups != 1) l.refuse("a gradient of a grouped convolution is not written; export the prediction");
  const Integers window = l.attrs().get<Integers>("window");
  Pairs padding;
  for (std::size_t d = 0; d < g.count; ++d) {
    const auto i = static_cast<int>(d + 1);
    const std::int64_t reach = (window[d] - 1) * g.dilation[d] + (l.operands[1].type.shape[i] - 1) * g.strides[d] + 1;
    padding.emplace_back(g.padding[d].first, reach - l.x().type.shape[i] - g.padding[d].first);
  }
  return {convolution(l, l.x(), l.operands[1], "[f, *, b]x[i, *, o]->[*, b, f]", g.dilation, padding,
                      Integers(g.count, 1), g.strides, 1)};
}

/// [B, S, K, H] with each head repeated for the queries that share it.
Term repeated_heads(const Lowering& l, const Term& x, std::int64_t heads) {
  const Shape& s = x.type.shape;
  if (s[2] == heads) return x;
  const std::int64_t times = heads / s[2];
  return l.out.reshape(l.out.broadcast(x, Shape{s[0], s[1], s[2], times, s[3]}, {0, 1, 2, 4}),
                       {s[0], s[1], heads, s[3]});
}

/// Which keys a query sees: the mask, and the window around it.
Term visible_keys(const Lowering& l, const Shape& shape) {
  Term visible = l.out.broadcast(l.operands[4], shape, {0, 1, 2, 3});
  const auto window = l.attrs().get<Integers>("window");
  const ArrayType places{DType::int32, shape, {}};
  for (std::size_t side = 0; side < 2; ++side) {
    if (window[side] < 0) continue;
    const Term query = l.out.iota(places, 2), key = l.out.iota(places, 3);
    const Term ahead =
        side == 0 ? l.out.binary("stablehlo.subtract", query, key) : l.out.binary("stablehlo.subtract", key, query);
    const Term inside = l.out.compare("LE", ahead, l.out.splat_integer(places, window[side]));
    visible = l.out.binary("stablehlo.and", visible, inside);
  }
  return visible;
}

/// softmax(scale q k^T + bias) v, and the log-sum-exp of the logits, with a T x S matrix in memory.
Terms attention(const Lowering& l) {
  const Shape q = l.x().type.shape;
  const std::int64_t length = l.operands[1].type.shape[1];
  const Term k = repeated_heads(l, l.operands[1], q[2]), v = repeated_heads(l, l.operands[2], q[2]);
  const ArrayType logits{DType::float32, Shape{q[0], q[2], q[1], length}, {}};
  const Term scores = l.out.dot(l.x(), k, {{3}, {3}}, {{0, 2}, {0, 2}}, logits);
  const Term scaled = l.out.binary("stablehlo.multiply", scores, l.out.splat(logits, l.attrs().get<double>("scale")));
  const Term bias = l.out.convert(l.out.broadcast(l.operands[3], logits.shape, {0, 1, 2, 3}), logits.dtype);
  const Term least = l.out.splat(logits, -0.7 * static_cast<double>(std::numeric_limits<float>::max()));
  const Term masked = l.out.select(visible_keys(l, logits.shape), l.out.binary("stablehlo.add", scaled, bias), least);
  const Term largest = l.out.reduce("stablehlo.maximum", masked, {3});
  const Term apart = l.out.binary("stablehlo.subtract", masked, l.out.broadcast(largest, logits.shape, {0, 1, 2}));
  const Term raised = l.out.op("stablehlo.exponential", {apart}, logits);
  const Term sums = l.out.reduce("stablehlo.add", raised, {3});
  const Term weights = l.out.binary("stablehlo.divide", raised, l.out.broadcast(sums, logits.shape, {0, 1, 2}));
  const ArrayType mixed{l.type().dtype, Shape{q[0], q[2], q[3], q[1]}, {}};
  const Term out = l.out.dot(v, l.out.convert(weights, v.type.dtype), {{1}, {3}}, {{0, 2}, {0, 1}}, mixed);
  const Term sum = l.out.binary("stablehlo.add", l.out.op("stablehlo.log", {sums}, sums.type), largest);
  return {l.out.transpose(out, {0, 3, 1, 2}), l.out.convert(l.out.transpose(sum, {0, 2, 1}), l.types[1].dtype)};
}

}  // namespace

LoweringRule product_rule(const ir::Primitive& primitive) {
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::dot_general(), product},
      {&primitives::conv(), convolved},
      {&primitives::conv_input_grad(), input_gradient},
      {&primitives::conv_kernel_grad(), kernel_gradient},
      {&primitives::attention(), attention},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
