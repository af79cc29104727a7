#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"

// Families of shape and dtype rules, and the checks that rules of their own are written with. Every check throws with
// the op, what was given, what was expected and what to write instead.
namespace lockstep::ops::infer {

using ir::InferContext;

struct DtypeClass {
  std::string_view text;  ///< "a float dtype"
  bool (*contains)(DType);
  std::string_view remedy = "convert(x, dtype) first";
};

inline constexpr DtypeClass floating{"a float dtype", [](DType d) { return is_float(d); }};
inline constexpr DtypeClass inexact{"a float or complex dtype", [](DType d) { return is_inexact(d); }};
inline constexpr DtypeClass integral{"an integer dtype", [](DType d) { return is_integer(d); }};
inline constexpr DtypeClass bits{"an integer or bool dtype",
                                 [](DType d) { return is_integer(d) || d == DType::bool_; }};
inline constexpr DtypeClass real{"a float or integer dtype", [](DType d) { return is_float(d) || is_integer(d); }};
inline constexpr DtypeClass ordered{"a float, integer or bool dtype",
                                    [](DType d) { return is_float(d) || is_integer(d) || d == DType::bool_; }};
inline constexpr DtypeClass numeric{"a float, complex or integer dtype",
                                    [](DType d) { return is_inexact(d) || is_integer(d); }};
inline constexpr DtypeClass value{"any dtype but key", [](DType d) { return d != DType::key; },
                                  "keys are read by the random ops alone"};
inline constexpr DtypeClass any{"any dtype", [](DType) { return true; }};

inline constexpr DtypeClass complex_valued{"a complex dtype", [](DType d) { return is_complex(d); },
                                           "make one by complex(re, im)"};
/// The dtype of a complex dtype's parts; of another dtype, itself.
DType part_of(DType dtype);

/// "add given f32[2], f32[3]" + attributes.
std::string given(const InferContext& context);
[[noreturn]] void shape_error(const InferContext& context, std::string_view expected, std::string_view instead);
[[noreturn]] void dtype_error(const InferContext& context, std::string_view expected, std::string_view instead);

/// [first, middle..., last].
Shape shape_around(std::int64_t first, std::span<const std::int64_t> middle, std::int64_t last);

void expect_operands(const InferContext& context, std::size_t count);
void expect_at_least(const InferContext& context, std::size_t count);
void expect_dtype(const InferContext& context, std::size_t operand, const DtypeClass& allowed);
/// Operands from `first` on have one dtype.
void expect_same_dtype(const InferContext& context, std::size_t first = 0);
/// Operands from `first` on have one shape.
void expect_same_shape(const InferContext& context, std::size_t first = 0);
void expect_rank(const InferContext& context, std::size_t operand, int rank);

/// Attribute `name` as an int64 in [0, bound); ShapeError otherwise.
std::int64_t index_attr(const InferContext& context, std::string_view name, std::int64_t bound);
/// Attribute `name` as a list of `count` numbers (-1: any count).
const std::vector<std::int64_t>& list_attr(const InferContext& context, std::string_view name, std::int64_t count = -1);
/// Attribute `name` as distinct dimensions in [0, rank).
const std::vector<std::int64_t>& dims_attr(const InferContext& context, std::string_view name, int rank);
/// Attribute `name` as a shape.
Shape shape_attr(const InferContext& context, std::string_view name);

/// The dtype of what operand 0 and others of its dtype are multiplied and added up to: theirs, or the optional attribute
/// `dtype`, float32 for operands of 16 bits. DtypeError otherwise.
DType product_dtype(const InferContext& context);

/// `operands` operands of one allowed dtype and one shape; the result has both.
ir::Infer same_shape(DtypeClass allowed, std::size_t operands = 1);
/// One operand; the result has its shape and, where it is complex, the dtype of its parts.
ir::Infer unary_to_part(DtypeClass allowed);
/// Two operands of one allowed dtype and one shape; the result is bool.
ir::Infer comparison(DtypeClass allowed);
/// One operand; the result has its shape and `result`.
ir::Infer unary_to(DtypeClass allowed, DType result);
/// One operand with attribute `axes`, which are dropped.
ir::Infer reduction(DtypeClass allowed);

}  // namespace lockstep::ops::infer
