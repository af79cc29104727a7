// Loops of backends/cpu beside the operators of ATen that computed these ops before them: the same bits.

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/round.h>
#include <doctest/doctest.h>

#include "backends/cpu/backend.h"
#include "tests/backends/aten/kernel_runs.h"

// c10 has a CHECK of its own.
namespace lockstep::tests {

namespace {

struct Format {
  DType dtype;
  at::ScalarType type;
  int mantissa_bits;
};

constexpr Format formats[] = {
    {float16, at::kHalf, 10}, {bfloat16, at::kBFloat16, 7}, {float32, at::kFloat, 23}, {float64, at::kDouble, 52}};

std::size_t width_of(const Format& format) { return size_of(format.dtype); }

std::uint64_t bits_at(const Format& format, std::span<const std::byte> bytes, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width_of(format), width_of(format));
  return bits;
}

bool is_nan(const Format& format, std::uint64_t bits) {
  const std::uint64_t magnitude = bits & (~std::uint64_t{0} >> (65 - 8 * width_of(format)));
  const auto exponent_bits = static_cast<int>(8 * width_of(format)) - 1 - format.mantissa_bits;
  return magnitude > ((std::uint64_t{1} << exponent_bits) - 1) << format.mantissa_bits;
}

/// Every pattern of a dtype of 16 bits; of others drawn ones: any bits, numbers of moderate size, halves between whole
/// numbers, zeros, denormals, infinities and NaN.
std::vector<std::byte> draw(const Format& format, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::byte> bytes(count * width_of(format));
  const auto total = static_cast<int>(8 * width_of(format));
  const int exponent_bits = total - 1 - format.mantissa_bits;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << format.mantissa_bits;
  const std::uint64_t bias = (std::uint64_t{1} << (exponent_bits - 1)) - 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t mantissa = generator() & ((std::uint64_t{1} << format.mantissa_bits) - 1);
    std::uint64_t bits = generator();
    const std::uint64_t exponent = bias + generator() % 40 - 20;
    switch (generator() % 8) {
      case 0:
        bits = 0;
        break;
      case 1:
        bits = mantissa >> (generator() % 52);  // denormal
        break;
      case 2:
        bits = infinity | (generator() % 2 == 0 ? 0 : mantissa);
        break;
      case 3:
      case 4:
        bits = (exponent << format.mantissa_bits) | mantissa;
        break;
      case 5: {  // few bits are set: a multiple of a half, perhaps
        const int kept = static_cast<int>(generator() % 12);
        const int dropped = std::max(format.mantissa_bits - kept, 0);
        bits = (exponent << format.mantissa_bits) | mantissa >> dropped << dropped;
        break;
      }
      default:
        break;
    }
    if (format.mantissa_bits < 16 && count >= 0x10000) bits = i;
    if (generator() % 2 == 0 && count < 0x10000) bits |= std::uint64_t{1} << (total - 1);
    std::memcpy(bytes.data() + i * width_of(format), &bits, width_of(format));
  }
  return bytes;
}

at::Tensor tensor_at(const Format& format, const std::byte* bytes, std::int64_t count) {
  return at::from_blob(const_cast<std::byte*>(bytes), {count}, at::TensorOptions(format.type));
}

/// A one-operand op by the kernel of backends/cpu.
std::vector<std::byte> by_loops(const char* op, const Format& from, const Attrs& attrs, std::span<const std::byte> x) {
  static const std::shared_ptr<const backend::Backend> cpu = backend::make_cpu_backend();
  const auto count = static_cast<std::int64_t>(x.size() / width_of(from));
  const BackendOp bound(*cpu, *ops::find_primitive(op), {{from.dtype, {count}, {}}}, attrs);
  DOCTEST_REQUIRE(bound.kernel != nullptr);
  const Memory memory(x);
  return bound.run(std::span(&memory, 1))[0];
}

void check_same(const char* op, const Format& from, const Format& to, std::span<const std::byte> x,
                std::span<const std::byte> expected, std::span<const std::byte> result) {
  for (std::size_t i = 0; i < x.size() / width_of(from); ++i) {
    const std::uint64_t a = bits_at(to, expected, i), b = bits_at(to, result, i);
    if (a == b || (is_nan(to, a) && is_nan(to, b))) continue;
    DOCTEST_FAIL_CHECK(op << " of " << to_string(from.dtype) << " bits " << bits_at(from, x, i) << " gives " << b
                          << ", ATen " << a);
    return;
  }
}

/// 0 and 1 elements, those that fill no vector, and all of a 16-bit dtype.
constexpr std::size_t counts[] = {0, 1, 3, 17, 1000, 0x10000};

struct Unary {
  const char* op;
  at::Tensor& (*by_aten)(at::Tensor& out, const at::Tensor& x);
};

}  // namespace

DOCTEST_TEST_CASE("functions of one float have ATen's bits") {
  constexpr Unary functions[] = {
      {"abs", at::abs_out}, {"ceil", at::ceil_out}, {"floor", at::floor_out}, {"round", at::round_out}};
  for (const Unary& f : functions) {
    for (const Format& format : formats) {
      for (const std::size_t count : counts) {
        const std::vector<std::byte> x = draw(format, count, 5 + count);
        std::vector<std::byte> expected(x.size());
        at::Tensor out = tensor_at(format, expected.data(), static_cast<std::int64_t>(count));
        f.by_aten(out, tensor_at(format, x.data(), static_cast<std::int64_t>(count)));
        check_same(f.op, format, format, x, expected, by_loops(f.op, format, {}, x));
      }
    }
  }
}

DOCTEST_TEST_CASE("floats converted to floats have ATen's bits") {
  for (const Format& from : formats) {
    for (const Format& to : formats) {
      // ATen rounds twice, by way of float32.
      if (from.dtype == float64 && is_narrow_float(to.dtype)) continue;
      for (const std::size_t count : counts) {
        const std::vector<std::byte> x = draw(from, count, 7 + count);
        std::vector<std::byte> expected(count * width_of(to));
        tensor_at(to, expected.data(), static_cast<std::int64_t>(count))
            .copy_(tensor_at(from, x.data(), static_cast<std::int64_t>(count)));
        check_same("convert", from, to, x, expected, by_loops("convert", from, {{"dtype", to.dtype}}, x));
      }
    }
  }
}

}  // namespace lockstep::tests
