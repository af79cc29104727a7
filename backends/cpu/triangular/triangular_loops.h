#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/products/gemv_blocks.h"

// The loops of triangular.h: a few rows of unknowns of many systems lie in registers while what the rows before them say is
// taken off and they are solved (Dongarra and others, "A set of level 3 basic linear algebra subprograms", 1990, in blocks as
// Goto and van de Geijn's). Each level of vector instructions has a source file with its lanes; an unknown has the same bits
// in all of them, and whatever systems stand beside its own.
namespace lockstep::backend::cpu {

/// Triangular systems as a forward substitution takes them. Steps may be negative; of a and of b one is 1 or -1.
template <class T>
struct TriangularSystems {
  const T* a;  ///< The coefficient of the first unknown in the first equation.
  std::int64_t a_row, a_column;
  const T* b;  ///< Of the first equation of the first system.
  T* x;
  std::int64_t unknown, system;  ///< Steps of b and of x.
  std::int64_t unknowns, systems;
  bool has_unit_diagonal;
  T* scratch;  ///< triangular_scratch(unknowns) bytes.
};

/// A positive definite matrix [n, n] and its lower factor.
template <class T>
struct CholeskyFactor {
  const T* a;
  T* l;
  std::int64_t n;
  T* scratch;  ///< cholesky_scratch(n) bytes.
};

constexpr std::int64_t panel_bytes = 256;   ///< Of systems' numbers, in one row of a panel; no level has more.
constexpr std::int64_t panels_at_once = 2;  ///< That share what is copied of a.
constexpr std::int64_t rows_at_once = 4;
constexpr std::int64_t block_unknowns = 64;

inline std::size_t triangular_scratch(std::int64_t unknowns) {
  return static_cast<std::size_t>(unknowns * panel_bytes * panels_at_once);
}

/// Rows lie one line more apart than they are long, so that a column's elements are in many sets of the cache.
template <class T>
std::int64_t cholesky_step(std::int64_t n) {
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  return round_up(n, line) + line;
}

template <class T>
std::size_t cholesky_scratch(std::int64_t n) {
  return static_cast<std::size_t>(n * cholesky_step<T>(n)) * sizeof(T);
}

/// Coefficients by their first element and steps.
template <class T>
struct Coefficients {
  const T* first;
  std::int64_t row, column;

  const T* at(std::int64_t i, std::int64_t j) const { return first + i * row + j * column; }
};

enum class Diagonal { none, divides, is_one };

/// Takes `depth` rows of x, each times its coefficient, off some rows of c; then solves these where there is a diagonal,
/// whose coefficients follow.
template <class Lanes, std::int64_t rows, std::int64_t vectors, class T>
void take_off(T* c, const T* x, std::int64_t step, const Coefficients<T>& a, std::int64_t depth, Diagonal diagonal) {
  Lanes sums[rows][vectors];
  const auto each = [](auto visit) __attribute__((always_inline)) {
    unrolled<rows>([&](auto i) __attribute__((always_inline)) {
      unrolled<vectors>([&](auto j) __attribute__((always_inline)) { visit(i, j); });
    });
  };
  each([&](auto i, auto j)
           __attribute__((always_inline)) { sums[i][j] = Lanes::load(c + i * step + j * Lanes::width); });
  const T* column = a.first;
  for (std::int64_t k = 0; k < depth; ++k, x += step, column += a.column) {
    Lanes row[vectors];
    unrolled<vectors>([&](auto j) __attribute__((always_inline)) { row[j] = Lanes::load(x + j * Lanes::width); });
    unrolled<rows>([&](auto i) __attribute__((always_inline)) {
      const Lanes factor = Lanes::all(column[i * a.row]);
      unrolled<vectors>([&](auto j) __attribute__((always_inline)) {
        sums[i][j] = Lanes::without_product(sums[i][j], factor, row[j]);
      });
    });
  }
  if (diagonal != Diagonal::none) {
    unrolled<rows>([&](auto i) __attribute__((always_inline)) {
      if (diagonal == Diagonal::divides) {
        const Lanes divisor = Lanes::all(*a.at(i, depth + i));
        unrolled<vectors>([&](auto j) __attribute__((always_inline)) { sums[i][j] = sums[i][j] / divisor; });
      }
      unrolled<rows - 1 - i>([&](auto below) __attribute__((always_inline)) {
        constexpr std::int64_t r = i + 1 + below;
        const Lanes factor = Lanes::all(*a.at(r, depth + i));
        unrolled<vectors>([&](auto j) __attribute__((always_inline)) {
          sums[r][j] = Lanes::without_product(sums[r][j], factor, sums[i][j]);
        });
      });
    });
  }
  each([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j].store(c + i * step + j * Lanes::width); });
}

