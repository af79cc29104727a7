#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/fft.h>
#include <lockstep/manipulation.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/fft/kinds.h"
#include "engine/ops/primitives.h"

namespace lockstep::fft {

namespace {

namespace fft_kinds = ops::fft_kinds;

/// One of the transforms of the primitive, and the name of the function it serves.
struct Transform {
  std::string op;
  std::string_view kind;

  bool to_reals() const { return kind == fft_kinds::to_reals; }
  bool from_reals() const { return kind == fft_kinds::from_reals; }
  bool inverse() const { return kind == fft_kinds::inverse || kind == fft_kinds::to_reals; }
};

/// The operand in the dtype that the transform takes.
Array transform_operand(const Transform& transform, const Array& a) {
  const DType dtype = api::inexact(a.dtype());
  if (is_narrow_float(dtype)) {
    throw DtypeError(fmt::format("{}: no transform of {}; convert(a, float32) first", transform.op, name(dtype)));
  }
  if (transform.from_reals()) {
    if (!is_complex(dtype)) return convert(a, dtype);
    throw DtypeError(fmt::format("{}: needs real numbers, got {}; use fft", transform.op, to_string(a.type())));
  }
  if (is_complex(dtype)) return convert(a, dtype);
  return convert(a, dtype == DType::float64 ? DType::complex128 : DType::complex64);
}

Axes resolved(const Transform& transform, const Array& a, const Axes& axes) {
  Axes result;
  for (const std::int64_t axis : axes) result.push_back(normalize_axis(axis, a.ndim(), transform.op));
  Axes sorted = result;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw ShapeError(
        fmt::format("{}: axes [{}] name a dimension twice; transform it once", transform.op, fmt::join(axes, ",")));
  }
  return result;
}

/// The first `length` elements of an axis, with zeros behind those there are.
Array fitted(const Array& x, std::int64_t axis, std::int64_t length) {
  const std::int64_t extent = x.dim(static_cast<int>(axis));
  if (extent > length) return slice_in_dim(x, 0, length, axis);
  if (extent == length) return x;
  const auto rank = static_cast<std::size_t>(x.ndim());
  Axes high(rank, 0);
  nth(high, axis) = length - extent;
  return pad(x, zeros({}, x.dtype()), Axes(rank, 0), high);
}

/// Dimensions with those of `axes` last.
Axes with_last(int rank, const Axes& axes) {
  Axes order;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) order.push_back(d);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  return order;
}

Axes inverse_of(const Axes& permutation) {
  Axes result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    nth(result, permutation[i]) = static_cast<std::int64_t>(i);
  }
  return result;
}

double scale(const Transform& transform, Norm norm, const Axes& lengths) {
  if (norm == Norm::backward) return 1;
  const double n = std::accumulate(lengths.begin(), lengths.end(), 1.0,
                                   [](double product, std::int64_t length) { return product * double(length); });
  const double factor = norm == Norm::ortho ? std::sqrt(n) : n;
  return transform.inverse() ? factor : 1 / factor;
}

Array transformed_along(const Transform& transform, const Array& a, const Axes& lengths, const Axes& axes, Norm norm) {
  Array x = transform_operand(transform, a);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (lengths[i] < 1) {
      throw ShapeError(fmt::format("{}: needs lengths of 1 or more, got {} for axis {} of {}", transform.op, lengths[i],
                                   axes[i], to_string(a.type())));
    }
    const bool halved = transform.to_reals() && i + 1 == axes.size();
    x = fitted(x, axes[i], halved ? lengths[i] / 2 + 1 : lengths[i]);
  }
  const Axes order = with_last(a.ndim(), axes);
  const Array y = api::bind_one(ops::primitives::fft(), {transpose(x, order)},
                                {{"kind", std::string(transform.kind)}, {"lengths", lengths}});
  const double factor = scale(transform, norm, lengths);
  const Array result = transpose(y, inverse_of(order));
  return factor == 1 ? result : result * factor;
}

/// Over the axes named: the last ones, as many as there are lengths, or all.
Array over(const Transform& transform, const Array& a, const Lengths& s, const OptionalAxes& axes, Norm norm) {
  Axes chosen;
  if (axes) {
    chosen = *axes;
  } else {
    const auto count = s ? static_cast<std::int64_t>(s->size()) : std::int64_t{a.ndim()};
    for (std::int64_t i = -count; i < 0; ++i) chosen.push_back(i);
  }
  if (s && s->size() != chosen.size()) {
    throw ShapeError(
        fmt::format("{}: {} lengths for {} axes; give one for each", transform.op, s->size(), chosen.size()));
  }
  chosen = resolved(transform, a, chosen);
  if (chosen.empty()) {
    if (transform.from_reals() || transform.to_reals()) {
      throw ShapeError(fmt::format("{}: needs at least one axis to halve; name it in axes", transform.op));
    }
    return transform_operand(transform, a);
  }
  Axes lengths;
  for (const std::int64_t axis : chosen) lengths.push_back(a.dim(static_cast<int>(axis)));
  if (transform.to_reals()) lengths.back() = 2 * (lengths.back() - 1);
  return transformed_along(transform, a, s.value_or(lengths), chosen, norm);
}

Array along_one(const Transform& transform, const Array& a, Length n, std::int64_t axis, Norm norm) {
  return over(transform, a, n ? Lengths(Axes{*n}) : std::nullopt, Axes{axis}, norm);
}

Array over_two(const Transform& transform, const Array& a, const Lengths& s, const Axes& axes, Norm norm) {
  if (axes.size() != 2) {
    throw ShapeError(fmt::format("{}: needs two axes, got [{}]; use {}n for others", transform.op, fmt::join(axes, ","),
                                 transform.op.substr(0, transform.op.size() - 1)));
  }
  return over(transform, a, s, axes, norm);
}

