#include "engine/text/fingerprints.h"

#include <bit>
#include <cstring>
#include <utility>

namespace lockstep::data {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::uint64_t k0 = 0xC3A5C85C97CB3127U, k1 = 0xB492B66FBE98F273U, k2 = 0x9AE16A3B2F90404FU;

template <class T = std::uint64_t>
std::uint64_t word(std::string_view text, std::size_t at) {
  T value{};
  std::memcpy(&value, text.data() + at, sizeof(T));
  return value;
}

std::uint64_t mixed(std::uint64_t v) { return v ^ (v >> 47); }

/// Two words as one.
std::uint64_t words_joined(std::uint64_t u, std::uint64_t v, std::uint64_t factor) {
  const std::uint64_t a = mixed((u ^ v) * factor);
  return mixed((v ^ a) * factor) * factor;
}

std::uint64_t up_to_16(std::string_view s) {
  const std::size_t n = s.size();
  const std::uint64_t factor = k2 + n * 2;
  if (n >= 8) {
    const std::uint64_t a = word(s, 0) + k2, b = word(s, n - 8);
    const std::uint64_t c = std::rotr(b, 37) * factor + a;
    return words_joined(c, (std::rotr(a, 25) + b) * factor, factor);
  }
  if (n >= 4) return words_joined(n + (word<std::uint32_t>(s, 0) << 3), word<std::uint32_t>(s, n - 4), factor);
  if (n == 0) return k2;
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(s[i])}; };
  const std::uint32_t y = byte(0) + (byte(n >> 1) << 8);
  const std::uint32_t z = static_cast<std::uint32_t>(n) + (byte(n - 1) << 2);
  return mixed(y * k2 ^ z * k0) * k2;
}

std::uint64_t up_to_32(std::string_view s) {
  const std::size_t n = s.size();
  const std::uint64_t factor = k2 + n * 2;
  const std::uint64_t a = word(s, 0) * k1, b = word(s, 8), c = word(s, n - 8) * factor, d = word(s, n - 16) * k2;
  return words_joined(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + k2, 18) + c, factor);
}

std::uint64_t up_to_64(std::string_view s) {
  const std::size_t n = s.size();
  const std::uint64_t factor = k2 + n * 2;
  const std::uint64_t a = word(s, 0) * k2, b = word(s, 8), c = word(s, n - 8) * factor, d = word(s, n - 16) * k2;
  const std::uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const std::uint64_t z = words_joined(y, a + std::rotr(b + k2, 18) + c, factor);
  const std::uint64_t e = word(s, 16) * factor, f = word(s, 24);
  const std::uint64_t g = (y + word(s, n - 32)) * factor, h = (z + word(s, n - 24)) * factor;
  return words_joined(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, factor);
}

using Pair = std::pair<std::uint64_t, std::uint64_t>;

/// 32 bytes and two seeds as two words.
Pair of_32(std::string_view s, std::size_t at, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t w = word(s, at), x = word(s, at + 8), y = word(s, at + 16), z = word(s, at + 24);
  a += w;
  b = std::rotr(b + a + z, 21);
  const std::uint64_t before = a;
  a += x + y;
  b += std::rotr(a, 44);
  return {a + z, b + before};
}

std::uint64_t longer(std::string_view s) {
  constexpr std::uint64_t seed = 81;
  const std::size_t n = s.size(), end = (n - 1) / 64 * 64;
  std::uint64_t x = seed * k2 + word(s, 0), y = seed * k1 + 113, z = mixed(y * k2 + 113) * k2;
  Pair v{0, 0}, w{0, 0};
  const auto take = [&](std::size_t at, std::uint64_t factor, std::uint64_t of_w, std::uint64_t of_v) {
    x = std::rotr(x + y + v.first + word(s, at + 8), 37) * factor;
    y = std::rotr(y + v.second + word(s, at + 48), 42) * factor;
    x ^= w.second * of_w;
    y += v.first * of_v + word(s, at + 40);
    z = std::rotr(z + w.first, 33) * factor;
    v = of_32(s, at, v.second * factor, x + w.first);
    w = of_32(s, at + 32, z + w.second, y + word(s, at + 16));
    std::swap(z, x);
  };
  for (std::size_t at = 0; at != end; at += 64) take(at, k1, 1, 1);
  const std::uint64_t factor = k1 + ((z & 0xFF) << 1);
  w.first += (n - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  take(n - 64, factor, 9, 9);
  return words_joined(words_joined(v.first, w.first, factor) + mixed(y) * k0 + z,
                      words_joined(v.second, w.second, factor) + x, factor);
}

}  // namespace

std::uint64_t fingerprint64(std::string_view text) {
  if (text.size() <= 16) return up_to_16(text);
  if (text.size() <= 32) return up_to_32(text);
  return text.size() <= 64 ? up_to_64(text) : longer(text);
}

std::uint64_t sip_hash(std::string_view text, std::uint64_t first, std::uint64_t second) {
  std::uint64_t a = first ^ 0x736F6D6570736575U, b = second ^ 0x646F72616E646F6DU;
  std::uint64_t c = first ^ 0x6C7967656E657261U, d = second ^ 0x7465646279746573U;
  const auto turn = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
      c += d, d = std::rotl(d, 16) ^ c;
      a += d, d = std::rotl(d, 21) ^ a;
      c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
    }
  };
  const auto add = [&](std::uint64_t block) {
    d ^= block;
    turn(2);
    a ^= block;
  };
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) add(word(text, at));
  std::uint64_t last = static_cast<std::uint64_t>(text.size()) << 56;
  if (whole < text.size()) std::memcpy(&last, text.data() + whole, text.size() - whole);
  add(last);
  c ^= 0xFF;
  turn(4);
  return a ^ b ^ c ^ d;
}

}  // namespace lockstep::data
