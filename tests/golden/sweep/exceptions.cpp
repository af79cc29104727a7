#include <limits>

#include "tests/golden/sweep/sweep.h"

namespace lockstep::tests::sweep {
namespace {

constexpr double everywhere = std::numeric_limits<double>::infinity();
constexpr std::string_view wide_floats = "f32 f64", every_float = "f16 bf16 f32 f64";

constexpr std::string_view difference_of_two = "the derivative is a difference of two functions that are nearly equal";
constexpr std::string_view root_of_slope =
    "the derivative crosses 0 close by: the error is one of the terms it is made of";
constexpr std::string_view root_of_value = "the value crosses 0 close by: the error is one of the terms it is made of";
constexpr std::string_view exponent = "the argument t of an exponential is rounded, which moves it by t units";
constexpr std::string_view by_logarithm =
    "by the exponential of a logarithm t, which moves by t units where t moves by one";
constexpr std::string_view subnormal_factor = "a factor is subnormal or 0 where the product is not";
constexpr std::string_view mode = "0 where x is 0, not infinite, so that an entropy of probabilities has a gradient";
constexpr std::string_view zero_times = "0 or a small number times a derivative that leaves the range";
constexpr std::string_view rounded_difference = "the difference of the operands rounds to one end of the square";

}  // namespace

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> table = {
      {"bessel_i0e", wide_floats, 1, 256, -everywhere, everywhere, difference_of_two},
      {"bessel_i1e", wide_floats, 1, 256, -everywhere, everywhere, difference_of_two},
      {"bessel_j1", "f64", 0, 8, -7, 7, root_of_value},
      {"dawsn", wide_floats, 1, 512, -7, 7, difference_of_two},
      {"erfcx", wide_floats, 1, 512, 0, 7, difference_of_two},
      {"digamma", "f64", 0, 16, 1, 2, root_of_value},
      {"lgamma", "f64", 1, 16, 1, 2, root_of_slope},
      {"betaln", "f64", 1, 16, 0, 2, root_of_slope},
      {"gamma", wide_floats, 0, 16, -everywhere, everywhere, by_logarithm},
      {"beta", wide_floats, 0, 256, -everywhere, everywhere, by_logarithm},
      {"igamma(0.5)", "f64", 1, 16, 10, everywhere, by_logarithm},
      {"igamma(3)", "f64", 0, 8, 0, 1, by_logarithm},
      {"igammac(3)", "f64", 0, 16, 9, everywhere, by_logarithm},
      {"log_ndtr", "f64", 2, 64, -10, 0, difference_of_two},
      {"gelu", wide_floats, 1, 256, -0.75, -0.75, root_of_slope},
      {"gelu(approximate)", wide_floats, 0, 256, -everywhere, 0, exponent},
      {"silu", wide_floats, 0, 0, -104, -104, subnormal_factor},
      {"silu", "f64", 0, 0, -750, -709, subnormal_factor},
      {"mish", wide_floats, 0, 0, -104, -104, subnormal_factor},
      {"mish", "f64", 0, 0, -750, -709, subnormal_factor},
      {"mish", wide_floats, 1, 64, -1.3, -1.1, root_of_slope},
      {"glu", "bf16 f32", 1, 0, -everywhere, -17, subnormal_factor},
      {"glu", "bf16 f32", 1, 0, 17, everywhere, subnormal_factor},
      {"entr", every_float, 1, 0, 0, 0, mode},
      {"rel_entr", "f32", 0, 8, 0, 1e-30, exponent},
      {"boxcox", "bf16 f32", 2, 0, 0, 1e-30, zero_times},
      {"boxcox", wide_floats, 0, 256, -everywhere, everywhere, by_logarithm},
      {"boxcox1p", wide_floats, 0, 64, 900, everywhere, by_logarithm},
      {"pow", "bf16 f32", 2, 0, 0, 1e-30, zero_times},
      {"pow", "f32", 2, 0, 1e29, everywhere, subnormal_factor},
      {"pow", "f32", 1, 64, 1e29, everywhere, subnormal_factor},
      {"hypot", wide_floats, 2, 128, -everywhere, everywhere, difference_of_two},
      {"logaddexp", wide_floats, 0, 64, -0.25, -0.25, root_of_value},
      {"binary_cross_entropy", "bf16 f64", 1, 16, -1, -1, root_of_slope},
      {"huber", "f16 bf16 f32", 2, 0, -0.001, 0.001, rounded_difference},
  };
  return table;
}

}  // namespace lockstep::tests::sweep
