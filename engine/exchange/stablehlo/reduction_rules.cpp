#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "engine/exchange/stablehlo/element_wise.h"
#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

Terms reduction(const Lowering& l) {
  const std::string_view name = find_shared(reductions(), *l.equation.primitive)->name;
  return {l.out.reduce(name, l.x(), l.attrs().get<Integers>("axes"))};
}

/// The largest (or least) and its position, as jax.numpy.argmax is exported.
Terms position(const Lowering& l) {
  const bool largest = l.equation.primitive == &primitives::argmax();
  const auto axis = l.attrs().get<std::int64_t>("axis");
  const DType dtype = l.x().type.dtype;
  const ArrayType value{dtype, {}, {}}, place{l.type().dtype, {}, {}};
  const Term places = l.out.iota({place.dtype, l.x().type.shape, {}}, axis);
  const Terms starts = {l.out.neutral(largest ? "stablehlo.maximum" : "stablehlo.minimum", dtype),
                        l.out.splat_integer(place, 0)};
  const std::string block = l.out.region({value, place, value, place}, [&](const Terms& a) {
    const ArrayType truth{DType::bool_, {}, {}};
    const Term beyond = l.out.compare(largest ? "GT" : "LT", a[0], a[2]);
    const Term wins = l.out.op("stablehlo.or", {beyond, l.out.compare("NE", a[0], a[0])}, truth);
    const Term equal = l.out.compare("EQ", a[0], a[2]), earlier = l.out.compare("LT", a[1], a[3]);
    const Term first = l.out.op("stablehlo.and", {equal, earlier}, truth);
    const Term placed = l.out.op("stablehlo.or", {wins, first}, truth);
    return Terms{l.out.select(wins, a[0], a[2]), l.out.select(placed, a[1], a[3])};
  });
  const Terms both =
      l.out.ops("stablehlo.reduce", {l.x(), places, starts[0], starts[1]}, {{dtype, l.type().shape, {}}, l.type()},
                "dimensions = " + array_attribute({axis}), {block});
  return {both[1]};
}

Terms largest_few(const Lowering& l) {
  return l.out.ops("chlo.top_k", {l.x()}, l.types, fmt::format("k = {} : i64", l.attrs().get<std::int64_t>("k")), {});
}

/// One value for both zeros, and one for all NaN.
Term canonical(Exporter& out, const Term& x) {
  const Term zero = out.splat(x.type, 0), nan = out.splat(x.type, std::numeric_limits<double>::quiet_NaN());
  const Term no_sign = out.select(out.compare("EQ", x, zero), zero, x);
  return out.select(out.compare("NE", x, x), nan, no_sign);
}

/// What an element is ordered by: of complex ones the real part first.
void append_keys(Exporter& out, const Term& x, Terms& keys) {
  if (is_complex(x.type.dtype)) {
    const ArrayType part{x.type.dtype == DType::complex64 ? DType::float32 : DType::float64, {}, {}};
    for (const char* name : {"stablehlo.real", "stablehlo.imag"}) {
      keys.push_back(canonical(out, out.op(name, {x}, part)));
    }
  } else {
    keys.push_back(is_float(x.type.dtype) ? canonical(out, x) : x);
  }
}

Terms sorted(const Lowering& l) {
  const auto keys = static_cast<std::size_t>(l.attrs().get<std::int64_t>("num_keys"));
  std::vector<ArrayType> scalars;
  for (const Term& operand : l.operands) {
    scalars.push_back({operand.type.dtype, {}, {}});
    scalars.push_back(scalars.back());
  }
  const std::string block = l.out.region(scalars, [&](const Terms& a) {
    Terms left, right;
    for (std::size_t i = 0; i < keys; ++i) {
      append_keys(l.out, a[2 * i], left);
      append_keys(l.out, a[2 * i + 1], right);
    }
    Term less;
    for (std::size_t i = left.size(); i-- > 0;) {
      const Term &x = left[i], &y = right[i];
      const bool of_floats = is_float(x.type.dtype);
      if (i + 1 == left.size()) {
        less = l.out.compare("LT", x, y, of_floats);
        continue;
      }
      const Term tie = l.out.binary("stablehlo.and", l.out.compare("EQ", x, y, of_floats), less);
      less = l.out.binary("stablehlo.or", l.out.compare("LT", x, y, of_floats), tie);
    }
    return Terms{less};
  });
  return l.out.ops("stablehlo.sort", l.operands, l.types,
                   fmt::format("dimension = {} : i64, is_stable = true", l.attrs().get<std::int64_t>("axis")), {block});
}

