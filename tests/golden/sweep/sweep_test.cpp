#include "tests/golden/sweep/sweep.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include <lockstep/ops.h>
#include <lockstep/transforms.h>

// Every smooth function at its kinks and ends, at zeros, subnormals, infinities and in its tails: value, gradient and
// Hessian against mpmath's. mpmath_sweep.py says how the points were made.
namespace lockstep::tests::sweep {
namespace {

constexpr Bound usual;
constexpr std::array dtypes = {float16, bfloat16, float32, float64};

/// What a float dtype can hold.
struct Format {
  double epsilon, largest, smallest;
};
Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {0x1p-10, 65504.0, 0x1p-24};
    case DType::bfloat16:
      return {0x1p-7, 0x1.fep127, 0x1p-133};
    case DType::float32:
      return {0x1p-23, std::numeric_limits<float>::max(), 0x1p-149};
    default:
      return {0x1p-52, std::numeric_limits<double>::max(), 0x1p-1074};
  }
}

bool holds(const Format& format, double x) {
  if (x == 0 || std::isinf(x)) return true;
  if (std::abs(x) > format.largest || std::abs(x) < format.smallest) return false;
  const double unit = std::max(format.smallest, std::exp2(std::floor(std::log2(std::abs(x)))) * format.epsilon);
  return std::fmod(x, unit) == 0;
}

/// The distance in units of the last place of `scale`, at least the smallest subnormal.
double units(double got, double want, double scale, const Format& format) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e300;
  if (std::abs(want) > format.largest) want = std::copysign(std::numeric_limits<double>::infinity(), want);
  if (got == want) return 0;
  const double unit = std::max(format.smallest, std::min(scale, format.largest) * format.epsilon);
  // Beyond the largest number, infinity counts as the next one.
  if (std::isinf(got)) got = std::copysign(format.largest * (1 + format.epsilon), got);
  if (std::isinf(want)) want = std::copysign(format.largest * (1 + format.epsilon), want);
  const double distance = std::abs(got - want) / unit;
  return std::isnan(distance) ? 1e300 : distance;
}

/// The value, the gradient and the Hessian's upper triangle, one row each, [rows, points]. Each derivative is by one
/// variable alone: beside one that is infinite, others would be 0 times that.
Array derivatives_at(const Call& call, const Array& variables) {
  const auto n = static_cast<std::size_t>(variables.dim(0));
  Arrays at;
  for (std::size_t i = 0; i < n; ++i) at.push_back(squeeze(slice_in_dim(variables, i, i + 1, 0), 0));
  const auto moved = [](Arrays x, std::size_t i, const Array& v) {
    x[i] = v;
    return x;
  };
  const auto slope = [&](const Arrays& x, std::size_t i) {
    return grad([&](const Array& v) { return sum(call(moved(x, i, v))); })(x[i]);
  };
  Arrays rows = {call(at)};
  for (std::size_t i = 0; i < n; ++i) rows.push_back(slope(at, i));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      rows.push_back(grad([&](const Array& v) { return sum(slope(moved(at, j, v), i)); })(at[j]));
    }
  }
  return stack(rows, 0);
}

struct Counts {
  std::size_t functions = 0, points = 0, held = 0, excepted = 0, beyond = 0, failed = 0;
};

/// All that is held so far, and which exceptions were needed.
struct Record {
  Counts counts;
  std::set<const Exception*> needed;
};

const Exception* exception_of(const Point& point, DType dtype, int order) {
  static const std::map<DType, std::string_view> names = {
      {float16, "f16"}, {bfloat16, "bf16"}, {float32, "f32"}, {float64, "f64"}};
  for (const Exception& e : exceptions()) {
    std::istringstream list{std::string(e.dtypes)};
    bool named = false;
    for (std::string name; list >> name;) named = named || name == names.at(dtype);
    if (e.function == point.function && named && order >= e.order && point.at[0] >= e.low && point.at[0] <= e.high) {
      return &e;
    }
  }
  return nullptr;
}

/// The order of each result of n variables.
std::vector<int> orders_of(std::size_t n) {
  std::vector<int> result(1 + n, 1);
  result[0] = 0;
  result.resize(1 + n + n * (n + 1) / 2, 2);
  return result;
}

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

/// A finite number that the dtype has none for.
bool is_beyond(const std::string& text, const Format& format) {
  return text.find("inf") == std::string::npos && std::abs(number(text)) > format.largest;
}

/// The lowest order of which a result is beyond the dtype's range; those above are made of it and not held.
int first_beyond(const Point& point, const std::vector<int>& orders, const Format& format) {
  int order = 3;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (is_beyond(point.results[i], format)) order = std::min(order, orders[i]);
  }
  return order;
}

struct Worst {
  double units = 0;
  std::size_t count = 0;
  std::string text;
};

