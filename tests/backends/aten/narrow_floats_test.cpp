#include "backends/cpu/narrow_floats.h"

#include <bit>
#include <cstdint>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <doctest/doctest.h>

// Elements of 16 bits have one value, whether ATen or a loop of ours computes them.
namespace lockstep::tests {

namespace {

using backend::cpu::Bfloat16;
using backend::cpu::Float16;

template <class Theirs, class Ours>
bool widens_alike(std::uint16_t bits) {
  Ours ours;
  ours.bits = bits;
  const Theirs theirs(bits, Theirs::from_bits());
  return std::bit_cast<std::uint32_t>(static_cast<float>(ours)) ==
         std::bit_cast<std::uint32_t>(static_cast<float>(theirs));
}

bool rounds_alike(std::uint32_t bits) {
  const auto x = std::bit_cast<float>(bits);
  return Float16(x).bits == c10::Half(x).x && Bfloat16(x).bits == c10::BFloat16(x).x;
}

}  // namespace

TEST_CASE("a float of 16 bits is widened as ATen widens it") {
  int other = 0;
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    if (!widens_alike<c10::Half, Float16>(narrow) || !widens_alike<c10::BFloat16, Bfloat16>(narrow)) ++other;
  }
  CHECK(other == 0);
}

TEST_CASE("a float is rounded to 16 bits as ATen rounds it: around every number, halfway and beside") {
  int other = 0;
  for (std::uint32_t high = 0; high <= 0xFFFFF; ++high) {
    for (const std::uint32_t low : {0U, 1U, 0x7FFU, 0x800U, 0x801U, 0xFFFU}) {
      if (!rounds_alike(high << 12 | low)) ++other;
    }
  }
  CHECK(other == 0);
}

TEST_CASE("arithmetic on floats of 16 bits rounds each result") {
  CHECK((Float16(2048.0F) + Float16(1.0F)).bits == Float16(2048.0F).bits);
  CHECK((Bfloat16(256.0F) - Bfloat16(-1.0F)).bits == Bfloat16(256.0F).bits);
  CHECK((Float16(255.0F) * Float16(257.0F)).bits == 0x7C00);
  CHECK((Bfloat16(1.0F) / Bfloat16(3.0F)).bits == 0x3EAB);
  CHECK((-Float16(0.0F)).bits == 0x8000);
}

}  // namespace lockstep::tests
