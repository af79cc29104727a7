#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>

#include "engine/core/lists.h"
#include "engine/ops/fft/kinds.h"
#include "engine/ops/rules/define.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

bool is_complex_kind(const std::string& kind) { return kind == fft_kinds::direct || kind == fft_kinds::inverse; }

DType complex_of(DType dtype) { return dtype == DType::float32 ? DType::complex64 : DType::complex128; }
DType real_dtype(DType dtype) { return dtype == DType::complex64 ? DType::float32 : DType::float64; }

void expect_operand_dtype(const ir::InferContext& context, const std::string& kind) {
  const DType dtype = context.inputs[0].dtype;
  if (kind == fft_kinds::from_reals) {
    if (dtype == DType::float32 || dtype == DType::float64) return;
    infer::dtype_error(context, "float32 or float64 for rfft",
                       is_complex(dtype) ? "use kind fft" : "convert(x, float32)");
  }
  if (!is_complex(dtype)) infer::dtype_error(context, "complex64 or complex128 for " + kind, "convert(x, complex64)");
}

std::vector<ArrayType> fft_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  const auto& kind = context.attrs.get<std::string>("kind");
  if (!is_complex_kind(kind) && kind != fft_kinds::from_reals && kind != fft_kinds::to_reals) {
    infer::shape_error(context, "one of the kinds fft, ifft, rfft and irfft", "name one of them");
  }
  expect_operand_dtype(context, kind);
  const auto& lengths = infer::list_attr(context, "lengths");
  const ArrayType& x = context.inputs[0];
  const int first = x.shape.rank() - static_cast<int>(lengths.size());
  if (lengths.empty() || first < 0) {
    infer::shape_error(context, "1 to " + std::to_string(x.shape.rank()) + " lengths, one for each last dimension",
                       "name the dimensions to transform");
  }
  Shape full = x.shape;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1) infer::shape_error(context, "lengths of 1 or more", "leave empty arrays out");
    full = full.with(first + static_cast<int>(i), lengths[i]);
  }
  const Shape half = full.with(full.rank() - 1, lengths.back() / 2 + 1);
  const Shape& expected = kind == fft_kinds::to_reals ? half : full;
  if (x.shape != expected) infer::shape_error(context, to_string(expected), "slice or pad the operand to it");
  if (is_complex_kind(kind)) return {x};
  if (kind == fft_kinds::from_reals) return {{complex_of(x.dtype), half, {}}};
  return {{real_dtype(x.dtype), full, {}}};
}

Value apply_fft(const Value& x, std::string_view kind, const Attrs& attrs) {
  return apply_one(primitives::fft(), {x}, attrs.with("kind", std::string(kind)));
}

/// What stands for `half` of n frequencies, with zeros for the others.
Value with_zeros(const Value& half, std::int64_t n) {
  const Dims none = repeated(half.rank());
  Dims high = none;
  high.back() = n - half.shape().dim(-1);
  return pad(half, 0, none, high, none);
}

/// Twice what stands for two frequencies of n, the others as they are.
Value counted_twice(const Value& half, std::int64_t n) {
  const Value k = iota(half.builder(), DType::int64, half.shape(), half.rank() - 1);
  const Value in_pair = bitwise_and(greater(k, full_like(k, 0)), less(k + k, full_like(k, static_cast<double>(n))));
  return select(in_pair, half + half, half);
}

/// A cotangent c of y stands for the real part of sum(c * y). The transforms' matrices are symmetric; those to and from
/// half of the frequencies are fft or ifft with an embedding or a projection before or after it.
std::vector<Tangent> fft_transpose(const TransposeContext& context) {
  const auto& kind = context.attrs.get<std::string>("kind");
  const Value& ct = *context.cotangents[0];
  if (is_complex_kind(kind)) return {apply_fft(ct, kind, context.attrs)};
  const std::int64_t n = context.attrs.get<Dims>("lengths").back();
  const DType dtype = context.input_types[0].dtype;
  if (kind == fft_kinds::from_reals) {
    return {convert(apply_fft(with_zeros(ct, n), fft_kinds::direct, context.attrs), dtype)};
  }
  const Value whole = apply_fft(convert(ct, dtype), fft_kinds::inverse, context.attrs);
  const Dims start = repeated(whole.rank());
  const Value half = slice(whole, start, context.input_types[0].shape.to_vector(), Dims(start.size(), 1));
  return {counted_twice(half, n)};
}

/// Rows along one dimension of an array: their first offset and step.
template <class Visit>
void for_each_row(const Shape& shape, int dim, Visit visit) {
  const std::int64_t step = nth(row_major_strides(shape), dim);
  const std::int64_t rows = shape.size() / shape[dim];
  for (std::int64_t r = 0; r < rows; ++r) visit(r / step * step * shape[dim] + r % step, step);
}

Complex turn(std::int64_t jk, std::int64_t n, double sign) {
  return std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(jk % n) / static_cast<double>(n));
}

/// One dimension, all of its frequencies.
void transform_dimension(std::vector<Complex>& x, const Shape& shape, int dim, double sign) {
  const std::int64_t n = shape[dim];
  for_each_row(shape, dim, [&](std::int64_t first, std::int64_t step) {
    std::vector<Complex> row = repeated<Complex>(n);
    for (std::int64_t k = 0; k < n; ++k) {
      for (std::int64_t j = 0; j < n; ++j) {
        nth(row, k) += nth(x, first + j * step) * turn(j * k, n, sign);
      }
    }
    for (std::int64_t k = 0; k < n; ++k) {
      nth(x, first + k * step) = nth(row, k);
    }
  });
}

