#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/exchange/golden.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// What is written as StableHLO and read back is the same function. That XLA takes it, too, is seen by
// tests/golden/exchange/jax_programs.py --check.

using namespace lockstep;
using tests::expect_error;
using tests::golden;

namespace {

void check_round_trip(const Function& function, const std::vector<Array>& arguments) {
  const std::string text = exchange::to_stablehlo(function);
  const Function read = exchange::from_stablehlo(text);
  REQUIRE(read.input_types() == function.input_types());
  const std::vector<Array> expected = function(arguments), results = read(arguments);
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    REQUIRE(results[i].dtype() == expected[i].dtype());
    REQUIRE(results[i].shape() == expected[i].shape());
    if (!is_float(expected[i].dtype())) {
      CHECK(results[i].to_bytes() == expected[i].to_bytes());
      continue;
    }
    const Array is_number = expected[i] == expected[i];
    CHECK((results[i] == results[i]).to_bytes() == is_number.to_bytes());
    const Array wide = where(is_number, expected[i].astype(float64), 0.0);
    const Array difference = abs(where(is_number, results[i].astype(float64), 0.0) - wide);
    if (wide.size() == 0) continue;
    CHECK(max(difference).item<double>() < 1e-6 * std::max(1.0, max(abs(wide)).item<double>()));
  }
}

template <class F, class... Args>
void check_function(const F& f, const Args&... arguments) {
  check_round_trip(trace_function(f, arguments...), {arguments...});
}

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Array numbers(const Shape& shape, float start = -1.0f) {
  const std::int64_t count = shape.size();
  return reshape(arange(count, float32) * (2.0f / static_cast<float>(count)) + start, shape.to_vector());
}

}  // namespace

TEST_CASE("functions that came from JAX go back") {
  for (const std::string name :
       {"mlp", "conv_grad", "attention", "scan", "newton", "sorting", "scattering", "reductions", "slices", "branches",
        "norm_grad", "spectra", "factors", "own_functions", "narrow", "pool_grad", "widened"}) {
    CAPTURE(name);
    const auto values = exchange::load_npz(golden / (name + ".npz"));
    std::vector<Array> arguments;
    while (values.contains("in" + std::to_string(arguments.size()))) {
      arguments.push_back(values.at("in" + std::to_string(arguments.size())));
    }
    check_round_trip(exchange::from_stablehlo(tests::file_text(golden / (name + ".mlir"))), arguments);
  }
}

TEST_CASE("models go out with their weights") {
  const Model gpt([](const Scope& scope, const Array& tokens) {
    return models::gpt(scope, tokens, {.vocabulary = 11, .blocks = {.width = 8, .depth = 1, .heads = 2}});
  });
  const Array tokens = array({3, 1, 4, 1, 5, 9}, {2, 3});
  const auto [weights, state] = gpt.init(random::key(1), tokens);
  check_function([&, weights = weights,
                  state = state](const Array& x) { return gpt.stateless_call(weights, state, x, false).first; },
                 tokens);

  const Model cnn([](const Scope& scope, const Array& x) {
    const Array h = max_pool2d(relu(batch_norm(scope["norm"], conv2d(scope["conv"], x, {.filters = 3}))), {2, 2});
    return dense(scope["head"], flatten(h), {.units = 4});
  });
  const Array images = numbers({2, 6, 6, 2});
  const auto [kernels, moving] = cnn.init(random::key(2), images);
  check_function([&, kernels = kernels,
                  moving = moving](const Array& x) { return cnn.stateless_call(kernels, moving, x, false).first; },
                 images);
}

