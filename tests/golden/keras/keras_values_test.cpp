#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/spread.h"

// Quantization and decoding beside keras.quantizers and keras.ops: keras_values.py.

using namespace lockstep;

namespace {

Array spread_array(const Shape& shape, std::uint32_t seed = 1) {
  return reshape(array(tests::spread(shape.size(), seed)), Axes(shape.begin(), shape.end()));
}

std::map<std::string, std::vector<double>> stored_keras() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/keras/values.txt");
  std::map<std::string, std::vector<double>> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    // Read as words: a stream takes no "inf".
    for (std::string word; words >> word;) all[name].push_back(std::stod(word));
  }
  return all;
}

/// With the derivatives of the sum of the result times cos(0), cos(1), ...
Arrays fake(const Array& x, const Array& low, const Array& high, const FakeQuantizeOptions& options) {
  const auto total = [&](const Array& v, const Array& a, const Array& b) {
    const Array y = fake_quantize(v, a, b, options);
    return sum(y * reshape(cos(convert(arange(y.type().size()), float64)), Axes(y.shape().begin(), y.shape().end())));
  };
  const auto [of_x, of_low, of_high] = grad<0, 1, 2>(total)(x, low, high);
  return {fake_quantize(x, low, high, options), of_x, of_low, of_high};
}

Array float8_numbers() {
  std::vector<double> values;
  for (int i = 0; i < 256; ++i) values.push_back(i * 0x1p-12);
  for (int i = 1; i < 256; ++i) values.push_back(i * 2.3);
  values.insert(values.end(), {1e4, 6e4, 1e6});
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return array(values);
}

Arrays nibbles(const Array& x, std::int64_t axis) {
  const Array packed = pack_int4(x, axis);
  return {packed, unpack_int4(packed, x.dim(static_cast<int>(axis)), axis)};
}

Arrays paths(const CtcPaths& found, bool by_path) {
  return {by_path ? swapaxes(found.labels, 0, 1) : found.labels, found.scores};
}

std::map<std::string, Arrays> given_keras() {
  const Array x = spread_array({3, 5});
  const Array ints = convert(clip(round(spread_array({5, 3}) * 8), -8, 7), int8);
  const Array frames = array(std::vector<std::int32_t>{6, 4, 1});
  const Array logits = repeat(3 * spread_array({3, 3, 4}), 2, 1);
  const auto of = [](const Quantized& q) { return Arrays{q.values, q.scale}; };
  const GroupedQuantized grouped = abs_max_quantize_grouped(spread_array({7, 3}), 3);
  const auto scale = [](double amax) {
    return float8_scale(full({}, amax, float64), full({}, 0.3, float64), Float8::e4m3fn, 1);
  };
  const auto number = [](double v) { return full({}, v, float64); };
  const Array low = -0.5 - 0.3 * spread_array({5}, 2), high = 0.6 + 0.2 * spread_array({5}, 3);
  return {
      {"abs_max", of(abs_max_quantize(x))},
      {"abs_max/all", of(abs_max_quantize(x, {0, 1}, {.lowest = -7, .highest = 7}))},
      {"abs_max/grouped", {grouped.values, grouped.scale, grouped.zero_point}},
      {"fake", fake(x, number(-0.63), number(0.55), {.bits = 4})},
      {"fake/narrow", fake(x, number(-0.2), number(0.9), {.narrow_range = true})},
      {"fake/channels", fake(x, low, high, {.bits = 3, .axis = 1})},
      {"float8/e4m3fn", {quantize_and_dequantize(float8_numbers(), number(0.37), Float8::e4m3fn)}},
      {"float8/e5m2", {quantize_and_dequantize(float8_numbers(), number(0.37), Float8::e5m2)}},
      {"float8/scale", {scale(2.5), scale(0), scale(std::numeric_limits<double>::infinity())}},
      {"float8/history", {float8_amax_history(x, arange(4, float64))}},
      {"int4", nibbles(ints, 0)},
      {"int4/columns", nibbles(ints, 1)},
      {"ctc/greedy", paths(ctc_greedy_decode(logits, frames), false)},
      {"ctc/greedy/all", paths(ctc_greedy_decode(logits, frames, 0, false), false)},
      {"ctc/beam", paths(ctc_beam_search(logits, frames, {.beam_width = 40, .paths = 3}), true)},
      {"ctc/beam/narrow", paths(ctc_beam_search(logits, frames, {.beam_width = 3, .paths = 2}), true)},
  };
}

}  // namespace

TEST_CASE("quantization and decoding give the numbers of Keras") {
  const auto expected = stored_keras();
  const auto own = given_keras();
  CHECK(expected.size() == own.size());
  for (const auto& [name, results] : own) {
    CAPTURE(name);
    REQUIRE(expected.contains(name));
    std::vector<double> got;
    for (const Array& result : results) {
      const std::vector<double> values = reshape(convert(result, float64), {-1}).to_vector<double>();
      got.insert(got.end(), values.begin(), values.end());
    }
    const std::vector<double>& numbers = expected.at(name);
    REQUIRE(got.size() == numbers.size());
    const double room = 1e-10;
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(got[i] - numbers[i]) <= room * (1 + std::abs(numbers[i])));
    }
  }
}