/// All windows that end (or, reversed, begin) at their element.
std::string cumulative_windows(const Lowering& l) {
  const auto axis = static_cast<std::size_t>(l.attrs().get<std::int64_t>("axis"));
  const Shape& shape = l.x().type.shape;
  Integers window(static_cast<std::size_t>(shape.rank()), 1);
  std::vector<std::pair<std::int64_t, std::int64_t>> padding(window.size(), {0, 0});
  window[axis] = std::max<std::int64_t>(1, shape[static_cast<int>(axis)]);
  (l.attrs().get_or<bool>("reverse", false) ? padding[axis].second : padding[axis].first) = window[axis] - 1;
  return "padding = " + pairs_attribute(padding) + ", window_dimensions = " + array_attribute(window);
}
Terms cumulative_rule(const Lowering& l) {
  const std::string_view name = find_shared(cumulative_ops(), *l.equation.primitive)->name;
  const Term start = l.out.neutral(name, l.type().dtype);
  return {l.out.reduce_windows(l.x(), l.type(), cumulative_windows(l), start,
                               [&](const Term& a, const Term& b) { return l.out.binary(name, a, b); })};
}
Terms cumulated_logarithms(const Lowering& l) {
  const Term start = l.out.neutral("stablehlo.maximum", l.type().dtype);
  const auto combine = [&](const Term& a, const Term& b) {
    const auto unary = [&](std::string_view name, const Term& x) { return l.out.op(name, {x}, x.type); };
    const Term larger = l.out.binary("stablehlo.maximum", a, b), apart = l.out.binary("stablehlo.subtract", a, b);
    const Term is_nan = l.out.compare("NE", apart, apart), sum = l.out.binary("stablehlo.add", a, b);
    const Term small = unary("stablehlo.exponential", unary("stablehlo.negate", unary("stablehlo.abs", apart)));
    const Term joined = l.out.binary("stablehlo.add", larger, unary("stablehlo.log_plus_one", small));
    return l.out.select(is_nan, sum, joined);
  };
  return {l.out.reduce_windows(l.x(), l.type(), cumulative_windows(l), start, combine)};
}

/// An attribute of the spatial dimensions of [N, spatial..., C], for all of them.
Integers for_all_dims(const Lowering& l, const char* attribute) {
  Integers values = l.attrs().get_or<Integers>(attribute, {});
  values.resize(static_cast<std::size_t>(l.x().type.shape.rank() - 2), 1);
  values.insert(values.begin(), 1);
  values.push_back(1);
  return values;
}
std::string window_attributes(const Lowering& l) {
  std::vector<std::pair<std::int64_t, std::int64_t>> padding = {{0, 0}};
  for (const Integers& pair : l.attrs().get<std::vector<Integers>>("padding")) padding.emplace_back(pair[0], pair[1]);
  padding.emplace_back(0, 0);
  return "padding = " + pairs_attribute(padding) +
         ", window_dilations = " + array_attribute(for_all_dims(l, "dilation")) +
         ", window_dimensions = " + array_attribute(for_all_dims(l, "window")) +
         ", window_strides = " + array_attribute(for_all_dims(l, "strides"));
}
Term windows(const Lowering& l, std::string_view name) {
  return l.out.reduce_windows(l.x(), l.type(), window_attributes(l), l.out.neutral(name, l.type().dtype),
                              [&](const Term& a, const Term& b) { return l.out.binary(name, a, b); });
}
Terms window_sums(const Lowering& l) { return {windows(l, "stablehlo.add")}; }

