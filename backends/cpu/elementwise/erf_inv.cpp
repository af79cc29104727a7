// The kernel of erf_inv on floats of at most 32 bits.

#include "backends/cpu/elementwise/erf_inv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

/// Of erf_inv_roundings.bin; the build makes it a source.
extern const unsigned char erf_inv_roundings[];
extern const std::size_t erf_inv_roundings_size;

namespace {

/// The polynomial with these coefficients, that of the highest power first. Without a loop, so that one around it is
/// vectorised.
template <class... Coefficients>
double polynomial(double x, double first, Coefficients... others) {
  double sum = first;
  ((sum = std::fma(sum, x, others)), ...);
  return sum;
}

/// -log(x) of 0 < x <= 1: x = 2^k m with m within [sqrt(1/2), sqrt(2)], log m by a series in (m - 1) / (m + 1).
double minus_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t above = bits - 0x3FE6A09E667F3BCDULL;
  const auto m = std::bit_cast<double>(bits - (above & 0xFFF0000000000000ULL));
  // k modulo 2^12, as the last digits of 2^52 + 1024 + k.
  const auto shifted = std::bit_cast<double>(0x4330000000000000ULL | (((above >> 52U) + 1024) & 0xFFFU));
  const double k = shifted - 4503599627371520.0;
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  const double log_m = s * 2 + s * z *
                                   polynomial(z, 0.19363186932161763, 0.22191373380944632, 0.28571754968350349,
                                              0.39999998795219155, 0.66666666667376651);
  return -(k * 0.69314718055994529 + log_m);
}

/// w = -log(1 - x^2). The factors are exact.
double minus_log_of_rest(double x) { return minus_log((1 - x) * (1 + x)); }

// erf_inv(x) / x is a smooth function of w, and of sqrt(w) where w is large: polynomials, fitted at Chebyshev's places for
// w up to 5 and from there to 16.7.
constexpr float central_end = 0.9966F;  // of |x|
constexpr auto central_begin = std::bit_cast<float>(ErfInvTable::smallest);

double central(double x, double w) {
  return polynomial(w - 2.5, -3.7937694120534866e-14, 4.3097366721767117e-13, 5.5326307592428726e-13,
                    -2.9957817050744208e-11, 1.2142787936433838e-10, 9.0107525714087444e-10, -1.0866382392153354e-08,
                    1.3435302531318401e-08, 4.7873339718081368e-07, -3.4166492466731694e-06, -4.9960859348636495e-06,
                    0.00021825028760490969, -0.0012527079059334826, -0.0041773177313208475, 0.2466402767440754,
                    1.5014093511111308) *
         x;
}

double tail(double x, double w) {
  return polynomial(std::sqrt(w) - 3.125, -3.3737084800551007e-07, 9.4301938048906095e-07, 5.5391693472202668e-07,
                    -6.4410118338382694e-06, 1.1695028657154585e-05, 2.2820393798081619e-06, -5.8996931629640731e-05,
                    0.00013606714481669997, -8.9511764973870982e-05, -0.00032865285824823168, 0.0012606632067105887,
                    -0.0025198840101876862, 0.0037944205495898707, -0.005301010520630047, 0.0070478844015195692,
                    1.0037186917961705, 2.9583201502405423) *
         x;
}

std::uint32_t magnitude_of(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU; }

/// The neighbour of a float64 towards zero, or away from it.
float towards_zero(double value, bool up) {
  const double exact = std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & ~std::uint64_t{0x1FFFFFFFU});
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(exact));
  return std::bit_cast<float>(bits + (up ? 1U : 0U));
}

/// Whether `value`, that of the central polynomial, rounded to the nearest may not be the result.
bool is_special(float x, double value) {
  return !(std::abs(x) >= central_begin && std::abs(x) <= central_end) || from_middle(value) < ErfInvTable::beyond;
}

constexpr std::int64_t lanes = 32;

