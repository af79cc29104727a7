#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <lockstep/backend/round_up.h>

// The loops of gemv.h. Each level of vector instructions has a source file with its lanes, compiled for them; that
// type is local to the file, and so is what is made of it here.
namespace lockstep::backend::cpu {

/// Matrices by their first elements and the steps along them. The result has step 1 along its columns.
struct RowsProduct {
  const float* a;
  const float* b;
  float* result;
  std::int64_t rows, columns, depth;
  std::int64_t a_row, a_depth;
  std::int64_t b_depth, b_column;
  std::int64_t result_row;
  bool adds = false;  ///< To what the result has, where b has step 1 along its columns.
};

constexpr std::int64_t lanes = 16;
constexpr std::int64_t whole_vectors(std::int64_t n) { return round_up<std::int64_t>(n, lanes); }

/// Rows cut into blocks of nearly the same size, so that no block is left with a single row.
template <std::int64_t most, class Visit>
void for_each_row_block(std::int64_t rows, Visit visit) {
  const std::int64_t blocks = ceil_div<std::int64_t>(rows, most);
  std::int64_t first = 0;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t count = rows / blocks + (block < rows % blocks ? 1 : 0);
    visit(first, count);
    first += count;
  }
}

/// Calls visit.template operator()<count>() for a count from 1 to `most`.
template <std::int64_t most, class Visit>
void with_constant(std::int64_t count, Visit visit) {
  if (count == most) {
    visit.template operator()<most>();
  } else if constexpr (most > 1) {
    with_constant<most - 1>(count, visit);
  }
}

/// Calls visit(i) for each i below the count, a constant, so that what it indexes can lie in registers.
template <std::int64_t count, class Visit>
[[gnu::always_inline]] inline void unrolled(Visit visit) {
  [&]<std::int64_t... i>(std::integer_sequence<std::int64_t, i...>) __attribute__((always_inline)) {
    (visit(std::integral_constant<std::int64_t, i>()), ...);
  }
  (std::make_integer_sequence<std::int64_t, count>());
}

/// Adds a range of depth to a block of the result; `last` columns of its last vector exist.
template <class Lanes, std::int64_t rows, std::int64_t vectors, bool whole>
void multiply_block(const RowsProduct& p, const float* a, const float* b, float* result, std::int64_t depth, bool first,
                    std::int64_t last) {
  const auto load = [&](const float* from, auto j) __attribute__((always_inline)) {
    return whole || j < vectors - 1 ? Lanes::load(from + j * lanes) : Lanes::load(from + j * lanes, last);
  };
  Lanes sums[rows][vectors];
  unrolled<rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<vectors>([&](auto j) __attribute__((always_inline)) {
      sums[i][j] = first ? Lanes::zero() : load(result + i * p.result_row, j);
    });
  });
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes row[vectors];
    unrolled<vectors>([&](auto j) __attribute__((always_inline)) { row[j] = load(b + k * p.b_depth, j); });
    unrolled<rows>([&](auto i) __attribute__((always_inline)) {
      const Lanes factor = Lanes::all(a[i * p.a_row + k * p.a_depth]);
      unrolled<vectors>([&](auto j)
                            __attribute__((always_inline)) { sums[i][j] = Lanes::fma(factor, row[j], sums[i][j]); });
    });
  }
  unrolled<rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<vectors>([&](auto j) __attribute__((always_inline)) {
      float* to = result + i * p.result_row + j * lanes;
      if (whole || j < vectors - 1) {
        sums[i][j].store(to);
      } else {
        sums[i][j].store(to, last);
      }
    });
  });
}

/// How many rows of b one row of a takes at a time.
constexpr std::int64_t streamed_depth = 8;

/// Adds streamed_depth of depth to the only row of the result, but for the columns behind the last whole pair of vectors.
/// Returns how many columns that were.
template <class Lanes>
std::int64_t stream_columns(const RowsProduct& p, const float* a, const float* b, bool first) {
  constexpr std::int64_t pair = 2 * lanes;
  const float* row[streamed_depth];
  Lanes factors[streamed_depth];
  unrolled<streamed_depth>([&](auto k) __attribute__((always_inline)) {
    row[k] = b + k * p.b_depth;
    factors[k] = Lanes::all(a[k * p.a_depth]);
  });
  const std::int64_t columns = p.columns / pair * pair;
  for (std::int64_t j = 0; j < columns; j += pair) {
    for (const std::int64_t at : {j, j + lanes}) {
      Lanes sum = first ? Lanes::zero() : Lanes::load(p.result + at);
      // Processors foresee what an instruction reads next: each of b's rows is read by instructions of its own.
      unrolled<streamed_depth>([&](auto k) __attribute__((always_inline)) {
        sum = Lanes::fma(factors[k], Lanes::load(row[k] + at), sum);
      });
      sum.store(p.result + at);
    }
  }
  return columns;
}

