#include <lockstep/elementwise.h>
#include <lockstep/linalg.h>
#include <lockstep/ops.h>

#include "tests/golden/functions/table.h"

// Linear algebra. Matrices are drawn, so that they are of full rank; those that must be positive definite are made so
// inside the line.
namespace lockstep::tests::functions {
namespace {

const Room solves{1e-4, 1e-11, "conditions above 10"};
const Options solving = {.dtypes = floats + complexes, .room = solves};

const Input square_pair = drawn({2, 4, 4}), tall_matrix = drawn({5, 3}), wide_matrix = drawn({3, 5}),
            right_sides = drawn({2, 4, 3});
const Input square_matrix = drawn({4, 4}), four = drawn({4});

/// Well conditioned.
Array definite_product(A a) { return matmul(a, conj(swapaxes(a, -1, -2))) + eye(a.dim(-1), a.dtype()); }

Lines factors() {
  return {
      {"linalg::cholesky",
       "jnp.linalg.cholesky(definite(x))",
       {square_pair},
       [](A x) { return linalg::cholesky(definite_product(x)); },
       solving},
      {"linalg::cholesky",
       "jnp.linalg.cholesky(definite(x), upper=True)",
       {square_pair},
       [](A x) { return linalg::cholesky(definite_product(x), true); },
       solving},
      {"linalg::cholesky",
       "jnp.linalg.cholesky(x)",
       {given({1, 2, 2, 1}, {2, 2})},
       [](A x) { return linalg::cholesky(x); },
       {.no_derivative = "there is no factor"}},
      {"linalg::cholesky",
       "jnp.linalg.cholesky(definite(x), symmetrize_input=False)",
       {square_matrix},
       [](A x) { return linalg::cholesky(definite_product(x), false, false); },
       solving},
      {"linalg::qr",
       "jnp.linalg.qr(x)",
       {tall_matrix},
       [](A x) {
         const auto [q, r] = linalg::qr(x);
         return std::pair(q, r);
       },
       solving},
      {"linalg::qr",
       "jnp.linalg.qr(x)",
       {square_pair},
       [](A x) {
         const auto [q, r] = linalg::qr(x);
         return std::pair(q, r);
       },
       solving},
      {"linalg::qr",
       "jnp.linalg.qr(x, 'complete')[1]",
       {tall_matrix},
       [](A x) { return linalg::qr(x, true).r; },
       {.dtypes = floats + complexes,
        .no_derivative = "a matrix does not determine the columns that full_matrices adds",
        .room = solves}},
      {"linalg::svd",
       "signed_svd(x)",
       {tall_matrix},
       [](A x) {
         const auto [u, s, vh] = linalg::svd(x, false);
         return Arrays{u, s, vh};
       },
       {.dtypes = floats + complexes, .no_derivative = "JAX's signs are those of LAPACK", .room = solves}},
      {"linalg::svd",
       "(lambda f: (f[0] * f[1]) @ f[2])(jnp.linalg.svd(x, full_matrices=False))",
       {wide_matrix},
       [](A x) {
         const auto [u, s, vh] = linalg::svd(x, false);
         return matmul(u * s, vh);
       },
       solving},
      {"linalg::svdvals", "jnp.linalg.svdvals(x)", {wide_matrix}, [](A x) { return linalg::svdvals(x); }, solving},
      {"linalg::eigh",
       "(lambda f: (f[0], (f[1] * f[0][..., None, :]**2) @ f[1].conj().mT))(jnp.linalg.eigh(x))",
       {square_pair},
       [](A x) {
         const auto [values, vectors] = linalg::eigh(x);
         return Arrays{values, matmul(vectors * expand_dims(values * values, -2), conj(swapaxes(vectors, -1, -2)))};
       },
       solving},
      {"linalg::eigvalsh", "jnp.linalg.eigvalsh(x)", {square_pair}, [](A x) { return linalg::eigvalsh(x); }, solving},
      {"linalg::eigvalsh",
       "jnp.linalg.eigvalsh(x, UPLO='U', symmetrize_input=False)",
       {square_matrix},
       [](A x) { return linalg::eigvalsh(x, false, false); },
       {.dtypes = floats + complexes, .no_derivative = "of one triangle or of both", .room = solves}},
      {"linalg::lu_factor",
       "lax.linalg.lu(x)",
       {square_pair},
       [](A x) {
         const auto [lu, pivots, permutation] = linalg::lu_factor(x);
         return Arrays{lu, pivots, permutation};
       },
       solving},
  };
}

Lines systems() {
  return {
      {"linalg::solve",
       "jnp.linalg.solve(x, y)",
       {square_pair, right_sides},
       [](A x, A y) { return linalg::solve(x, y); },
       solving},
      {"linalg::solve",
       "jnp.linalg.solve(x, y)",
       {square_matrix, four},
       [](A x, A y) { return linalg::solve(x, y); },
       solving},
      {"linalg::solve",
       "jnp.linalg.solve(x, y)",
       {square_pair, four},
       [](A x, A y) { return linalg::solve(x, y); },
       solving},
      {"linalg::inv", "jnp.linalg.inv(x)", {square_pair}, [](A x) { return linalg::inv(x); }, solving},
      {"linalg::lu_solve",
       "jsp.linalg.lu_solve(jsp.linalg.lu_factor(x), y)",
       {square_matrix, four},
       [](A x, A y) { return linalg::lu_solve(linalg::lu_factor(x), y); },
       solving},
      {"linalg::lu_solve",
       "jsp.linalg.lu_solve(jsp.linalg.lu_factor(x), y, 1)",
       {square_pair, right_sides},
       [](A x, A y) { return linalg::lu_solve(linalg::lu_factor(x), y, true); },
       solving},
      {"linalg::cho_factor",
       "jsp.linalg.cho_factor(definite(x))[0]",
       {square_pair},
       [](A x) { return linalg::cho_factor(definite_product(x)).factor; },
       solving},
      {"linalg::cho_factor",
       "jsp.linalg.cho_factor(definite(x), lower=True)[0]",
       {square_matrix},
       [](A x) { return linalg::cho_factor(definite_product(x), true).factor; },
       solving},
      {"linalg::cho_solve",
       "jsp.linalg.cho_solve(jsp.linalg.cho_factor(definite(x)), y)",
       {square_matrix, four},
       [](A x, A y) { return linalg::cho_solve(linalg::cho_factor(definite_product(x)), y); },
       solving},
      {"linalg::cho_solve",
       "jsp.linalg.cho_solve((jnp.linalg.cholesky(definite(x)), True), y)",
       {square_matrix, four},
       [](A x, A y) { return linalg::cho_solve(linalg::cholesky(definite_product(x)), y); },
       solving},
      {"linalg::cho_solve",
       "jsp.linalg.cho_solve((jnp.linalg.cholesky(definite(x), upper=True), False), y)",
       {square_pair, right_sides},
       [](A x, A y) { return linalg::cho_solve(linalg::cholesky(definite_product(x), true), y, false); },
       solving},
      {"linalg::solve_triangular",
       "jsp.linalg.solve_triangular(definite(x), y)",
       {square_matrix, four},
       [](A x, A y) { return linalg::solve_triangular(definite_product(x), y); },
       solving},
      {"linalg::solve_triangular",
       "jsp.linalg.solve_triangular(definite(x), y, lower=True, trans=1)",
       {square_pair, right_sides},
       [](A x, A y) { return linalg::solve_triangular(definite_product(x), y, {.lower = true, .transposed = true}); },
       solving},
      {"linalg::solve_triangular",
       "jsp.linalg.solve_triangular(x, y, unit_diagonal=True)",
       {square_pair, right_sides},
       [](A x, A y) { return linalg::solve_triangular(x, y, {.unit_diagonal = true}); },
       solving},
      {"linalg::pinv", "jnp.linalg.pinv(x)", {tall_matrix}, [](A x) { return linalg::pinv(x); }, solving},
      {"linalg::pinv",
       "jnp.linalg.pinv(x)",
       {given({1, 2, 2, 4, 3, 6}, {3, 2})},
       [](A x) { return linalg::pinv(x); },
       solving},
      {"linalg::lstsq",
       "jnp.linalg.lstsq(x, y)",
       {tall_matrix, drawn({5, 2})},
       [](A x, A y) {
         const auto [solution, residuals, rank, s] = linalg::lstsq(x, y);
         return Arrays{solution, residuals, rank, s};
       },
       solving},
      {"linalg::lstsq",
       "jnp.linalg.lstsq(x, y)[0]",
       {wide_matrix, drawn({3})},
       [](A x, A y) { return linalg::lstsq(x, y).x; },
       solving},
  };
}

Lines numbers_of_a_matrix() {
  Lines lines = {
      {"linalg::det", "jnp.linalg.det(x)", {square_pair}, [](A x) { return linalg::det(x); }, solving},
      {"linalg::det", "jnp.linalg.det(x)", {drawn({2, 3, 3})}, [](A x) { return linalg::det(x); }, solving},
      {"linalg::det", "jnp.linalg.det(x)", {drawn({2, 2})}, [](A x) { return linalg::det(x); }, solving},
      {"linalg::slogdet",
       "tuple(jnp.linalg.slogdet(x))",
       {square_pair},
       [](A x) {
         const auto [sign, logabsdet] = linalg::slogdet(x);
         return std::pair(sign, logabsdet);
       },
       solving},
      {"linalg::cond", "jnp.linalg.cond(x)", {tall_matrix}, [](A x) { return linalg::cond(x); }, solving},
      {"linalg::cond", "jnp.linalg.cond(x, 1)", {square_pair}, [](A x) { return linalg::cond(x, 1); }, solving},
      {"linalg::matrix_rank",
       "jnp.linalg.matrix_rank(x)",
       {given({1, 2, 2, 4, 3, 6}, {3, 2})},
       [](A x) { return linalg::matrix_rank(x); }},
      {"linalg::trace", "jnp.trace(x)", {square_matrix}, [](A x) { return linalg::trace(x); }, {.dtypes = everything}},
      {"linalg::trace", "jnp.trace(x, 1, -2, -1)", {right_sides}, [](A x) { return linalg::trace(x, 1, -2, -1); }},
      {"linalg::matrix_power",
       "jnp.linalg.matrix_power(x, 3)",
       {square_pair},
       [](A x) { return linalg::matrix_power(x, 3); },
       {.dtypes = numbers, .room = solves}},
      {"linalg::matrix_power",
       "jnp.linalg.matrix_power(x, 0)",
       {square_pair},
       [](A x) { return linalg::matrix_power(x, 0); }},
      {"linalg::matrix_power",
       "jnp.linalg.matrix_power(x, -2)",
       {square_matrix},
       [](A x) { return linalg::matrix_power(x, -2); },
       {.dtypes = floats + complexes, .room = {1e-3, 1e-10, "a power of an inverse"}}},
      {"linalg::expm", "jsp.linalg.expm(x)", {square_matrix}, [](A x) { return linalg::expm(x); }, solving},
      {"linalg::expm",
       "jsp.linalg.expm(x)",
       {drawn({2, 3, 3}, -8, 8)},
       [](A x) { return linalg::expm(x); },
       {.dtypes = floats + complexes, .room = {1e-3, 1e-9, "repeated squares"}}},
  };
  const auto norm = [&](std::string_view jax, const Input& x, const linalg::NormOptions& options,
                        const std::vector<DType>& dtypes = floats) {
    lines.push_back({"linalg::norm",
                     jax,
                     {x},
                     [options](A x) { return linalg::norm(x, options); },
                     {.dtypes = dtypes, .room = solves}});
  };
  norm("jnp.linalg.norm(x)", square_pair, {}, floats + complexes + std::vector<DType>{int32});
  norm("jnp.linalg.norm(x, 1)", four, {.order = 1}, floats + complexes);
  norm("jnp.linalg.norm(x, jnp.inf)", four, {.order = inf}, floats + complexes);
  norm("jnp.linalg.norm(x, -jnp.inf)", four, {.order = -inf});
  norm("jnp.linalg.norm(x, 0)", four, {.order = 0});
  norm("jnp.linalg.norm(x, 3)", four, {.order = 3});
  norm("jnp.linalg.norm(x, 2.5, axis=-1, keepdims=True)", tall_matrix, {.order = 2.5, .axes = Axes{-1}, .keep = true});
  norm("jnp.linalg.norm(x, 'fro')", tall_matrix, {.order = "fro"}, floats + complexes);
  norm("jnp.linalg.norm(x, 'nuc')", tall_matrix, {.order = "nuc"});
  norm("jnp.linalg.norm(x, 1)", tall_matrix, {.order = 1});
  norm("jnp.linalg.norm(x, -1)", tall_matrix, {.order = -1});
  norm("jnp.linalg.norm(x, 2, axis=(0, 2))", right_sides, {.order = 2, .axes = Axes{0, 2}});
  norm("jnp.linalg.norm(x, -2, axis=(0, 2), keepdims=True)", right_sides,
       {.order = -2, .axes = Axes{0, 2}, .keep = true});
  norm("jnp.linalg.norm(x, jnp.inf, axis=(1, 2))", right_sides, {.order = inf, .axes = Axes{1, 2}});
  norm("jnp.linalg.norm(x, -jnp.inf)", tall_matrix, {.order = -inf});
  return lines;
}

Lines products_and_diagonals() {
  const Options any_number = {.dtypes = numbers}, any_dtype = {.dtypes = everything};
  return {
      {"linalg::multi_dot",
       "jnp.linalg.multi_dot([x, y, z])",
       {tall_matrix, wide_matrix, drawn({5, 2})},
       [](A x, A y, A z) {
         return linalg::multi_dot(Arrays{x, y, z});
       },
       {.room = solves}},
      {"linalg::multi_dot",
       "jnp.linalg.multi_dot([x, y, x])",
       {four, square_matrix},
       [](A x, A y) {
         return linalg::multi_dot(Arrays{x, y, x});
       },
       {.room = solves}},
      {"linalg::cross",
       "jnp.cross(x, y)",
       {drawn({4, 3}), drawn({3})},
       [](A x, A y) { return linalg::cross(x, y); },
       any_number},
      {"linalg::cross", "jnp.cross(x, y)", {drawn({4, 2}), drawn({2})}, [](A x, A y) { return linalg::cross(x, y); }},
      {"linalg::cross",
       "jnp.cross(x, y)",
       {drawn({4, 2}), drawn({4, 3})},
       [](A x, A y) { return linalg::cross(x, y); }},
      {"linalg::cross",
       "jnp.cross(x, y, axis=0)",
       {drawn({3, 4}), drawn({3, 4})},
       [](A x, A y) { return linalg::cross(x, y, 0); }},
      {"linalg::outer",
       "jnp.outer(x, y)",
       {drawn({2, 2}), four},
       [](A x, A y) { return linalg::outer(x, y); },
       any_number},
      {"linalg::inner",
       "jnp.inner(x, y)",
       {right_sides, drawn({5, 3})},
       [](A x, A y) { return linalg::inner(x, y); },
       any_number},
      {"linalg::inner", "jnp.inner(x, y)", {four, drawn({})}, [](A x, A y) { return linalg::inner(x, y); }},
      {"linalg::kron",
       "jnp.kron(x, y)",
       {drawn({2, 3}), drawn({3, 2})},
       [](A x, A y) { return linalg::kron(x, y); },
       any_number},
      {"linalg::kron", "jnp.kron(x, y)", {drawn({2}), drawn({3, 2})}, [](A x, A y) { return linalg::kron(x, y); }},
      {"linalg::tensordot",
       "jnp.tensordot(x, y)",
       {right_sides, drawn({4, 3, 2})},
       [](A x, A y) { return linalg::tensordot(x, y); },
       {.dtypes = numbers, .room = {1e-5, 0, "sums"}}},
      {"linalg::tensordot",
       "jnp.tensordot(x, y, 0)",
       {four, four},
       [](A x, A y) { return linalg::tensordot(x, y, 0); }},
      {"linalg::tensordot",
       "jnp.tensordot(x, y, ((0, -1), (1, 0)))",
       {right_sides, drawn({3, 2})},
       [](A x, A y) {
         return linalg::tensordot(x, y, {{0, -1}, {1, 0}});
       }},
      {"linalg::dot",
       "jnp.dot(x, y)",
       {right_sides, drawn({5, 3, 2})},
       [](A x, A y) { return linalg::dot(x, y); },
       any_number},
      {"linalg::dot", "jnp.dot(x, y)", {right_sides, drawn({3})}, [](A x, A y) { return linalg::dot(x, y); }},
      {"linalg::dot", "jnp.dot(x, y)", {four, four}, [](A x, A y) { return linalg::dot(x, y); }, any_number},
      {"linalg::dot", "jnp.dot(x, y)", {drawn({}), four}, [](A x, A y) { return linalg::dot(x, y); }},
      {"linalg::matvec",
       "jnp.matvec(x, y)",
       {right_sides, drawn({3})},
       [](A x, A y) { return linalg::matvec(x, y); },
       any_number},
      {"linalg::vecmat",
       "jnp.vecmat(x, y)",
       {four, right_sides},
       [](A x, A y) { return linalg::vecmat(x, y); },
       any_number},
      {"linalg::diagflat",
       "jnp.diagflat(x, 1)",
       {drawn({2, 2})},
       [](A x) { return linalg::diagflat(x, 1); },
       any_dtype},
      {"linalg::vander", "jnp.vander(x)", {four}, [](A x) { return linalg::vander(x); }, {.dtypes = floats + integers}},
      {"linalg::vander", "jnp.vander(x, 3, increasing=True)", {four}, [](A x) { return linalg::vander(x, 3, true); }},
      {"linalg::vdot",
       "jnp.vdot(x, y)",
       {drawn({2, 2}), four},
       [](A x, A y) { return linalg::vdot(x, y); },
       any_number},
      {"linalg::diagonal",
       "jnp.diagonal(x, 1)",
       {square_matrix},
       [](A x) { return linalg::diagonal(x, 1); },
       any_dtype},
      {"linalg::diagonal",
       "jnp.diagonal(x, -2, -1, 0)",
       {right_sides},
       [](A x) { return linalg::diagonal(x, -2, -1, 0); }},
      {"linalg::diagonal", "jnp.diagonal(x, 9)", {square_matrix}, [](A x) { return linalg::diagonal(x, 9); }},
      {"linalg::diag", "jnp.diag(x, -1)", {four}, [](A x) { return linalg::diag(x, -1); }, any_dtype},
      {"linalg::diag", "jnp.diag(x, 2)", {square_matrix}, [](A x) { return linalg::diag(x, 2); }},
      {"linalg::tril", "jnp.tril(x, 1)", {right_sides}, [](A x) { return linalg::tril(x, 1); }, any_dtype},
      {"linalg::triu", "jnp.triu(x, -1)", {right_sides}, [](A x) { return linalg::triu(x, -1); }, any_dtype},
  };
}

}  // namespace

Lines linalg_lines() {
  Lines lines = factors();
  for (const Lines& part : {systems(), numbers_of_a_matrix(), products_and_diagonals()}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  return lines;
}

}  // namespace lockstep::tests::functions
