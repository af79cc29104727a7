#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "backends/jit/backend.h"
#include "tests/backends/jit/loops.h"
#include "tests/support/dims.h"

// Sums in fused loops, bit for bit in the order that docs/reproducibility.md states.
namespace lockstep::tests {
namespace {

using Floats = std::vector<float>;

constexpr std::size_t block = 256;

/// Of a matrix with `columns` columns, one sum for each.
Floats sums_of_columns(const Floats& x, std::size_t columns) {
  const std::size_t rows = x.size() / columns;
  const std::size_t at_once = columns <= 128 ? 256 / columns : 1;
  Floats result(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t first = 0; first < at_once; ++first) {
      float total = 0, partial = 0;
      std::size_t n = 0;
      for (std::size_t r = first; r < rows; r += at_once) {
        if (n++ % block == 0) total += partial, partial = 0;
        partial += x[r * columns + c];
      }
      result[c] += total + partial;
    }
  }
  return result;
}

/// Of at most so many elements of a row.
float sum_of_block(std::span<const float> x) {
  constexpr std::size_t lanes = 64;
  std::array<float, lanes> partial{};
  for (std::size_t c = 0; c < x.size(); ++c) partial[c % lanes] += x[c];
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) partial[l] += partial[l + half];
  }
  return partial[0];
}

/// The largest power of two of blocks that leaves some, and the rest.
float joined_blocks(std::span<const float> sums) {
  if (sums.size() == 1) return sums[0];
  const std::size_t left = std::bit_floor(sums.size() - 1);
  return joined_blocks(sums.first(left)) + joined_blocks(sums.subspan(left));
}

Floats sums_of_rows(const Floats& x, std::size_t columns) {
  Floats result;
  for (std::size_t row = 0; row < x.size(); row += columns) {
    Floats blocks;
    for (std::size_t first = 0; first < columns; first += 64 * block) {
      blocks.push_back(sum_of_block(std::span(x).subspan(row + first, std::min(64 * block, columns - first))));
    }
    result.push_back(joined_blocks(blocks));
  }
  return result;
}

Floats random_floats(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal;
  Floats x(n);
  for (float& e : x) e = normal(bits);
  return x;
}

std::vector<std::byte> bytes_of_floats(const Floats& x) {
  std::vector<std::byte> bytes(x.size() * 4);
  if (!x.empty()) std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

/// x * s, with s spread along the dimensions that it has not; the product, and its sums.
void check_sums(const Shape& shape, const Dims& axes, const Dims& spread_dims, const backend::Backend& backend,
                bool of_rows, bool gives_product) {
  CAPTURE(to_string(shape));
  CAPTURE(to_string(AttrValue(axes)));
  CAPTURE(to_string(AttrValue(spread_dims)));
  Dims all;
  for (int d = 0; d < shape.rank(); ++d) all.push_back(d);
  Shape small;
  for (const std::int64_t d : spread_dims) small.append(shape[static_cast<int>(d)]);
  std::vector<backend::ElementLoop::Result> results = {{2, axes}, {0, axes}};
  if (gives_product) results.push_back({2, {}});
  const auto loop = std::make_shared<const backend::ElementLoop>(
      std::vector<backend::ElementLoop::Operand>{{DType::float32, all}, {DType::float32, spread_dims}},
      std::vector<backend::ElementLoop::Instruction>{{"mul", {}, DType::float32, {0, 1}}}, results);
  const BoundLoop bound(backend, loop, {{DType::float32, shape, {}}, {DType::float32, small, {}}}, shape);
  REQUIRE(bound.kernel != nullptr);
  const Floats x = random_floats(static_cast<std::size_t>(shape.size()), 1);
  const Floats s = random_floats(static_cast<std::size_t>(small.size()), 2);
  Floats product = x;
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  const std::vector<std::int64_t> small_strides = row_major_strides(small);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t at = 0;
    for (std::size_t k = 0; k < spread_dims.size(); ++k) {
      const auto d = static_cast<std::size_t>(spread_dims[k]);
      const std::int64_t index = static_cast<std::int64_t>(i) / strides[d] % shape[static_cast<int>(d)];
      at += static_cast<std::size_t>(index * small_strides[k]);
    }
    product[i] *= s[at];
  }
  std::size_t columns = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    if ((std::ranges::count(axes, d) != 0) == of_rows) columns *= static_cast<std::size_t>(shape[d]);
  }
  const auto sums = of_rows ? sums_of_rows : sums_of_columns;
  const auto given = bound.run(std::vector<BoundLoop::Bytes>{bytes_of_floats(x), bytes_of_floats(s)});
  CHECK(given[0] == bytes_of_floats(sums(product, columns)));
  CHECK(given[1] == bytes_of_floats(sums(x, columns)));
  if (gives_product) CHECK(given[2] == bytes_of_floats(product));
}

}  // namespace

