#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// Functions whose rows do not depend on how many there are.

using namespace lockstep;

namespace {

Array normal_of_seed(std::uint64_t seed, const Shape& shape) { return random::normal(random::key(seed), shape); }

Array one_row(const Array& x, std::int64_t row) { return slice_in_dim(x, row, row + 1, 0); }

}  // namespace

TEST_CASE("a row has the bits that it has alone, however many there are, jitted and not") {
  const Array w = normal_of_seed(1, {300, 530}), narrow = normal_of_seed(2, {530, 7});
  const auto f = [&](const Array& x) { return matmul(tanh(matmul(x, w)), narrow); };
  const auto invariant = batch_invariant(f);
  const auto jitted = jit(invariant);
  for (const std::int64_t rows : {1, 2, 8, 9, 13, 64, 65, 500}) {
    CAPTURE(rows);
    const Array x = normal_of_seed(3, {500, 300}), some = slice_in_dim(x, 0, rows, 0);
    const Array all = jitted(some);
    CHECK(all.to_bytes() == invariant(some).to_bytes());
    for (const std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1}) {
      CHECK(one_row(all, row).to_bytes() == jitted(one_row(x, row)).to_bytes());
    }
    CHECK(allclose(all, f(some), 1e-3, 1e-3).item<bool>());
  }
}

TEST_CASE("products are told their order in every body, those that know one and those of integers are not") {
  const Array w = normal_of_seed(1, {4, 4});
  const auto step = [&](const Array& carry, const Array&) { return std::pair(matmul(carry, w), carry); };
  const auto f = [&](const Array& x) {
    const Array squares = batch_invariant([&](const Array& y) { return matmul(y, w); })(x);
    const Array counted = convert(matmul(convert(x, int32), convert(w, int32)), float32);
    return scan(step, squares + counted + jit([&](const Array& y) { return matmul(y, w); })(x), zeros({3})).first;
  };
  const std::string text = trace_function(batch_invariant(f), zeros({2, 4})).to_string();
  const auto count = [&](const std::string& of) {
    std::int64_t found = 0;
    for (std::size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++found;
    return found;
  };
  CHECK(count("dot_general") == 4);
  CHECK(count("sum_blocks=1") == 3);
}

TEST_CASE("what is batch invariant has the derivatives and batches of the function") {
  const Array w = normal_of_seed(1, {6, 5}), x = normal_of_seed(2, {3, 6});
  const auto loss = [&](const Array& v) { return sum(sin(matmul(v, w))); };
  CHECK(allclose(grad(batch_invariant(loss))(x), grad(loss)(x), 1e-5, 1e-5).item<bool>());
  const auto row = [&](const Array& v) { return matmul(v, w); };
  CHECK(vmap(batch_invariant(row))(x).to_bytes() == batch_invariant(row)(x).to_bytes());
}
