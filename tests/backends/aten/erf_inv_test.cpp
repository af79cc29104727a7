// erf_inv's own kernel beside ATen's, whose bits it has, and the table that this takes.

#include "backends/cpu/elementwise/erf_inv.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/from_blob.h>
#include <doctest/doctest.h>

#include "tests/backends/aten/kernel_runs.h"

// c10 has a CHECK of its own.
namespace lockstep::tests {

namespace {

using backend::cpu::ErfInvTable;

/// Calls visit(patterns) for bit patterns from, from + step, ... below `to`, some at a time.
template <class T, class Visit>
void for_patterns(std::uint64_t from, std::uint64_t to, std::uint64_t step, Visit visit) {
  std::vector<T> patterns;
  std::size_t most = 1;
  for (std::uint64_t bits = from; bits < to; bits += step) {
    patterns.push_back(static_cast<T>(bits));
    if (patterns.size() < most) continue;
    visit(patterns);
    patterns.clear();
    most = most < 40 ? most + 1 : 40009;
  }
  visit(patterns);
}

template <class T>
std::vector<T> by_aten(std::vector<T> x, at::ScalarType type) {
  std::vector<T> y(x.size());
  const auto tensor = [&](std::vector<T>& v) {
    return at::from_blob(v.data(), {static_cast<std::int64_t>(v.size())}, at::TensorOptions(type));
  };
  at::Tensor out = tensor(y);
  at::erfinv_out(out, tensor(x));
  return y;
}

template <class T>
std::vector<T> by_kernel(const std::vector<T>& x, DType dtype) {
  const BoundOp bound(*ops::find_primitive("erf_inv"), {{dtype, {static_cast<std::int64_t>(x.size())}, {}}}, {});
  const Memory memory(std::as_bytes(std::span(x)));
  const std::vector<std::byte> bytes = bound.run(std::span(&memory, 1))[0];
  std::vector<T> y(x.size());
  if (!bytes.empty()) std::memcpy(y.data(), bytes.data(), bytes.size());
  return y;
}

/// How many of these elements differ, NaN being equal to NaN.
template <class T>
std::int64_t differences(const std::vector<T>& a, const std::vector<T>& b, T infinity) {
  constexpr T magnitude = static_cast<T>(~T{0}) >> 1;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool nan = (a[i] & magnitude) > infinity && (b[i] & magnitude) > infinity;
    count += nan || a[i] == b[i] ? 0 : 1;
  }
  return count;
}

/// What the table says of one |x|.
struct Entry {
  std::uint32_t magnitude;
  bool up;
};

/// The filter that has these answers, from the last of those places that one entry alone has to the first.
std::vector<std::uint8_t> fuse_filter(const std::vector<Entry>& entries) {
  std::vector<std::uint32_t> count(ErfInvTable::filter_bits), mixed(ErfInvTable::filter_bits), waiting;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    for (const std::uint32_t place : ErfInvTable::places(entries[i].magnitude)) {
      ++count[place];
      mixed[place] ^= i;
    }
  }
  for (std::uint32_t place = 0; place < count.size(); ++place) {
    if (count[place] == 1) waiting.push_back(place);
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order;
  while (!waiting.empty()) {
    const std::uint32_t alone = waiting.back();
    waiting.pop_back();
    if (count[alone] != 1) continue;
    const std::uint32_t i = mixed[alone];
    order.emplace_back(alone, i);
    for (const std::uint32_t place : ErfInvTable::places(entries[i].magnitude)) {
      mixed[place] ^= i;
      if (--count[place] == 1) waiting.push_back(place);
    }
  }
  DOCTEST_REQUIRE(order.size() == entries.size());  // else another hash function
  std::vector<std::uint8_t> bytes(ErfInvTable::filter_bits / 8);
  const ErfInvTable table(bytes);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto& [place, i] = *it;
    if (table.is_rounded_up(entries[i].magnitude) != entries[i].up) bytes[place / 8] ^= 1U << (place % 8);
  }
  return bytes;
}

/// The table of what ATen gives.
std::vector<std::uint8_t> make_table() {
  std::vector<Entry> middle;
  std::vector<std::uint32_t> exceptions;
  for_patterns<std::uint32_t>(ErfInvTable::smallest, std::bit_cast<std::uint32_t>(1.0F), 1,
                              [&](const std::vector<std::uint32_t>& x) {
                                const std::vector<std::uint32_t> y = by_aten(x, at::kFloat);
                                for (std::size_t i = 0; i < x.size(); ++i) {
                                  const double value = backend::cpu::wide_erf_inv(std::bit_cast<float>(x[i]));
                                  const bool up = std::bit_cast<float>(y[i]) > value;
                                  if (backend::cpu::from_middle(value) < ErfInvTable::near) {
                                    middle.push_back({x[i], up});
                                  } else if (y[i] != std::bit_cast<std::uint32_t>(static_cast<float>(value))) {
                                    DOCTEST_CHECK(backend::cpu::from_middle(value) < ErfInvTable::beyond);
                                    exceptions.push_back(x[i]);
                                  }
                                }
                              });
  std::vector<std::uint8_t> bytes = fuse_filter(middle);
  for (const std::uint32_t x : exceptions) {
    for (std::uint32_t shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::uint8_t>(x >> shift));
  }
  return bytes;
}

}  // namespace

DOCTEST_TEST_CASE("erf_inv of 16-bit floats has ATen's bits") {
  for (const auto& [dtype, type, infinity] : {std::tuple{float16, at::kHalf, std::uint16_t{0x7C00}},
                                              std::tuple{bfloat16, at::kBFloat16, std::uint16_t{0x7F80}}}) {
    for_patterns<std::uint16_t>(0, 0x10000, 1, [&, dtype = dtype, type = type, infinity = infinity](const auto& x) {
      DOCTEST_CHECK(differences(by_kernel(x, dtype), by_aten(x, type), infinity) == 0);
    });
  }
}

// LOCKSTEP_EVERY_FLOAT has all of them, which takes a minute.
DOCTEST_TEST_CASE("erf_inv of float32 has ATen's bits") {
  const bool all = std::getenv("LOCKSTEP_EVERY_FLOAT") != nullptr;
  std::int64_t count = 0;
  for (const std::uint64_t sign : {0U, 0x80000000U}) {
    for_patterns<std::uint32_t>(sign, sign + 0x7F800400U, all ? 1 : 2003, [&](const auto& x) {
      count += differences(by_kernel(x, float32), by_aten(x, at::kFloat), 0x7F800000U);
    });
  }
  DOCTEST_CHECK(count == 0);
}

// LOCKSTEP_DUMP=<file> writes it: backends/cpu/elementwise/erf_inv_roundings.bin.
DOCTEST_TEST_CASE("erf_inv's table is what is made of ATen's values" * doctest::skip()) {
  const std::vector<std::uint8_t> bytes = make_table();
  if (const char* path = std::getenv("LOCKSTEP_DUMP"); path != nullptr) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const std::span<const std::uint8_t> used = ErfInvTable::shared().bytes();
  DOCTEST_CHECK(bytes == std::vector<std::uint8_t>(used.begin(), used.end()));
}

}  // namespace lockstep::tests
