#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// Errors say the file and line of the program's own call, wherever inside of it they were thrown.
using namespace lockstep;

namespace {

using Body = std::function<Array(const Array&)>;

struct Case {
  std::string op;
  int line;   ///< Of the call.
  Body call;  ///< Of float32[2,3]; it is refused.
};

Array first(const std::vector<Array>& arrays) { return arrays.front(); }

// Each call stands on the line that its row says.
// clang-format off
const std::vector<Case> cases = {
    {"add", __LINE__, [](const Array& x) { return add(x, ones({4})); }},
    {"operator*", __LINE__, [](const Array& x) { return x * ones({4}); }},
    {"operator+ of a scalar", __LINE__, [](const Array& x) { return convert(x, uint8) + 1000; }},
    {"fma", __LINE__, [](const Array& x) { return fma(x, x, ones({5})); }},
    {"bitwise_and", __LINE__, [](const Array& x) { return bitwise_and(x, x); }},
    {"where", __LINE__, [](const Array& x) { return where(x > 0, x, ones({7})); }},
    {"clip", __LINE__, [](const Array& x) { return clip(x, ones({7}), 1); }},
    {"lax::add", __LINE__, [](const Array& x) { return lax::add({x}, {}).front(); }},
    {"reshape", __LINE__, [](const Array& x) { return reshape(x, {5}); }},
    {"transpose", __LINE__, [](const Array& x) { return transpose(x, {0, 0}); }},
    {"moveaxis", __LINE__, [](const Array& x) { return moveaxis(x, 0, 4); }},
    {"expand_dims", __LINE__, [](const Array& x) { return expand_dims(x, 9); }},
    {"squeeze", __LINE__, [](const Array& x) { return squeeze(x, 1); }},
    {"broadcast_to", __LINE__, [](const Array& x) { return broadcast_to(x, {7}); }},
    {"concatenate", __LINE__, [](const Array& x) { return concatenate({x, ones({5})}, 0); }},
    {"stack", __LINE__, [](const Array& x) { return stack(std::vector<Array>{x, ones({5})}, 0); }},
    {"split", __LINE__, [](const Array& x) { return first(split(x, 4, 1)); }},
    {"slice", __LINE__, [](const Array& x) { return slice(x, {0}, {1}); }},
    {"pad", __LINE__, [](const Array& x) { return pad(x, 0, {1}, {1}); }},
    {"roll", __LINE__, [](const Array& x) { return roll(x, 1, 5); }},
    {"flip", __LINE__, [](const Array& x) { return flip(x, 5); }},
    {"sum", __LINE__, [](const Array& x) { return sum(x, 5); }},
    {"mean", __LINE__, [](const Array& x) { return mean(x, {0, 0}); }},
    {"logsumexp", __LINE__, [](const Array& x) { return logsumexp(x, 5); }},
    {"argmax", __LINE__, [](const Array& x) { return argmax(x, 7); }},
    {"top_k", __LINE__, [](const Array& x) { return top_k(x, 9).first; }},
    {"quantile", __LINE__, [](const Array& x) { return quantile(x, 0.5, 6); }},
    {"cumsum", __LINE__, [](const Array& x) { return cumsum(x, 3); }},
    {"sort", __LINE__, [](const Array& x) { return sort(x, 9); }},
    {"matmul", __LINE__, [](const Array& x) { return matmul(x, x); }},
    {"dot_general", __LINE__, [](const Array& x) { return dot_general(x, x, {{0}, {1}}); }},
    {"einsum", __LINE__, [](const Array& x) { return einsum("ij,jk->ik", {x, x}); }},
    {"tensordot", __LINE__, [](const Array& x) { return linalg::tensordot(x, x, 1); }},
    {"det", __LINE__, [](const Array& x) { return linalg::det(x); }},
    {"solve", __LINE__, [](const Array& x) { return linalg::solve(x, x); }},
    {"fft", __LINE__, [](const Array& x) { return abs(fft::fft(x, std::nullopt, 5)); }},
    {"conv", __LINE__, [](const Array& x) { return conv(x, x); }},
    {"window_max", __LINE__, [](const Array& x) { return window_max(x, {.window = {9, 9, 9}}); }},
    {"take_along_axis", __LINE__, [](const Array& x) { return take_along_axis(x, x, 0); }},
    {"segment_sum", __LINE__, [](const Array& x) { return segment_sum(x, arange(9), 2); }},
    {"softmax", __LINE__, [](const Array& x) { return softmax(x, 4); }},
    {"glu", __LINE__, [](const Array& x) { return glu(x); }},
    {"attention", __LINE__, [](const Array& x) { return dot_product_attention(x, x, x); }},
    {"mean_squared_error", __LINE__, [](const Array& x) { return mean_squared_error(x, ones({7})).sum; }},
    {"softmax_cross_entropy", __LINE__, [](const Array& x) { return softmax_cross_entropy(x, arange(9)).sum; }},
    {"accuracy", __LINE__, [](const Array& x) { return accuracy(x, arange(9)).sum; }},
    {"normal", __LINE__, [](const Array& x) { return random::normal(x, {2}); }},
    {"fold_in", __LINE__, [](const Array& x) { return random::key_data(random::fold_in(x, 2)); }},
    {"psum", __LINE__, [](const Array& x) { return psum(x, {"none"}); }},
    {"zeros", __LINE__, [](const Array& x) { return x + zeros({-1}); }},
    {"iota", __LINE__, [](const Array& x) { return x + iota({3}, 2); }},
    {"full", __LINE__, [](const Array& x) { return x + full({3}, 1000, uint8); }},
};
// clang-format on

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

std::string place_at(int line) { return "(at error_places_test.cpp:" + std::to_string(line) + ")"; }

int line_of_product = 0;

Array product(const Array& x) {
  line_of_product = __LINE__ + 1;
  return matmul(x, x);
}

}  // namespace

