#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/products/gemv_blocks.h"

// gemm by packed panels (Goto and van de Geijn 2008): the loops of sum_of_products.cpp, for each level of vector
// instructions. Operands are copied so that the innermost loop reads them one element behind the other; a block of the
// result stays in registers while it goes through a leaf.
namespace lockstep::backend::cpu {

/// Products of matrices, one for each leaf, and their sum. The result has step 1 along its columns, b along its columns or
/// along the depth.
struct ProductsSum {
  const float* const* a;  ///< First elements, by leaf.
  const float* const* b;
  float* result;
  float* scratch;       ///< packed_floats(...)
  std::int64_t leaves;  ///< A power of two.
  std::int64_t rows, columns, depth;
  std::int64_t a_row, a_depth;
  std::int64_t b_depth;
  std::int64_t result_row;
  std::int64_t b_column = 1;
};

constexpr std::int64_t packed_rows = 6;
constexpr std::int64_t most_packed_columns = 64;

/// Blocks that go through a leaf one after the other: one, where the first cache holds the columns of all leaves.
inline std::int64_t packed_at_once(std::int64_t total_depth) { return total_depth <= 128 ? 1 : 16; }

inline std::int64_t waiting_floats(std::int64_t leaves, std::int64_t depth) {
  const std::int64_t at_once = std::bit_width(static_cast<std::uint64_t>(leaves)) * packed_at_once(leaves * depth);
  return at_once * packed_rows * most_packed_columns;
}

/// A single leaf goes through so many rows and so much depth at a time, as the second cache holds them.
constexpr std::int64_t most_chained_rows = 80 * packed_rows, most_chained_depth = 256;

inline std::int64_t packed_floats(std::int64_t leaves, std::int64_t rows, std::int64_t depth) {
  const std::int64_t blocks = ceil_div<std::int64_t>(rows, packed_rows);
  if (leaves == 1) {
    return (std::min(blocks * packed_rows, most_chained_rows) + most_packed_columns) *
           std::min(depth, most_chained_depth);
  }
  return (blocks * packed_rows + most_packed_columns) * leaves * depth + waiting_floats(leaves, depth);
}

/// [block of rows][leaf][depth][row]; rows that do not exist are zeros.
inline void pack_rows(const ProductsSum& p, float* to) {
  for (std::int64_t first = 0; first < p.rows; first += packed_rows) {
    const std::int64_t rows = std::min(packed_rows, p.rows - first);
    for (std::int64_t leaf = 0; leaf < p.leaves; ++leaf) {
      const float* from = p.a[leaf] + first * p.a_row;
      if (rows == packed_rows) {
        for (std::int64_t k = 0; k < p.depth; ++k, to += packed_rows, from += p.a_depth) {
          unrolled<packed_rows>([&](auto i) __attribute__((always_inline)) { to[i] = from[i * p.a_row]; });
        }
        continue;
      }
      for (std::int64_t k = 0; k < p.depth; ++k, to += packed_rows) {
        for (std::int64_t i = 0; i < packed_rows; ++i) to[i] = i < rows ? from[i * p.a_row + k * p.a_depth] : 0;
      }
    }
  }
}

/// A vector of columns that have step 1 along the depth, `columns` of which exist.
template <class Lanes>
void turn_columns(const float* from, std::int64_t column, std::int64_t columns, std::int64_t depth, float* to,
                  std::int64_t step) {
  for (std::int64_t k = 0; k < depth; k += lanes) {
    const std::int64_t count = std::min(lanes, depth - k);
    Lanes tile[lanes];
    for (std::int64_t j = 0; j < lanes; ++j) {
      tile[j] = j >= columns    ? Lanes::zero()
                : count < lanes ? Lanes::load(from + j * column + k, count)
                                : Lanes::load(from + j * column + k);
    }
    Lanes::transpose(tile);
    for (std::int64_t i = 0; i < count; ++i) tile[i].store(to + (k + i) * step);
  }
}

/// [leaf][depth][column], for a few vectors of columns; columns that do not exist are zeros.
template <class Lanes, std::int64_t vectors>
void pack_columns(const ProductsSum& p, std::int64_t first, std::int64_t last, float* to) {
  if (p.b_column != 1) {
    for (std::int64_t leaf = 0; leaf < p.leaves; ++leaf, to += p.depth * vectors * lanes) {
      for (std::int64_t j = 0; j < vectors; ++j) {
        turn_columns<Lanes>(p.b[leaf] + (first + j * lanes) * p.b_column, p.b_column, j + 1 < vectors ? lanes : last,
                            p.depth, to + j * lanes, vectors * lanes);
      }
    }
    return;
  }
  for (std::int64_t leaf = 0; leaf < p.leaves; ++leaf) {
    const float* from = p.b[leaf] + first;
    for (std::int64_t k = 0; k < p.depth; ++k, from += p.b_depth, to += vectors * lanes) {
      unrolled<vectors - 1>([&](auto j) { Lanes::load(from + j * lanes).store(to + j * lanes); });
      Lanes::load(from + (vectors - 1) * lanes, last).store(to + (vectors - 1) * lanes);
    }
  }
}

/// A block of the result; `rows` of its rows exist, and `last` columns of its last vector.
struct PackedBlock {
  const float* a;
  const float* b;
  float* waiting;  ///< Sums of leaves that wait for their equals: so many as the number of the leaf has digits 1.
  std::int64_t waiting_step;
  float* result;
  std::int64_t rows, last;
};

/// The sums of a block.
template <class Lanes, std::int64_t vectors>
using PackedSums = Lanes[packed_rows][vectors];

/// Calls visit(row, vector) for each of them.
template <std::int64_t vectors>
[[gnu::always_inline]] inline void for_each_sum(auto visit) {
  unrolled<packed_rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<vectors>([&](auto j) __attribute__((always_inline)) { visit(i, j); });
  });
}

