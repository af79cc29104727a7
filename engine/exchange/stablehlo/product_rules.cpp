#include <string>
#include <utility>

#include <fmt/format.h>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Terms dot_rule(const Lowering& l) {
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
std::string numbered_dimensions(std::string_view text, std::size_t count) {
  std::string spatial;
  for (std::size_t d = 0; d < count; ++d) spatial += (d == 0 ? "" : ", ") + std::to_string(d);
  std::string result;
  for (const char c : text) result += c == '*' ? spatial : std::string(1, c);
  return result;
}

Term convolution(const Lowering& l, const Term& x, const Term& kernel, std::string_view numbers,
                 const Integers& strides, const Pairs& padding, const Integers& lhs_dilation,
                 const Integers& rhs_dilation, std::int64_t feature_groups, std::int64_t batch_groups = 1) {
  return l.out.op(
      "stablehlo.convolution", {x, kernel}, l.type(),
      fmt::format(
          "batch_group_count = {} : i64, dimension_numbers = #stablehlo.conv<{}>, feature_group_count = {} : i64, "
          "lhs_dilation = {}, padding = {}, rhs_dilation = {}, window_strides = {}",
          batch_groups, numbered_dimensions(numbers, strides.size()), feature_groups, array_attribute(lhs_dilation),
          pairs_attribute(padding), array_attribute(rhs_dilation), array_attribute(strides)));
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
  const Integers window = l.attrs().get<Integers>("window");
  Pairs padding;
  for (std::size_t d = 0; d < g.count; ++d) {
    const auto i = static_cast<int>(d + 1);
    const std::int64_t reach = (window[d] - 1) * g.dilation[d] + (l.operands[1].type.shape[i] - 1) * g.strides[d] + 1;
    padding.emplace_back(g.padding[d].first, reach - l.x().type.shape[i] - g.padding[d].first);
  }
  return {convolution(l, l.x(), l.operands[1], "[f, *, b]x[i, *, o]->[*, b, f]", g.dilation, padding,
                      Integers(g.count, 1), g.strides, 1, g.groups)};
}

}  // namespace

LoweringRule product_rule(const ir::Primitive& primitive) {
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::dot_general(), dot_rule},
      {&primitives::conv(), convolved},
      {&primitives::conv_input_grad(), input_gradient},
      {&primitives::conv_kernel_grad(), kernel_gradient},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