TEST_CASE("gradients, loops and choices go out") {
  check_function(
      [](const Array& kernel, const Array& x) {
        const auto loss = [](const std::vector<Array>& both) {
          return sum(
              square(conv(both[1], both[0], {.strides = {2, 1}, .padding = {{1, 1}, {0, 1}}, .dilation = {1, 2}})));
        };
        return grad(loss)(std::vector<Array>{kernel, x});
      },
      numbers({3, 2, 2, 3}), numbers({2, 5, 6, 2}));
  check_function(
      [](const Array& w, const Array& xs) {
        const auto body = [&](const Array& h, const Array& x) {
          const Array next = tanh(matmul(h, w) + x);
          return std::pair(next, sum(next));
        };
        const auto loss = [&](const Array& start) { return sum(scan(body, start, xs).first); };
        return grad(loss)(zeros({2, 3}));
      },
      numbers({3, 3}), numbers({4, 2, 3}));
  check_function(
      [](const Array& x) {
        return std::tuple(
            cond(
                sum(x) > 0, [](const Array& y) { return sin(y); }, [](const Array& y) { return exp2(y); }, x),
            argmax(x, 1), argmin(x, 0), sort(x, 1), cumsum(x, 1), any(x > 0.5f), log2(x + 3.0f), fma(x, x, x),
            convert(x, int32), take_rows(x, array({1, 0, 5})), x * x * x);
      },
      numbers({3, 4}));
}

TEST_CASE("derivatives of attention and of grouped convolutions go out") {
  const Array lengths = array({3, 0});
  for (const DType dtype : {float32, float64}) {
    CAPTURE(name(dtype));
    for (const bool causal : {false, true}) {
      CAPTURE(causal);
      const auto attend = [&](const Array& q, const Array& k, const Array& bias) {
        return dot_product_attention(
            q, k, sin(k * 3.0),
            {.bias = bias,
             .is_causal = causal,
             .local_window_size = causal ? std::nullopt : std::optional(std::pair(std::int64_t{1}, std::int64_t{2})),
             .key_value_seq_lengths = lengths});
      };
      const Array q = numbers({2, 4, 4, 3}).astype(dtype), k = numbers({2, 5, 2, 3}, -0.5f).astype(dtype);
      const Array bias = numbers({1, 4, 1, 5}).astype(dtype);
      check_function(attend, q, k, bias);
      check_function(
          [&](const Array& a, const Array& b, const Array& c) {
            const auto loss = [&](const std::vector<Array>& all) {
              const Array y = attend(all[0], all[1], all[2]);
              return sum(y * cos(y));
            };
            return grad(loss)(std::vector<Array>{a, b, c});
          },
          q, k, bias);
      check_function(
          [&](const Array& a, const Array& b, const Array& c) {
            return jvp(attend, std::tuple(a, b, c), std::tuple(cos(a), sin(b), cos(c))).second;
          },
          q, k, bias);
    }
  }
  for (const std::int64_t groups : {2, 4}) {
    CAPTURE(groups);
    check_function(
        [&](const Array& kernel, const Array& x) {
          const auto loss = [&](const std::vector<Array>& both) {
            return sum(
                square(conv(both[1], both[0],
                            {.strides = {2, 1}, .padding = {{1, 1}, {0, 1}}, .dilation = {1, 2}, .groups = groups})));
          };
          return grad(loss)(std::vector<Array>{kernel, x});
        },
        numbers({3, 2, 4 / groups, 8}), numbers({2, 5, 6, 4}));
  }
}

TEST_CASE("Fourier transforms, Cholesky's factor and triangular systems go out") {
  check_function(
      [](const Array& x) {
        const Array half = fft::rfft2(x);
        return std::tuple(real(fft::fft(complex(x, x))), imag(half), fft::irfft(half, 5), real(fft::ifft(half)));
      },
      numbers({2, 3, 6}));
  for (const DType dtype : {float32, complex64}) {
    for (int bits = 0; bits < 32; ++bits) {
      CAPTURE(bits);
      const Attrs how = {{"left_side", (bits & 1) != 0},
                         {"lower", (bits & 2) != 0},
                         {"transpose_a", (bits & 4) != 0},
                         {"conjugate_a", (bits & 8) != 0},
                         {"unit_diagonal", (bits & 16) != 0}};
      check_function(
          [&](const Array& x) {
            const Array m = convert(x, dtype) * (dtype == float32 ? array(1.0f) : complex(array(1.0f), array(0.5f)));
            const Array solved = lax::triangular_solve({m + 4.0 * eye(3), m}, how)[0];
            const Array hermitian = matmul(m, conj(swapaxes(m, -1, -2))) + 4.0 * eye(3);
            const Array factor = linalg::cholesky(hermitian, (bits & 1) != 0);
            const auto other = [&](const Array& z) { return dtype == float32 ? z : imag(z); };
            return std::tuple(real(solved), other(solved), real(factor), other(factor));
          },
          numbers({2, 3, 3}));
    }
  }
}

