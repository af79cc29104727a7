#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <ostream>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/backend/block_pool.h>
#include <lockstep/error.h>

#include "engine/ir/primitive.h"
#include "engine/ir/text/array_text.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep {

namespace {

/// What an array given away points to, owned by nobody. More arguments than that share the last note.
constexpr std::size_t noted_arguments = 16;
const ArrayState moved_note({}, nullptr);
const std::vector<ArrayState> given_away(noted_arguments, moved_note);

std::shared_ptr<const ArrayState> note(const ArrayState& state) { return {std::shared_ptr<void>(), &state}; }

std::span<const std::byte> bytes_of(const Array& array, std::string_view op) {
  if (array.is_traced()) {
    tracing::check_alive(array, std::string(op));
    throw TraceError(std::string(op) + ": " + to_string(array.type()) +
                     " is a traced value and holds no data while its function is traced. Return it from the function "
                     "and read the result there.");
  }
  if (array.state()->cut != nullptr) {
    throw MeshError(std::string(op) + ": " + to_string(array.type()) + " " + lies_cut(*array.state()->cut) +
                    ", so that no process need have all of its elements; call gather(x) on every process first, or "
                    "local_blocks(x) for those that are here");
  }
  const backend::Buffer& buffer = *array.state()->buffer;
  if (buffer.device().kind != DeviceKind::cpu) {
    throw BackendError(std::string(op) + ": the array lies on " + to_string(buffer.device()) +
                       "; only arrays on the CPU can be read");
  }
  return {static_cast<const std::byte*>(buffer.data()), static_cast<std::size_t>(array.type().nbytes())};
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

}  // namespace

const ArrayState* const detail::moved_away = &moved_note;

const ArrayType& Array::type() const {
  if (!has_value()) throw ValueError(why_empty(*this));
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
  if (dtype() == dtype_of<T>()) return copied<T>(bytes);
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    if (dtype() == DType::key) return copied<T>(bytes);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (is_narrow_float(dtype())) {
      const ir::ReferenceArray wide = ir::reference_from_bytes(type(), bytes);
      return {wide.floats().begin(), wide.floats().end()};
    }
  }
  throw DtypeError("to_vector: cannot read " + to_string(type()) + " as " + std::string(name(dtype_of<T>())) +
                   "; ask for the array's own element type or convert the array first");
}

template <class T>
void Array::copy_to(std::span<T> values) const {
  const std::vector<T> elements = to_vector<T>();
  if (elements.size() != values.size()) {
    throw ShapeError("copy_to: " + to_string(type()) + " has " + std::to_string(elements.size()) +
                     " elements, the span has room for " + std::to_string(values.size()));
  }
  std::copy(elements.begin(), elements.end(), values.begin());
}

void detail::note_given_away(Array& array, std::size_t argument) noexcept {
  if (array.state_.get() == moved_away) array.state_ = note(given_away[std::min(argument, noted_arguments - 1)]);
}

std::string why_empty(const Array& array) {
  const ArrayState* state = array.state().get();
  if (state == nullptr) return "the array holds nothing; assign a value to it first";
  if (state == detail::moved_away) {
    return "the array's value was moved away by std::move; use what it was moved into, or leave out std::move there to "
           "keep it";
  }
  return "the array was given away: std::move made it argument " + std::to_string(state - given_away.data()) +
         " of a compiled function, which may have written its results where the value lay; use the results, or leave "
         "out std::move there to keep it";
}

void detail::RowCount::add(std::size_t row_length) {
  const auto given = static_cast<std::int64_t>(row_length);
  if (rows == 0) length = given;
  if (given != length) {
    throw ShapeError("array: row " + std::to_string(rows) + " has " + std::to_string(given) +
                     " elements, the rows before it have " + std::to_string(length) + "; give rows of one length");
  }
  ++rows;
}

ArrayOperands::ArrayOperands(std::initializer_list<Array> arrays, const detail::SourceLocation& at)
    : std::span<const Array>(arrays.begin(), arrays.size()), site_(at) {}

ArrayOperands::ArrayOperands(const std::vector<Array>& arrays, const detail::SourceLocation& at)
    : std::span<const Array>(arrays.data(), arrays.size()), site_(at) {}

