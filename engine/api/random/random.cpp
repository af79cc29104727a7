#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/random/random_draws.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

template class lockstep::detail::OutOfLine<std::optional<lockstep::random::Cut>>;

const lockstep::random::Placement lockstep::detail::unplaced;

namespace lockstep::random {

const Placement same_on_all{.cut = {}, .same_on_all = true};

namespace {

Array fold_words(const Array& key, const Array& words) {
  return api::bind_one(ops::primitives::random_fold_in(), {key, words});
}

}  // namespace

Array key(std::uint64_t seed) {
  const auto word = [](std::uint64_t value) { return full({1}, static_cast<std::int64_t>(value), uint32); };
  return wrap_key_data(concatenate({word(seed >> 32), word(seed & 0xffffffffU)}, 0));
}

Array split(const ArrayOperand& key, std::int64_t n) {
  check_key(__func__, key);
  if (n < 1) throw ValueError(fmt::format("random::split: the number of keys must be at least 1, got {}", n));
  return api::bind_one(ops::primitives::random_split(), {key}, {{"shape", Axes{n}}});
}

Array fold_in(const ArrayOperand& key, const Operand& data) {
  check_key("fold_in", key);
  if (data.is_scalar()) {
    if (data.kind() == ScalarKind::real) {
      throw DtypeError("random::fold_in: data must be an integer, got a real number");
    }
    if (data.integer() < 0 || data.integer() > 0xffffffff) {
      throw ValueError(
          fmt::format("random::fold_in: {} is no number of 32 bits, 0 to 4294967295, so another number would give the "
                      "same key; fold "
                      "in parts of it one after the other, as in fold_in(fold_in(key, n >> 32), n & 0xffffffff)",
                      data.integer()));
    }
    const auto word = static_cast<std::uint32_t>(data.integer());
    return fold_words(key, api::constant("fold_in", static_cast<std::int64_t>(word), uint32, key.shape()));
  }
  if (!is_integer(data.array().dtype())) {
    throw DtypeError(fmt::format("random::fold_in: data must be an integer, got {}", to_string(data.array().type())));
  }
  const Shape shape = broadcast_shapes(key.shape(), data.array().shape(), "random::fold_in");
  return fold_words(broadcast_to(key, shape), broadcast_to(convert(data.array(), uint32), shape));
}

Array key_data(const ArrayOperand& key) {
  check_key("key_data", key);
  return api::bind_one(ops::primitives::random_unwrap(), {key});
}

Array wrap_key_data(const ArrayOperand& words) {
  if (words.dtype() != uint32 || words.ndim() == 0 || words.dim(-1) != 2) {
    throw ShapeError(fmt::format("random::wrap_key_data: needs uint32[..., 2], got {}", to_string(words.type())));
  }
  return api::bind_one(ops::primitives::random_wrap(), {words});
}

Array clone(const ArrayOperand& key) { return wrap_key_data(key_data(key)); }

Array bits(const ArrayOperand& key, const Shape& shape, int width, const Placement& placement) {
  if (width != 8 && width != 16 && width != 32 && width != 64) {
    throw ValueError(fmt::format("random::bits: width must be 8, 16, 32 or 64, got {}", width));
  }
  return draw_bits("bits", key, shape, width, placement);
}

Array uniform(const ArrayOperand& key, const Shape& shape, DType dtype, const Operand& low, const Operand& high,
              const Placement& placement) {
  const Array unit = draw_unit("uniform", key, shape, dtype, placement);
  if (low.is_scalar() && high.is_scalar() && low.real() == 0 && high.real() == 1) return unit;
  const Array first = parameter("uniform", low, dtype, shape), last = parameter("uniform", high, dtype, shape);
  const bool wide = !low.is_scalar() || !high.is_scalar() || !is_finite_in(dtype, high.real() - low.real());
  return below(wide ? stretched_far(unit, first, last) : stretched(unit, first, last), first, last);
}

}  // namespace lockstep::random