TEST_CASE("sums of columns have their order") {
  const std::vector<Shape> shapes = {Shape{2, 5},    Shape{7, 3},     Shape{300, 16},
                                     Shape{70, 100}, Shape{9000, 16}, Shape{33, 128},
                                     Shape{33, 129}, Shape{600, 700}, Shape{140000, 1, 2}};
  for (const backend::Isa isa : usable_sets()) {
    const auto backend = backend::jit::make_backend(isa);
    for (const Shape& shape : shapes) {
      const int last = shape.rank() - 1;
      for (const Dims& spread : {Dims{}, Dims{0}, Dims{last}, Dims{0, last}}) {
        for (const bool gives : {false, true}) check_sums(shape, {0}, spread, *backend, false, gives);
      }
    }
    // Planes whose rows are no multiple of those that are added at once.
    for (const Shape& shape : {Shape{5, 7, 7, 16}, Shape{3, 40, 9, 3}, Shape{70, 2, 2, 200}}) {
      for (const Dims& spread : {Dims{0}, Dims{0, 3}, Dims{3}, Dims{0, 1}, Dims{1, 2}, Dims{}}) {
        check_sums(shape, {0, 1, 2}, spread, *backend, false, true);
      }
    }
  }
}

TEST_CASE("sums of rows have their order") {
  const std::vector<Shape> shapes = {Shape{1, 40000}, Shape{7, 3},    Shape{130, 16},  Shape{70, 64},
                                     Shape{3, 65},    Shape{5, 1000}, Shape{3, 33000}, Shape{2, 3, 4, 5}};
  for (const backend::Isa isa : usable_sets()) {
    const auto backend = backend::jit::make_backend(isa);
    for (const Shape& shape : shapes) {
      const int last = shape.rank() - 1;
      for (const Dims& spread : {Dims{}, Dims{0}, Dims{last}, Dims{0, last}}) {
        for (const bool gives : {false, true}) check_sums(shape, {last}, spread, *backend, true, gives);
      }
    }
    check_sums({60, 50}, {0, 1}, {}, *backend, true, false);
    check_sums({3, 6, 50}, {1, 2}, {0}, *backend, true, true);
  }
}

TEST_CASE("sums of rows and of columns in one loop; of nothing; alone") {
  for (const backend::Isa isa : usable_sets()) {
    const auto backend = backend::jit::make_backend(isa);
    const auto both = [&](const Shape& shape) {
      const auto loop = std::make_shared<const backend::ElementLoop>(
          std::vector<backend::ElementLoop::Operand>{{DType::float32, {0, 1}}},
          std::vector<backend::ElementLoop::Instruction>{},
          std::vector<backend::ElementLoop::Result>{{0, {0}}, {0, {1}}});
      return BoundLoop(*backend, loop, {{DType::float32, shape, {}}}, shape);
    };
    for (const Shape& shape : {Shape{300, 129}, Shape{3, 20000}}) {
      const Floats x = random_floats(static_cast<std::size_t>(shape.size()), 3);
      const auto given = both(shape).run(std::vector<BoundLoop::Bytes>{bytes_of_floats(x)});
      CHECK(given[0] == bytes_of_floats(sums_of_columns(x, static_cast<std::size_t>(shape[1]))));
      CHECK(given[1] == bytes_of_floats(sums_of_rows(x, static_cast<std::size_t>(shape[1]))));
    }
    CHECK(both({300, 128}).kernel == nullptr);  // Narrow rows are added several at a time.
    const auto of_none = both({0, 200}).run(std::vector<BoundLoop::Bytes>{bytes_of_floats({})});
    CHECK(of_none[0] == bytes_of_floats(Floats(200)));
    CHECK(both({4, 0}).run(std::vector<BoundLoop::Bytes>{bytes_of_floats({})})[1] == bytes_of_floats(Floats(4)));

    const Attrs axes = {{"axes", Dims{0, 1}}};
    const ArrayType in{DType::float32, {30, 20, 7}, {}}, out{DType::float32, {7}, {}};
    const auto alone = backend->make_kernel({"reduce_sum", axes, {&in, 1}, {&out, 1}, {}});
    REQUIRE(alone != nullptr);
    const Floats x = random_floats(30 * 20 * 7, 4);
    Floats y(7);
    std::vector<float> scratch(alone->scratch_bytes() / 4);
    const ArrayView from = contiguous_view(const_cast<float*>(x.data()), in.dtype, in.shape);
    const ArrayView to = contiguous_view(y.data(), out.dtype, out.shape);
    alone->run({{&from, 1}, {&to, 1}, scratch.data()});
    CHECK(y == sums_of_columns(x, 7));
    // Dimensions that stay on both sides are nobody's matrix.
    const Attrs middle = {{"axes", Dims{1}}};
    const ArrayType left{DType::float32, {30, 7}, {}};
    CHECK(backend->make_kernel({"reduce_sum", middle, {&in, 1}, {&left, 1}, {}}) == nullptr);
  }
}

}  // namespace lockstep::tests
