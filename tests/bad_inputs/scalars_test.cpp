// Numbers that do not fit what they are read as or made of.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/extremes.h"
#include "tests/bad_inputs/rows.h"

namespace lockstep::tests {
namespace {

template <class T>
void read_item(double value) {
  static_cast<void>(array(value).item<T>());
}
template <class T>
void read_integer(std::int64_t value) {
  static_cast<void>(array(value).item<T>());
}
template <class T>
void read_tree(StaticValue value) {
  static_cast<void>(from_tree<T>(Tree(std::move(value))));
}

}  // namespace

TEST_CASE("bad inputs 120: an element that the asked type does not hold") {
  all_refused(120, {[] { read_item<int>(no_number); },
                    [] { read_item<int>(endless); },
                    [] { read_item<int>(-endless); },
                    [] { read_item<int>(1e30); },
                    [] { read_item<int>(2147483648.0); },
                    [] { read_item<int>(-2147483649.0); },
                    [] { read_item<std::int64_t>(9223372036854775808.0); },
                    [] { read_item<std::int64_t>(no_number); },
                    [] { read_item<std::uint64_t>(18446744073709551616.0); },
                    [] { read_item<std::uint64_t>(-1.0); },
                    [] { read_item<std::uint8_t>(300.0); },
                    [] { read_item<std::uint8_t>(-1.0); },
                    [] { read_item<std::int8_t>(128.0); },
                    [] { read_item<std::int16_t>(-32769.0); },
                    [] { read_item<std::uint16_t>(65536.0); },
                    [] { read_item<std::uint32_t>(4294967296.0); },
                    [] { read_integer<std::uint8_t>(300); },
                    [] { read_integer<std::uint8_t>(-1); },
                    [] { read_integer<std::int8_t>(-129); },
                    [] { read_integer<std::int16_t>(32768); },
                    [] { read_integer<std::uint16_t>(-1); },
                    [] { read_integer<int>(2147483648); },
                    [] { read_integer<std::uint32_t>(-1); },
                    [] { read_integer<std::uint64_t>(-1); },
                    [] { static_cast<void>(array(std::uint64_t{1} << 63).item<std::int64_t>()); },
                    [] { static_cast<void>(array(std::uint64_t{256}).item<std::uint8_t>()); },
                    [] { static_cast<void>(array(std::nanf("")).item<int>()); },
                    [] { static_cast<void>(full({}, 70000.0, float32).astype(bfloat16).item<std::int16_t>()); },
                    [] { static_cast<void>(ones({2}).item<int>()); },
                    [] { static_cast<void>(complex(array(1.0), array(1.0)).item<double>()); },
                    [] { static_cast<void>(random::key(0).item<int>()); },
                    [] { static_cast<void>(Array().item<int>()); }});
  row(120, [] {
    CHECK(array(-3.7).item<int>() == -3);
    CHECK(array(-0.9).item<std::uint8_t>() == 0);
    CHECK(array(255.9).item<std::uint8_t>() == 255);
    CHECK(array(2147483647.9).item<int>() == 2147483647);
    CHECK(array(-9223372036854775808.0).item<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
    CHECK(array(std::uint64_t{1} << 63).item<std::uint64_t>() == std::uint64_t{1} << 63);
    CHECK(array(std::int64_t{300}).item<bool>());
    CHECK(array(no_number).item<bool>());
    CHECK(std::isinf(array(1e300).item<float>()));
  });
}

TEST_CASE("bad inputs 121: a static value of a tree that is no such number") {
  all_refused(121, {[] { read_tree<int>(std::string("7")); },
                    [] { read_tree<int>(std::string()); },
                    [] { read_tree<double>(std::string("0.5")); },
                    [] { read_tree<bool>(std::string("true")); },
                    [] { read_tree<int>(1e300); },
                    [] { read_tree<int>(-1e300); },
                    [] { read_tree<int>(2.5); },
                    [] { read_tree<int>(no_number); },
                    [] { read_tree<int>(endless); },
                    [] { read_tree<std::int64_t>(9223372036854775808.0); },
                    [] { read_tree<std::uint8_t>(std::int64_t{256}); },
                    [] { read_tree<std::uint8_t>(std::int64_t{-1}); },
                    [] { read_tree<std::int8_t>(std::int64_t{128}); },
                    [] { read_tree<int>(std::int64_t{2147483648}); },
                    [] { read_tree<bool>(std::int64_t{2}); },
                    [] { read_tree<bool>(0.5); },
                    [] { read_tree<float>(1e300); },
                    [] { read_tree<std::string>(std::int64_t{1}); },
                    [] { read_tree<Array>(std::int64_t{1}); },
                    [] { static_cast<void>(from_tree<int>(Tree(ones({1})))); },
                    [] { static_cast<void>(from_tree<int>(Tree())); },
                    [] { static_cast<void>(from_tree<int>(Tree::list({}))); },
                    [] { static_cast<void>(from_tree<std::vector<int>>(Tree(StaticValue(true)))); },
                    [] { static_cast<void>(from_tree<std::pair<int, int>>(Tree::list({Tree(StaticValue(true))}))); },
                    [] { static_cast<void>(Tree::list({}).at("a")); },
                    [] {
                      static_cast<void>(Tree::dict({{"a", Tree()}, {"a", Tree()}}));
                    }});
  row(121, [] {
    CHECK(from_tree<int>(Tree(StaticValue(3.0))) == 3);
    CHECK(from_tree<bool>(Tree(StaticValue(std::int64_t{1}))));
    CHECK(from_tree<int>(Tree(StaticValue(true))) == 1);
    CHECK(from_tree<std::uint64_t>(to_tree(~std::uint64_t{0})) == ~std::uint64_t{0});
    CHECK(std::isinf(from_tree<float>(Tree(StaticValue(endless)))));
    CHECK(from_tree<double>(Tree(StaticValue(std::int64_t{3}))) == 3);
  });
}

TEST_CASE("bad inputs 122: ranges and constants that their dtype does not hold") {
  all_refused(122, {[] { arange(300, int8); },
                    [] { arange(129, int8); },
                    [] { arange(257, uint8); },
                    [] { arange(0, 300, 1, int8); },
                    [] { arange(0, 300, 100, int8); },
                    [] { arange(-1, 3, 1, uint8); },
                    [] { arange(-200, 0, 1, int8); },
                    [] { arange(0.0, 300.0, 1.0, int8); },
                    [] { arange(0.0, 1e10, 1e9, int32); },
                    [] { arange(std::int64_t{0}, huge_count, huge_count / 4); },
                    [] { arange(40000, int16); },
                    [] { arange(65537, uint16); },
                    [] { arange(-1); },
                    [] { arange(3, bool_); },
                    [] { arange(0, 3, 0); },
                    [] { arange(0.0, 3.0, 0.0); },
                    [] { arange(0.0, no_number); },
                    [] { arange(0.0, endless); },
                    [] { arange(std::int64_t{0}, huge_count); },
                    [] { iota({300}, 0, int8); },
                    [] {
                      iota({2, 70000}, 1, uint16);
                    },
                    [] { iota({3}, 1); },
                    [] { iota({3}, 0, bool_); },
                    [] { linspace(0, 1, -1); },
                    [] { linspace(0, 1, 3, true, int32); },
                    [] { logspace(0, 1, -1); },
                    [] { eye(-1); },
                    [] { zeros({-1}); },
                    [] {
                      zeros({huge_count, 4});
                    },
                    [] { zeros({huge_count}); },
                    [] { ones({std::int64_t{1} << 57}, uint8); },
                    [] {
                      full({std::int64_t{1} << 40, std::int64_t{1} << 40}, 1);
                    },
                    [] {
                      static_cast<void>(ArrayType{float64, Shape{huge_count}, {}}.nbytes());
                    },
                    [] {
                      static_cast<void>(ArrayType{float64, Shape{huge_count, 4}, {}}.nbytes());
                    },
                    [] {
                      static_cast<void>(ArrayType{complex128, Shape{std::int64_t{1} << 59}, {}}.nbytes());
                    },
                    [] {
                      static_cast<void>(Shape{huge_count, huge_count}.size());
                    },
                    [] {
                      static_cast<void>(Shape{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
                    },
                    [] { static_cast<void>(Shape{2}.dim(3)); },
                    [] {
                      broadcast_to(ones({1}), Shape{huge_count, 4});
                    },
                    [] { repeat(ones({4}), huge_count); },
                    [] {
                      tile(ones({4}), {huge_count, huge_count});
                    },
                    [] {
                      reshape(ones({4}), {huge_count, 4});
                    },
                    [] { pad(ones({4}), 0, {huge_count}, {huge_count}); },
                    [] { hanning(-1); },
                    [] { tri(-1, 2); },
                    [] { zeros({1}, static_cast<DType>(99)); },
                    [] { convert(ones({1}), static_cast<DType>(99)); },
                    [] { static_cast<void>(size_of(static_cast<DType>(99))); },
                    [] { static_cast<void>(name(static_cast<DType>(200))); },
                    [] { static_cast<void>(parse_dtype("float33")); }});
  row(122, [] {
    CHECK(arange(128, int8)[127].item<int>() == 127);
    CHECK(arange(256, uint8)[255].item<int>() == 255);
    CHECK(arange(-128, 128, 1, int8).size() == 256);
    CHECK(arange(0, 127, 126, int8).size() == 2);
    CHECK(arange(5, 0, 1, int8).size() == 0);
  });
}

TEST_CASE("bad inputs 123: bytes that are no elements") {
  const auto from = [](DType dtype, std::vector<unsigned char> bytes) {
    return from_bytes({dtype, {static_cast<std::int64_t>(bytes.size())}, {}}, std::as_bytes(std::span(bytes)));
  };
  all_refused(123, {[&] {
                      from(bool_, {0, 1, 2});
                    },
                    [&] { from(bool_, {255}); },
                    [&] {
                      from(bool_, {1, 1, 128});
                    },
                    [&] {
                      from(float32, {1, 2, 3});
                    },
                    [&] { from(DType::key, {1}); },
                    [] {
                      from_bytes({uint8, {huge_count}, {}}, {});
                    },
                    [] {
                      from_bytes({uint8, {2}, {}}, {});
                    },
                    [] {
                      array(std::vector<float>{1, 2}, Shape{3});
                    },
                    [] {
                      array({{1.0, 2.0}, {3.0}});
                    }});
}

}  // namespace lockstep::tests