/// hfft is the inverse transform with the division of the direct one, and the other way round.
Norm exchanged(Norm norm) {
  if (norm == Norm::ortho) return norm;
  return norm == Norm::backward ? Norm::forward : Norm::backward;
}

Array halves_exchanged(const char* op, const Array& x, const OptionalAxes& axes, bool back) {
  Axes chosen = repeated(x.ndim());
  std::iota(chosen.begin(), chosen.end(), std::int64_t{0});
  Array result = x;
  for (const std::int64_t named : axes.value_or(chosen)) {
    const std::int64_t axis = normalize_axis(named, x.ndim(), op);
    const std::int64_t extent = x.dim(static_cast<int>(axis));
    result = roll(result, back ? extent - extent / 2 : extent / 2, axis);
  }
  return result;
}

Array frequencies(const char* op, std::int64_t n, double d, DType dtype, bool half) {
  if (n < 1) throw ValueError(fmt::format("{}: needs n of 1 or more, got {}", op, n));
  if (!is_float(dtype)) throw DtypeError(fmt::format("{}: needs a float dtype, got {}", op, name(dtype)));
  const std::int64_t count = half ? n / 2 + 1 : n;
  const Array k = arange(count, int64);
  const Array numbers = half ? k : where(less(k, (n + 1) / 2), k, k - n);
  return convert(numbers, dtype) / (static_cast<double>(n) * d);
}

}  // namespace

Array fft(const ArrayOperand& a, Length n, std::int64_t axis, Norm norm) {
  return along_one({"fft.fft", fft_kinds::direct}, a, n, axis, norm);
}
Array ifft(const ArrayOperand& a, Length n, std::int64_t axis, Norm norm) {
  return along_one({"fft.ifft", fft_kinds::inverse}, a, n, axis, norm);
}
Array rfft(const ArrayOperand& a, Length n, std::int64_t axis, Norm norm) {
  return along_one({"fft.rfft", fft_kinds::from_reals}, a, n, axis, norm);
}
Array irfft(const ArrayOperand& a, Length n, std::int64_t axis, Norm norm) {
  return along_one({"fft.irfft", fft_kinds::to_reals}, a, n, axis, norm);
}

Array hfft(const ArrayOperand& a, Length n, std::int64_t axis, Norm norm) {
  const Array turned = along_one({"fft.hfft", fft_kinds::to_reals}, a, n, axis, exchanged(norm));
  // The transform of the conjugates is the reverse of the transform, but for its first element.
  const std::int64_t dim = normalize_axis(axis, a.ndim(), "fft.hfft");
  return roll(reverse(turned, {dim}), 1, dim);
}

Array ihfft(const ArrayOperand& a, Length n, std::int64_t axis, Norm norm) {
  const Transform transform{"fft.ihfft", fft_kinds::inverse};
  if (is_complex(a.dtype())) {
    throw DtypeError(fmt::format("fft.ihfft: needs real numbers, got {}; use ifft", to_string(a.type())));
  }
  const Array whole = along_one(transform, a, n, axis, norm);
  const std::int64_t dim = normalize_axis(axis, a.ndim(), transform.op);
  return slice_in_dim(whole, 0, whole.dim(static_cast<int>(dim)) / 2 + 1, dim);
}

Array fftn(const ArrayOperand& a, const Lengths& s, const OptionalAxes& axes, Norm norm) {
  return over({"fft.fftn", fft_kinds::direct}, a, s, axes, norm);
}
Array ifftn(const ArrayOperand& a, const Lengths& s, const OptionalAxes& axes, Norm norm) {
  return over({"fft.ifftn", fft_kinds::inverse}, a, s, axes, norm);
}
Array rfftn(const ArrayOperand& a, const Lengths& s, const OptionalAxes& axes, Norm norm) {
  return over({"fft.rfftn", fft_kinds::from_reals}, a, s, axes, norm);
}
Array irfftn(const ArrayOperand& a, const Lengths& s, const OptionalAxes& axes, Norm norm) {
  return over({"fft.irfftn", fft_kinds::to_reals}, a, s, axes, norm);
}

Array fft2(const ArrayOperand& a, const Lengths& s, const Axes& axes, Norm norm) {
  return over_two({"fft.fft2", fft_kinds::direct}, a, s, axes, norm);
}
Array ifft2(const ArrayOperand& a, const Lengths& s, const Axes& axes, Norm norm) {
  return over_two({"fft.ifft2", fft_kinds::inverse}, a, s, axes, norm);
}
Array rfft2(const ArrayOperand& a, const Lengths& s, const Axes& axes, Norm norm) {
  return over_two({"fft.rfft2", fft_kinds::from_reals}, a, s, axes, norm);
}
Array irfft2(const ArrayOperand& a, const Lengths& s, const Axes& axes, Norm norm) {
  return over_two({"fft.irfft2", fft_kinds::to_reals}, a, s, axes, norm);
}

Array fftfreq(std::int64_t n, double d, DType dtype) { return frequencies("fft.fftfreq", n, d, dtype, false); }
Array rfftfreq(std::int64_t n, double d, DType dtype) { return frequencies("fft.rfftfreq", n, d, dtype, true); }
Array fftshift(const ArrayOperand& x, const OptionalAxes& axes) {
  return halves_exchanged("fft.fftshift", x, axes, false);
}
Array ifftshift(const ArrayOperand& x, const OptionalAxes& axes) {
  return halves_exchanged("fft.ifftshift", x, axes, true);
}

}  // namespace lockstep::fft