/// Of each row of `half` frequencies of n real numbers those numbers.
std::vector<double> real_rows(const std::vector<Complex>& x, std::int64_t half, std::int64_t n) {
  std::vector<double> result;
  for (std::size_t first = 0; first < x.size(); first += static_cast<std::size_t>(half)) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < half; ++k) {
        const double weight = k > 0 && 2 * k < n ? 2 : 1;
        sum += weight * (x[first + static_cast<std::size_t>(k)] * turn(j * k, n, 1)).real();
      }
      result.push_back(sum);
    }
  }
  return result;
}

void fft_reference(const ir::ReferenceContext& context) {
  const auto& kind = context.attrs.get<std::string>("kind");
  const auto& lengths = context.attrs.get<Dims>("lengths");
  const ir::ReferenceArray& x = context.inputs[0];
  ir::ReferenceArray& y = context.outputs[0];
  const Shape& shape = x.type.shape;
  if (shape.size() == 0) return;
  std::vector<Complex> values;
  if (kind == fft_kinds::from_reals) {
    values.assign(x.floats().begin(), x.floats().end());
  } else {
    values = x.complexes();
  }
  const bool inverse = kind == fft_kinds::inverse || kind == fft_kinds::to_reals;
  const int last = shape.rank() - 1;
  for (int dim = shape.rank() - static_cast<int>(lengths.size()); dim <= last; ++dim) {
    if (dim == last && kind == fft_kinds::to_reals) continue;
    transform_dimension(values, shape, dim, inverse ? 1 : -1);
  }
  const double count = inverse ? std::accumulate(lengths.begin(), lengths.end(), 1.0, std::multiplies<double>()) : 1.0;
  if (kind == fft_kinds::to_reals) {
    y.floats() = real_rows(values, shape[last], lengths.back());
    for (double& element : y.floats()) element /= count;
    return;
  }
  const std::int64_t kept = y.type.shape[last];
  for (std::int64_t i = 0; i < y.type.size(); ++i) {
    reference::store(y, i, nth(values, i / kept * shape[last] + i % kept) / count);
  }
}

Attrs fft_attrs(std::string_view kind, const Dims& lengths) {
  return {{"kind", std::string(kind)}, {"lengths", lengths}};
}

std::vector<ir::Sample> fft_samples() {
  std::vector<ir::Sample> list;
  for (const DType real : {DType::float64, DType::float32}) {
    const DType complex = complex_of(real);
    const auto add = [&](const Shape& shape, const Dims& lengths) {
      const Shape half = shape.with(shape.rank() - 1, shape.dim(-1) / 2 + 1);
      for (const std::string_view kind : {fft_kinds::direct, fft_kinds::inverse}) {
        list.push_back({{samples::input(complex, shape)}, fft_attrs(kind, lengths), {}});
      }
      list.push_back({{samples::input(real, shape)}, fft_attrs(fft_kinds::from_reals, lengths), {}});
      list.push_back({{samples::input(complex, half)}, fft_attrs(fft_kinds::to_reals, lengths), {}});
    };
    add({1}, {1});
    add({2}, {2});
    add({8}, {8});
    add({7}, {7});
    add({2, 6}, {6});
    add({3, 4}, {3, 4});
    add({2, 3, 2, 5}, {3, 2, 5});
    add({2, 2, 3, 4}, {2, 2, 3, 4});
    add({0, 4}, {4});
  }
  return list;
}

std::vector<ir::ErrorSample> fft_errors() {
  const ArrayType real{DType::float32, Shape{2, 4}, {}};
  const ArrayType complex{DType::complex64, Shape{2, 4}, {}};
  return {{{complex, complex}, fft_attrs(fft_kinds::direct, {4}), "expected 1 operand", {}},
          {{complex}, fft_attrs("dct", {4}), "one of the kinds fft, ifft, rfft and irfft", {}},
          {{real}, fft_attrs(fft_kinds::direct, {4}), "complex64 or complex128 for fft", {}},
          {{complex}, fft_attrs(fft_kinds::from_reals, {4}), "float32 or float64 for rfft", {}},
          {{complex}, fft_attrs(fft_kinds::direct, {}), "1 to 2 lengths", {}},
          {{complex}, fft_attrs(fft_kinds::direct, {1, 2, 4}), "1 to 2 lengths", {}},
          {{complex}, fft_attrs(fft_kinds::direct, {0}), "lengths of 1 or more", {}},
          {{complex}, fft_attrs(fft_kinds::to_reals, {4}), "expected [2,3]", {}},
          {{real}, fft_attrs(fft_kinds::from_reals, {5}), "expected [2,5]", {}}};
}

/// The usual count for a transform of n points, 5 n log2 n; half of it where one side is real.
double fft_flops(const ir::CostContext& context) {
  double points = 1;
  for (const std::int64_t length : context.attrs.get<Dims>("lengths")) points *= static_cast<double>(length);
  const bool both = is_complex_kind(context.attrs.get<std::string>("kind"));
  const auto elements = static_cast<double>(std::max(context.inputs[0].size(), context.outputs[0].size()));
  return (both ? 5 : 2.5) * elements * std::log2(points);
}

/// All but the dimensions that are transformed.
ir::Factors fft_factors(const ir::LayoutContext& context) {
  return layout::leading(static_cast<int>(context.attrs.get<Dims>("lengths").size())).factors(context);
}

}  // namespace

const Primitive& primitives::fft() {
  static const Primitive op{.name = "fft",
                            .infer = fft_infer,
                            .derivative = derivative::linear(fft_transpose),
                            .batch = batch::pointwise(fft),
                            .reference = fft_reference,
                            .flops = fft_flops,
                            .samples = fft_samples,
                            .error_samples = fft_errors,
                            .traits = {},
                            .layout = {.factors = fft_factors}};
  return op;
}

}  // namespace lockstep::ops