/// out = the values of so many elements, the last block of them padded.
template <class T>
void erf_inv_row(std::int64_t n, const T* x, T* out) {
  for (std::int64_t i = 0; i < n; i += lanes) {
    const std::int64_t count = std::min(lanes, n - i);
    std::array<T, lanes> block{};
    std::memcpy(block.data(), x + i, static_cast<std::size_t>(count) * sizeof(T));
    std::array<float, lanes> at;
    std::array<double, lanes> value;
    for (std::size_t l = 0; l < lanes; ++l) at[l] = static_cast<Wide<T>>(block[l]);
    for (std::size_t l = 0; l < lanes; ++l) value[l] = central(at[l], minus_log_of_rest(at[l]));
    for (std::size_t l = 0; l < lanes; ++l) block[l] = static_cast<T>(static_cast<float>(value[l]));
    std::uint64_t special = 0;
    for (std::size_t l = 0; l < lanes; ++l) special |= is_special(at[l], value[l]) ? 1U : 0U;
    for (std::size_t l = 0; special != 0 && l < lanes; ++l) {
      if (is_special(at[l], value[l])) block[l] = static_cast<T>(erf_inv(at[l]));
    }
    std::memcpy(out + i, block.data(), static_cast<std::size_t>(count) * sizeof(T));
  }
}

}  // namespace

const ErfInvTable& ErfInvTable::shared() {
  static const ErfInvTable table({erf_inv_roundings, erf_inv_roundings_size});
  return table;
}

bool ErfInvTable::is_rounded_up(std::uint32_t magnitude) const {
  unsigned answer = 0;
  for (const std::uint32_t place : places(magnitude)) answer ^= bytes_[place / 8] >> (place % 8);
  return (answer & 1U) != 0;
}

bool ErfInvTable::is_exception(std::uint32_t magnitude) const {
  const std::span<const std::uint8_t> list = bytes_.subspan(filter_bits / 8);
  const auto entry = [&](std::size_t i) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) bits |= static_cast<std::uint32_t>(list[4 * i + k]) << (8 * k);
    return bits;
  };
  std::size_t first = 0;
  for (std::size_t count = list.size() / 4; count > 0;) {
    const std::size_t half = count / 2;
    if (entry(first + half) < magnitude) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first < list.size() / 4 && entry(first) == magnitude;
}

double wide_erf_inv(float x) {
  const double wide = x;
  const double w = minus_log_of_rest(wide);
  return std::abs(x) <= central_end ? central(wide, w) : tail(wide, w);
}

float erf_inv(float x) {
  const std::uint32_t magnitude = magnitude_of(x);
  constexpr auto one = std::bit_cast<std::uint32_t>(1.0F);
  if (magnitude == one) return std::copysign(std::numeric_limits<float>::infinity(), x);
  if (magnitude > one) return std::numeric_limits<float>::quiet_NaN();
  constexpr double half_root_of_pi = 0.88622692545275801;
  if (magnitude < ErfInvTable::smallest) return static_cast<float>(half_root_of_pi * x);
  const double value = wide_erf_inv(x);
  const auto nearest = static_cast<float>(value);
  const std::uint32_t distance = from_middle(value);
  if (distance >= ErfInvTable::beyond) return nearest;
  const ErfInvTable& table = ErfInvTable::shared();
  if (distance < ErfInvTable::near) return towards_zero(value, table.is_rounded_up(magnitude));
  if (!table.is_exception(magnitude)) return nearest;
  return towards_zero(value, towards_zero(value, false) == nearest);
}

namespace kernels {

std::unique_ptr<Kernel> erf_inv(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype) || dtype == DType::float64) return nullptr;
  return with_float(dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    if constexpr (std::is_same_v<T, double>) {
      return nullptr;
    } else {
      return make_function_kernel(
          [run = VectorVariants<erf_inv_row<T>>::chosen()](const KernelArguments& arguments) {
            const ArrayView& out = arguments.outputs[0];
            run(out.shape.size(), static_cast<const T*>(arguments.inputs[0].data), static_cast<T*>(out.data));
          },
          {.in_place = in_place_inputs(request)});
    }
  });
}

}  // namespace kernels

}  // namespace lockstep::backend::cpu