/// As take_off, of so many rows and vectors.
template <class Lanes, class T>
void take_off(std::int64_t rows, std::int64_t vectors, T* c, const T* x, std::int64_t step, const Coefficients<T>& a,
              std::int64_t depth, Diagonal diagonal) {
  with_constant<rows_at_once>(rows, [&]<std::int64_t some_rows>() {
    with_constant<Lanes::most_vectors>(vectors, [&]<std::int64_t some_vectors>() {
      take_off<Lanes, some_rows, some_vectors>(c, x, step, a, depth, diagonal);
    });
  });
}

/// Interleaves the first halves of neighbours' rows and the second, log2(width) times.
template <class Lanes>
void transpose_square(Lanes (&rows)[Lanes::width]) {
  constexpr std::int64_t half = Lanes::width / 2;
  for (std::int64_t done = 1; done < Lanes::width; done *= 2) {
    Lanes next[Lanes::width];
    unrolled<half>([&](auto i) __attribute__((always_inline)) {
      next[2 * i] = Lanes::low_pairs(rows[i], rows[i + half]);
      next[2 * i + 1] = Lanes::high_pairs(rows[i], rows[i + half]);
    });
    unrolled<Lanes::width>([&](auto i) __attribute__((always_inline)) { rows[i] = next[i]; });
  }
}

/// A square of a matrix, `rows` times `columns` of which exist, the rest being zeros, transposed.
template <class Lanes, class T>
void load_transposed(const T* from, std::int64_t step, std::int64_t rows, std::int64_t columns,
                     Lanes (&square)[Lanes::width]) {
  for (std::int64_t i = 0; i < Lanes::width; ++i) {
    square[i] = i >= rows                 ? Lanes::zero()
                : columns >= Lanes::width ? Lanes::load(from + i * step)
                                          : Lanes::load(from + i * step, columns);
  }
  transpose_square(square);
}

template <class Lanes, class T>
void store_some(const Lanes& lanes, T* to, std::int64_t count) {
  if (count >= Lanes::width) {
    lanes.store(to);
  } else {
    lanes.store(to, count);
  }
}

/// The numbers of a few systems, unknown by unknown: [unknowns, vectors of systems].
template <class T>
struct Panel {
  T* first;
  std::int64_t at;       ///< The number of the first system.
  std::int64_t systems;  ///< That there are; the others are zeros.
  std::int64_t vectors;
};

/// Systems that lie one behind the other: their numbers are next to each other along the unknowns, upwards or downwards.
template <class Lanes, class T, class Visit>
void for_each_square(const TriangularSystems<T>& p, const Panel<T>& panel, Visit visit) {
  for (std::int64_t u = 0; u < p.unknowns; u += Lanes::width) {
    const std::int64_t unknowns = std::min(Lanes::width, p.unknowns - u);
    const std::int64_t lowest = (p.unknown > 0 ? u : u + unknowns - 1) * p.unknown;
    for (std::int64_t v = 0; v < panel.vectors; ++v) {
      const std::int64_t systems = std::min(Lanes::width, panel.systems - v * Lanes::width);
      visit(lowest + (panel.at + v * Lanes::width) * p.system, u, unknowns, v * Lanes::width, systems);
    }
  }
}

