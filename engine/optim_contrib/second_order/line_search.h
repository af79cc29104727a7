#pragma once

#include <limits>
#include <utility>

#include <lockstep/optim.h>

// What searches along a line share.
namespace lockstep::optim {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// The loss along params + rate * updates.
class Line {
 public:
  Line(const KnownLoss& loss, Tree params, Tree updates);

  /// A place on it; the gradient is None where it was not asked for.
  struct Point {
    Array value, slope;
    Tree gradient;
  };
  /// Where it begins.
  const Point& start() const { return start_; }
  /// The value alone.
  Array value_at(const Array& rate) const;
  Point point_at(const Array& rate) const;
  /// rate * updates.
  Tree step(const Array& rate) const;
  /// The dtype in which rates, losses and slopes are.
  DType dtype() const { return start_.slope.dtype(); }

 private:
  Tree place(const Array& rate) const;

  ValueFunction loss_;
  Tree params_, updates_;
  Point start_;
};

}  // namespace lockstep::optim
