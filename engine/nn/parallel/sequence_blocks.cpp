#include "engine/nn/parallel/sequence_blocks.h"

#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

namespace lockstep::nn {

namespace {

void check_shapes(std::string_view op, const Array& query, const Array& key, const Array& value) {
  for (const Array& x : {query, key, value}) {
    if (x.ndim() != 4 || !is_float(x.dtype()) || x.dtype() != query.dtype()) {
      throw DtypeError(
          fmt::format("{}: query, key and value must be floats of one dtype, [B, length, heads, H]; got {}, "
                      "{} and {}",
                      op, to_string(query.type()), to_string(key.type()), to_string(value.type())));
    }
  }
  const bool fit = key.shape() == value.shape() && query.dim(0) == key.dim(0) && query.dim(3) == key.dim(3) &&
                   key.dim(2) > 0 && query.dim(2) % key.dim(2) == 0;
  if (!fit) {
    throw ShapeError(
        fmt::format("{}: query {} does not go with key {} and value {}; give [B, T, N, H] and twice [B, S, "
                    "K, H], with N a multiple of K",
                    op, to_string(query.shape()), to_string(key.shape()), to_string(value.shape())));
  }
}

/// The mask of keys, or one that shows all, as varying as the keys.
Array mask_of(std::string_view op, const Array& key, const SequenceAttentionOptions& options) {
  const Shape shape{key.dim(0), key.dim(1)};
  if (options.key_mask) {
    const ArrayType& type = options.key_mask->type();
    if (type.dtype != DType::bool_ || !(type.shape == shape)) {
      throw ShapeError(fmt::format("{}: key_mask is {}; give bool{}, of this replica's keys", op, to_string(type),
                                   to_string(shape)));
    }
    return pvary(*options.key_mask, key.type().varying);
  }
  return pvary(full(shape, true, DType::bool_), key.type().varying);
}

}  // namespace

void check_cut(std::string_view op, std::string_view what, const Array& x, const std::string& axis) {
  if (axis.empty()) throw MeshError(fmt::format("{}: no axis given; write {{.axis = \"name\"}}", op));
  axis_size(axis);
  if (x.type().varying.contains(axis)) return;
  throw MeshError(
      fmt::format("{}: the {}, {}, is the same on all replicas along \"{}\"; give each its block: cut the argument of "
                  "the map along that axis",
                  op, what, to_string(x.type()), axis));
}

SequenceBlocks sequence_blocks(std::string_view op, const Array& query, const Array& key, const Array& value,
                               const SequenceAttentionOptions& options) {
  check_shapes(op, query, key, value);
  check_cut(op, "query", query, options.axis);
  check_cut(op, "key", key, options.axis);
  check_cut(op, "value", value, options.axis);
  const DType dtype = query.dtype() == DType::float64 ? DType::float64 : DType::float32;
  const double scale =
      options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(query.dim(3), 1))));
  const AxisSet varying = query.type().varying.joined(key.type().varying).joined(value.type().varying);
  const auto ready = [&](const Array& x) { return pvary(convert(x, dtype), varying); };
  const Array k = ready(key);
  return {ready(query), k, ready(value), mask_of(op, k, options), options.axis, scale, options.is_causal};
}

}  // namespace lockstep::nn