template <class Lanes, class T>
void load_panel(const TriangularSystems<T>& p, const Panel<T>& panel) {
  const std::int64_t step = panel.vectors * Lanes::width;
  if (p.system == 1) {
    for (std::int64_t u = 0; u < p.unknowns; ++u) {
      T* const to = panel.first + u * step;
      std::memcpy(to, p.b + u * p.unknown + panel.at, static_cast<std::size_t>(panel.systems) * sizeof(T));
      std::fill(to + panel.systems, to + step, T(0));
    }
    return;
  }
  for_each_square<Lanes>(
      p, panel, [&](std::int64_t from, std::int64_t u, std::int64_t unknowns, std::int64_t at, std::int64_t systems) {
        Lanes square[Lanes::width];
        load_transposed(p.b + from, p.system, systems, unknowns, square);
        for (std::int64_t i = 0; i < unknowns; ++i) {
          square[i].store(panel.first + (p.unknown > 0 ? u + i : u + unknowns - 1 - i) * step + at);
        }
      });
}

template <class Lanes, class T>
void store_panel(const TriangularSystems<T>& p, const Panel<T>& panel) {
  const std::int64_t step = panel.vectors * Lanes::width;
  if (p.system == 1) {
    for (std::int64_t u = 0; u < p.unknowns; ++u) {
      std::memcpy(p.x + u * p.unknown + panel.at, panel.first + u * step,
                  static_cast<std::size_t>(panel.systems) * sizeof(T));
    }
    return;
  }
  for_each_square<Lanes>(
      p, panel, [&](std::int64_t to, std::int64_t u, std::int64_t unknowns, std::int64_t at, std::int64_t systems) {
        Lanes square[Lanes::width];
        for (std::int64_t i = 0; i < Lanes::width; ++i) {
          const std::int64_t row = p.unknown > 0 ? u + i : u + unknowns - 1 - i;
          square[i] = i < unknowns ? Lanes::load(panel.first + row * step + at) : Lanes::zero();
        }
        transpose_square(square);
        for (std::int64_t s = 0; s < systems; ++s) store_some(square[s], p.x + to + s * p.system, unknowns);
      });
}

/// Coefficients of some rows that lie next to each other in a column, column behind column in `copy`; else as they lie.
template <class T, std::int64_t strip>
Coefficients<T> strip_of(const TriangularSystems<T>& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                         std::int64_t columns, T* copy) {
  const T* const from = p.a + row * p.a_row + column * p.a_column;
  if (p.a_row != 1 && p.a_row != -1) return {from, p.a_row, p.a_column};
  const std::int64_t before = p.a_row > 0 ? 0 : rows - 1;
  for (std::int64_t k = 0; k < columns; ++k) {
    const T* const lowest = from + k * p.a_column - before;
    if (rows == strip) {
      std::memcpy(copy + k * strip, lowest, strip * sizeof(T));
    } else {
      std::memcpy(copy + k * strip, lowest, static_cast<std::size_t>(rows) * sizeof(T));
    }
  }
  return {copy + before, p.a_row, strip};
}

template <class Lanes, class T>
void solve_panels(const TriangularSystems<T>& p, const Panel<T>* panels, std::int64_t count) {
  constexpr std::int64_t strip = 64 / sizeof(T);
  alignas(64) T copy[strip * (block_unknowns + strip)];
  const Diagonal diagonal = p.has_unit_diagonal ? Diagonal::is_one : Diagonal::divides;
  for (std::int64_t k = 0; k < p.unknowns; k += block_unknowns) {
    for (std::int64_t row = k; row < p.unknowns; row += strip) {
      const bool is_inside = row < k + block_unknowns;
      const std::int64_t rows = std::min(strip, p.unknowns - row);
      const Coefficients<T> a = strip_of<T, strip>(p, row, rows, k, is_inside ? row + rows - k : block_unknowns, copy);
      for (std::int64_t n = 0; n < count; ++n) {
        const Panel<T>& panel = panels[n];
        const std::int64_t step = panel.vectors * Lanes::width;
        for (std::int64_t r = 0; r < rows; r += rows_at_once) {
          take_off<Lanes>(std::min(rows_at_once, rows - r), panel.vectors, panel.first + (row + r) * step,
                          panel.first + k * step, step, {a.at(r, 0), a.row, a.column},
                          is_inside ? row + r - k : block_unknowns, is_inside ? diagonal : Diagonal::none);
        }
      }
    }
  }
}