/// Adds the products of a block, over all of p's depth.
template <class Lanes, std::int64_t vectors>
[[gnu::always_inline]] inline void add_products(const ProductsSum& p, const PackedBlock& block,
                                                PackedSums<Lanes, vectors>& sums) {
  const float* a = block.a;
  const float* b = block.b;
  for (std::int64_t k = 0; k < p.depth; ++k, a += packed_rows, b += vectors * lanes) {
    Lanes row[vectors];
    unrolled<vectors>([&](auto j) __attribute__((always_inline)) { row[j] = Lanes::load(b + j * lanes); });
    unrolled<packed_rows>([&](auto i) __attribute__((always_inline)) {
      const Lanes factor = Lanes::all(a[i]);
      unrolled<vectors>([&](auto j)
                            __attribute__((always_inline)) { sums[i][j] = Lanes::fma(factor, row[j], sums[i][j]); });
    });
  }
}

/// Whether all columns of a block's vector are there.
template <std::int64_t vectors>
[[gnu::always_inline]] inline bool is_whole(const PackedBlock& block, std::int64_t vector) {
  return vector < vectors - 1 || block.last == lanes;
}

/// Writes the sums into what of the result there is.
template <class Lanes, std::int64_t vectors>
[[gnu::always_inline]] inline void store_sums(const ProductsSum& p, const PackedBlock& block,
                                              const PackedSums<Lanes, vectors>& sums) {
  for_each_sum<vectors>([&](auto i, auto j) __attribute__((always_inline)) {
    if (i >= block.rows) return;
    float* to = block.result + i * p.result_row + j * lanes;
    if (is_whole<vectors>(block, j)) {
      sums[i][j].store(to);
    } else {
      sums[i][j].store(to, block.last);
    }
  });
}

/// Takes a block through a leaf: its product is joined with the sums that wait for it, and waits in turn or is the result.
template <class Lanes, std::int64_t vectors>
void add_leaf(const ProductsSum& p, const PackedBlock& block, std::int64_t leaf) {
  PackedSums<Lanes, vectors> sums;
  for_each_sum<vectors>([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = Lanes::zero(); });
  add_products<Lanes, vectors>(p, block, sums);
  std::int64_t depth = std::popcount(static_cast<std::uint64_t>(leaf));
  for (std::int64_t digit = leaf; (digit & 1) != 0; digit >>= 1) {
    const float* left = block.waiting + --depth * block.waiting_step;
    for_each_sum<vectors>([&](auto i, auto j) __attribute__((always_inline)) {
      sums[i][j] = Lanes::add(Lanes::load(left + (i * vectors + j) * lanes), sums[i][j]);
    });
  }
  if (leaf + 1 == p.leaves) return store_sums<Lanes, vectors>(p, block, sums);
  float* to = block.waiting + depth * block.waiting_step;
  for_each_sum<vectors>([&](auto i, auto j)
                            __attribute__((always_inline)) { sums[i][j].store(to + (i * vectors + j) * lanes); });
}

