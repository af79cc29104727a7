#pragma once

#include <complex>
#include <cstdint>
#include <span>

namespace lockstep::api {

/// Eigenvalues and eigenvectors of one complex matrix, row-major [n, n], in place of which its Schur form is left. Columns
/// of `vectors` have length 1, and their first element of at least 0.7 of the largest magnitude is real and positive.
/// NaN where the matrix is not finite or the iteration does not end. Householder's reduction to Hessenberg form and the QR
/// algorithm with Wilkinson's shifts (Golub and Van Loan, Matrix Computations, 2013, 7.4 and 7.5).
void find_eigenvectors(std::int64_t n, std::span<std::complex<double>> matrix, std::span<std::complex<double>> values,
                       std::span<std::complex<double>> vectors);

}  // namespace lockstep::api
