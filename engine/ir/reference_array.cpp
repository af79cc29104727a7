#include <cstring>

#include <lockstep/error.h>

#include "engine/core/narrow_floats.h"
#include "engine/ir/primitive.h"

namespace lockstep::ir {

namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

double read_float(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::float16:
      return float16_value(load<std::uint16_t>(from));
    case DType::bfloat16:
      return bfloat16_value(load<std::uint16_t>(from));
    case DType::float32:
      return load<float>(from);
    default:
      return load<double>(from);
  }
}

void write_float(DType dtype, double value, std::byte* to) {
  switch (dtype) {
    case DType::float16:
      return store(to, float16_bits(value));
    case DType::bfloat16:
      return store(to, bfloat16_bits(value));
    case DType::float32:
      return store(to, static_cast<float>(value));
    default:
      return store(to, value);
  }
}

std::int64_t read_integer(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::bool_:
      return load<std::uint8_t>(from) != 0 ? 1 : 0;
    case DType::int8:
      return load<std::int8_t>(from);
    case DType::int16:
      return load<std::int16_t>(from);
    case DType::int32:
      return load<std::int32_t>(from);
    case DType::uint8:
      return load<std::uint8_t>(from);
    case DType::uint16:
      return load<std::uint16_t>(from);
    case DType::uint32:
      return load<std::uint32_t>(from);
    case DType::key: {
      const std::uint64_t high = load<std::uint32_t>(from);
      return static_cast<std::int64_t>((high << 32) | load<std::uint32_t>(from + 4));
    }
    default:
      return load<std::int64_t>(from);
  }
}

void write_integer(DType dtype, std::int64_t value, std::byte* to) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (dtype == DType::bool_) return store(to, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
  if (dtype == DType::key) {
    store(to, static_cast<std::uint32_t>(bits >> 32));
    return store(to + 4, static_cast<std::uint32_t>(bits));
  }
  switch (size_of(dtype)) {
    case 1:
      return store(to, static_cast<std::uint8_t>(bits));
    case 2:
      return store(to, static_cast<std::uint16_t>(bits));
    case 4:
      return store(to, static_cast<std::uint32_t>(bits));
    default:
      return store(to, bits);
  }
}

DType part_of(DType complex_type) { return complex_type == DType::complex64 ? DType::float32 : DType::float64; }

}  // namespace

ReferenceArray reference_zeros(const ArrayType& type) {
  const auto count = static_cast<std::size_t>(type.size());
  if (is_float(type.dtype)) return {type, std::vector<double>(count)};
  if (is_complex(type.dtype)) return {type, std::vector<std::complex<double>>(count)};
  return {type, std::vector<std::int64_t>(count)};
}

ReferenceArray reference_from_bytes(const ArrayType& type, std::span<const std::byte> bytes) {
  ReferenceArray array = reference_zeros(type);
  const std::size_t step = size_of(type.dtype);
  const auto count = static_cast<std::size_t>(type.size());
  if (bytes.size() != step * count) {
    throw ValueError("reference_from_bytes: got " + std::to_string(bytes.size()) + " bytes for " + to_string(type) +
                     ", expected " + std::to_string(step * count));
  }
  const bool holds_floats = is_float(type.dtype), holds_complexes = is_complex(type.dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* from = bytes.data() + i * step;
    if (holds_floats) {
      array.floats()[i] = read_float(type.dtype, from);
    } else if (holds_complexes) {
      const DType part = part_of(type.dtype);
      array.complexes()[i] = {read_float(part, from), read_float(part, from + step / 2)};
    } else {
      array.integers()[i] = read_integer(type.dtype, from);
    }
  }
  return array;
}

std::vector<std::byte> reference_to_bytes(const ReferenceArray& array) {
  const DType dtype = array.type.dtype;
  const std::size_t step = size_of(dtype);
  const auto count = static_cast<std::size_t>(array.type.size());
  std::vector<std::byte> bytes(step * count);
  const bool holds_floats = is_float(dtype), holds_complexes = is_complex(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* to = bytes.data() + i * step;
    if (holds_floats) {
      write_float(dtype, array.floats()[i], to);
    } else if (holds_complexes) {
      write_float(part_of(dtype), array.complexes()[i].real(), to);
      write_float(part_of(dtype), array.complexes()[i].imag(), to + step / 2);
    } else {
      write_integer(dtype, array.integers()[i], to);
    }
  }
  return bytes;
}

}  // namespace lockstep::ir
