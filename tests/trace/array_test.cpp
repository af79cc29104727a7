#include <complex>
#include <limits>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"
#include "tests/support/evaluate.h"

namespace lockstep::tests {

namespace {

template <class T>
Array stored(DType dtype, const Shape& shape, const std::vector<T>& elements) {
  const ArrayType type{dtype, shape, {}};
  return make_array(type, eval::host_array(type, std::as_bytes(std::span(elements)), *ops::reference_backend()).buffer);
}

Array filled(DType dtype, const Shape& shape, const Elements& elements) {
  const ArrayType type{dtype, shape, {}};
  return make_array(type, to_host(type, elements).buffer);
}

template <class T>
void check_round_trip(DType dtype, const std::vector<T>& elements) {
  const Array array = stored(dtype, Shape{static_cast<std::int64_t>(elements.size())}, elements);
  CHECK(array.to_vector<T>() == elements);
  CHECK(stored(dtype, Shape{}, std::vector<T>{elements[0]}).template item<T>() == elements[0]);
  CHECK(array.to_bytes().size() == elements.size() * sizeof(T));
}

}  // namespace

TEST_CASE("elements are read as they lie in memory") {
  check_round_trip<std::int8_t>(DType::int8, {-128, 127});
  check_round_trip<std::int16_t>(DType::int16, {-32768, 32767});
  check_round_trip<std::int32_t>(DType::int32, {-1, 1});
  check_round_trip<std::int64_t>(DType::int64, {std::numeric_limits<std::int64_t>::min(), 1});
  check_round_trip<std::uint8_t>(DType::uint8, {255, 0});
  check_round_trip<std::uint16_t>(DType::uint16, {65535, 0});
  check_round_trip<std::uint32_t>(DType::uint32, {4294967295u, 0});
  check_round_trip<std::uint64_t>(DType::uint64, {std::numeric_limits<std::uint64_t>::max(), 0});
  check_round_trip<float>(DType::float32, {0.1f, -0.0f});
  check_round_trip<double>(DType::float64, {0.1, 1e300});
  check_round_trip<std::complex<float>>(DType::complex64, {{1, 2}, {3, 4}});
  check_round_trip<std::complex<double>>(DType::complex128, {{1, 2}, {3, 4}});
  CHECK(filled(DType::bool_, Shape{3}, {1, 0, 1}).to_vector<bool>() == std::vector<bool>{true, false, true});
  CHECK(filled(DType::float16, Shape{2}, {0.5, 65504}).to_vector<float>() == std::vector<float>{0.5f, 65504});
  CHECK(filled(DType::bfloat16, Shape{2}, {0.5, 256}).to_vector<float>() == std::vector<float>{0.5f, 256});
  CHECK(stored<std::uint32_t>(DType::key, Shape{2}, {1, 2, 3, 4}).to_vector<std::uint32_t>() ==
        std::vector<std::uint32_t>{1, 2, 3, 4});
  CHECK(filled(DType::float64, Shape{0, 3}, {}).to_vector<double>().empty());
}

TEST_CASE("item converts") {
  CHECK(filled(DType::float32, Shape{1, 1}, {2.5}).item<int>() == 2);
  CHECK(filled(DType::int32, Shape{}, {7}).item<double>() == 7.0);
  CHECK(filled(DType::bool_, Shape{}, {1}).item<float>() == 1.0f);
  CHECK(stored<std::uint64_t>(DType::uint64, Shape{}, {std::numeric_limits<std::uint64_t>::max()}).item<double>() ==
        0x1p64);
  CHECK(filled(DType::float64, Shape{}, {2}).item<std::complex<double>>() == std::complex<double>(2, 0));
  CHECK(filled(DType::float16, Shape{}, {0.25}).item<float>() == 0.25f);
}

TEST_CASE("a condition is the one element's truth") {
  CHECK(static_cast<bool>(filled(DType::bool_, Shape{}, {1})));
  CHECK(!static_cast<bool>(filled(DType::float64, Shape{1}, {0})));
  CHECK(static_cast<bool>(filled(DType::float64, Shape{}, {std::numeric_limits<double>::quiet_NaN()})));
  CHECK(static_cast<bool>(stored<std::complex<float>>(DType::complex64, Shape{}, {{0, 1}})));
}

// The texts of array2string and str of numpy 2.4.6.
TEST_CASE("arrays print as numpy's do") {
  const auto text = [](DType dtype, const Shape& shape, const Elements& values) {
    return to_string(filled(dtype, shape, values));
  };
  CHECK(text(DType::float32, {3}, {1, 2.5, -3}) == "[ 1.   2.5 -3. ]");
  CHECK(text(DType::float64, {2, 2}, {1, 2.5, -3, 1e300}) == "[[ 1.0e+000  2.5e+000]\n [-3.0e+000  1.0e+300]]");
  CHECK(text(DType::float32, {3}, {0.1, 1.0 / 3, 1e-3}) == "[0.1        0.33333334 0.001     ]");
  CHECK(text(DType::float32, {3}, {1e-5, 1, 123.456}) == "[1.00000e-05 1.00000e+00 1.23456e+02]");
  CHECK(text(DType::float32, {4}, {NAN, 1.5, INFINITY, -INFINITY}) == "[ nan  1.5  inf -inf]");
  CHECK(text(DType::float16, {3}, {0.1, 1000, 3}) == "[1.e-01 1.e+03 3.e+00]");
  CHECK(text(DType::float16, {2}, {0.1, 3.14}) == "[0.1  3.14]");
  CHECK(text(DType::float32, {2}, {1234567, 1}) == "[1.234567e+06 1.000000e+00]");
  CHECK(text(DType::float64, {2}, {1e-10, 2.123456789012}) == "[1.00000000e-10 2.12345679e+00]");
  CHECK(text(DType::float64, {2}, {-0.0, 0}) == "[-0.  0.]");
  CHECK(text(DType::bool_, {2}, {1, 0}) == "[ True False]");
  CHECK(text(DType::int32, {2, 2}, {1, 200, -3, 4}) == "[[  1 200]\n [ -3   4]]");
  CHECK(text(DType::int8, {2, 0}, {}) == "[]");
  CHECK(to_string(stored<std::complex<float>>(DType::complex64, {2}, {{1.5, -2}, {0.25, 10}})) ==
        "[1.5  -2.j 0.25+10.j]");
  Elements many(2000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  CHECK(text(DType::int32, {2, 2, 3}, {many.begin(), many.begin() + 12}) ==
        "[[[ 0  1  2]\n  [ 3  4  5]]\n\n [[ 6  7  8]\n  [ 9 10 11]]]");
  CHECK(text(DType::int32, {1200}, {many.begin(), many.begin() + 1200}) == "[   0    1    2 ... 1197 1198 1199]");
  CHECK(text(DType::float32, {40, 50}, many) ==
        "[[0.000e+00 1.000e+00 2.000e+00 ... 4.700e+01 4.800e+01 4.900e+01]\n"
        " [5.000e+01 5.100e+01 5.200e+01 ... 9.700e+01 9.800e+01 9.900e+01]\n"
        " [1.000e+02 1.010e+02 1.020e+02 ... 1.470e+02 1.480e+02 1.490e+02]\n"
        " ...\n"
        " [1.850e+03 1.851e+03 1.852e+03 ... 1.897e+03 1.898e+03 1.899e+03]\n"
        " [1.900e+03 1.901e+03 1.902e+03 ... 1.947e+03 1.948e+03 1.949e+03]\n"
        " [1.950e+03 1.951e+03 1.952e+03 ... 1.997e+03 1.998e+03 1.999e+03]]");
}

TEST_CASE("long rows are wrapped") {
  Elements sevenths(17);
  for (std::size_t i = 0; i < sevenths.size(); ++i) sevenths[i] = static_cast<float>(i) / 7;
  const Array x = filled(DType::float32, {17}, sevenths);
  CHECK(to_string(x) ==
        "[0.         0.14285715 0.2857143  0.42857143 0.5714286  0.71428573\n"
        " 0.85714287 1.         1.1428572  1.2857143  1.4285715  1.5714285\n"
        " 1.7142857  1.8571428  2.         2.142857   2.2857144 ]");
  CHECK(repr(x) ==
        "Array([0.        , 0.14285715, 0.2857143 , 0.42857143, 0.5714286 ,\n"
        "       0.71428573, 0.85714287, 1.        , 1.1428572 , 1.2857143 ,\n"
        "       1.4285715 , 1.5714285 , 1.7142857 , 1.8571428 , 2.        ,\n"
        "       2.142857  , 2.2857144 ], dtype=float32)");
  CHECK(to_string(x, {.precision = 2, .threshold = 10, .edge_items = 2}) == "[0.   0.14 ... 2.14 2.29]");
  CHECK(repr(filled(DType::float32, {2, 2}, {1, 2, 3, 4.5})) ==
        "Array([[1. , 2. ],\n       [3. , 4.5]], dtype=float32)");
  CHECK(repr(filled(DType::float32, {2, 0}, {})) == "Array([], shape=[2,0], dtype=float32)");
}

TEST_CASE("arrays of one number and keys") {
  CHECK(to_string(filled(DType::float32, Shape{}, {0.1f})) == "0.1");
  CHECK(to_string(filled(DType::float64, Shape{}, {1e300})) == "1e+300");
  CHECK(to_string(filled(DType::float64, Shape{}, {1e-5})) == "1e-05");
  CHECK(to_string(filled(DType::float64, Shape{}, {123456789.125})) == "123456789.125");
  CHECK(to_string(filled(DType::float64, Shape{}, {1e15})) == "1000000000000000.0");
  CHECK(to_string(filled(DType::float32, Shape{}, {-0.0})) == "-0.0");
  CHECK(to_string(filled(DType::int8, Shape{}, {-3})) == "-3");
  CHECK(to_string(filled(DType::bool_, Shape{}, {1})) == "True");
  CHECK(to_string(stored<std::complex<float>>(DType::complex64, Shape{}, {{1.5, -2}})) == "(1.5-2j)");
  CHECK(to_string(stored<std::complex<float>>(DType::complex64, Shape{}, {{0, 2}})) == "2j");
  CHECK(to_string(stored<std::uint64_t>(DType::uint64, Shape{}, {std::numeric_limits<std::uint64_t>::max()})) ==
        "18446744073709551615");
  CHECK(to_string(stored<std::uint32_t>(DType::key, Shape{}, {7, 42})) == "[ 7 42]");
  CHECK(repr(filled(DType::float32, Shape{}, {2})) == "Array(2.0, dtype=float32)");
  tracing::trace(
      [](std::span<const Array> x) {
        CHECK(to_string(x[0]) == "traced f32[2]");
        CHECK(repr(x[0]) == "Array(traced f32[2])");
        return std::vector<Array>{};
      },
      std::array{ArrayType{DType::float32, Shape{2}, {}}});
}

TEST_CASE("arrays are copied into spans") {
  const Array x = filled(DType::float32, Shape{2, 2}, {1, 2, 3, 4});
  std::array<float, 4> values{};
  x.copy_to(std::span<float>(values));
  CHECK(values == std::array<float, 4>{1, 2, 3, 4});
  std::array<float, 3> few{};
  CHECK_THROWS_WITH_AS(x.copy_to(std::span<float>(few)), "copy_to: f32[2,2] has 4 elements, the span has room for 3",
                       ShapeError);
}

TEST_CASE("what reading an array refuses") {
  const Array two = filled(DType::float32, Shape{2}, {1, 2});
  CHECK_THROWS_WITH_AS(two.to_vector<double>(),
                       "to_vector: cannot read f32[2] as float64; ask for the array's own element type or convert the "
                       "array first",
                       DtypeError);
  CHECK_THROWS_WITH_AS(
      two.item<float>(),
      "item: needs an array of one element, got f32[2]; reduce or slice it first, or read all elements "
      "by to_vector",
      ShapeError);
  CHECK_THROWS_WITH_AS(static_cast<bool>(two),
                       "condition: needs an array of one element, got f32[2]; reduce or slice it first, or read all "
                       "elements by to_vector",
                       ShapeError);
  CHECK_THROWS_WITH_AS(stored<std::complex<float>>(DType::complex64, Shape{}, {{1, 2}}).item<float>(),
                       "item: cannot convert c64[] to float32", DtypeError);
  CHECK_THROWS_WITH_AS(static_cast<bool>(stored<std::uint32_t>(DType::key, Shape{}, {1, 2})),
                       "condition: a random key is neither true nor false", DtypeError);
  CHECK_THROWS_WITH_AS(Array().type(), "the array holds nothing; assign a value to it first", ValueError);
}

TEST_CASE("what reading a traced value refuses") {
  tracing::trace(
      [](std::span<const Array> x) {
        CHECK(x[0].is_traced());
        const char* text =
            " is a traced value and holds no data while its function is traced. Return it from the function and read "
            "the "
            "result there.";
        CHECK_THROWS_WITH_AS(x[0].to_bytes(), (std::string("to_bytes: bool[]") + text).c_str(), TraceError);
        CHECK_THROWS_WITH_AS(x[0].to_vector<bool>(), (std::string("to_vector: bool[]") + text).c_str(), TraceError);
        CHECK_THROWS_WITH_AS(x[0].item<bool>(), (std::string("item: bool[]") + text).c_str(), TraceError);
        CHECK_THROWS_WITH_AS(
            static_cast<bool>(x[0]),
            "a C++ condition on a traced value of type bool[]: its data do not exist while the function is traced, so "
            "`if`, `while`, `&&` and `?:` cannot depend on it. Write where(condition, a, b) (op select), or cond / "
            "while_loop for whole branches.",
            TraceError);
        return std::vector<Array>{};
      },
      std::array{ArrayType{DType::bool_, Shape{}, {}}});
}

}  // namespace lockstep::tests
