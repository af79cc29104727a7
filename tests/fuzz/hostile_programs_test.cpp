#include <array>
#include <cctype>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// Programs in which words are exchanged: types, numbers, operands, ops and attributes that do not belong together. Each is
// refused by a typed error when it is read or run, or runs and gives what its types say. A failing case names its seed.

using namespace lockstep;

namespace {

struct Word {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Runs of letters, digits and '_', and every other character but blanks alone.
std::vector<Word> words_of(const std::string& text) {
  const auto in_word = [&](std::size_t i) {
    return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_';
  };
  std::vector<Word> words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) continue;
    std::size_t end = i + 1;
    while (in_word(i) && end < text.size() && in_word(end)) ++end;
    words.push_back({i, end});
    i = end - 1;
  }
  return words;
}

/// One to three words are replaced by others of the text or by extremes, left out or doubled.
std::string reworded(std::string text, std::uint64_t seed) {
  static constexpr std::array extremes = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "7",
                                          "-1",
                                          "1099511627776",
                                          "2305843009213693952",
                                          "f32",
                                          "f64",
                                          "i32",
                                          "bool",
                                          "c64",
                                          "key",
                                          "9223372036854775807",
                                          "sin",
                                          "add",
                                          "reshape",
                                          "dot_general",
                                          "true",
                                          "nan",
                                          "[]",
                                          "()"};
  std::mt19937_64 draw(seed);
  for (std::uint64_t times = 1 + draw() % 3; times > 0; --times) {
    const std::vector<Word> words = words_of(text);
    if (words.empty()) return text;
    const Word at = words[draw() % words.size()];
    const Word other = words[draw() % words.size()];
    const std::string given = text.substr(other.begin, other.end - other.begin);
    const std::string own = text.substr(at.begin, at.end - at.begin);
    const std::array<std::string, 4> choices = {given, extremes[draw() % extremes.size()], "", own + " " + own};
    text.replace(at.begin, at.end - at.begin, choices[draw() % choices.size()]);
  }
  return text;
}

std::int64_t nbytes_of(const std::vector<ArrayType>& types) {
  std::int64_t bytes = 0;
  for (const ArrayType& type : types) bytes += type.nbytes() < (1 << 20) ? type.nbytes() : 1 << 20;
  return bytes;
}

/// Compiled and equation by equation, on ones; results are of the types that the text says.
void check_run(const Function& function) {
  std::vector<Array> arguments;
  for (const ArrayType& type : function.input_types()) {
    arguments.push_back(type.dtype == DType::key ? broadcast_to(random::key(0), type.shape)
                                                 : ones(type.shape, type.dtype));
  }
  const std::vector<ArrayType> expected = function.output_types();
  for (const std::vector<Array>& results : {function(arguments), function.eval(arguments)}) {
    REQUIRE(results.size() == expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      CHECK(results[i].dtype() == expected[i].dtype);
      CHECK(results[i].shape() == expected[i].shape);
      CHECK(results[i].to_bytes().size() == static_cast<std::size_t>(expected[i].nbytes()));
    }
  }
}

void check_reworded(const Function& good, std::uint64_t cases) {
  const std::string text = good.to_string();
  check_run(parse_function(text));
  int refused = 0, ran = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    const std::string hostile = reworded(text, seed);
    CAPTURE(hostile);
    try {
      const Function function = parse_function(hostile);
      if (nbytes_of(function.input_types()) + nbytes_of(function.output_types()) > (1 << 16)) continue;
      check_run(function);
      ++ran;
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 0);
  CHECK(ran > 0);
}

}  // namespace

TEST_CASE("reworded programs are refused, or run as their types say") {
  const Array matrix = ones({3, 4}), vector = ones({4});
  SUBCASE("products and sums") {
    check_reworded(trace_function(
                       [](const Array& a, const Array& b) {
                         return value_and_grad([](const Array& x, const Array& y) { return sum(tanh(matmul(x, y))); })(
                             a, b);
                       },
                       matrix, ones({4, 2})),
                   4000);
  }
  SUBCASE("moves") {
    check_reworded(trace_function(
                       [](const Array& a, const Array& b) {
                         return concatenate(
                             {pad(transpose(a, {1, 0}), 0, {1, 0}, {0, 1}), broadcast_to(reshape(b, {4, 1}), {4, 4})},
                             0);
                       },
                       matrix, vector),
                   4000);
  }
  SUBCASE("indexed reads, orders and constants") {
    check_reworded(trace_function(
                       [](const Array& a, const Array& i) {
                         return take(a, i, 0) + sort(a, 1) + convert(cumsum(iota({3, 4}, 1), 0), float32);
                       },
                       matrix, zeros({3}, int32)),
                   4000);
  }
  SUBCASE("loops") {
    check_reworded(trace_function(
                       [](const Array& a, const Array& b) {
                         return scan(
                             [](const Array& carry, const Array& row) { return std::pair(carry + row, carry * row); },
                             b, a);
                       },
                       matrix, vector),
                   3000);
  }
  SUBCASE("windows") {
    check_reworded(
        trace_function([](const Array& x, const Array& w) { return conv(x, w); }, ones({1, 5, 2}), ones({3, 2, 2})),
        3000);
  }
}