std::string report(const Point& point, std::size_t i, double got, double distance, double bound) {
  std::ostringstream text;
  text.precision(9);
  text << "result " << i << " at";
  for (const double x : point.at) text << " " << x;
  text << ": " << got << ", not " << point.results[i] << " (" << distance << " units, " << bound << " allowed)";
  return text.str();
}

/// One point's results.
void compare_point(const Point& point, DType dtype, const std::function<double(std::size_t)>& got, Record& record,
                   std::array<Worst, 3>& worst) {
  const Format format = format_of(dtype);
  const std::vector<int> orders = orders_of(point.at.size());
  REQUIRE(orders.size() == point.results.size());
  double slope = 0;
  for (std::size_t i = 1; i <= point.at.size(); ++i) {
    if (point.results[i] != "*") slope = std::max(slope, std::abs(number(point.results[i])));
  }
  const std::array bounds = {usual.value, usual.gradient, usual.hessian};
  const int beyond = first_beyond(point, orders, format);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (point.results[i] == "*") continue;
    if (orders[i] > beyond) {
      ++record.counts.beyond;
      continue;
    }
    const auto order = static_cast<std::size_t>(orders[i]);
    const double want = number(point.results[i]), scale = order == 2 ? std::max(slope, std::abs(want)) : std::abs(want);
    const double distance = units(got(i), want, scale, format);
    double bound = bounds[order];
    const Exception* exception = exception_of(point, dtype, orders[i]);
    if (exception != nullptr) {
      if (distance > bound) record.needed.insert(exception);
      bound = exception->units;
      ++record.counts.excepted;
    }
    if (bound == 0) continue;
    ++record.counts.held;
    if (distance <= bound) continue;
    ++record.counts.failed;
    ++worst[order].count;
    if (distance > worst[order].units)
      worst[order] = {distance, worst[order].count, report(point, i, got(i), distance, bound)};
  }
}

void check_function(const std::string& function, const std::vector<Point>& all, DType dtype, Record& record) {
  std::vector<Point> points;
  for (const Point& p : all) {
    if (std::all_of(p.at.begin(), p.at.end(), [&](double x) { return holds(format_of(dtype), x); }))
      points.push_back(p);
  }
  if (points.empty()) return;
  const std::size_t n = points[0].at.size();
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) {
    for (const Point& p : points) values.push_back(p.at[i]);
  }
  const auto count = static_cast<std::int64_t>(points.size());
  const Array variables = convert(array(values, {static_cast<std::int64_t>(n), count}), dtype);
  const Call& call = calls().find(function)->second;
  const Array results = jit([&](const Array& z) { return derivatives_at(call, z); })(variables);
  const std::vector<double> got = convert(results, float64).to_vector<double>();
  std::array<Worst, 3> worst;
  for (std::size_t p = 0; p < points.size(); ++p) {
    compare_point(
        points[p], dtype, [&](std::size_t row) { return got[row * points.size() + p]; }, record, worst);
  }
  record.counts.points += points.size();
  const std::array<std::string, 3> orders = {"value", "gradient", "Hessian"};
  for (std::size_t order = 0; order < 3; ++order) {
    CHECK_MESSAGE(worst[order].count == 0, function << " in " << std::string(name(dtype)) << ", " << orders[order]
                                                    << ": " << worst[order].count << " differ, the most "
                                                    << worst[order].text);
  }
}

}  // namespace

std::vector<Point> read_points(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string() << " is not there");
  std::vector<Point> points;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Point point;
    std::string word;
    words >> point.function >> word;
    while (words >> word && word != "|") point.at.push_back(number(word));
    while (words >> word) {
      if (word != "|") point.results.push_back(word);
    }
    points.push_back(point);
  }
  return points;
}

TEST_CASE("smooth functions have mpmath's values, gradients and Hessians where they are hard") {
  Record record;
  Counts& counts = record.counts;
  for (const std::string family : {"elementary", "special", "activations", "pairs", "losses"}) {
    std::map<std::string, std::vector<Point>> functions;
    for (Point& p : read_points(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/sweep" / (family + ".txt"))) {
      functions[p.function].push_back(std::move(p));
    }
    for (const auto& [function, points] : functions) {
      REQUIRE_MESSAGE(calls().contains(function), function);
      for (const DType dtype : dtypes) check_function(function, points, dtype, record);
      ++counts.functions;
    }
  }
  CHECK(counts.functions == calls().size());
  for (const Exception& e : exceptions()) {
    CHECK_MESSAGE(record.needed.contains(&e), std::string(e.function)
                                                  << " in " << std::string(e.dtypes) << " above order " << e.order
                                                  << " needs no exception");
  }
  MESSAGE(counts.functions << " functions at " << counts.points << " points: " << counts.held << " numbers held, "
                           << counts.excepted << " by an exception, " << counts.beyond
                           << " not held above one that leaves the dtype's range, " << counts.failed << " differ");
}

}  // namespace lockstep::tests::sweep