/// All rows of a few columns: a few blocks go through one leaf after the other, whose columns stay in the first cache.
template <class Lanes, std::int64_t vectors>
void sum_columns(const ProductsSum& p, const float* a, const float* b, float* waiting, float* result,
                 std::int64_t last) {
  const std::int64_t total_depth = p.leaves * p.depth;
  const std::int64_t at_once = packed_at_once(total_depth);
  constexpr std::int64_t size = packed_rows * vectors * lanes;
  const std::int64_t blocks = ceil_div<std::int64_t>(p.rows, packed_rows);
  for (std::int64_t first = 0; first < blocks; first += at_once) {
    for (std::int64_t leaf = 0; leaf < p.leaves; ++leaf) {
      for (std::int64_t n = first; n < std::min(first + at_once, blocks); ++n) {
        const std::int64_t row = n * packed_rows;
        add_leaf<Lanes, vectors>(p,
                                 {.a = a + row * total_depth + leaf * p.depth * packed_rows,
                                  .b = b + leaf * p.depth * vectors * lanes,
                                  .waiting = waiting + (n - first) * size,
                                  .waiting_step = at_once * size,
                                  .result = result + row * p.result_row,
                                  .rows = p.rows - row,
                                  .last = last},
                                 leaf);
      }
    }
  }
}

/// Adds the products of p, a range of depth, to a block of the result, or begins it with them.
template <class Lanes, std::int64_t vectors>
void add_range(const ProductsSum& p, const PackedBlock& block, bool begins) {
  PackedSums<Lanes, vectors> sums;
  for_each_sum<vectors>([&](auto i, auto j) __attribute__((always_inline)) {
    const float* from = block.result + i * p.result_row + j * lanes;
    sums[i][j] = begins || i >= block.rows     ? Lanes::zero()
                 : is_whole<vectors>(block, j) ? Lanes::load(from)
                                               : Lanes::load(from, block.last);
  });
  add_products<Lanes, vectors>(p, block, sums);
  store_sums<Lanes, vectors>(p, block, sums);
}

/// A single leaf: some rows at a time, of these some depth after the other, so that what is packed stays in a cache.
template <class Lanes>
void chain_products(const ProductsSum& p) {
  float* const b = p.scratch;
  float* const a = b + most_packed_columns * std::min(p.depth, most_chained_depth);
  for (std::int64_t row = 0; row < p.rows; row += most_chained_rows) {
    for (std::int64_t k = 0; k < p.depth; k += most_chained_depth) {
      const float* const from[] = {p.a[0] + row * p.a_row + k * p.a_depth, p.b[0] + k * p.b_depth};
      ProductsSum range = p;
      range.a = &from[0];
      range.b = &from[1];
      range.rows = std::min(most_chained_rows, p.rows - row);
      range.depth = std::min(most_chained_depth, p.depth - k);
      pack_rows(range, a);
      std::int64_t vectors = 0;
      for (std::int64_t j = 0; j < p.columns; j += vectors * lanes) {
        vectors = std::min(Lanes::most_vectors, ceil_div<std::int64_t>(p.columns - j, lanes));
        with_constant<Lanes::most_vectors>(vectors, [&]<std::int64_t count>() {
          const std::int64_t last = std::min(p.columns - j - (count - 1) * lanes, lanes);
          pack_columns<Lanes, count>(range, j, last, b);
          for (std::int64_t i = 0; i < range.rows; i += packed_rows) {
            const PackedBlock block{.a = a + i * range.depth,
                                    .b = b,
                                    .waiting = nullptr,
                                    .waiting_step = 0,
                                    .result = p.result + (row + i) * p.result_row + j,
                                    .rows = range.rows - i,
                                    .last = last};
            add_range<Lanes, count>(range, block, k == 0);
          }
        });
      }
    }
  }
}

template <class Lanes>
void sum_products(const ProductsSum& p) {
  if (p.leaves == 1) return chain_products<Lanes>(p);
  static_assert(Lanes::most_vectors * packed_rows <= Lanes::most_sums &&
                Lanes::most_vectors * lanes <= most_packed_columns);
  const std::int64_t total_depth = p.leaves * p.depth;
  float* b = p.scratch;
  float* waiting = b + most_packed_columns * total_depth;
  float* a = waiting + waiting_floats(p.leaves, p.depth);
  pack_rows(p, a);
  std::int64_t vectors = 0;
  for (std::int64_t j = 0; j < p.columns; j += vectors * lanes) {
    vectors = std::min(Lanes::most_vectors, ceil_div<std::int64_t>(p.columns - j, lanes));
    with_constant<Lanes::most_vectors>(vectors, [&]<std::int64_t count>() {
      const std::int64_t last = std::min(p.columns - j - (count - 1) * lanes, lanes);
      pack_columns<Lanes, count>(p, j, last, b);
      sum_columns<Lanes, count>(p, a, b, waiting, p.result + j, last);
    });
  }
}

void sum_products_avx2(const ProductsSum& p);
void sum_products_avx512(const ProductsSum& p);

}  // namespace lockstep::backend::cpu
