#include "engine/ops/rules/infer.h"

#include <string>

#include <lockstep/error.h>

#include "engine/core/lists.h"

namespace lockstep::ops::infer {

namespace {

std::string message(const InferContext& context, std::string_view expected, std::string_view instead) {
  return given(context) + "; expected " + std::string(expected) + "; instead " + std::string(instead);
}

std::string number(std::int64_t n) { return std::to_string(n); }

}  // namespace

DType part_of(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  return dtype == DType::complex128 ? DType::float64 : dtype;
}

std::string given(const InferContext& context) {
  std::string text = std::string(context.op) + " given ";
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(context.inputs[i]);
  }
  if (context.inputs.empty()) text += "no operand";
  if (!context.attrs.empty()) text += " with " + to_string(context.attrs);
  return text;
}

void shape_error(const InferContext& context, std::string_view expected, std::string_view instead) {
  throw ShapeError(message(context, expected, instead));
}

void dtype_error(const InferContext& context, std::string_view expected, std::string_view instead) {
  throw DtypeError(message(context, expected, instead));
}

Shape shape_around(std::int64_t first, std::span<const std::int64_t> middle, std::int64_t last) {
  Shape shape{first};
  for (const std::int64_t extent : middle) shape.append(extent);
  shape.append(last);
  return shape;
}

void expect_operands(const InferContext& context, std::size_t count) {
  if (context.inputs.size() == count) return;
  throw IrError(message(context, std::to_string(count) + (count == 1 ? " operand" : " operands"),
                        "pass " + std::to_string(count)));
}

void expect_at_least(const InferContext& context, std::size_t count) {
  if (context.inputs.size() >= count) return;
  throw IrError(message(context, "at least " + std::to_string(count) + (count == 1 ? " operand" : " operands"),
                        "pass " + std::to_string(count) + " or more"));
}

void expect_dtype(const InferContext& context, std::size_t operand, const DtypeClass& allowed) {
  if (allowed.contains(context.inputs[operand].dtype)) return;
  dtype_error(context, std::string(allowed.text) + " for operand " + std::to_string(operand), allowed.remedy);
}

void expect_same_dtype(const InferContext& context, std::size_t first) {
  for (std::size_t i = first + 1; i < context.inputs.size(); ++i) {
    if (context.inputs[i].dtype != context.inputs[first].dtype) {
      dtype_error(context, "operands of one dtype", "convert(x, dtype) one of them");
    }
  }
}

DType product_dtype(const InferContext& context) {
  const DType operand = context.inputs[0].dtype;
  if (!context.attrs.has("dtype")) return operand;
  const DType result = context.attrs.get<DType>("dtype");
  const bool is_wider = result == DType::float32 && is_narrow_float(operand);
  if (!is_wider && result != operand) {
    dtype_error(context, "dtype=f32 of bfloat16 or float16 operands", "leave dtype out and convert the result");
  }
  return result;
}

void expect_same_shape(const InferContext& context, std::size_t first) {
  for (std::size_t i = first + 1; i < context.inputs.size(); ++i) {
    if (context.inputs[i].shape != context.inputs[first].shape) {
      shape_error(context, "operands of one shape", "broadcast_in_dim or reshape one of them");
    }
  }
}

void expect_rank(const InferContext& context, std::size_t operand, int rank) {
  if (context.inputs[operand].shape.rank() == rank) return;
  shape_error(context, "rank " + number(rank) + " for operand " + std::to_string(operand),
              "reshape it to rank " + number(rank));
}

std::int64_t index_attr(const InferContext& context, std::string_view name, std::int64_t bound) {
  const std::int64_t index = context.attrs.get<std::int64_t>(name);
  if (index < 0 || index >= bound) {
    shape_error(context, std::string(name) + " in [0, " + number(bound) + ")",
                bound == 0 ? "pass an operand of rank 1 or more" : "count dimensions from 0, outermost first");
  }
  return index;
}

const std::vector<std::int64_t>& list_attr(const InferContext& context, std::string_view name, std::int64_t count) {
  const auto& list = context.attrs.get<std::vector<std::int64_t>>(name);
  if (count >= 0 && static_cast<std::int64_t>(list.size()) != count) {
    shape_error(context, number(count) + " numbers in " + std::string(name), "give one per dimension");
  }
  return list;
}

const std::vector<std::int64_t>& dims_attr(const InferContext& context, std::string_view name, int rank) {
  const auto& dims = list_attr(context, name);
  std::vector<bool> seen = repeated<bool>(rank);
  for (const std::int64_t dim : dims) {
    if (dim < 0 || dim >= rank || nth(seen, dim)) {
      shape_error(context, "distinct " + std::string(name) + " in [0, " + number(rank) + ")",
                  "name each dimension once, counted from 0");
    }
    nth(seen, dim) = true;
  }
  return dims;
}

Shape shape_attr(const InferContext& context, std::string_view name) {
  const auto& dims = list_attr(context, name);
  if (static_cast<int>(dims.size()) > Shape::max_rank) {
    shape_error(context, "at most " + number(Shape::max_rank) + " dimensions", "merge dimensions");
  }
  for (const std::int64_t extent : dims) {
    if (extent < 0) shape_error(context, "extents of 0 or more in " + std::string(name), "write the extent out");
  }
  return Shape(dims);
}

ir::Infer same_shape(DtypeClass allowed, std::size_t operands) {
  return [allowed, operands](const InferContext& context) -> std::vector<ArrayType> {
    expect_operands(context, operands);
    expect_dtype(context, 0, allowed);
    expect_same_dtype(context);
    expect_same_shape(context);
    return {{context.inputs[0].dtype, context.inputs[0].shape, {}}};
  };
}

ir::Infer comparison(DtypeClass allowed) {
  return [allowed](const InferContext& context) -> std::vector<ArrayType> {
    expect_operands(context, 2);
    expect_dtype(context, 0, allowed);
    expect_same_dtype(context);
    expect_same_shape(context);
    return {{DType::bool_, context.inputs[0].shape, {}}};
  };
}

ir::Infer unary_to(DtypeClass allowed, DType result) {
  return [allowed, result](const InferContext& context) -> std::vector<ArrayType> {
    expect_operands(context, 1);
    expect_dtype(context, 0, allowed);
    return {{result, context.inputs[0].shape, {}}};
  };
}

ir::Infer unary_to_part(DtypeClass allowed) {
  return [allowed](const InferContext& context) -> std::vector<ArrayType> {
    expect_operands(context, 1);
    expect_dtype(context, 0, allowed);
    return {{part_of(context.inputs[0].dtype), context.inputs[0].shape, {}}};
  };
}

ir::Infer reduction(DtypeClass allowed) {
  return [allowed](const InferContext& context) -> std::vector<ArrayType> {
    expect_operands(context, 1);
    expect_dtype(context, 0, allowed);
    const ArrayType& x = context.inputs[0];
    std::vector<bool> dropped = repeated<bool>(x.shape.rank());
    for (const std::int64_t axis : dims_attr(context, "axes", x.shape.rank())) {
      nth(dropped, axis) = true;
    }
    Shape kept;
    for (int i = 0; i < x.shape.rank(); ++i) {
      if (!nth(dropped, i)) kept.append(x.shape[i]);
    }
    return {{x.dtype, kept, {}}};
  };
}

}  // namespace lockstep::ops::infer
