#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>
#include <lockstep/reductions.h>
#include <lockstep/scientific/solvers.h>

// Shortest augmenting paths, row by row: Jonker and Volgenant 1987.
namespace lockstep {
namespace {

/// Pairs so far, and prices at which none of them would change: cost - row price - column price >= 0, and 0 where paired.
struct Pairing {
  Array row_price, column_price;
  Array column_of, row_of;  ///< int32, -1 where there is none.
};
LOCKSTEP_TREE(Pairing, row_price, column_price, column_of, row_of);

/// The tree of shortest paths from a row that has no column.
struct PathSearch {
  Array distance;  ///< Of each column so far.
  Array from;      ///< The row before each column, int32.
  Array is_done;   ///< Columns whose distance is final.
  Array row, end;  ///< What is looked at next; the column the path ends in, -1 while none is known.
  Array length;    ///< Of the path to it.
};
LOCKSTEP_TREE(PathSearch, distance, from, is_done, row, end, length);

Array pick(const Array& values, const Array& index) { return dynamic_index_in_dim(values, index, 0, false); }

PathSearch shortest_path(const Array& cost, const Pairing& pairs, const Array& start) {
  const std::int64_t columns = cost.dim(1);
  const Array inf = full({}, std::numeric_limits<double>::infinity(), cost.dtype());
  const Array none = full({}, -1, int32);
  const auto goes_on = [&](const PathSearch& s) { return (s.end < 0) & (s.length < inf); };
  const auto step = [&](const PathSearch& s) {
    const Array way = s.length + pick(cost, s.row) - pick(pairs.row_price, s.row) - pairs.column_price;
    const Array is_shorter = logical_not(s.is_done) & (way < s.distance);
    const Array distance = where(is_shorter, way, s.distance), from = where(is_shorter, s.row, s.from);
    const Array open = where(s.is_done, inf, distance);
    const Array nearest = argmin(open, 0);
    const Array length = pick(open, nearest);
    const Array next = pick(pairs.row_of, nearest);
    return PathSearch{distance,
                      from,
                      s.is_done | ((arange(columns) == nearest) & (length < inf)),
                      where(next < 0, s.row, next),
                      where((next < 0) & (length < inf), nearest, none),
                      length};
  };
  const PathSearch first{full({columns}, std::numeric_limits<double>::infinity(), cost.dtype()),
                         full({columns}, -1, int32),
                         full({columns}, false, bool_),
                         start,
                         none,
                         full({}, 0.0, cost.dtype())};
  return while_loop(goes_on, step, first);
}

/// Prices under which the path found is free: those of rows reached rise, those of their columns fall.
Pairing repriced(const Pairing& pairs, const PathSearch& s, const Array& start) {
  const Array is_found = s.end >= 0;
  const Array change = where(s.is_done & is_found, s.length - s.distance, 0);
  const Array is_paired = pairs.column_of >= 0;
  const Array of_rows = where(is_paired, take(change, maximum(pairs.column_of, 0), 0), 0);
  const Array is_start = arange(pairs.row_price.dim(0)) == start;
  return {pairs.row_price + where(is_start & is_found, s.length, of_rows), pairs.column_price - change, pairs.column_of,
          pairs.row_of};
}

/// Where the path is being turned round: its rows take the column behind them.
struct Turn {
  Array column_of, row_of, column;
};
LOCKSTEP_TREE(Turn, column_of, row_of, column);

Pairing augmented(const Pairing& pairs, const PathSearch& s) {
  const auto goes_on = [](const Turn& t) { return t.column >= 0; };
  const auto step = [&](const Turn& t) {
    const Array row = pick(s.from, t.column);
    const Array next = pick(t.column_of, row);
    return Turn{where(arange(t.column_of.dim(0)) == row, t.column, t.column_of),
                where(arange(t.row_of.dim(0)) == t.column, row, t.row_of), next};
  };
  const Turn all = while_loop(goes_on, step, Turn{pairs.column_of, pairs.row_of, s.end});
  return {pairs.row_price, pairs.column_price, all.column_of, all.row_of};
}

/// The column of each row of a matrix that is no taller than wide.
Array columns_of_rows(const Array& cost) {
  const std::int64_t rows = cost.dim(0), columns = cost.dim(1);
  const auto next = [&](const Array& row, const Pairing& pairs) {
    const PathSearch found = shortest_path(cost, pairs, row);
    return augmented(repriced(pairs, found, row), found);
  };
  const Pairing none{zeros({rows}, cost.dtype()), zeros({columns}, cost.dtype()), full({rows}, -1, int32),
                     full({columns}, -1, int32)};
  return fori_loop(0, rows, next, none).column_of;
}

/// The place of each number 0, ..., n - 1 in `of`, -1 where it has none.
Array inverse(const Array& of, std::int64_t n) {
  const Array is_there = expand_dims(arange(n), {1}) == of;
  return max(where(is_there, arange(of.dim(0)), -1), Axes{1});
}

}  // namespace

Array linear_sum_assignment(const ArrayOperand& cost) {
  const Array given = cost;
  if (given.ndim() != 2) {
    throw ShapeError(
        fmt::format("linear_sum_assignment: cost is {}; expected [rows, columns]; vmap takes batches of them",
                    to_string(given.type())));
  }
  if (is_complex(given.dtype()) || given.dtype() == bool_) {
    throw DtypeError(fmt::format("linear_sum_assignment: cost is {}; expected real numbers, which can be compared",
                                 to_string(given.type())));
  }
  const std::int64_t rows = given.dim(0), columns = given.dim(1);
  if (rows == 0 || columns == 0) return full({rows}, -1, int32);
  const Array exact =
      convert(stop_gradient(given), is_float(given.dtype()) ? promote(given.dtype(), float32) : float64);
  const Array known = where(is_finite(exact), exact, std::numeric_limits<double>::infinity());
  return rows <= columns ? columns_of_rows(known) : inverse(columns_of_rows(transpose(known)), rows);
}

}  // namespace lockstep
