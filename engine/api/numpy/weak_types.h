#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/tree.h>

#include "engine/ir/primitive.h"
#include "engine/trace/array_state.h"

// A C++ real whose value a program does not know is a number: float64 where functions take and return it, so that no digit
// is lost on the way, and a weak array of its default dtype in formulas. See weak_types.h of the public headers.
namespace lockstep::api {

WeakType weak_type(const Array& x);
inline bool is_weak(const Array& x) { return weak_type(x) != WeakType::strong; }
/// Of a weak array.
ScalarKind kind_of(DType dtype);
/// What weak values alone are: bool, int32 (int64 where one of them is) or float32.
DType default_dtype(ScalarKind kind, bool wide);

/// The same value, of strong type.
Array strong(const Array& x);
/// The same value, weak. Complex numbers and keys have no weak type.
Array weakened(const Array& x);
/// All digits there are of the value, as functions take and return it.
Array exact(const Array& x);

/// What formulas see of that.
Array visible(const Array& x, WeakType type);
/// Arguments with their numbers as formulas see them; a tree without weak types.
std::vector<Tree> visible(std::vector<Tree> arguments);
Tree strong(const Tree& tree);
/// The leaves as functions return them, and their types.
std::vector<Array> passed(const std::vector<Array>& leaves, std::vector<WeakType>& types);
/// The tree of such leaves.
Tree unflattened(const Tree& structure, std::span<const Array> leaves, std::span<const WeakType> types);

/// `op` takes a weak integer at an integer dtype: throws ValueError where that cannot hold its value, or notes it where the
/// value is not known.
void check_integer(std::string_view op, const Array& x, DType dtype);
/// Throws likewise for a value of what was noted.
void check_integer(const IntegerUses& uses, const Array& value);
/// The same weak integer, whose uses are noted from here on.
Array noted(const Array& x, std::shared_ptr<IntegerUses> uses);

/// Whether C++ would compute with these operands in double: numbers, at least one of which is not known.
bool are_numbers(std::initializer_list<const Operand*> operands);

/// Results of an op whose operands are all weak are weak, too, but for conversions and ops with functions of their own.
std::vector<Array> as_weak_as(std::span<const Array> operands, const ir::Primitive& primitive, const Attrs& attrs,
                              std::vector<Array> results);

/// `x`, for which an array of `dtype` is expected: converted where it is weak and may be one, or where a number is expected.
Array fitted(const Array& x, DType dtype, WeakType expected);

}  // namespace lockstep::api
