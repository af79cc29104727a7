#pragma once

#include <string>
#include <vector>

#include "tests/support/array_values.h"

namespace lockstep::tests {

/// An array, and what it has to be.
struct ValueRow {
  std::string what;
  Array given;
  Shape shape;
  std::vector<double> expected;
};

inline void check_rows(const std::vector<ValueRow>& rows, double tolerance = 1e-6) {
  for (const ValueRow& row : rows) {
    CAPTURE(row.what);
    check_close(row.given, row.shape, row.expected, tolerance);
  }
}

}  // namespace lockstep::tests
