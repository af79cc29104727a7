#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include <lockstep/custom_derivatives.h>
#include <lockstep/derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/ops.h>

#include "engine/api/trees/linearized_tree.h"
#include "engine/core/lists.h"

namespace lockstep {

DerivativeError::~DerivativeError() = default;

namespace detail {

namespace {

/// Numbers of a tree's float leaves, and the directions along which derivatives are compared.
class GradientCheck {
 public:
  explicit GradientCheck(CheckGradsOptions options) : options_(options), bits_(options.seed) {}

  void run(const TreeFunction& function, const std::vector<Tree>& arguments, const std::string& of, int order) {
    const std::vector<Tree> directions = drawn_like(arguments);
    const Tree differences = differences_along(function, arguments, directions);
    const Tree weights = drawn_like({differences})[0];
    const double expected = product(weights, differences);
    if (options_.forward) {
      compare("jvp", of, expected, product(weights, jvp(function, arguments, directions).second));
    }
    if (options_.reverse) {
      const std::vector<Tree> cotangents = vjp(function, arguments).second(weights);
      compare("vjp", of, expected, product(Tree::list(directions), Tree::list(cotangents)));
    }
    if (order <= 1) return;
    if (options_.forward) {
      const auto tangent = [&](const std::vector<Tree>& at) { return jvp(function, at, directions).second; };
      run(tangent, arguments, "the jvp of " + of, order - 1);
    }
    if (options_.reverse) {
      const auto cotangent = [&](const std::vector<Tree>& at) { return Tree::list(vjp(function, at).second(weights)); };
      run(cotangent, arguments, "the vjp of " + of, order - 1);
    }
  }

  void choose_defaults(const std::vector<Tree>& arguments) {
    const std::vector<Array> leaves = Tree::list(arguments).leaves();
    const bool fine = std::ranges::all_of(leaves, [](const Array& leaf) {
      return !is_inexact(leaf.dtype()) || leaf.dtype() == float64 || leaf.dtype() == complex128;
    });
    if (options_.step == 0) options_.step = fine ? 1e-4 : 1e-2;
    if (options_.tolerance == 0) options_.tolerance = fine ? 1e-6 : 2e-2;
  }

 private:
  std::vector<Tree> drawn_like(const std::vector<Tree>& trees) {
    std::vector<Tree> drawn;
    for (const Tree& tree : trees) {
      drawn.push_back(map(
          [&](const Array& leaf) {
            if (!is_inexact(leaf.dtype())) return leaf;
            const Array real_part = drawn_numbers(leaf.shape());
            if (!is_complex(leaf.dtype())) return convert(real_part, leaf.dtype());
            return convert(complex(real_part, drawn_numbers(leaf.shape())), leaf.dtype());
          },
          tree));
    }
    return drawn;
  }

  Array drawn_numbers(const Shape& shape) {
    std::vector<double> numbers = repeated<double>(shape.size());
    for (double& x : numbers) x = static_cast<double>(bits_() >> 11) * 0x1p-52 - 1;
    return array(numbers, shape);
  }

  Tree moved(const Tree& x, const Tree& dx, double step) const {
    return map(
        [&](const Array& a, const Array& b) { return is_inexact(a.dtype()) ? a + convert(b * step, a.dtype()) : a; }, x,
        dx);
  }

  Tree differences_along(const TreeFunction& function, const std::vector<Tree>& x, const std::vector<Tree>& dx) const {
    const auto at = [&](double step) {
      std::vector<Tree> trees;
      for (std::size_t i = 0; i < x.size(); ++i) trees.push_back(moved(x[i], dx[i], step));
      return function(trees);
    };
    const auto slope = [&](double step) {
      return map(
          [&](const Array& up, const Array& down) { return is_inexact(up.dtype()) ? (up - down) / (2 * step) : up; },
          at(step), at(-step));
    };
    // Two step sizes cancel the error of second order.
    return map([](const Array& fine,
                  const Array& coarse) { return is_inexact(fine.dtype()) ? fine + (fine - coarse) / 3.0 : fine; },
               slope(options_.step / 2), slope(options_.step));
  }

  /// The real part, as cotangents pair with tangents.
  static double product(const Tree& a, const Tree& b) {
    const std::vector<Array> left = a.leaves(), right = b.leaves();
    double total = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!is_inexact(left[i].dtype())) continue;
      const DType wide = is_complex(left[i].dtype()) ? complex128 : float64;
      const Array sum_of_products = sum(convert(left[i], wide) * convert(right[i], wide));
      total += (is_complex(wide) ? real(sum_of_products) : sum_of_products).item<double>();
    }
    return total;
  }

  void compare(std::string_view mode, const std::string& of, double expected, double given) const {
    const double allowed = options_.tolerance * std::max({1.0, std::abs(expected), std::abs(given)});
    if (std::abs(given - expected) <= allowed) return;
    throw DerivativeError(fmt::format(
        "check_grads: the {} of {} is {} along a random direction, differences give {}; they differ by {}, "
        "more than the {} allowed. Check the derivative rule, keep the point off kinks, or check in float64",
        mode, of, given, expected, std::abs(given - expected), allowed));
  }

  CheckGradsOptions options_;
  std::mt19937_64 bits_;
};

}  // namespace

void check_grads(const TreeFunction& function, const std::vector<Tree>& arguments, const CheckGradsOptions& options) {
  GradientCheck check(options);
  check.choose_defaults(arguments);
  check.run(function, arguments, "the function", options.order);
}

}  // namespace detail
}  // namespace lockstep