template <class Lanes, class T>
void solve_systems(const TriangularSystems<T>& p) {
  constexpr std::int64_t width = Lanes::most_vectors * Lanes::width;
  static_assert(width * static_cast<std::int64_t>(sizeof(T)) <= panel_bytes && block_unknowns % (64 / sizeof(T)) == 0);
  for (std::int64_t first = 0; first < p.systems; first += panels_at_once * width) {
    std::array<Panel<T>, panels_at_once> panels;
    std::int64_t count = 0;
    for (std::int64_t at = first; at < std::min(first + panels_at_once * width, p.systems); at += width, ++count) {
      const std::int64_t systems = std::min(width, p.systems - at);
      panels[static_cast<std::size_t>(count)] = {p.scratch + count * p.unknowns * width, at, systems,
                                                 ceil_div<std::int64_t>(systems, Lanes::width)};
      load_panel<Lanes>(p, panels[static_cast<std::size_t>(count)]);
    }
    solve_panels<Lanes>(p, panels.data(), count);
    for (std::int64_t n = 0; n < count; ++n) store_panel<Lanes>(p, panels[static_cast<std::size_t>(n)]);
  }
}

// A positive definite matrix is factored as u^T u in scratch, whose upper triangle is the lower one of a, transposed: rows of
// u are then what rows of unknowns are above.

template <class Lanes, class T>
void load_upper(const CholeskyFactor<T>& p, std::int64_t step) {
  for (std::int64_t row = 0; row < p.n; row += Lanes::width) {
    for (std::int64_t column = 0; column <= row; column += Lanes::width) {
      Lanes square[Lanes::width];
      load_transposed(p.a + row * p.n + column, p.n, p.n - row, p.n - column, square);
      for (std::int64_t i = 0; i < std::min(Lanes::width, p.n - column); ++i) {
        square[i].store(p.scratch + (column + i) * step + row);
      }
    }
  }
}

template <class Lanes, class T>
void store_lower(const CholeskyFactor<T>& p, std::int64_t step) {
  for (std::int64_t row = 0; row < p.n; row += Lanes::width) {
    for (std::int64_t column = 0; column <= row; column += Lanes::width) {
      Lanes square[Lanes::width];
      load_transposed(p.scratch + column * step + row, step, p.n - column, Lanes::width, square);
      for (std::int64_t i = 0; i < std::min(Lanes::width, p.n - row); ++i) {
        store_some(square[i], p.l + (row + i) * p.n + column, p.n - column);
      }
    }
  }
  for (std::int64_t i = 0; i < p.n; ++i) std::fill(p.l + i * p.n + i + 1, p.l + (i + 1) * p.n, T(0));
}

/// Factors the first rows of what is left, of which so many exist, into `u`. False where they are not positive definite.
template <class T>
bool factor_corner(const T* from, std::int64_t step, std::int64_t rows, T (&u)[rows_at_once][rows_at_once]) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i; j < rows; ++j) {
      T sum = from[i * step + j];
      for (std::int64_t k = 0; k < i; ++k) sum = std::fma(-u[k][i], u[k][j], sum);
      if (i == j && !(sum > 0)) return false;
      u[i][j] = i == j ? std::sqrt(sum) : sum / u[i][i];
    }
  }
  return true;
}

