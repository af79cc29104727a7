#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep::api {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The dtype that values have in common, one by one: arrays promote, scalars and weak arrays give way to them.
class CommonDType {
 public:
  void add(ScalarKind kind);
  void add(DType dtype, bool is_weak);
  /// Of at least one value.
  DType dtype() const;

 private:
  std::optional<DType> dtype_;
  std::optional<ScalarKind> kind_;
  bool wide_ = false;
};

/// The common dtype of the operands: arrays promote first, C++ scalars and weak arrays give way to them; those alone are
/// bool, int32 (int64 where a weak array is) or float32.
LOCKSTEP_API DType common_dtype(std::initializer_list<const Operand*> operands);
LOCKSTEP_API DType common_dtype(std::span<const Array> arrays);
LOCKSTEP_API DType common_dtype(std::initializer_list<Array> arrays);
/// `dtype`, or the float that integers and bool become.
LOCKSTEP_API DType inexact(DType dtype);
/// `x` in that dtype.
Array as_inexact(const Array& x);
/// `dtype`, or the float that bool becomes.
DType numeric(DType dtype);

/// Whether `to` keeps a part alone of what `from` holds: of floats no fraction, of complex numbers one of two.
bool keeps_a_part(DType from, DType to);

/// Throws ValueError naming `op` for an integer that the dtype cannot hold.
void check_fits(std::string_view op, std::int64_t value, DType dtype);
void check_fits(std::string_view op, const Operand& scalar, DType dtype);  ///< Likewise, for an integer scalar.
/// An array of one value. Throws ValueError naming `op` for an integer the dtype cannot hold.
Array constant(std::string_view op, const Operand& scalar, DType dtype, const Shape& shape);
/// The operand at a dtype and shape, beside operands that vary along `varying`. Throws ShapeError naming `op` where it does
/// not broadcast.
Array at(std::string_view op, const Operand& operand, DType dtype, const Shape& shape, const AxisSet& varying = {});
/// All operands at one dtype, broadcast to their common shape.
LOCKSTEP_API std::vector<Array> aligned(std::string_view op, std::initializer_list<const Operand*> operands,
                                        DType dtype);
/// The same, weak where all of them are: what an op makes of them is then weak, too.
std::vector<Array> weakly_aligned(std::string_view op, std::initializer_list<const Operand*> operands, DType dtype);
/// Both operands at one float or complex dtype and one shape.
std::pair<Array, Array> inexact_pair(std::string_view op, const Operand& a, const Operand& b);

/// Every axis along which one of the arrays varies.
AxisSet joined_varying(std::initializer_list<const Operand*> operands);
/// `x` varying along the axes as well. Done to an operand before it is broadcast, so that what its gradient sums over the
/// replicas is as small as `x`.
Array varying_along(const Array& x, const AxisSet& axes);
/// `x` broadcast as in numpy; itself where the shape is the same.
Array broadcast(std::string_view op, const Array& x, const Shape& shape);

}  // namespace lockstep::api