namespace {

/// The number as a T; without its fraction where T is an integer. Throws ValueError where T does not hold it.
template <class T, class Number>
T in_range(Number value, const ArrayType& type) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    bool fits = false;
    if constexpr (std::is_floating_point_v<Number>) {
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);  // the first number beyond T
      const double whole = std::trunc(value);
      fits = whole < end && whole >= (std::is_signed_v<T> ? -end : 0);
    } else {
      fits = std::in_range<T>(value);
    }
    if (!fits) {
      const std::string shown = [&] {
        std::ostringstream text;
        text << value;
        return text.str();
      }();
      throw ValueError("item: " + shown + " of " + to_string(type) + " does not fit " +
                       std::string(name(dtype_of<T>())) + "; expected " +
                       std::to_string(std::numeric_limits<T>::min()) + " to " +
                       std::to_string(std::numeric_limits<T>::max()) + "; read it as a type that holds it");
    }
  }
  return static_cast<T>(value);
}

}  // namespace

template <class T>
T Array::item() const {
  const ir::ReferenceArray element = one_element(*this, "item");
  constexpr bool to_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
  if (is_float(dtype())) return in_range<T>(element.floats()[0], type());
  if (is_complex(dtype()) || dtype() == DType::key) {
    if constexpr (to_complex) {
      if (is_complex(dtype())) return static_cast<T>(element.complexes()[0]);
    }
    throw DtypeError("item: cannot convert " + to_string(type()) + " to " + std::string(name(dtype_of<T>())));
  }
  const std::int64_t value = element.integers()[0];
  if constexpr (to_complex) {
    return T(static_cast<typename T::value_type>(value));
  } else {
    return dtype() == DType::uint64 ? in_range<T>(static_cast<std::uint64_t>(value), type())
                                    : in_range<T>(value, type());
  }
}

Array::operator bool() const {
  if (is_traced()) {
    tracing::check_alive(*this, "condition");
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
  template LOCKSTEP_API void Array::copy_to<T>(std::span<T>) const; \
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

Array make_array(const ArrayType& type, std::shared_ptr<backend::Buffer> buffer) {
  return Array(std::allocate_shared<const ArrayState>(BlockAllocator<ArrayState>(), type, std::move(buffer)));
}

Array make_array(const ArrayType& type, std::shared_ptr<backend::Buffer> buffer, std::shared_ptr<const CutLayout> cut) {
  return Array(
      std::allocate_shared<const ArrayState>(BlockAllocator<ArrayState>(), type, std::move(buffer), std::move(cut)));
}

std::string lies_cut(const CutLayout& cut) {
  std::string text;
  for (std::size_t d = 0; d < cut.layout.size(); ++d) {
    if (cut.layout[d].empty()) continue;
    text += (text.empty() ? "dimension " : ", dimension ") + std::to_string(d) + " along " + cut.layout[d];
  }
  return "lies cut (" + text + ")";
}

std::string to_string(const Array& array, const PrintOptions& options) {
  if (array.is_traced()) return "traced " + to_string(array.type());
  if (array.state()->cut != nullptr) return to_string(array.type()) + " that " + lies_cut(*array.state()->cut);
  return ir::array_text(ir::reference_from_bytes(array.type(), bytes_of(array, "to_string")), options);
}

std::string repr(const Array& array, PrintOptions options) {
  const std::string head = "Array(";
  if (array.is_traced() || array.state()->cut != nullptr) return head + to_string(array) + ")";
  options.separator = ", ";
  options.indent = static_cast<int>(head.size());
  --options.line_width;  // the bracket that closes it
  const std::string text = head + to_string(array, options) + ",";
  const std::string shape = array.size() == 0 ? " shape=" + to_string(array.shape()) + "," : "";
  const std::string dtype = "dtype=" + std::string(name(array.dtype())) + ")";
  const std::size_t line = text.size() - (text.rfind('\n') + 1);  // npos + 1 is 0
  const bool wraps = line + shape.size() + dtype.size() + 1 > static_cast<std::size_t>(options.line_width + 1);
  return text + shape + (wraps ? "\n" + std::string(head.size(), ' ') : " ") + dtype;
}

std::ostream& operator<<(std::ostream& stream, const Array& array) { return stream << to_string(array); }

}  // namespace lockstep
