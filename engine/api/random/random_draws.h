#pragma once

#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/random.h>

// What all draws share: checks of keys and dtypes, bits under a placement, and uniforms made of them.
namespace lockstep::random {

void check_key(std::string_view op, const Array& key);
/// As check_key, and that it is one key, not an array of them.
void check_one_key(std::string_view op, const Array& key);
void check_float(std::string_view op, DType dtype);
void check_integer(std::string_view op, DType dtype);
/// Throws MeshError for a Cut: for draws whose elements are not independent of one another.
void check_not_cut(std::string_view op, const Placement& placement);

/// The placement of a draw with more dimensions behind those of `shape`.
Placement in_front(std::string_view op, const Shape& shape, Placement placement);

/// The n keys of a split, one by one.
std::vector<Array> subkeys(const Array& key, std::int64_t n);

/// Words of `width` random bits.
Array draw_bits(std::string_view op, const Array& key, const Shape& shape, int width, const Placement& placement);
/// A key for each element of `shape`.
Array draw_keys(std::string_view op, const Array& key, const Shape& shape, const Placement& placement);
/// Uniform on [0, 1): random mantissas under the exponent of 1, less 1.
Array draw_unit(std::string_view op, const Array& key, const Shape& shape, DType dtype, const Placement& placement);
/// Uniform on [low, 1), low being a value of the dtype.
Array draw_above(std::string_view op, const Array& key, const Shape& shape, DType dtype, double low,
                 const Placement& placement);
/// Uniforms of [0, 1) stretched to [low, high], which rounding may reach.
Array stretched(const Array& unit, const Array& low, const Array& high);
/// The same where the difference of the two may be beyond the dtype.
Array stretched_far(const Array& unit, const Array& low, const Array& high);
/// x, or the number just below `high` where rounding has reached that; low where high is not above it.
Array below(const Array& x, const Array& low, const Array& high);
/// Whether a number is within the range of a float dtype.
bool is_finite_in(DType dtype, double x);

/// A parameter of a distribution at the draw's dtype: a scalar of rank 0, an array broadcast to the draw's shape.
Array parameter(std::string_view op, const Operand& value, DType dtype, const Shape& shape);
/// The parameter with the draw's shape.
Array full_parameter(std::string_view op, const Operand& value, DType dtype, const Shape& shape);

/// What is known of a float dtype.
struct FloatFormat {
  int width;         ///< Bits.
  int mantissa;      ///< Bits behind the leading one.
  std::int64_t one;  ///< The bits of 1.0.
  DType word;        ///< The unsigned integer of the same width.
  double tiny;       ///< The smallest normal number.

  double epsilon() const;  ///< 1 to the next number.
};
FloatFormat format_of(DType dtype);

}  // namespace lockstep::random