TEST_CASE("gradients of pooling and of products so far go out, and what StableHLO has for fewer types or ranks") {
  const Array ties =
      array({1.0f, 3.0f, 3.0f, -1.0f, std::nanf(""), 2.0f, 2.0f, std::nanf(""), -INFINITY, 0.0f}, {1, 5, 2});
  for (const Array& x : {numbers({2, 6, 5, 2}), reshape(ties, {1, 5, 2, 1})}) {
    check_function(
        [](const Array& v) {
          const ReduceWindowOptions pools{
              .window = {1, 3, 2, 1}, .strides = {1, 2, 1, 1}, .padding = Pairs{{0, 0}, {1, 1}, {0, 1}, {0, 0}}};
          const auto loss = [&](const Array& z) {
            return sum(sin(reduce_window_max(z, pools)) + reduce_window_sum(z, pools));
          };
          return std::pair(grad(loss)(v), grad([&](const Array& z) { return sum(square(grad(loss)(z))); })(v));
        },
        x);
  }
  check_function(
      [](const Array& x) {
        const auto products = [](const Array& v) { return sum(sin(cumprod(v, 1))); };
        const auto in_order = [](const Array& v) {
          return scan([](const Array& c, const Array& row) { return std::pair(c + row, c); }, zeros({4}), v);
        };
        return std::tuple(grad(products)(x), in_order(slice(x, {0, 0}, {0, 4})), sign(convert(x > 0, uint8)),
                          grad([](const Array& v) { return sum(digamma(v + 2.0)); })(x), abs(convert(x > 0, uint16)),
                          real(fft::fftn(reshape(x, {1, 3, 2, 2}))),
                          lax::scatter_add({x, array({5, -1}, {2, 1}), slice(x, {0, 0}, {2, 4})},
                                           {{"update_window_dims", Axes{1}},
                                            {"inserted_window_dims", Axes{0}},
                                            {"scatter_dims_to_operand_dims", Axes{0}},
                                            {"operand_batching_dims", Axes{}},
                                            {"scatter_indices_batching_dims", Axes{}},
                                            {"mode", std::string("clip")}})[0]);
      },
      numbers({3, 4}));
}

TEST_CASE("random draws go out, and keys as their words") {
  const auto draws = [](const Array& words, const Array& x) {
    const Array key = random::wrap_key_data(words);
    const Array keys = random::split(random::fold_in(key, 3), 4);
    const auto body = [](const Array& carried, const Array& one) {
      return std::pair(random::fold_in(carried, 1), random::uniform(one, {2}));
    };
    const auto [last, rows] = scan(body, key, keys);
    const Array kept = random::bernoulli(keys[1], 0.5, {3, 4});
    return std::tuple(random::key_data(last), rows, random::normal(keys[0], {3}), where(kept, x, 0.0),
                      random::bits(keys[2], {5}, 8), random::bits(keys[3], {2, 2}, 64),
                      random::permutation(random::key(9), 7));
  };
  check_function(draws, array({3u, 4000000000u}), numbers({3, 4}));

  const Function split = trace_function([](const Array& key) { return random::split(key, 2); }, random::key(5));
  const Function read = exchange::from_stablehlo(exchange::to_stablehlo(split));
  CHECK(read.input_types()[0] == ArrayType{uint32, {2}, {}});
  const Array words = read({random::key_data(random::key(5))})[0];
  CHECK(words.to_bytes() == random::key_data(random::split(random::key(5), 2)).to_bytes());
}

TEST_CASE("what has no form in StableHLO is refused by name") {
  const auto refused = [](const auto& f, const Array& x, const auto&... parts) {
    expect_error<IrError>([&] { exchange::to_stablehlo(trace_function(f, x)); }, "[to_stablehlo]", parts...);
  };
  refused([](const Array& x) { return linalg::qr(x).r; }, eye(2),
          "qr: it is not written as StableHLO; export a function without it");
  refused([](const Array& x) { return random::gamma(random::key(1), 2.0, {2}) + x; }, zeros({2}), "random_gamma: ");
}
