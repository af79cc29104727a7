#include "tests/golden/stored_values.h"

#include <cmath>
#include <complex>
#include <span>
#include <sstream>

#include <lockstep/array.h>

#include "engine/checkpoint/safetensors.h"
#include "engine/data/gzip_file.h"

namespace lockstep::tests::golden {
namespace {

bool near(double x, double y, double bound) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (std::isinf(x) || std::isinf(y)) return x == y;
  return std::abs(x - y) <= bound * (1 + std::abs(y));
}

}  // namespace

std::map<std::string, std::vector<std::byte>> read_stored(const std::filesystem::path& path) {
  data::GzipFile file(path);
  std::vector<std::byte> bytes;
  for (std::size_t got = 1; got > 0;) {
    const std::size_t done = bytes.size();
    bytes.resize(done + (std::size_t{1} << 20));
    got = file.read(std::span(bytes).subspan(done));
    bytes.resize(done + got);
  }
  std::map<std::string, std::vector<std::byte>> cases;
  for (const auto& [name, array] : checkpoint::read_safetensors(bytes, file.name())) cases[name] = array.to_bytes();
  return cases;
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

/// jax.test_util's default_tolerance and default_gradient_tolerance, but closer where the arithmetic allows it: JAX
/// asks for 1e-15 of a float64 result and widens it op by op; its gradients are compared with differences.
double bound(bool derivative, DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return derivative ? 1e-1 : 1e-2;
    case DType::float16:
      return derivative ? 1e-2 : 1e-3;
    case DType::float32:
    case DType::complex64:
      return derivative ? 1e-5 : 1e-6;
    case DType::float64:
    case DType::complex128:
      return derivative ? 1e-10 : 1e-12;
    default:
      return 0;
  }
}

std::int64_t first_difference_within(const ir::ReferenceArray& a, const ir::ReferenceArray& b, double bound) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.type.size()); ++i) {
    bool equal = false;
    if (is_float(a.type.dtype)) {
      equal = near(a.floats()[i], b.floats()[i], bound);
    } else if (is_complex(a.type.dtype)) {
      equal = near(a.complexes()[i].real(), b.complexes()[i].real(), bound) &&
              near(a.complexes()[i].imag(), b.complexes()[i].imag(), bound);
    } else {
      equal = a.integers()[i] == b.integers()[i];
    }
    if (!equal) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::string element_text(const ir::ReferenceArray& array, std::int64_t at) {
  const auto i = static_cast<std::size_t>(at);
  std::ostringstream stream;
  stream.precision(17);
  if (is_float(array.type.dtype)) {
    stream << array.floats()[i];
  } else if (is_complex(array.type.dtype)) {
    stream << array.complexes()[i];
  } else {
    stream << array.integers()[i];
  }
  return stream.str();
}

}  // namespace lockstep::tests::golden
