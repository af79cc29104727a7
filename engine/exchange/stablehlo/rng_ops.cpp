#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

#include "engine/exchange/stablehlo/importer.h"

// rng_bit_generator with the bits of XLA: Threefry-2x32 and Philox-4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As
// Easy as 1, 2, 3"). DEFAULT is Philox, as on XLA's CPU. A state of uint64 is the key and a counter of 64 or 128 bits.
namespace lockstep::exchange {
namespace {

using WordArrays = std::vector<Array>;

Array word(std::uint32_t value) { return array(value); }
Array low_word(const Array& x) { return convert(x, uint32); }
Array high_word(const Array& x) {
  return convert(lax::shift_right_logical({x, full_like(x, std::int64_t{32})}, {})[0], uint32);
}
Array joined_words(const Array& low, const Array& high) {
  const Array wide = convert(high, uint64);
  return convert(low, uint64) | lax::shift_left({wide, full_like(wide, std::int64_t{32})}, {})[0];
}

/// Two words for each counter.
WordArrays threefry(const Array& key, const Array& counter) {
  constexpr std::array<std::array<std::int64_t, 4>, 2> rotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const Array k0 = low_word(key), k1 = high_word(key);
  const std::array<Array, 3> keys = {k0, k1, k0 ^ k1 ^ word(0x1BD11BDA)};
  Array a = low_word(counter) + keys[0], b = high_word(counter) + keys[1];
  for (std::size_t group = 0; group < 5; ++group) {
    for (const std::int64_t turn : rotations[group % 2]) {
      a = a + b;
      b = (lax::shift_left({b, full_like(b, turn)}, {})[0] |
           lax::shift_right_logical({b, full_like(b, 32 - turn)}, {})[0]) ^
          a;
    }
    a = a + keys[(group + 1) % 3];
    b = b + keys[(group + 2) % 3] + word(static_cast<std::uint32_t>(group + 1));
  }
  return {a, b};
}

/// Four words for each counter.
WordArrays philox(const Array& key, const Array& low, const Array& high) {
  WordArrays c = {low_word(low), high_word(low), low_word(high), high_word(high)};
  Array k0 = low_word(key), k1 = high_word(key);
  const auto product = [](const Array& x, std::uint32_t by) {
    return convert(x, uint64) * array(static_cast<std::uint64_t>(by));
  };
  for (int round = 0; round < 10; ++round) {
    const Array p = product(c[0], 0xD2511F53), q = product(c[2], 0xCD9E8D57);
    c = {high_word(q) ^ c[1] ^ k0, low_word(q), high_word(p) ^ c[3] ^ k1, low_word(p)};
    k0 = k0 + word(0x9E3779B9);
    k1 = k1 + word(0xBB67AE85);
  }
  return c;
}

Array counted(const Array& start, std::int64_t count) { return start + arange(count, uint64); }

/// Numbers of `width` bytes, flat, for arrays of words that were drawn together: the words of a counter follow each other.
Array in_turn(const WordArrays& words, std::size_t width) {
  WordArrays numbers;
  if (width < 8) {
    numbers = words;
  } else {
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) numbers.push_back(joined_words(words[i], words[i + 1]));
  }
  return reshape(stack(numbers, 1), {-1});
}

struct Drawn {
  Array numbers, state;
};

Drawn draw_philox(const Array& state, const Shape& shape, std::size_t width) {
  const std::int64_t each = width == 8 ? 2 : 4, count = (shape.size() + each - 1) / each;
  const Array key = state[0], low = state[1], high = state.dim(0) == 3 ? state[2] : key;
  const Array counters = counted(low, count);
  const Array carried =
      high + convert(counters < low, uint64);  // a sum that is less than what was added to has wrapped
  const Array numbers = slice_in_dim(in_turn(philox(key, counters, carried), width), 0, shape.size(), 0);
  const Array next = low + array(static_cast<std::uint64_t>(count));
  WordArrays words = {key, next};
  if (state.dim(0) == 3) words.push_back(high + convert(next < low, uint64));
  return {reshape(numbers, shape.to_vector()), stack(words, 0)};
}

/// Both words of a counter are neighbours along the first even dimension, or along the largest where none is even.
Drawn draw_threefry(const Array& state, const Shape& shape, std::size_t width) {
  int along = -1;
  for (int d = shape.rank(); d-- > 0;) {
    if (shape[d] % 2 == 0) along = d;
  }
  for (int d = 0; d < shape.rank() && (along < 0 || shape[along] % 2 != 0); ++d) {
    if (along < 0 || shape[d] > shape[along]) along = d;
  }
  const bool is_wide = width == 8;
  Shape half = shape;
  if (!is_wide && shape.rank() > 0) half = shape.with(along, (shape[along] + 1) / 2);
  const std::int64_t count = half.size();
  const Array key = state[0], start = state[1];
  const WordArrays words = threefry(key, counted(start, count));
  const Array next = stack({key, start + array(static_cast<std::uint64_t>(count))}, 0);
  if (is_wide) return {reshape(joined_words(words[0], words[1]), shape.to_vector()), next};
  if (shape.rank() == 0) return {reshape(words[0], {}), next};
  const Array both = stack({reshape(words[0], half.to_vector()), reshape(words[1], half.to_vector())}, along + 1);
  const Array merged = reshape(both, shape.with(along, 2 * half[along]).to_vector());
  return {slice_in_dim(merged, 0, shape[along], along), next};
}

}  // namespace

std::vector<Array> apply_rng(const OpCall& call) {
  if (call.op.name != "stablehlo.rng_bit_generator") return {};
  const Array& state = call.operand(0);
  const mlir::Attribute* written = call.find({"algorithm", "rng_algorithm"});
  const std::string algorithm = written == nullptr ? "" : written->text;
  const bool is_threefry = algorithm == "THREE_FRY";
  if (!is_threefry && algorithm != "PHILOX" && algorithm != "DEFAULT") {
    call.refuse("an algorithm '" + algorithm + "'; there are DEFAULT, THREE_FRY and PHILOX");
  }
  if (state.dtype() != uint64 || state.ndim() != 1 || (state.dim(0) != 2 && (is_threefry || state.dim(0) != 3))) {
    call.refuse(fmt::format("a state of {} for {}; expected {}", to_string(state.type()), algorithm,
                            is_threefry ? "u64[2]" : "u64[2] or u64[3]"));
  }
  if (call.op.result_types.size() != 2) call.refuse("its type must be that of a state and an array");
  const ArrayType& type = call.op.result_types[1];
  if (!is_integer(type.dtype)) call.refuse("bits of " + to_string(type) + "; expected whole numbers");
  if (type.shape.size() == 0) return {state, zeros(type.shape, type.dtype)};
  const std::size_t width = size_of(type.dtype);
  const Drawn drawn = is_threefry ? draw_threefry(state, type.shape, width) : draw_philox(state, type.shape, width);
  return {drawn.state, convert(drawn.numbers, type.dtype)};
}

}  // namespace lockstep::exchange
