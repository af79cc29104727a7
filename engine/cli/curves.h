#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A line of a plot; where `y` is nothing, there is no point.
struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<std::optional<double>> y;
};

/// A plot as an SVG element that needs nothing else: axes with round numbers, a legend, and what a point says when it is
/// pointed at. What is not finite is left out; a line is interrupted there. At most 400 points a line, the means of
/// neighbours where there are more.
std::string plot_svg(const std::string& title, const std::vector<Curve>& curves);

/// What HTML and SVG take for signs of their own, written out.
std::string escaped(const std::string& text);

}  // namespace lockstep::cli