TEST_CASE(
    "an error of an op ends with the file and line of its call: eager, compiled, in a gradient, a vmap and a scan") {
  const Array x = ones({2, 3});
  for (const Case& c : cases) {
    CAPTURE(c.op);
    const std::vector<std::function<void()>> ways = {
        [&] { c.call(x); },
        [&] { jit([&](const Array& v) { return c.call(v); })(x); },
        [&] { grad([&](const Array& v) { return sum(c.call(v)); })(x); },
        [&] {
          vmap([&](const Array& v) { return c.call(v); })(ones({4, 2, 3}));
        },
        [&] {
          scan([&](const Array& carry, const Array& v) { return std::pair(carry, c.call(v)); }, x, ones({4, 2, 3}));
        },
        [&] { remat([&](const Array& v) { return c.call(v); })(x); },
    };
    for (std::size_t way = 0; way < ways.size(); ++way) {
      CAPTURE(way);
      const std::string text = text_of(ways[way]);
      INFO("the error says: ", text);
      CHECK(text.ends_with(place_at(c.line)));
    }
  }
}

TEST_CASE("the place is that of the innermost call of the program's own code") {
  const Array x = ones({2, 3});
  const std::string inner = text_of([&] { relu(product(x) + 1); });
  CHECK(inner.ends_with(place_at(line_of_product)));
  const Body by_function = [](const Array& v) { return jit(product)(v); };
  CHECK(text_of([&] { by_function(x); }).ends_with(place_at(line_of_product)));
}

TEST_CASE("a call that is over is no place of later errors, and each thread has its own") {
  const Array x = ones({2, 3});
  CHECK(text_of([&] { matmul(x, x); }).ends_with(place_at(__LINE__)));
  CHECK(!tests::contains(text_of([] { from_bytes({float32, {3}, {}}, {}); }), "(at "));
  const Operand kept = x;  // an operand that is kept is an open call, copies of it are none
  std::vector<Operand> copies(3, kept);
  std::string elsewhere;
  std::thread([&] { elsewhere = text_of([] { from_bytes({float32, {3}, {}}, {}); }); }).join();
  CHECK(!tests::contains(elsewhere, "(at "));
}

TEST_CASE("an error says its named scope, whether something is traced or not, and not that of one that was caught") {
  const Array x = ones({2, 3});
  const auto f = [](const Array& v) {
    try {
      const NamedScope scope("first");
      return matmul(v, v);
    } catch (const ShapeError&) {
    }
    const NamedScope outer("second");
    const NamedScope inner("third");
    return reshape(v, {5});
  };
  for (const std::string& text : {text_of([&] { f(x); }), text_of([&] { jit(f)(x); })}) {
    INFO("the error says: ", text);
    CHECK(text.ends_with(", in layer \"second/third\")"));
    CHECK(tests::contains(text, "(at error_places_test.cpp:"));
  }
}
