#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/random/random_draws.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

// Distributions over integers.
namespace lockstep::random {

namespace {

std::int64_t lowest_integer(DType dtype) {
  if (!is_signed_integer(dtype)) return 0;
  return size_of(dtype) == 8 ? std::numeric_limits<std::int64_t>::min()
                             : -(std::int64_t{1} << (8 * size_of(dtype) - 1));
}

/// uint64's is not representable; what lies above it is clamped to it.
std::int64_t largest_integer(DType dtype) {
  if (size_of(dtype) == 8) return std::numeric_limits<std::int64_t>::max();
  return (std::int64_t{1} << (8 * size_of(dtype) - (is_signed_integer(dtype) ? 1 : 0))) - 1;
}

void check_bound(const Operand& bound) {
  if (bound.is_scalar() ? bound.kind() == ScalarKind::integer : is_integer(bound.array().dtype())) return;
  throw DtypeError(
      fmt::format("random::randint: bounds are integers, got {}; convert it",
                  bound.is_scalar() ? std::string("a real or bool scalar") : to_string(bound.array().type())));
}

/// An integer scalar as int64, what is above as its largest.
std::int64_t in_int64(const Operand& bound) {
  return bound.is_above_int64() ? std::numeric_limits<std::int64_t>::max() : bound.integer();
}

/// The bound clamped to [low, high], as `dtype`.
Array clamped(const Operand& bound, std::int64_t low, std::int64_t high, DType dtype, const Shape& shape) {
  if (bound.is_scalar()) return full({}, std::clamp(in_int64(bound), low, high), dtype);
  Array x = bound.array();
  if (lowest_integer(x.dtype()) < low || x.dtype() == int64) x = maximum(x, low);
  if (largest_integer(x.dtype()) > high || x.dtype() == uint64) x = minimum(x, high);
  return api::broadcast("random::randint", convert(x, dtype), shape);
}

/// Whether `high` lies above the largest value of the dtype.
Array beyond(const Operand& high, DType dtype, const Shape& shape) {
  if (high.is_scalar()) return full({}, size_of(dtype) < 8 && in_int64(high) > largest_integer(dtype), bool_);
  const DType given = high.array().dtype();
  const bool possible =
      dtype != uint64 && (largest_integer(given) > largest_integer(dtype) || (given == uint64 && dtype == int64));
  if (!possible) return full({}, false, bool_);
  return api::broadcast("random::randint", greater(high.array(), largest_integer(dtype)), shape);
}

/// Integers below 2^(2 width) modulo `span`, from two words of `width` bits; a span of 0 stands for 2^width.
Array modulo(const Array& high, const Array& low, const Array& span) {
  const int width = 8 * static_cast<int>(size_of(span.dtype()));
  Array multiplier = rem(full_like(span, std::int64_t{1} << (width / 2)), span);
  multiplier = rem(mul(multiplier, multiplier), span);
  return rem(add(mul(rem(high, span), multiplier), rem(low, span)), span);
}

/// `x` sorted along an axis by random words, often enough that no order is likelier than another.
Array shuffled(const Array& key, Array x, int axis, const Placement& placement) {
  const double size = std::max<double>(1, static_cast<double>(x.size()));
  const int rounds = static_cast<int>(std::ceil(3 * std::log(size) / std::log(4294967295.0)));
  Array next = key;
  for (int i = 0; i < rounds; ++i) {
    const std::vector<Array> keys = subkeys(next, 2);
    next = keys[0];
    const Array words = moveaxis(draw_bits("permutation", keys[1], x.shape(), 32, placement), axis, -1);
    const Array order = top_k(bitwise_not(words), words.dim(-1)).second;  // stable, as a sort by the words
    x = take_along_axis(x, moveaxis(order, -1, axis), axis, IndexMode::promise_in_bounds);
  }
  return x;
}

/// Running sums of a vector, by doubling distances.
Array running_sums(Array x) {
  const std::int64_t n = x.dim(0);
  for (std::int64_t step = 1; step < n; step *= 2) x = add(x, pad(slice_in_dim(x, 0, n - step, 0), 0, {step}, {0}));
  return x;
}

/// For each value the first position of the ascending vector whose element is not below it, at most n - 1.
Array first_not_below(const Array& ascending, const Array& values) {
  const std::int64_t n = ascending.dim(0);
  std::int64_t step = 1;
  while (step < n) step *= 2;
  Array below = full(values.shape(), 0, int32);  // that many elements are known to be below
  for (step /= 2; step > 0; step /= 2) {
    const Array tried = add(below, step);
    const Array element = take(ascending, sub(tried, 1), 0, IndexMode::clip);
    below = where(bitwise_and(less(element, values), less_equal(tried, n - 1)), tried, below);
  }
  return below;
}

Array chosen_indices(const Array& key, std::int64_t n, const Shape& shape, const ChoiceOptions& options,
                     const Placement& placement) {
  const std::int64_t draws = shape.size();
  if (draws > 0 && n < 1) throw ValueError("random::choice: nothing to choose from; it has no element");
  if (!options.replace && draws > n) {
    throw ValueError(
        fmt::format("random::choice: {} draws without replacement from {}; draw fewer or with replacement", draws, n));
  }
  if (!options.replace) check_not_cut("choice", placement);
  if (!options.p) {
    if (options.replace) return randint(key, shape, 0, n, int32, placement);
    return reshape(slice_in_dim(permutation(key, n, placement), 0, draws, 0), shape.to_vector());
  }
  const Array& given = *options.p;
  if (!(given.shape() == Shape{n})) {
    throw ShapeError(
        fmt::format("random::choice: p must be [{}], one weight for each, got {}", n, to_string(given.type())));
  }
  const Array p = is_float(given.dtype()) ? given : convert(given, float32);
  if (!options.replace) {
    const Array scores = add(gumbel(key, {n}, p.dtype(), placement), log(p));
    return reshape(top_k(scores, draws).second, shape.to_vector());
  }
  const Array sums = running_sums(p);
  const Array total = squeeze(slice_in_dim(sums, n - 1, n, 0), {0});
  const Array point = mul(total, sub(1, draw_unit("choice", key, shape, p.dtype(), placement)));
  return first_not_below(sums, point);
}

/// `x`, whose first dimensions are the chosen ones, with them where the axis was.
Array with_chosen_at(const Array& x, int axis, const Shape& chosen) {
  Axes order;
  for (int i = 0; i < axis; ++i) order.push_back(chosen.rank() + i);
  for (int i = 0; i < chosen.rank(); ++i) order.push_back(i);
  for (int i = axis + chosen.rank(); i < x.ndim(); ++i) order.push_back(i);
  return transpose(x, order);
}

}  // namespace

Array bernoulli(const ArrayOperand& key, const Operand& p, const Shape& shape, const Placement& placement) {
  if (p.is_scalar() && !(p.real() >= 0 && p.real() <= 1)) {
    throw ValueError(fmt::format("random::bernoulli: p must be in [0, 1], got {}", p.real()));
  }
  const DType dtype = !p.is_scalar() && is_float(p.array().dtype()) ? p.array().dtype() : float32;
  return less(draw_unit("bernoulli", key, shape, dtype, placement), parameter("bernoulli", p, dtype, shape));
}

Array rademacher(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  if (!is_signed_integer(dtype) && !is_float(dtype)) {
    throw DtypeError(fmt::format("random::rademacher: draws signed integers or floats, got dtype {}", name(dtype)));
  }
  return where(bernoulli(key, 0.5, shape, placement), full({}, 1, dtype), full({}, -1, dtype));
}

Array randint(const ArrayOperand& key, const Shape& shape, const Operand& low, const Operand& high, DType dtype,
              const Placement& placement) {
  check_integer("randint", dtype);
  check_one_key("randint", key);
  check_bound(low);
  check_bound(high);
  const bool narrow = size_of(dtype) < 4;  // drawn in 32 bits, where `high` fits
  const DType drawn = narrow ? int32 : dtype;
  const DType word = size_of(drawn) == 8 ? uint64 : uint32;
  const Array first = clamped(low, lowest_integer(dtype), largest_integer(dtype), drawn, shape);
  const Array last = clamped(high, lowest_integer(dtype), largest_integer(dtype) + (narrow ? 1 : 0), drawn, shape);
  const std::vector<Array> keys = subkeys(key, 2);
  const int width = 8 * static_cast<int>(size_of(word));
  const Array high_words = draw_bits("randint", keys[0], shape, width, placement);
  const Array low_words = draw_bits("randint", keys[1], shape, width, placement);
  const Array empty = less_equal(last, first);
  Array span = where(empty, full({}, 1, word), convert(sub(last, first), word));
  span = where(bitwise_and(beyond(high, drawn, shape), bitwise_not(empty)), add(span, 1), span);
  const Array offset = modulo(high_words, low_words, api::broadcast("random::randint", span, shape));
  return convert(add(first, convert(offset, drawn)), dtype);
}

Array permutation(const ArrayOperand& key, std::int64_t n, const Placement& placement) {
  if (n < 0) throw ValueError(fmt::format("random::permutation: n must be at least 0, got {}", n));
  return permutation(key, arange(n), 0, false, placement);
}

Array permutation(const ArrayOperand& key, const ArrayOperand& x, std::int64_t axis, bool independent,
                  const Placement& placement) {
  check_one_key("permutation", key);
  check_not_cut("permutation", placement);
  const int dim = normalize_axis(axis, x.ndim(), "random::permutation");
  if (independent || x.ndim() == 1) return shuffled(key, x, dim, placement);
  const Array order = shuffled(key, arange(x.dim(dim)), 0, placement);
  return moveaxis(take(moveaxis(x, dim, 0), order, 0, IndexMode::promise_in_bounds), 0, dim);
}

Array choice(const ArrayOperand& key, std::int64_t n, const Shape& shape, const ChoiceOptions& options,
             const Placement& placement) {
  check_one_key("choice", key);
  return chosen_indices(key, n, shape, options, placement);
}

Array choice(const ArrayOperand& key, const ArrayOperand& x, const Shape& shape, const ChoiceOptions& options,
             const Placement& placement) {
  check_one_key("choice", key);
  const int axis = normalize_axis(options.axis, x.ndim(), "random::choice");
  const Array indices = chosen_indices(key, x.dim(axis), shape, options, placement);
  return with_chosen_at(take(moveaxis(x, axis, 0), indices, 0, IndexMode::promise_in_bounds), axis, shape);
}

Array categorical(const ArrayOperand& key, const ArrayOperand& logits, const CategoricalOptions& options,
                  const Placement& placement) {
  check_one_key("categorical", key);
  check_float("categorical", logits.dtype());
  const int rank = logits.ndim();
  const int axis = normalize_axis(options.axis, rank, "random::categorical");
  const Shape batch = logits.shape().erase(axis);
  const Shape shape = options.shape.value_or(batch);
  if (shape.rank() < batch.rank() || !(broadcast_shapes(batch, shape, "random::categorical") == shape)) {
    throw ShapeError(
        fmt::format("random::categorical: logits without their classes are {}, which does not broadcast to "
                    "the shape {} asked for",
                    to_string(batch), to_string(shape)));
  }
  const int prefix = shape.rank() - batch.rank();
  const std::int64_t classes = logits.dim(axis);
  if (options.replace) {
    const int at = prefix + axis;  // where the classes stand among the dimensions drawn
    Placement moved = placement;
    if (moved.cut) {
      const int dim = normalize_axis(moved.cut->dim, shape.rank(), "random::categorical");
      moved.cut->dim = dim < at ? dim : dim + 1;
    }
    return argmax(add(gumbel(key, shape.insert(at, classes), logits.dtype(), moved), logits), at);
  }
  check_not_cut("categorical", placement);
  std::int64_t draws = 1;
  for (int i = 0; i < prefix; ++i) draws *= shape[i];
  if (draws > classes) {
    throw ValueError(fmt::format("random::categorical: {} draws without replacement from {} classes", draws, classes));
  }
  const Array scores = add(logits, gumbel(key, logits.shape(), logits.dtype(), placement));
  const Array drawn = top_k(moveaxis(scores, axis, -1), draws).second;
  return reshape(moveaxis(drawn, -1, 0), shape.to_vector());
}

Array geometric(const ArrayOperand& key, const Operand& p, const Shape& shape, DType dtype,
                const Placement& placement) {
  check_integer("geometric", dtype);
  if (p.is_scalar() && !(p.real() > 0 && p.real() <= 1)) {
    throw ValueError(fmt::format("random::geometric: p must be in (0, 1], got {}", p.real()));
  }
  const DType drawn = !p.is_scalar() && is_float(p.array().dtype()) ? p.array().dtype() : float32;
  const Array u = draw_unit("geometric", key, shape, drawn, placement);
  const Array positive = where(equal(u, 0), 1, u);
  const Array chance = parameter("geometric", p, drawn, shape);
  const Array trials = add(floor(div(log(positive), log1p(neg(chance)))), 1);
  // What the integers cannot hold would be converted to anything.
  const Array fits = less(trials, static_cast<double>(largest_integer(dtype)));
  const Array possible = bitwise_and(greater(chance, 0), less_equal(chance, 1));
  const Array counted = where(fits, convert(where(fits, trials, 1), dtype), full({}, largest_integer(dtype), dtype));
  return where(possible, counted, zeros({}, dtype));
}

Array poisson(const ArrayOperand& key, const Operand& rate, const Shape& shape, DType dtype,
              const Placement& placement) {
  check_one_key("poisson", key);
  if (dtype != int32 && dtype != int64) {
    throw DtypeError(
        fmt::format("random::poisson: draws int32 or int64, got dtype {}; draw int32 and convert", name(dtype)));
  }
  const DType given = !rate.is_scalar() && rate.array().dtype() == float64 ? float64 : float32;
  return api::bind_one(ops::primitives::random_poisson(),
                       {draw_keys("poisson", key, shape, placement), full_parameter("poisson", rate, given, shape)},
                       {{"dtype", dtype}});
}

Array binomial(const ArrayOperand& key, const Operand& n, const Operand& p, const Shape& shape, DType dtype,
               const Placement& placement) {
  check_one_key("binomial", key);
  check_float("binomial", dtype);
  return api::bind_one(ops::primitives::random_binomial(),
                       {draw_keys("binomial", key, shape, placement), full_parameter("binomial", n, dtype, shape),
                        full_parameter("binomial", p, dtype, shape)});
}

}  // namespace lockstep::random
