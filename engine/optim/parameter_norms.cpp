#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/gradient_transformations.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

// Parameters whose norms along some dimensions stay within bounds.
namespace lockstep::optim {
namespace {

constexpr double epsilon = 1e-7;

void check_axes(std::string_view function, const std::vector<std::int64_t>& axes, const Tree& params) {
  const std::vector<std::string> paths = params.paths();
  const std::vector<Array> leaves = params.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    for (const std::int64_t axis : axes) {
      const std::int64_t rank = leaves[i].ndim();
      if (axis >= -rank && axis < rank) continue;
      throw ShapeError(
          fmt::format("[{}] leaf '{}' is {}, which has no dimension {} to take a norm along; give it the leaves that "
                      "have one by masked, or other axes",
                      function, paths[i], to_string(leaves[i].type()), axis));
    }
  }
}

/// Updates that lead to factor(norm) times what the parameters would be.
GradientTransformation keeping(std::string function, std::vector<std::int64_t> axes,
                               std::function<Array(const Array& norm)> factor) {
  GradientTransformation rule = leafwise([axes, factor](const Array& u, const Array& p) {
    const Array from = convert(p, u.dtype()), to = from + u;
    const Array norm = sqrt(sum(magnitude_squared(to), axes, true));
    return to * convert(factor(norm), u.dtype()) - from;
  });
  rule.init = [function = std::move(function), axes](const Tree& params) {
    check_axes(function, axes, params);
    return Tree();
  };
  return rule;
}

}  // namespace

GradientTransformation keep_params_max_norm(double max_norm, std::vector<std::int64_t> axes) {
  check_positive("keep_params_max_norm", "max_norm", max_norm);
  return keeping("keep_params_max_norm", std::move(axes),
                 [max_norm](const Array& norm) { return minimum(norm, max_norm) / (epsilon + norm); });
}

GradientTransformation keep_params_norm_between(NormBounds bounds) {
  check_not_negative("keep_params_norm_between", "least", bounds.least);
  check_positive("keep_params_norm_between", "largest", bounds.largest);
  if (bounds.least > bounds.largest || !(bounds.rate > 0 && bounds.rate <= 1)) {
    throw ValueError(
        fmt::format("[keep_params_norm_between] least is {}, largest {} and rate {}; least is at most largest, and "
                    "rate above 0 and "
                    "at most 1",
                    bounds.least, bounds.largest, bounds.rate));
  }
  const auto factor = [b = bounds](const Array& norm) {
    const Array within = minimum(maximum(norm, b.least), b.largest);
    return (b.rate * within + (1.0 - b.rate) * norm) / (epsilon + norm);
  };
  return keeping("keep_params_norm_between", std::move(bounds.axes), factor);
}

GradientTransformation keep_params_unit_norm(std::vector<std::int64_t> axes) {
  return keeping("keep_params_unit_norm", std::move(axes), [](const Array& norm) { return 1.0 / (epsilon + norm); });
}

}  // namespace lockstep::optim
