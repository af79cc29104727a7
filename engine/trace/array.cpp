#include <algorithm>
#include <charconv>
#include <complex>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/error.h>

#include "engine/ir/primitive.h"
#include "engine/trace/array_state.h"

namespace lockstep {

namespace {

std::span<const std::byte> bytes_of(const Array& array, std::string_view op) {
  if (array.is_traced()) {
    throw TraceError(std::string(op) + ": " + to_string(array.type()) +
                     " is a traced value and holds no data while its function is traced. Return it from the function "
                     "and read the result there.");
  }
  const Buffer& buffer = *array.state()->buffer;
  if (buffer.device().kind != DeviceKind::cpu) {
    throw BackendError(std::string(op) + ": the array lies on " + to_string(buffer.device()) +
                       "; only arrays on the CPU can be read");
  }
  return {static_cast<const std::byte*>(buffer.data()), static_cast<std::size_t>(array.type().nbytes())};
}

template <class T>
constexpr std::string_view element_name() {
  if constexpr (std::is_same_v<T, std::complex<float>>) {
    return "std::complex<float>";
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return "std::complex<double>";
  } else {
    return name(dtype_of<T>());
  }
}

/// Whether an element of the dtype lies in memory as a T.
template <class T>
constexpr bool stored_as(DType dtype) {
  if constexpr (std::is_same_v<T, std::complex<float>>) {
    return dtype == DType::complex64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return dtype == DType::complex128;
  } else {
    return dtype == dtype_of<T>();
  }
}

template <class T>
std::vector<T> copied(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = bytes[i] != std::byte{0};
  } else if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return values;
}

ir::ReferenceArray one_element(const Array& array, std::string_view op) {
  if (array.size() != 1) {
    throw ShapeError(std::string(op) + ": needs an array of one element, got " + to_string(array.type()) +
                     "; reduce or slice it first, or read all elements by to_vector");
  }
  return ir::reference_from_bytes(array.type(), bytes_of(array, op));
}

std::string shortest(auto value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string float_text(double value, DType dtype) {
  return dtype == DType::float64 || dtype == DType::complex128 ? shortest(value) : shortest(static_cast<float>(value));
}

std::string element_text(const ir::ReferenceArray& array, std::size_t i) {
  const DType dtype = array.type.dtype;
  if (is_float(dtype)) return float_text(array.floats()[i], dtype);
  if (is_complex(dtype)) {
    const std::complex<double> value = array.complexes()[i];
    const std::string imaginary = float_text(value.imag(), dtype);
    return float_text(value.real(), dtype) + (imaginary.starts_with('-') ? "" : "+") + imaginary + "i";
  }
  const std::int64_t value = array.integers()[i];
  if (dtype == DType::bool_) return value != 0 ? "true" : "false";
  if (dtype == DType::uint64 || dtype == DType::key) return shortest(static_cast<std::uint64_t>(value));
  return shortest(value);
}

/// Writes nested brackets; long dimensions of large arrays keep three elements at either end.
class ArrayPrinter {
 public:
  explicit ArrayPrinter(const ir::ReferenceArray& array)
      : array_(array), strides_(row_major_strides(array.type.shape)), shorten_(array.type.size() > 1000) {}

  std::string text(int dim = 0, std::int64_t offset = 0) const {
    const Shape& shape = array_.type.shape;
    if (dim == shape.rank()) return element_text(array_, static_cast<std::size_t>(offset));
    std::string result = "[";
    for (std::int64_t i = 0; i < shape[dim]; ++i) {
      if (i > 0) result += ", ";
      if (shorten_ && shape[dim] > 2 * kept && i == kept) {
        result += "..., ";
        i = shape[dim] - kept;
      }
      result += text(dim + 1, offset + i * strides_[static_cast<std::size_t>(dim)]);
    }
    return result + "]";
  }

 private:
  static constexpr std::int64_t kept = 3;

  const ir::ReferenceArray& array_;
  std::vector<std::int64_t> strides_;
  bool shorten_;
};

}  // namespace

Array::Array() = default;
Array::Array(std::shared_ptr<const ArrayState> state) : state_(std::move(state)) {}
Array::Array(const Array&) = default;
Array::Array(Array&&) noexcept = default;
Array& Array::operator=(const Array&) = default;
Array& Array::operator=(Array&&) noexcept = default;
Array::~Array() = default;

const ArrayType& Array::type() const {
  if (!state_) throw ValueError("Array: holds nothing; assign a value to it before it is used");
  return state_->type;
}

bool Array::is_traced() const {
  type();
  return state_->buffer == nullptr;
}

std::vector<std::byte> Array::to_bytes() const {
  const auto bytes = bytes_of(*this, "to_bytes");
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<T> Array::to_vector() const {
  const auto bytes = bytes_of(*this, "to_vector");
  if (stored_as<T>(dtype())) return copied<T>(bytes);
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    if (dtype() == DType::key) return copied<T>(bytes);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (dtype() == DType::float16 || dtype() == DType::bfloat16) {
      const ir::ReferenceArray wide = ir::reference_from_bytes(type(), bytes);
      return {wide.floats().begin(), wide.floats().end()};
    }
  }
  throw DtypeError("to_vector: cannot read " + to_string(type()) + " as " + std::string(element_name<T>()) +
                   "; ask for the array's own element type or convert the array first");
}

template <class T>
T Array::item() const {
  const ir::ReferenceArray element = one_element(*this, "item");
  constexpr bool to_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
  if (is_float(dtype())) return static_cast<T>(element.floats()[0]);
  if (is_complex(dtype()) || dtype() == DType::key) {
    if constexpr (to_complex) {
      if (is_complex(dtype())) return static_cast<T>(element.complexes()[0]);
    }
    throw DtypeError("item: cannot convert " + to_string(type()) + " to " + std::string(element_name<T>()));
  }
  const std::int64_t value = element.integers()[0];
  if constexpr (to_complex) {
    return T(static_cast<typename T::value_type>(value));
  } else {
    return dtype() == DType::uint64 ? static_cast<T>(static_cast<std::uint64_t>(value)) : static_cast<T>(value);
  }
}

Array::operator bool() const {
  if (is_traced()) {
    throw TraceError(
        "a C++ condition on a traced value of type " + to_string(type()) +
        ": its data do not exist while the function is traced, so `if`, `while`, `&&` and `?:` cannot "
        "depend on it. Write where(condition, a, b) (op select), or cond / while_loop for whole branches.");
  }
  const ir::ReferenceArray element = one_element(*this, "condition");
  if (is_float(dtype())) return element.floats()[0] != 0;
  if (is_complex(dtype())) return element.complexes()[0] != std::complex<double>(0);
  if (dtype() == DType::key) throw DtypeError("condition: a random key is neither true nor false");
  return element.integers()[0] != 0;
}

#define LOCKSTEP_ELEMENT(T)                                         \
  template LOCKSTEP_API std::vector<T> Array::to_vector<T>() const; \
  template LOCKSTEP_API T Array::item<T>() const;
LOCKSTEP_ELEMENT(bool)
LOCKSTEP_ELEMENT(std::int8_t)
LOCKSTEP_ELEMENT(std::int16_t)
LOCKSTEP_ELEMENT(std::int32_t)
LOCKSTEP_ELEMENT(std::int64_t)
LOCKSTEP_ELEMENT(std::uint8_t)
LOCKSTEP_ELEMENT(std::uint16_t)
LOCKSTEP_ELEMENT(std::uint32_t)
LOCKSTEP_ELEMENT(std::uint64_t)
LOCKSTEP_ELEMENT(float)
LOCKSTEP_ELEMENT(double)
LOCKSTEP_ELEMENT(std::complex<float>)
LOCKSTEP_ELEMENT(std::complex<double>)
#undef LOCKSTEP_ELEMENT

Array make_array(const ArrayType& type, std::shared_ptr<Buffer> buffer) {
  return Array(std::make_shared<const ArrayState>(type, std::move(buffer)));
}

std::string to_string(const Array& array) {
  if (array.is_traced()) return "traced " + to_string(array.type());
  const ir::ReferenceArray values = ir::reference_from_bytes(array.type(), bytes_of(array, "to_string"));
  return ArrayPrinter(values).text() + " " + std::string(name(array.dtype()));
}

}  // namespace lockstep
