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
  return make_array(type, ir::host_array(type, std::as_bytes(std::span(elements)), *ops::reference_backend()).buffer);
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

TEST_CASE("arrays print as nested brackets") {
  CHECK(to_string(filled(DType::float32, Shape{}, {0.1f})) == "0.1 float32");
  CHECK(to_string(filled(DType::float64, Shape{2, 2}, {1, 2.5, -3, 1e300})) == "[[1, 2.5], [-3, 1e+300]] float64");
  CHECK(to_string(filled(DType::bool_, Shape{2}, {1, 0})) == "[true, false] bool");
  CHECK(to_string(filled(DType::int8, Shape{2, 0}, {})) == "[[], []] int8");
  CHECK(to_string(stored<std::uint64_t>(DType::uint64, Shape{}, {std::numeric_limits<std::uint64_t>::max()})) ==
        "18446744073709551615 uint64");
  CHECK(to_string(stored<std::complex<float>>(DType::complex64, Shape{1}, {{1.5, -2}})) == "[1.5-2i] complex64");
  Elements many(1200);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  CHECK(to_string(filled(DType::int32, Shape{1200}, many)) == "[0, 1, 2, ..., 1197, 1198, 1199] int32");
  trace::trace(
      [](std::span<const Array> x) {
        CHECK(to_string(x[0]) == "traced f32[2]");
        return std::vector<Array>{};
      },
      std::array{ArrayType{DType::float32, Shape{2}, {}}});
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
  CHECK_THROWS_WITH_AS(Array().type(), "Array: holds nothing; assign a value to it before it is used", ValueError);
}

TEST_CASE("what reading a traced value refuses") {
  trace::trace(
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
