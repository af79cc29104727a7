#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/ravel_tree.h>
#include <lockstep/scientific/solvers.h>

namespace lockstep::detail {

namespace {

using Map = std::function<Array(const Array&)>;

/// A linear system of vectors: what all iterations are given.
struct System {
  Map a, preconditioner;
  Array b, start;
  IterationOptions options;

  std::int64_t limit() const { return options.max_iterations.value_or(10 * b.size()); }
  /// Squares of residuals that end an iteration, real.
  Array least() const {
    const Array scale = squared(b) * (options.tol * options.tol);
    return maximum(scale, options.atol * options.atol);
  }
  static Array dot(const Array& x, const Array& y) { return sum(conj(x) * y); }
  static Array squared(const Array& x) { return real(dot(x, x)); }
};

Array solved_by_cg(const System& system) {
  using State = std::tuple<Array, Array, Array, Array, Array>;  // x, residual, direction, gamma, iterations
  const Array least = system.least();
  const Array residual = system.b - system.a(system.start), direction = system.preconditioner(residual);
  const State start(system.start, residual, direction, System::dot(residual, direction), zeros({}, int32));
  const auto go_on = [&](const State& state) {
    return logical_and(System::squared(std::get<1>(state)) > least, std::get<4>(state) < system.limit());
  };
  const auto step = [&](const State& state) {
    const auto& [x, r, p, gamma, k] = state;
    const Array ap = system.a(p);
    const Array alpha = gamma / System::dot(p, ap);
    const Array next = r - alpha * ap, z = system.preconditioner(next);
    const Array next_gamma = System::dot(next, z);
    return State(x + alpha * p, next, z + next_gamma / gamma * p, next_gamma, k + 1);
  };
  return std::get<0>(while_loop(go_on, step, start));
}

/// What bicgstab carries.
struct Stabilised {
  Array x, residual, rho, alpha, omega, direction, product, iterations;
};
LOCKSTEP_TREE(Stabilised, x, residual, rho, alpha, omega, direction, product, iterations);

/// A number that is not 0 to divide by, and whether it was none.
std::pair<Array, Array> divisor(const Array& x) {
  const Array none = x == 0;
  return {where(none, ones_like(x), x), none};
}

Array solved_by_bicgstab(const System& system) {
  const Array least = system.least();
  const Array residual = system.b - system.a(system.start);
  const Array one = ones({}, residual.dtype());
  const Stabilised start{system.start, residual, one, one, one, residual, residual, zeros({}, int32)};
  const auto go_on = [&](const Stabilised& s) {
    return logical_and(System::squared(s.residual) > least, s.iterations < system.limit());
  };
  const auto step = [&](const Stabilised& s) {
    const Array rho = System::dot(residual, s.residual);
    const Array beta = rho / s.rho * s.alpha / s.omega;
    const Array direction = s.residual + beta * (s.direction - s.omega * s.product);
    const Array forth = system.preconditioner(direction), product = system.a(forth);
    const auto [along, no_along] = divisor(System::dot(residual, product));
    const Array alpha = rho / along, half = s.residual - alpha * product;
    const Array done = System::squared(half) <= least;
    const Array turned = system.preconditioner(half), image = system.a(turned);
    const auto [size, no_size] = divisor(System::dot(image, image));
    const Array omega = System::dot(image, half) / size;
    const Array broken = logical_or(logical_or(rho == 0, no_along), logical_and(omega == 0, logical_not(done)));
    return Stabilised{s.x + alpha * forth + where(done, zeros_like(half), omega * turned),
                      where(done, half, half - omega * image),
                      rho,
                      alpha,
                      omega,
                      direction,
                      product,
                      where(broken, convert(full({}, system.limit()), int32), s.iterations + 1)};
  };
  return lockstep::while_loop(go_on, step, start).x;
}

/// An orthonormal basis of the residual's Krylov space as rows, and the least residual in it.
Array krylov_step(const System& system, const Array& x, std::int64_t vectors) {
  using State =
      std::pair<Array, Array>;  // rows of the basis [vectors + 1, n], columns of the product [vectors, vectors + 1]
  const Array residual = system.preconditioner(system.b - system.a(x));
  const Array length = sqrt(System::squared(residual));
  const auto unit = [](const Array& v, const Array& size) {
    return where(size > 0, v / where(size > 0, size, 1), zeros_like(v));
  };
  const DType dtype = residual.dtype();
  const Array none = zeros({vectors + 1, x.size()}, dtype);
  const State start(dynamic_update_index_in_dim(none, unit(residual, length), zeros({}, int32), 0),
                    zeros({vectors, vectors + 1}, dtype));
  const auto round = [&](const Array& j, const State& state) {
    const auto& [basis, columns] = state;
    Array next = system.preconditioner(system.a(dynamic_index_in_dim(basis, j, 0, false)));
    const Array before = sqrt(System::squared(next));
    Array share = zeros({vectors + 1}, dtype);
    for (int i = 0; i < 2; ++i) {  // once is not enough where vectors are nearly parallel
      const Array along = matmul(conj(basis), next);
      next = next - matmul(along, basis);
      share = share + along;
    }
    const Array rest = sqrt(System::squared(next));
    const double eps = real(none).dtype() == float64 ? 2e-16 : 1e-7;
    const Array size = where(rest > eps * before, rest, zeros_like(rest));
    const Array column = share + convert(size, dtype) * convert(lockstep::arange(vectors + 1) == j + 1, dtype);
    return State(dynamic_update_index_in_dim(basis, unit(next, size), j + 1, 0),
                 dynamic_update_index_in_dim(columns, column, j, 0));
  };
  const auto [basis, columns] = fori_loop(0, vectors, round, start);
  const Array right = convert(lockstep::arange(vectors + 1) == 0, dtype) * convert(length, dtype);
  const Array shares = linalg::lstsq(transpose(columns), right).x;
  return x + matmul(shares, slice_in_dim(basis, 0, vectors, 0));
}

Array solved_by_gmres(const System& system) {
  using State = std::tuple<Array, Array, Array>;  // x, square of the residual, iterations
  const std::int64_t vectors =
      std::clamp<std::int64_t>(system.options.restart, 1, std::max<std::int64_t>(system.b.size(), 1));
  const Array least = system.least();
  const auto residual = [&](const Array& x) { return System::squared(system.b - system.a(x)); };
  const auto go_on = [&](const State& state) {
    return logical_and(std::get<1>(state) > least, std::get<2>(state) < system.limit());
  };
  const auto step = [&](const State& state) {
    const Array x = krylov_step(system, std::get<0>(state), vectors);
    return State(x, residual(x), std::get<2>(state) + vectors);
  };
  return std::get<0>(while_loop(go_on, step, State(system.start, residual(system.start), zeros({}, int32))));
}

Array found(Iteration kind, const System& system) {
  switch (kind) {
    case Iteration::cg:
      return solved_by_cg(system);
    case Iteration::bicgstab:
      return solved_by_bicgstab(system);
    case Iteration::gmres:
      break;
  }
  return solved_by_gmres(system);
}

}  // namespace

Tree iterate(Iteration kind, const TreeFunction& a, const Tree& b, const Tree& start,
             const TreeFunction& preconditioner, const IterationOptions& options) {
  if (!(options.tol >= 0) || !(options.atol >= 0) || options.restart < 1 || options.max_iterations.value_or(0) < 0) {
    throw ValueError(
        fmt::format("cg, bicgstab, gmres: tol is {}, atol {}, restart {}, max_iterations {}; expected "
                    "none below 0, and a restart of 1 or more",
                    options.tol, options.atol, options.restart, options.max_iterations.value_or(0)));
  }
  const bool has_start = start.kind() != Tree::Kind::none;
  if (has_start) check_same_types(b, start, "cg, bicgstab, gmres: the start");
  const auto solve = [&](const TreeFunction& function, const Tree& right) {
    const auto [flat, unravel] = ravel_tree(right);
    const auto on_vectors = [&, unravel = unravel](const TreeFunction& f) -> Map {
      return [&f, unravel](const Array& x) { return ravel_tree(f({unravel(x)})).first; };
    };
    System system{on_vectors(function), [](const Array& x) { return x; }, flat, zeros_like(flat), options};
    if (preconditioner) system.preconditioner = on_vectors(preconditioner);
    if (has_start) system.start = ravel_tree(start).first;
    return unravel(found(kind, system));
  };
  // The transpose of a Hermitian function is its conjugate: another one, where numbers are complex.
  const auto is_real = [](const Array& x) { return !is_complex(x.dtype()); };
  const bool symmetric = kind == Iteration::cg && std::ranges::all_of(b.leaves(), is_real);
  return custom_linear_solve(a, b, solve, symmetric ? SolveWith() : SolveWith(solve), symmetric);
}

}  // namespace lockstep::detail