/// Where b has step 1 along its columns: each element of the result is a chain of fused multiply-adds, in blocks of
/// depth which keep what all rows read of b in the first-level cache.
template <class Lanes>
void multiply_by_columns(const RowsProduct& p) {
  // One row reads b once: then few of its rows at a time, each from end to end, as memory is read fastest.
  const bool is_wide = p.columns > Lanes::most_vectors * lanes;
  const bool streams = p.rows == 1 && is_wide;
  const std::int64_t most_depth = streams ? streamed_depth : p.rows <= 8 && is_wide ? 2 * streamed_depth : 64;
  for (std::int64_t k = 0; k < p.depth; k += most_depth) {
    const std::int64_t depth = std::min(most_depth, p.depth - k);
    const auto columns = [&]<std::int64_t vectors>(std::int64_t j) {
      constexpr std::int64_t most_rows = std::min(Lanes::most_sums / vectors, std::int64_t{12});
      const std::int64_t last = std::min(p.columns - j - (vectors - 1) * lanes, lanes);
      for_each_row_block<most_rows>(p.rows, [&](std::int64_t i, std::int64_t count) {
        with_constant<most_rows>(count, [&]<std::int64_t rows>() {
          const auto block =
              last == lanes ? multiply_block<Lanes, rows, vectors, true> : multiply_block<Lanes, rows, vectors, false>;
          block(p, p.a + i * p.a_row + k * p.a_depth, p.b + k * p.b_depth + j, p.result + i * p.result_row + j, depth,
                k == 0 && !p.adds, last);
        });
      });
    };
    std::int64_t vectors = 0;
    const std::int64_t streamed =
        streams && depth == streamed_depth
            ? stream_columns<Lanes>(p, p.a + k * p.a_depth, p.b + k * p.b_depth, k == 0 && !p.adds)
            : 0;
    for (std::int64_t j = streamed; j < p.columns; j += vectors * lanes) {
      vectors = std::min(Lanes::most_vectors, ceil_div<std::int64_t>(p.columns - j, lanes));
      with_constant<Lanes::most_vectors>(vectors, [&]<std::int64_t count>() { columns.template operator()<count>(j); });
    }
  }
}

/// Products of rows of a with `columns` of b, at most four, both with step 1 along the depth.
template <class Lanes, std::int64_t rows>
void dot_block(const RowsProduct& p, const float* a, const float* b, float* result, std::int64_t columns) {
  // Columns that do not exist are computed as the last one again.
  const float* column[4];
  for (std::int64_t j = 0; j < 4; ++j) column[j] = b + std::min(j, columns - 1) * p.b_column;
  Lanes sums[rows][4];
  unrolled<rows * 4>([&](auto i) __attribute__((always_inline)) { sums[i / 4][i % 4] = Lanes::zero(); });
  const auto add = [&](auto load) __attribute__((always_inline)) {
    Lanes row[rows];
    unrolled<rows>([&](auto i) __attribute__((always_inline)) { row[i] = load(a + i * p.a_row); });
    unrolled<4>([&](auto j) __attribute__((always_inline)) {
      const Lanes from = load(column[j]);
      unrolled<rows>([&](auto i) __attribute__((always_inline)) { sums[i][j] = Lanes::fma(row[i], from, sums[i][j]); });
    });
  };
  std::int64_t k = 0;
  for (; k + lanes <= p.depth; k += lanes) {
    add([k](const float* from) __attribute__((always_inline)) { return Lanes::load(from + k); });
  }
  if (k < p.depth) {
    add([ k, &p ](const float* from) __attribute__((always_inline)) { return Lanes::load(from + k, p.depth - k); });
  }
  unrolled<rows>([&](auto i) __attribute__((always_inline)) {
    Lanes::store_sums(sums[i], result + i * p.result_row, columns);
  });
}

/// Where both operands have step 1 along the depth: 16 chains of fused multiply-adds for each element of the result.
template <class Lanes>
void multiply_by_depth(const RowsProduct& p) {
  for (std::int64_t j = 0; j < p.columns; j += 4) {
    for_each_row_block<Lanes::dot_rows>(p.rows, [&](std::int64_t i, std::int64_t count) {
      with_constant<Lanes::dot_rows>(count, [&]<std::int64_t rows>() {
        dot_block<Lanes, rows>(p, p.a + i * p.a_row, p.b + j * p.b_column, p.result + i * p.result_row + j,
                               std::min<std::int64_t>(4, p.columns - j));
      });
    });
  }
}

template <class Lanes>
void multiply_gemv(const RowsProduct& p) {
  if (p.b_column == 1) {
    multiply_by_columns<Lanes>(p);
  } else {
    multiply_by_depth<Lanes>(p);
  }
}

void multiply_gemv_avx2(const RowsProduct& p);
void multiply_gemv_avx512(const RowsProduct& p);

}  // namespace lockstep::backend::cpu
