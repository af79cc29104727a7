#include "engine/cli/curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include <fmt/format.h>

namespace lockstep::cli {
namespace {

constexpr double width = 640, height = 320, left = 64, right = 16, top = 32, bottom = 40;
constexpr std::array colours = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf"};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
  double length() const { return high > low ? high - low : 1; }
};

struct Point {
  double x = 0, y = 0;
};

/// Runs of points without a gap, thinned out.
std::vector<std::vector<Point>> pieces_of(const Curve& curve) {
  constexpr std::size_t most = 400;
  const std::size_t count = std::min(curve.x.size(), curve.y.size());
  const std::size_t each = std::max<std::size_t>(1, (count + most - 1) / most);
  std::vector<std::vector<Point>> pieces(1);
  for (std::size_t first = 0; first < count; first += each) {
    Point sum;
    std::size_t taken = 0;
    for (std::size_t i = first; i < std::min(first + each, count); ++i) {
      if (!curve.y[i] || !std::isfinite(*curve.y[i])) continue;
      sum.x += curve.x[i];
      sum.y += *curve.y[i];
      ++taken;
    }
    if (taken == 0) {
      if (!pieces.back().empty() && each == 1) pieces.emplace_back();
      continue;
    }
    pieces.back().push_back({sum.x / static_cast<double>(taken), sum.y / static_cast<double>(taken)});
  }
  return pieces;
}

/// Steps of 1, 2 or 5 times a power of ten, about five of them.
std::vector<double> ticks_of(const Range& range) {
  const double rough = range.length() / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double at = std::ceil(range.low / step) * step; at <= range.high + step * 1e-9; at += step) {
    ticks.push_back(std::abs(at) < step * 1e-9 ? 0 : at);
  }
  return ticks;
}

class Plot {
 public:
  Plot(const std::string& title, const std::vector<Curve>& curves) {
    for (const Curve& curve : curves) pieces_.push_back(pieces_of(curve));
    for (const auto& pieces : pieces_) {
      for (const auto& piece : pieces) {
        for (const Point& point : piece) {
          x_.take(point.x);
          y_.take(point.y);
        }
      }
    }
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{3}</text>\n",
        width, height, left, escaped(title));
    if (x_.is_empty()) {
      text_ += fmt::format("<text x=\"{}\" y=\"{}\">no finite values</text>\n", left, height / 2);
    } else {
      add_axes();
      for (std::size_t i = 0; i < curves.size(); ++i) add_curve(curves[i].name, i);
    }
    text_ += "</svg>\n";
  }
  std::string text() && { return std::move(text_); }

 private:
  double at_x(double x) const { return left + (x - x_.low) / x_.length() * (width - left - right); }
  double at_y(double y) const { return height - bottom - (y - y_.low) / y_.length() * (height - top - bottom); }

  void add_axes() {
    for (const double x : ticks_of(x_)) {
      text_ += fmt::format("<text x=\"{0:.1f}\" y=\"{1}\" text-anchor=\"middle\">{2:g}</text>\n", at_x(x),
                           height - bottom + 16, x);
    }
    for (const double y : ticks_of(y_)) {
      text_ += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
          left, width - right, at_y(y), left - 6, at_y(y) + 4, y);
    }
    text_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n", (left + width - right) / 2,
                         height - 6);
  }

  void add_curve(const std::string& name, std::size_t number) {
    const char* colour = colours[number % colours.size()];
    for (const std::vector<Point>& piece : pieces_[number]) {
      if (piece.empty()) continue;
      std::string points;
      for (const Point& point : piece) points += fmt::format("{:.1f},{:.1f} ", at_x(point.x), at_y(point.y));
      text_ +=
          fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n", colour, points);
      for (const Point& point : piece) {
        text_ += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" fill-opacity=\"{}\"><title>{}: step {:g}, "
            "{:g}</title></circle>\n",
            at_x(point.x), at_y(point.y), colour, piece.size() == 1 ? 1 : 0, escaped(name), point.x, point.y);
      }
    }
    const double y = top + 14 * static_cast<double>(number);
    text_ += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"2\"/>"
        "<text x=\"{4}\" y=\"{5}\" text-anchor=\"end\">{6}</text>\n",
        width - right - 20, width - right, y, colour, width - right - 26, y + 4, escaped(name));
  }

  std::vector<std::vector<std::vector<Point>>> pieces_;  ///< By curve.
  Range x_, y_;
  std::string text_;
};

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string plot_svg(const std::string& title, const std::vector<Curve>& curves) { return Plot(title, curves).text(); }

}  // namespace lockstep::cli
