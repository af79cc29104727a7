#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {

/// Element types. `key` is a random key: two uint32 words that only the random ops read.
enum class DType : std::uint8_t {
  bool_,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  key,
};

inline constexpr DType bool_ = DType::bool_;
inline constexpr DType int8 = DType::int8;
inline constexpr DType int16 = DType::int16;
inline constexpr DType int32 = DType::int32;
inline constexpr DType int64 = DType::int64;
inline constexpr DType uint8 = DType::uint8;
inline constexpr DType uint16 = DType::uint16;
inline constexpr DType uint32 = DType::uint32;
inline constexpr DType uint64 = DType::uint64;
inline constexpr DType float16 = DType::float16;
inline constexpr DType bfloat16 = DType::bfloat16;
inline constexpr DType float32 = DType::float32;
inline constexpr DType float64 = DType::float64;
inline constexpr DType complex64 = DType::complex64;
inline constexpr DType complex128 = DType::complex128;

/// Bytes of one element.
LOCKSTEP_API std::size_t size_of(DType dtype);
LOCKSTEP_API bool is_float(DType dtype);             ///< float16 bfloat16 float32 float64
LOCKSTEP_API bool is_narrow_float(DType dtype);      ///< float16 bfloat16: floats that are computed in float32
LOCKSTEP_API bool is_complex(DType dtype);           ///< complex64 complex128
LOCKSTEP_API bool is_inexact(DType dtype);           ///< float or complex: what can be differentiated
LOCKSTEP_API bool is_integer(DType dtype);           ///< signed or unsigned, not bool
LOCKSTEP_API bool is_signed_integer(DType dtype);    ///< int8 int16 int32 int64
LOCKSTEP_API bool is_unsigned_integer(DType dtype);  ///< uint8 uint16 uint32 uint64
/// Long name: "float32".
LOCKSTEP_API std::string_view name(DType dtype);
/// Short name of printed programs: "f32".
LOCKSTEP_API std::string_view short_name(DType dtype);
/// Reads a long or a short name. Throws DtypeError listing the names.
LOCKSTEP_API DType parse_dtype(std::string_view text);
/// The common type of two arrays, as JAX promotes with 64-bit types enabled. Throws DtypeError for keys.
LOCKSTEP_API DType promote(DType a, DType b);

/// Kinds of C++ scalars; they are weak: they take the dtype of the array they meet wherever it can hold their kind.
enum class ScalarKind : std::uint8_t { boolean, integer, real };
/// The type of an array met by a weak scalar: int32 + 1.5 is float32 (the default float), float16 + 2 is float16.
LOCKSTEP_API DType promote(DType a, ScalarKind scalar);

namespace detail {
/// Whether a type is std::complex<Part>, by its form: who has no complex numbers needs no <complex>.
template <class T, class Part>
concept ComplexOf = std::is_same_v<typename T::value_type, Part> && sizeof(T) == 2 * sizeof(Part) &&
                    requires(const T& z) {
  z.real();
  z.imag();
};
}  // namespace detail

/// The DType of a C++ element type.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return DType::bool_;
  } else if constexpr (detail::ComplexOf<T, float>) {
    return DType::complex64;
  } else if constexpr (detail::ComplexOf<T, double>) {
    return DType::complex128;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return sizeof(T) == 1 ? DType::int8 : sizeof(T) == 2 ? DType::int16 : sizeof(T) == 4 ? DType::int32 : DType::int64;
  } else if constexpr (std::is_integral_v<T>) {
    return sizeof(T) == 1   ? DType::uint8
           : sizeof(T) == 2 ? DType::uint16
           : sizeof(T) == 4 ? DType::uint32
                            : DType::uint64;
  } else {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "no DType for this C++ type");
    return std::is_same_v<T, float> ? DType::float32 : DType::float64;
  }
}

/// Extents of an array, outermost first; at most `max_rank` of them, each >= 0.
class LOCKSTEP_API Shape {
 public:
  static constexpr int max_rank = 12;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);  ///< Throws ShapeError for a negative extent or too high a rank.
  explicit Shape(const std::vector<std::int64_t>& dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  /// Extent of a dimension counted from the end when negative. Throws ShapeError outside [-rank, rank).
  std::int64_t dim(int i) const;
  /// Number of elements, 1 for rank 0. Throws ShapeError where it does not fit 63 bits.
  std::int64_t size() const;

  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  std::span<const std::int64_t> dims() const;
  std::vector<std::int64_t> to_vector() const;

  void append(std::int64_t extent);  ///< A dimension more, the innermost. Throws ShapeError beyond max_rank.
  Shape with(int i, std::int64_t extent) const;    ///< One extent replaced.
  Shape insert(int i, std::int64_t extent) const;  ///< One extent put before position i.
  Shape erase(int i) const;                        ///< One dimension left out.

  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

/// "[2,3]".
LOCKSTEP_API std::string to_string(const Shape& shape);
/// `axis` in [0, rank); a negative one counts from the end. Throws ShapeError naming `op`.
LOCKSTEP_API int normalize_axis(std::int64_t axis, int rank, std::string_view op);
/// Numpy broadcasting. Throws ShapeError naming `op` and both shapes.
LOCKSTEP_API Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);
/// Row-major strides in elements.
LOCKSTEP_API std::vector<std::int64_t> row_major_strides(const Shape& shape);

/// A set of mesh axis names, kept sorted.
class LOCKSTEP_API AxisSet {
 public:
  AxisSet() = default;
  AxisSet(std::initializer_list<std::string> names);
  explicit AxisSet(std::vector<std::string> names);

  bool empty() const { return names_ == nullptr; }
  std::size_t size() const;
  bool contains(std::string_view name) const;
  bool contains(const AxisSet& other) const;
  AxisSet joined(const AxisSet& other) const;   ///< Union.
  AxisSet without(const AxisSet& other) const;  ///< Difference.
  const std::vector<std::string>& names() const;
  const std::string* begin() const;
  const std::string* end() const;
  bool operator==(const AxisSet& other) const { return names_ == other.names_ || has_same_names(other); }

 private:
  bool has_same_names(const AxisSet& other) const;

  std::shared_ptr<const std::vector<std::string>> names_;  // null where there is none; copies share it
};

/// "batch,model".
LOCKSTEP_API std::string to_string(const AxisSet& axes);

/// What is known of an array before it is computed. `varying` names the mesh axes along which replicas may differ.
struct ArrayType {
  DType dtype = DType::float32;
  Shape shape;
  AxisSet varying;

  std::int64_t size() const { return shape.size(); }
  /// Throws ShapeError where it does not fit 63 bits.
  std::int64_t nbytes() const {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(shape.size(), static_cast<std::int64_t>(size_of(dtype)), &bytes)) refuse_bytes();
    return bytes;
  }
  bool operator==(const ArrayType&) const = default;

 private:
  [[noreturn]] LOCKSTEP_API void refuse_bytes() const;  ///< Throws ShapeError.
};

/// "f32[784,512]{batch}".
LOCKSTEP_API std::string to_string(const ArrayType& type);

enum class DeviceKind : std::uint8_t { cpu, cuda };  ///< Where a device is.

/// A place where shards run: on the CPU one worker thread, on a GPU the whole GPU.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;  ///< Counted from 0 among its kind.
  bool operator==(const Device&) const = default;
};

/// "cpu:0".
LOCKSTEP_API std::string to_string(const Device& device);
/// Reads "cpu:0-3", "cpu:0,2". Throws MeshError for anything else, a device named twice, one without a backend here.
LOCKSTEP_API std::vector<Device> devices(std::string_view text);

}  // namespace lockstep
