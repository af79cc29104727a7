#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>

// Values, gradients and Hessians of smooth functions where they are hard, held against mpmath's.
namespace lockstep::tests::sweep {

using Arrays = std::vector<Array>;

/// Point i is element i of every variable; the result has a value for each point.
using Call = std::function<Array(const Arrays& variables)>;

/// The functions by the names of functions.py.
const std::map<std::string, Call, std::less<>>& calls();

/// How far a result may be from the exact one, in units of its dtype's last place: of the value itself, of the gradient's
/// element itself, of the larger of the Hessian's element and the gradient's largest one.
struct Bound {
  double value = 4;
  double gradient = 8;
  double hessian = 16;
};

/// Why a function's results may be farther away, in which dtypes and where.
struct Exception {
  std::string_view function;
  std::string_view dtypes;  ///< Of "f16 bf16 f32 f64".
  int order = 0;            ///< 0: the value, 1: and the gradient, 2: and the Hessian are excepted, from this one on.
  double units = 0;         ///< Instead of the usual bound; 0: not held at all.
  double low = 0;           ///< Where the first variable lies in [low, high] ...
  double high = 0;
  std::string_view reason;
};

/// Of several that fit a number the first one counts; each has to be needed.
const std::vector<Exception>& exceptions();

/// A line of a family's file. Text of a number that is not held is "*".
struct Point {
  std::string function;
  std::vector<double> at;
  std::vector<std::string> results;  ///< The value, the gradient, the Hessian's upper triangle.
};
std::vector<Point> read_points(const std::filesystem::path& path);

}  // namespace lockstep::tests::sweep
