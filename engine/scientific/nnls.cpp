#include <cmath>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/reductions.h>
#include <lockstep/scientific/solvers.h>

namespace lockstep {
namespace {

/// A place, what it is reached from, and how much momentum it had.
struct Iterate {
  Array x, ahead, momentum;
};
LOCKSTEP_TREE(Iterate, x, ahead, momentum);

void check_nnls_arguments(const Array& a, const Array& b, const NnlsOptions& options) {
  if (a.ndim() != 2 || b.ndim() < 1 || b.ndim() > 2 || a.dim(0) != b.dim(0)) {
    throw ShapeError(fmt::format("nnls: a is {}, b {}; expected [m, n], and [m] or [m, k]", to_string(a.type()),
                                 to_string(b.type())));
  }
  if (is_complex(promote(a.dtype(), b.dtype()))) {
    throw DtypeError(
        fmt::format("nnls: a is {}, b {}; complex numbers have no sign", to_string(a.type()), to_string(b.type())));
  }
  const double bound = options.norm_bound.value_or(1);
  if (options.iterations < 0 || !(bound > 0) || !std::isfinite(bound)) {
    throw ValueError(fmt::format("nnls: iterations is {}, norm_bound {}; expected none below 0, and a bound above 0",
                                 options.iterations, bound));
  }
}

/// The smaller of two norms that no eigenvalue exceeds.
Array bound_of(const Array& squares) {
  const Array frobenius = sqrt(sum(square(squares))), columns = max(sum(abs(squares), Axes{0}));
  const Array bound = minimum(frobenius, columns);
  return where(bound == 0, 1, bound);
}

}  // namespace

Array nnls(const ArrayOperand& a, const ArrayOperand& b, const NnlsOptions& options) {
  check_nnls_arguments(a, b, options);
  const DType dtype = promote(promote(a.dtype(), b.dtype()), float32);
  const Array matrix = convert(a, dtype), transposed = transpose(matrix);
  const Array squares = matmul(transposed, matrix), target = matmul(transposed, convert(b, dtype));
  const Array bound = options.norm_bound ? full({}, *options.norm_bound, dtype) : bound_of(squares);
  const auto iterate = [&](const Array&, const Iterate& at) {
    const Array momentum = (1 + sqrt(1 + 4 * square(at.momentum))) / 2;
    const Array x = maximum(at.ahead - (matmul(squares, at.ahead) - target) / bound, 0);
    return Iterate{x, x + (at.momentum - 1) / momentum * (x - at.x), momentum};
  };
  const Array start = zeros_like(target);
  return fori_loop(0, options.iterations, iterate, Iterate{start, start, full({}, 0.0, dtype)}).x;
}

}  // namespace lockstep
