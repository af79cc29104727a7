#include <algorithm>
#include <numeric>
#include <string>

#include <lockstep/elementwise.h>

#include "engine/exchange/stablehlo/importer.h"

namespace lockstep::exchange {
namespace {

std::vector<Array> broadcast(const OpCall& call) {
  Array x = call.operand(0);
  Axes dims = call.integers({"dims", "broadcast_dimensions"}, {});
  if (dims.size() != static_cast<std::size_t>(x.ndim())) call.refuse("dims must name a place for each dimension");
  if (!std::ranges::is_sorted(dims)) {  // ours ascend
    Axes order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::int64_t d) { return dims[static_cast<std::size_t>(d)]; });
    x = transpose(x, order);
    std::ranges::sort(dims);
  }
  return lax::broadcast_in_dim({x}, {{"shape", call.result().shape.to_vector()}, {"dims", dims}});
}

/// "[0:3, 0:4:2]", or start_indices, limit_indices and strides.
std::vector<Array> slice_call(const OpCall& call) {
  const Array& x = call.operand(0);
  const Axes ones(static_cast<std::size_t>(x.ndim()), 1);
  Axes start = call.integers({"start_indices"}, {}), limit = call.integers({"limit_indices"}, {});
  Axes strides = call.integers({"strides"}, ones);
  if (const mlir::Attribute* ranges = call.find({""})) {
    strides.clear();
    for (const mlir::Attribute& range : ranges->items) {
      if (range.items.empty()) call.refuse("a range must be start:limit or start:limit:stride");
      start.push_back(integers_of({.text = range.text}, call.op.line)[0]);
      limit.push_back(integers_of(range.items[0], call.op.line)[0]);
      strides.push_back(range.items.size() > 1 ? integers_of(range.items[1], call.op.line)[0] : 1);
    }
  }
  return lax::slice({x}, {{"start", start}, {"limit", limit}, {"strides", strides}});
}

std::vector<Array> clamp_call(const OpCall& call) {
  const Shape& shape = call.operand(1).shape();
  const Array low = broadcast_to(call.operand(0), shape), high = broadcast_to(call.operand(2), shape);
  return lax::minimum({lax::maximum({call.operand(1), low}, {})[0], high}, {});
}

/// "format = e5m10", or exponent_bits and mantissa_bits.
std::vector<Array> narrowed(const OpCall& call) {
  std::int64_t exponent = call.integer({"exponent_bits"}, 0), mantissa = call.integer({"mantissa_bits"}, 0);
  if (const mlir::Attribute* format = call.find({"format"})) {
    const std::size_t m = format->text.find('m');
    if (format->text.empty() || format->text[0] != 'e' || m == std::string::npos) {
      call.refuse("its format must be such as e5m10, not " + format->text);
    }
    exponent = integers_of({.text = format->text.substr(1, m - 1)}, call.op.line)[0];
    mantissa = integers_of({.text = format->text.substr(m + 1)}, call.op.line)[0];
  }
  return lax::reduce_precision({call.operand(0)}, {{"exponent_bits", exponent}, {"mantissa_bits", mantissa}});
}

/// Halves away from zero.
Array rounded_away(const Array& x) {
  const Array whole = lax::floor({abs(x)}, {})[0];
  const Array up = where(abs(x) - whole >= 0.5, whole + 1, whole);
  return where(isnan(x), x, copysign(up, x));
}

/// Ours is Hurwitz' zeta function for a given s.
std::vector<Array> zeta_call(const OpCall& call) {
  if (call.op.operands.empty()) call.refuse("its operands are missing");
  const std::optional<double> s = constant_float(call, call.op.operands[0].name);
  if (!s) call.refuse("an s that is not one constant");
  return {zeta(*s, call.operand(1))};
}

/// Dimensions before those of the operand.
std::vector<Array> broadcast_before(const OpCall& call) {
  const Array& x = call.operand(0);
  Axes shape = call.integers({"sizes", "broadcast_sizes"}, {});
  for (int d = 0; d < x.ndim(); ++d) shape.push_back(x.dim(d));
  return {broadcast_to(x, Shape(shape))};
}

/// By repeated squaring; with a negative exponent 1 and -1 keep what they are, all others give 0.
std::vector<Array> integer_power(const OpCall& call) {
  const Array &x = call.operand(0), &exponent = call.operand(1);
  if (x.dtype() != exponent.dtype() || x.shape() != exponent.shape()) {
    call.refuse("a power of " + to_string(x.type()) + " by " + to_string(exponent.type()) + "; expected one type");
  }
  Array result = ones_like(x), square = x, rest = exponent;
  const Array zero = zeros_like(x), one = ones_like(x);
  for (std::size_t bit = 0; bit < 8 * size_of(x.dtype()); ++bit) {
    if (bit > 0) square = square * square;
    result = where((rest & one) != zero, result * square, result);
    rest = lax::shift_right_logical({rest, one}, {})[0];
  }
  if (is_unsigned_integer(x.dtype())) return {result};
  const Array of_minus_one = where((exponent & one) != zero, x, one);
  return {where(exponent < zero, where(x == one, one, where(x == -one, of_minus_one, zero)), result)};
}

