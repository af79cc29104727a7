#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include <lockstep/array.h>

namespace lockstep::api {

/// The common dtype of the operands: arrays promote first, weak scalars give way to them; scalars alone are bool, int32 or
/// float32.
DType common_dtype(std::initializer_list<const Operand*> operands);
/// `dtype`, or the float that integers and bool become.
DType inexact(DType dtype);

/// An array of one value. Throws ValueError naming `op` for an integer the dtype cannot hold.
Array constant(std::string_view op, const Operand& scalar, DType dtype, const Shape& shape);
/// The operand at a dtype and shape. Throws ShapeError naming `op` where it does not broadcast.
Array at(std::string_view op, const Operand& operand, DType dtype, const Shape& shape);
/// All operands at one dtype, broadcast to their common shape.
std::vector<Array> aligned(std::string_view op, std::initializer_list<const Operand*> operands, DType dtype);

/// `x` broadcast as in numpy; itself where the shape is the same.
Array broadcast(std::string_view op, const Array& x, const Shape& shape);

}  // namespace lockstep::api