/// The larger of two (value, place); of equal ones, and of NaN, that of the lower place.
Terms larger(Exporter& out, const Terms& a) {
  const ArrayType truth{DType::bool_, {}, {}};
  const auto both = [&](std::string_view name, const Term& x, const Term& y) { return out.op(name, {x, y}, truth); };
  Term beats = out.compare("GT", a[0], a[2]), ties = out.compare("EQ", a[0], a[2]);
  if (is_float(a[0].type.dtype)) {
    const Term left = out.compare("NE", a[0], a[0]), right = out.compare("NE", a[2], a[2]);
    const Term alone = both("stablehlo.and", left, out.op("stablehlo.not", {right}, truth));
    beats = both("stablehlo.or", beats, alone);
    ties = both("stablehlo.or", ties, both("stablehlo.and", left, right));
  }
  const Term first = both("stablehlo.and", ties, out.compare("LT", a[1], a[3]));
  const Term wins = both("stablehlo.or", beats, first);
  return {out.select(wins, a[0], a[2]), out.select(wins, a[1], a[3])};
}
Terms window_maxima(const Lowering& l) {
  if (!l.used[1]) {
    const Term values = windows(l, "stablehlo.maximum");
    return {values, values};
  }
  const Shape& shape = l.x().type.shape;
  const std::int64_t plane = shape.size() == 0 ? 0 : shape.size() / (shape[0] * shape.dim(-1));
  const Term flat = l.out.iota({DType::int32, {shape[0], plane, shape.dim(-1)}, {}}, 1);
  const Term places = l.out.reshape(flat, shape.to_vector());
  const ArrayType value{l.x().type.dtype, {}, {}}, place{DType::int32, {}, {}};
  const Term none = l.out.splat_integer(place, std::numeric_limits<std::int32_t>::max());
  const std::string block =
      l.out.region({value, place, value, place}, [&](const Terms& a) { return larger(l.out, a); });
  const Terms starts = {l.out.neutral("stablehlo.maximum", value.dtype), none};
  return l.out.ops("stablehlo.reduce_window", {l.x(), places, starts[0], starts[1]}, l.types, window_attributes(l),
                   {block});
}

/// Windows of stride 1 over y with zeros between and around its elements.
Terms window_sums_spread(const Lowering& l) {
  const Integers window = for_all_dims(l, "window"), dilation = for_all_dims(l, "dilation");
  const auto padding = l.attrs().get<std::vector<Integers>>("padding");
  Integers low(window.size(), 0), high(window.size(), 0), interior = for_all_dims(l, "strides");
  Shape shape = l.x().type.shape;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const auto i = static_cast<int>(d);
    interior[d] -= 1;
    if (d == 0 || d + 1 == window.size()) continue;
    const std::int64_t reach = (window[d] - 1) * dilation[d], wide = (shape[i] - 1) * (interior[d] + 1) + 1;
    low[d] = reach - padding[d - 1][0];
    high[d] = l.type().shape[i] + reach - wide - low[d];
    shape = shape.with(i, l.type().shape[i] + reach);
  }
  const Term zero = l.out.zeros({l.type().dtype, {}, {}});
  const Term spread =
      l.out.op("stablehlo.pad", {l.x(), zero}, {l.type().dtype, shape, {}},
               "edge_padding_high = " + array_attribute(high) + ", edge_padding_low = " + array_attribute(low) +
                   ", interior_padding = " + array_attribute(interior));
  const std::string attributes =
      "window_dilations = " + array_attribute(dilation) + ", window_dimensions = " + array_attribute(window);
  return {l.out.reduce_windows(spread, l.type(), attributes, zero,
                               [&](const Term& a, const Term& b) { return l.out.binary("stablehlo.add", a, b); })};
}

}  // namespace

LoweringRule reduction_rule(const ir::Primitive& primitive) {
  if (find_shared(reductions(), primitive) != nullptr) return reduction;
  if (find_shared(cumulative_ops(), primitive) != nullptr) return cumulative_rule;
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::argmax(), position},
      {&primitives::argmin(), position},
      {&primitives::top_k(), largest_few},
      {&primitives::sort(), sorted},
      {&primitives::window_max(), window_maxima},
      {&primitives::window_sum(), window_sums},
      {&primitives::window_spread(), window_sums_spread},
      {&primitives::cumlogsumexp(), cumulated_logarithms},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