/// A region of scalars for each element.
std::vector<Array> map_call(const OpCall& call) {
  if (call.op.regions.size() != 1 || call.operands.empty()) call.refuse("it takes arrays and a region");
  for (const Array& x : call.operands) {
    if (x.shape() != call.operands[0].shape()) call.refuse("its operands must have one shape");
  }
  return for_each_element(call, call.op.regions[0], call.operands);
}

std::vector<Array> iota_of(const OpCall& call) {
  const ArrayType& type = call.result();
  const DType counted = is_complex(type.dtype) ? DType::float64 : type.dtype;
  const Array places = lax::iota(
      {},
      {{"dtype", counted}, {"shape", type.shape.to_vector()}, {"dim", call.integer({"dim", "iota_dimension"}, 0)}})[0];
  return {convert(places, type.dtype)};
}

/// A sum or the like over groups of one device, as jax.export writes it for a mesh of one.
std::vector<Array> joined_over_devices(const OpCall& call) {
  const mlir::Attribute* groups = call.find({"replica_groups"});
  if (groups == nullptr || groups->kind != mlir::Attribute::Kind::dense || groups->type.shape.rank() != 2 ||
      groups->type.shape[1] != 1) {
    call.refuse("it joins values of several devices; expected replica_groups of one device each; export it for one");
  }
  return call.operands;
}

}  // namespace

std::vector<Array> apply_shape_op(const OpCall& call) {
  const std::string& name = call.op.name;
  if (name == "stablehlo.constant") {
    const mlir::Attribute* value = call.find({"value"});
    if (value == nullptr || value->kind != mlir::Attribute::Kind::dense) {
      call.refuse("its value is not in the text (dense<...>); export it without eliding constants");
    }
    return {dense_constant(*value, call.result(), call.op.line)};
  }
  if (name == "chlo.zeta") return zeta_call(call);
  if (name == "chlo.tan") return lax::tan({call.operand(0)}, {});
  if (name == "stablehlo.broadcast") return broadcast_before(call);
  if (name == "stablehlo.map") return map_call(call);
  if (name == "stablehlo.power") return integer_power(call);
  if (name == "stablehlo.iota") return iota_of(call);
  if (name == "stablehlo.broadcast_in_dim") return broadcast(call);
  if (name == "stablehlo.slice") return slice_call(call);
  if (name == "stablehlo.clamp") return clamp_call(call);
  if (name == "stablehlo.reshape") {
    return lax::reshape({call.operand(0)}, {{"shape", call.result().shape.to_vector()}});
  }
  if (name == "stablehlo.transpose") {
    return lax::transpose({call.operand(0)}, {{"permutation", call.integers({"dims", "permutation"}, {})}});
  }
  if (name == "stablehlo.reduce_precision") return narrowed(call);
  if (name == "stablehlo.round_nearest_afz") return {rounded_away(call.operand(0))};
  if (name == "stablehlo.convert") return {convert(call.operand(0), call.result().dtype)};
  if (name == "stablehlo.bitcast_convert") return {bitcast_convert(call.operand(0), call.result().dtype)};
  if (name == "stablehlo.concatenate") {
    return lax::concatenate(call.operands, {{"dim", call.integer({"dim", "dimension"}, 0)}});
  }
  if (name == "stablehlo.reverse") {
    return lax::reverse({call.operand(0)}, {{"dims", call.integers({"dims", "dimensions"}, {})}});
  }
  if (name == "stablehlo.pad") {
    return lax::pad({call.operand(0), call.operand(1)},
                    {{"low", call.integers({"low", "edge_padding_low"}, {})},
                     {"high", call.integers({"high", "edge_padding_high"}, {})},
                     {"interior", call.integers({"interior", "interior_padding"}, {})}});
  }
  if (name == "stablehlo.dynamic_slice") {
    return lax::dynamic_slice(call.operands, {{"sizes", call.integers({"sizes", "slice_sizes"}, {})}});
  }
  if (name == "stablehlo.dynamic_update_slice") return lax::dynamic_update_slice(call.operands, {});
  const bool is_layout = name == "stablehlo.custom_call" && call.op.symbol == "Sharding";
  if (name == "stablehlo.optimization_barrier" || name == "sdy.sharding_constraint" || is_layout) return call.operands;
  if (name == "stablehlo.all_reduce") return joined_over_devices(call);
  return {};
}

}  // namespace lockstep::exchange
