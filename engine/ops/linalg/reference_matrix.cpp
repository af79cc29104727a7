#include "engine/ops/linalg/reference_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/lists.h"

namespace lockstep::ops::reference {

namespace {

bool is_real(double) { return true; }
bool is_real(Complex x) { return x.imag() == 0; }

template <class T>
double norm_below(const Matrix<T>& a, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t i = row; i < a.rows(); ++i) sum += std::norm(a(i, column));
  return std::sqrt(sum);
}

/// a := (1 - factor v v^H) a from row `k` on, v(0) = 1.
template <class T>
void reflect_rows(Matrix<T>& a, const std::vector<T>& v, T factor, std::int64_t k, std::int64_t from_column) {
  for (std::int64_t j = from_column; j < a.columns(); ++j) {
    T sum{};
    for (std::size_t i = 0; i < v.size(); ++i) sum += conjugate(v[i]) * a(k + static_cast<std::int64_t>(i), j);
    for (std::size_t i = 0; i < v.size(); ++i) a(k + static_cast<std::int64_t>(i), j) -= factor * v[i] * sum;
  }
}

}  // namespace

template <class T>
QrFactors<T> householder_qr(Matrix<T> a) {
  const std::int64_t steps = std::min(a.rows(), a.columns());
  std::vector<std::vector<T>> reflectors;
  std::vector<T> factors;
  for (std::int64_t k = 0; k < steps; ++k) {
    const T alpha = a(k, k);
    std::vector<T> v = repeated<T>(a.rows() - k);
    v[0] = T(1);
    T tau{};
    if (norm_below(a, k + 1, k) != 0 || !is_real(alpha)) {
      const double beta = -std::copysign(norm_below(a, k, k), real_part(alpha));
      tau = (beta - alpha) / beta;
      for (std::size_t i = 1; i < v.size(); ++i) v[i] = a(k + static_cast<std::int64_t>(i), k) / (alpha - beta);
      reflect_rows(a, v, conjugate(tau), k, k + 1);
      a(k, k) = beta;
      for (std::int64_t i = k + 1; i < a.rows(); ++i) a(i, k) = T{};
    }
    reflectors.push_back(std::move(v));
    factors.push_back(tau);
  }
  Matrix<T> q = Matrix<T>::identity(a.rows());
  for (std::int64_t k = steps; k-- > 0;) {
    reflect_rows(q, nth(reflectors, k), nth(factors, k), k, k);
  }
  return {std::move(q), std::move(a)};
}

template <class T>
Matrix<T> completed(const Matrix<T>& x) {
  Matrix<T> result = householder_qr(x).q;
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    for (std::int64_t j = 0; j < x.columns(); ++j) result(i, j) = x(i, j);
  }
  return result;
}

namespace {

/// Turns columns until all are orthogonal; the turns are gathered in v.
template <class T>
void orthogonalize(Matrix<T>& a, Matrix<T>& v) {
  constexpr int most_sweeps = 60;
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    bool turned = false;
    for (std::int64_t p = 0; p < a.columns(); ++p) {
      for (std::int64_t q = p + 1; q < a.columns(); ++q) {
        double app = 0;
        double aqq = 0;
        T apq{};
        for (std::int64_t i = 0; i < a.rows(); ++i) {
          app += std::norm(a(i, p));
          aqq += std::norm(a(i, q));
          apq += conjugate(a(i, p)) * a(i, q);
        }
        if (std::abs(apq) <= std::numeric_limits<double>::epsilon() * std::sqrt(app * aqq)) continue;
        const JacobiRotation<T> rotation(app, aqq, apq);
        rotation.turn(a, p, q);
        rotation.turn(v, p, q);
        turned = true;
      }
    }
    if (!turned) return;
  }
}

template <class T>
SvdFactors<T> tall_svd(Matrix<T> a) {
  const std::int64_t count = a.columns();
  Matrix<T> v = Matrix<T>::identity(count);
  orthogonalize(a, v);
  std::vector<double> s;
  for (std::int64_t j = 0; j < count; ++j) s.push_back(norm_below(a, 0, j));
  for (std::int64_t j = 0; j < count; ++j) {
    const auto largest = std::max_element(s.begin() + j, s.end()) - s.begin();
    std::swap(nth(s, j), nth(s, largest));
    a.swap_columns(j, largest);
    v.swap_columns(j, largest);
  }
  std::int64_t rank = 0;
  while (rank < count && nth(s, rank) > 0) {
    a.scale_column(rank, T(1 / nth(s, rank)));
    ++rank;
  }
  return {completed(a.first_columns(rank)).first_columns(count), std::move(s), std::move(v)};
}

}  // namespace

template <class T>
SvdFactors<T> jacobi_svd(const Matrix<T>& a) {
  const bool wide = a.rows() < a.columns();
  SvdFactors<T> factors = tall_svd(wide ? a.adjoint() : a);
  if (wide) std::swap(factors.u, factors.v);
  for (std::int64_t j = 0; j < factors.u.columns(); ++j) {
    const T factor = canonical_factor(factors.u, j);
    factors.u.scale_column(j, factor);
    factors.v.scale_column(j, factor);
  }
  return factors;
}

template QrFactors<double> householder_qr(Matrix<double>);
template QrFactors<Complex> householder_qr(Matrix<Complex>);
template Matrix<double> completed(const Matrix<double>&);
template Matrix<Complex> completed(const Matrix<Complex>&);
template SvdFactors<double> jacobi_svd(const Matrix<double>&);
template SvdFactors<Complex> jacobi_svd(const Matrix<Complex>&);

}  // namespace lockstep::ops::reference
