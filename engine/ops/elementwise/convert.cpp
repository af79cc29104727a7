#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/core/narrow_floats.h"
#include "engine/ops/rules/define.h"

namespace lockstep::ops {

namespace {

/// A lane of 32 bits has no instruction between floats and unsigned words; integers become bfloat16 by way of float32.
bool converts_in_loops(DType operand, DType result) {
  const auto is = [&](DType a, DType b) { return (operand == a && result == b) || (operand == b && result == a); };
  const unsigned from = loops::class_of(operand), to = loops::class_of(result);
  if (from == loops::brain || to == loops::brain) return ((from | to) & loops::word) == 0 && from != 0 && to != 0;
  return from != 0 && to != 0 && !is(DType::float32, DType::uint32);
}

std::vector<ArrayType> convert_infer(const ir::InferContext& context) {
  infer::expect_operands(context, 1);
  infer::expect_dtype(context, 0, infer::value);
  const DType dtype = context.attrs.get<DType>("dtype");
  if (dtype == DType::key) infer::dtype_error(context, "any dtype but key to convert to", "make keys by random_wrap");
  return {{dtype, context.inputs[0].shape, {}}};
}

std::vector<Tangent> convert_jvp(const JvpContext& context) {
  const DType dtype = context.attrs.get<DType>("dtype");
  if (!is_inexact(dtype)) return {std::nullopt};
  return {convert(*context.tangents[0], dtype)};
}

/// Towards zero; beyond the range its end, NaN 0.
std::int64_t to_integer(double x, DType dtype) {
  if (std::isnan(x)) return 0;
  const int width = static_cast<int>(size_of(dtype)) * 8;
  const double low = is_signed_integer(dtype) ? -std::ldexp(1.0, width - 1) : 0;
  const double high = std::ldexp(1.0, is_signed_integer(dtype) ? width - 1 : width);
  if (x <= low) return is_signed_integer(dtype) ? std::numeric_limits<std::int64_t>::min() >> (64 - width) : 0;
  if (x >= high) {
    const std::uint64_t ones = ~std::uint64_t{0} >> (64 - width);
    return static_cast<std::int64_t>(is_signed_integer(dtype) ? ones >> 1 : ones);
  }
  return is_signed_integer(dtype) ? static_cast<std::int64_t>(x)
                                  : static_cast<std::int64_t>(static_cast<std::uint64_t>(x));
}

/// Keeps the low bits, with the sign of the dtype.
std::int64_t wrapped(std::int64_t x, DType dtype) {
  const int unused = 64 - static_cast<int>(size_of(dtype)) * 8;
  const std::uint64_t high = static_cast<std::uint64_t>(x) << unused;
  return is_signed_integer(dtype) ? static_cast<std::int64_t>(high) >> unused
                                  : static_cast<std::int64_t>(high >> unused);
}

/// What rounded once more gives x rounded once.
template <class T>
double to_double(T x) {
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::uint64_t>) {
    return rounded_to_odd(x);
  } else {
    return static_cast<double>(x);
  }
}

template <class T>
void store_converted(ir::ReferenceArray& result, std::int64_t i, T x) {
  const DType to = result.type.dtype;
  if (is_complex(to)) {
    reference::store(result, i, Complex(to == DType::complex128 ? static_cast<double>(x) : to_double(x)));
  } else if (is_float(to)) {
    reference::store(result, i, to == DType::float64 ? static_cast<double>(x) : to_double(x));
  } else if (to == DType::bool_) {
    reference::store(result, i, x != T{});
  } else if constexpr (std::is_same_v<T, double>) {
    reference::store(result, i, to_integer(x, to));
  } else {
    reference::store(result, i, wrapped(static_cast<std::int64_t>(x), to));
  }
}

/// Of a complex element, the real part reaches a real dtype.
void convert_reference(const ir::ReferenceContext& context) {
  const ir::ReferenceArray& x = context.inputs[0];
  ir::ReferenceArray& result = context.outputs[0];
  if (is_complex(x.type.dtype) && is_complex(result.type.dtype)) return reference::copies()(context);
  for (std::int64_t i = 0; i < x.type.size(); ++i) {
    if (is_complex(x.type.dtype)) store_converted(result, i, reference::load<Complex>(x, i).real());
    reference::dispatch<double, std::int64_t, std::uint64_t, bool>(
        x.type.dtype, [&]<class T>() { store_converted(result, i, reference::load<T>(x, i)); });
  }
}

std::vector<ir::Sample> convert_samples() {
  const std::vector<DType> dtypes = {DType::float64, DType::float32, DType::bfloat16, DType::float16, DType::int32,
                                     DType::int64,   DType::int8,    DType::uint8,    DType::uint32,  DType::bool_};
  std::vector<ir::Sample> result;
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      const double low = is_unsigned_integer(to) || is_unsigned_integer(from) || from == DType::bool_ ? 0 : -9;
      result.push_back(
          {{samples::input(from, Shape{2, 3}, {low, from == DType::bool_ ? 2.0 : 9.0})}, {{"dtype", to}}, {}});
    }
  }
  for (const DType to : {DType::int8, DType::uint8, DType::int16}) {  // Beyond the range of the result.
    result.push_back({{samples::input(DType::float32, Shape{2, 3}, {-400, 400})}, {{"dtype", to}}, {}});
    result.push_back({{samples::input(DType::int32, Shape{2, 3}, {-400, 400})}, {{"dtype", to}}, {}});
  }
  for (const Shape& shape : samples::small_shapes()) {
    result.push_back({{samples::input(DType::float64, shape)}, {{"dtype", DType::float32}}, {}});
    result.push_back({{samples::input(DType::int32, shape)}, {{"dtype", DType::float32}}, {}});
    result.push_back({{samples::input(DType::float32, shape)}, {{"dtype", DType::complex64}}, {}});
  }
  return result;
}

}  // namespace

const Primitive& primitives::convert() {
  static const Primitive op{
      .name = "convert",
      .infer = convert_infer,
      .derivative = derivative::linear(
          [](const TransposeContext& context) -> std::vector<Tangent> {
            return {ops::convert(*context.cotangents[0], context.input_types[0].dtype)};
          },
          {}, convert_jvp),
      .batch = batch::pointwise(convert),
      .reference = convert_reference,
      .samples = convert_samples,
      .error_samples = samples::errors(
          {{{{DType::float32, Shape{2}, {}}}, {{"dtype", DType::key}}, "make keys by random_wrap", {}},
           {{{DType::key, Shape{2}, {}}}, {{"dtype", DType::float32}}, "expected any dtype but key", {}}}),
      .traits = loops::with(exact_traits, converts_in_loops),
      .equal_to = algebra::operand()};
  return op;
}

}  // namespace lockstep::ops