/// Rows [first, last) of u in the columns of the block itself.
template <class Lanes, class T>
bool factor_block(T* u, std::int64_t step, std::int64_t first, std::int64_t last, std::int64_t end) {
  constexpr std::int64_t width = Lanes::most_vectors * Lanes::width;
  for (std::int64_t row = first; row < last; row += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, last - row);
    T corner[rows_at_once][rows_at_once] = {};
    for (std::int64_t column = row / Lanes::width * Lanes::width; column < end; column += width) {
      const std::int64_t vectors = std::min(Lanes::most_vectors, ceil_div(end - column, Lanes::width));
      T* const c = u + row * step + column;
      take_off<Lanes>(rows, vectors, c, u + first * step + column, step,
                      Coefficients<T>{u + first * step + row, 1, step}, row - first, Diagonal::none);
      if (column <= row && !factor_corner(c + row - column, step, rows, corner)) return false;
      take_off<Lanes>(rows, vectors, c, c, step, Coefficients<T>{&corner[0][0], 1, rows_at_once}, 0, Diagonal::divides);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      std::copy(&corner[i][i], &corner[i][0] + rows, u + (row + i) * step + row + i);
    }
  }
  return true;
}

/// Goes on with rows [row, end) of u in columns [column, last_column), which are at most those of a panel, by the rows of the
/// block that begins at `first`: those of the block are solved, from others it is taken off.
template <class Lanes, class T>
void take_block_off(T* u, std::int64_t step, std::int64_t first, std::int64_t row, std::int64_t end,
                    std::int64_t column, std::int64_t last_column) {
  for (; row < end; row += rows_at_once) {
    const std::int64_t from = std::max(column, row / Lanes::width * Lanes::width);
    const bool is_inside = row < first + block_unknowns;
    take_off<Lanes>(std::min(rows_at_once, end - row), (last_column - from) / Lanes::width, u + row * step + from,
                    u + first * step + from, step, Coefficients<T>{u + first * step + row, 1, step},
                    is_inside ? row - first : block_unknowns, is_inside ? Diagonal::divides : Diagonal::none);
  }
}

/// Whether the matrix is positive definite; the factor is written only then. Rows below a few blocks take all of these off
/// at once, so that they come seldom from memory.
template <class Lanes, class T>
bool factor_cholesky(const CholeskyFactor<T>& p) {
  constexpr std::int64_t width = Lanes::most_vectors * Lanes::width, blocks_at_once = 4;
  static_assert(block_unknowns % Lanes::width == 0);
  const std::int64_t step = cholesky_step<T>(p.n), padded = round_up(p.n, Lanes::width);
  T* const u = p.scratch;
  load_upper<Lanes>(p, step);
  for (std::int64_t blocks = 0; blocks < p.n; blocks += blocks_at_once * block_unknowns) {
    const std::int64_t blocks_end = std::min(blocks + blocks_at_once * block_unknowns, p.n);
    for (std::int64_t first = blocks; first < blocks_end; first += block_unknowns) {
      const std::int64_t last = std::min(first + block_unknowns, p.n);
      if (!factor_block<Lanes>(u, step, first, last, std::min(first + block_unknowns, padded))) return false;
      for (std::int64_t column = last; last < p.n && column < padded; column += width) {
        const std::int64_t end = std::min(column + width, padded);
        take_block_off<Lanes>(u, step, first, first, std::min(end, blocks_end), column, end);
      }
    }
    for (std::int64_t column = blocks_end; blocks_end < p.n && column < padded; column += width) {
      const std::int64_t end = std::min(column + width, padded);
      for (std::int64_t first = blocks; first < blocks_end; first += block_unknowns) {
        take_block_off<Lanes>(u, step, first, blocks_end, std::min(end, p.n), column, end);
      }
    }
  }
  store_lower<Lanes>(p, step);
  return true;
}

void solve_systems_avx2(const TriangularSystems<float>& p);
void solve_systems_avx2(const TriangularSystems<double>& p);
void solve_systems_avx512(const TriangularSystems<float>& p);
void solve_systems_avx512(const TriangularSystems<double>& p);
bool factor_cholesky_avx2(const CholeskyFactor<float>& p);
bool factor_cholesky_avx2(const CholeskyFactor<double>& p);
bool factor_cholesky_avx512(const CholeskyFactor<float>& p);
bool factor_cholesky_avx512(const CholeskyFactor<double>& p);

}  // namespace lockstep::backend::cpu
