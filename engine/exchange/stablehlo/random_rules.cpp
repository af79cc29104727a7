#include <array>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

// Random keys and bits: Threefry-2x32 (lockstep/backend/threefry.h) written out, since each compiler's own generator draws
// other numbers.
namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

using Words = std::array<Term, 2>;

/// The cipher on arrays of one shape.
class Cipher {
 public:
  Cipher(Exporter& out, const Shape& shape) : out_(out), words_{DType::uint32, shape, {}} {}

  Words operator()(const Words& key, const Words& counter) {
    const Term mixed = binary("stablehlo.xor", binary("stablehlo.xor", key[0], key[1]), number(0x1BD11BDA));
    const std::array<Term, 3> schedule = {key[0], key[1], mixed};
    Words state = {binary("stablehlo.add", counter[0], schedule[0]), binary("stablehlo.add", counter[1], schedule[1])};
    for (std::size_t group = 1; group <= 5; ++group) {
      for (const std::int64_t bits : rotations[(group - 1) % 2]) round(state, bits);
      state[0] = binary("stablehlo.add", state[0], schedule[group % 3]);
      state[1] = binary("stablehlo.add", binary("stablehlo.add", state[1], schedule[(group + 1) % 3]),
                        number(static_cast<std::int64_t>(group)));
    }
    return state;
  }
  Term number(std::int64_t value) { return out_.splat_integer(words_, value); }

 private:
  static constexpr std::int64_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};

  Term binary(const char* name, const Term& a, const Term& b) { return out_.binary(name, a, b); }
  void round(Words& state, std::int64_t bits) {
    state[0] = binary("stablehlo.add", state[0], state[1]);
    const Term left = binary("stablehlo.shift_left", state[1], number(bits));
    const Term right = binary("stablehlo.shift_right_logical", state[1], number(32 - bits));
    state[1] = binary("stablehlo.xor", binary("stablehlo.or", left, right), state[0]);
  }

  Exporter& out_;
  ArrayType words_;
};

/// The low and the high word of numbers of 64 bits.
Words halves(Exporter& out, const Term& x) {
  const Term shift = out.splat_integer(x.type, 32);
  return {out.convert(x, DType::uint32),
          out.convert(out.binary("stablehlo.shift_right_logical", x, shift), DType::uint32)};
}
Term word_pair(Exporter& out, const Term& low, const Term& high) {
  const Term wide = out.convert(high, DType::uint64);
  const Term raised = out.binary("stablehlo.shift_left", wide, out.splat_integer(wide.type, 32));
  return out.binary("stablehlo.or", raised, out.convert(low, DType::uint64));
}

/// The cipher's words for each key and each element of the drawn shape, which are counted in row-major order.
Words drawn(const Lowering& l) {
  if (l.operands.size() > 1) l.refuse("a draw that is cut has no form there; draw the whole array");
  const Shape& shape = l.type().shape;
  const int keys = l.x().type.shape.rank();
  Integers own, counted;
  std::int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    (d < keys ? own : counted).push_back(d);
    if (d >= keys) count *= shape[d];
  }
  const Term flat = l.out.iota({DType::uint64, Shape{count}, {}}, 0);
  const Term places = l.out.reshape(flat, Integers(shape.begin() + keys, shape.end()));
  const Words key = halves(l.out, l.out.broadcast(l.x(), shape, own));
  const Words counter = halves(l.out, l.out.broadcast(places, shape, counted));
  return Cipher(l.out, shape)(key, {counter[1], counter[0]});
}

Terms random_bits_rule(const Lowering& l) {
  const Words words = drawn(l);
  if (l.type().dtype == DType::uint64) return {word_pair(l.out, words[1], words[0])};
  return {l.out.convert(l.out.binary("stablehlo.xor", words[0], words[1]), l.type().dtype)};
}
Terms split_rule(const Lowering& l) {
  const Words words = drawn(l);
  return {word_pair(l.out, words[0], words[1])};
}
Terms folded_in(const Lowering& l) {
  Cipher cipher(l.out, l.type().shape);
  const Words words = cipher(halves(l.out, l.x()), {cipher.number(0), l.operands[1]});
  return {word_pair(l.out, words[0], words[1])};
}
Terms same_bits(const Lowering& l) { return {l.out.bitcast(l.x(), l.type())}; }

}  // namespace

LoweringRule random_rule(const ir::Primitive& primitive) {
  if (&primitive == &primitives::random_bits()) return random_bits_rule;
  if (&primitive == &primitives::random_split()) return split_rule;
  if (&primitive == &primitives::random_fold_in()) return folded_in;
  if (&primitive == &primitives::random_wrap() || &primitive == &primitives::random_unwrap()) return same_bits;
  return nullptr;
}

}  // namespace lockstep::exchange
