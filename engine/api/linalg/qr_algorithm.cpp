#include "engine/api/linalg/qr_algorithm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::api {

namespace {

using Complex = std::complex<double>;

constexpr double eps = std::numeric_limits<double>::epsilon();

/// A row-major square matrix that somebody else holds.
class Square {
 public:
  Square(std::int64_t n, std::span<Complex> elements) : n_(n), elements_(elements) {}
  Complex& operator()(std::int64_t i, std::int64_t j) const { return elements_[static_cast<std::size_t>(i * n_ + j)]; }
  std::int64_t size() const { return n_; }

 private:
  std::int64_t n_;
  std::span<Complex> elements_;
};

/// a = z h z^H with zeros below the diagonal next to the main one; z comes as the identity.
void reduce_to_hessenberg(const Square& a, const Square& z) {
  const std::int64_t n = a.size();
  std::vector<Complex> v(static_cast<std::size_t>(n));
  const auto at = [&](std::int64_t i) -> Complex& { return v[static_cast<std::size_t>(i)]; };
  for (std::int64_t k = 0; k + 2 < n; ++k) {
    double rest = 0;
    for (std::int64_t i = k + 2; i < n; ++i) rest += std::norm(a(i, k));
    if (rest == 0) continue;
    const double length = std::sqrt(rest + std::norm(a(k + 1, k)));
    const Complex first = a(k + 1, k);
    const Complex phase = first == Complex() ? Complex(1) : first / std::abs(first);
    for (std::int64_t i = k + 1; i < n; ++i) at(i) = a(i, k);
    at(k + 1) += phase * length;
    double square = 0;
    for (std::int64_t i = k + 1; i < n; ++i) square += std::norm(at(i));
    const auto reflect_columns = [&](const Square& m) {
      for (std::int64_t i = 0; i < n; ++i) {
        Complex sum;
        for (std::int64_t j = k + 1; j < n; ++j) sum += m(i, j) * at(j);
        sum *= 2 / square;
        for (std::int64_t j = k + 1; j < n; ++j) m(i, j) -= sum * std::conj(at(j));
      }
    };
    for (std::int64_t j = 0; j < n; ++j) {
      Complex sum;
      for (std::int64_t i = k + 1; i < n; ++i) sum += std::conj(at(i)) * a(i, j);
      sum *= 2 / square;
      for (std::int64_t i = k + 1; i < n; ++i) a(i, j) -= sum * at(i);
    }
    reflect_columns(a);
    reflect_columns(z);
    for (std::int64_t i = k + 2; i < n; ++i) a(i, k) = 0;
  }
}

/// The eigenvalue of the last 2 x 2 block that is nearer to its last element.
Complex wilkinson_shift(const Square& h, std::int64_t last) {
  const Complex a = h(last - 1, last - 1), b = h(last - 1, last), c = h(last, last - 1), d = h(last, last);
  const Complex half = (a - d) / 2.0, product = b * c;
  const Complex root = std::sqrt(half * half + product);
  const Complex sum = std::abs(half + root) > std::abs(half - root) ? half + root : half - root;
  return sum == Complex() ? d : d - product / sum;
}

/// One step h - s = q r, h = r q + s on rows and columns first to last, for the whole of h and z.
void qr_step(const Square& h, const Square& z, std::int64_t first, std::int64_t last, Complex shift) {
  const std::int64_t n = h.size();
  std::vector<std::pair<Complex, Complex>> rotations;
  for (std::int64_t i = first; i <= last; ++i) h(i, i) -= shift;
  for (std::int64_t k = first; k < last; ++k) {
    const double length = std::hypot(std::abs(h(k, k)), std::abs(h(k + 1, k)));
    const Complex c = length == 0 ? Complex(1) : h(k, k) / length, s = length == 0 ? Complex() : h(k + 1, k) / length;
    rotations.emplace_back(c, s);
    for (std::int64_t j = k; j < n; ++j) {
      const Complex x = h(k, j), y = h(k + 1, j);
      h(k, j) = std::conj(c) * x + std::conj(s) * y;
      h(k + 1, j) = c * y - s * x;
    }
  }
  const auto rotate_columns = [&](const Square& m, std::int64_t k, std::int64_t rows) {
    const auto [c, s] = rotations[static_cast<std::size_t>(k - first)];
    for (std::int64_t i = 0; i < rows; ++i) {
      const Complex x = m(i, k), y = m(i, k + 1);
      m(i, k) = x * c + y * s;
      m(i, k + 1) = std::conj(c) * y - std::conj(s) * x;
    }
  };
  for (std::int64_t k = first; k < last; ++k) {
    rotate_columns(h, k, std::min(k + 2, last) + 1);
    rotate_columns(z, k, n);
  }
  for (std::int64_t i = first; i <= last; ++i) h(i, i) += shift;
}

/// h = z t z^H with t triangular; false where the iteration does not end.
bool find_schur_form(const Square& h, const Square& z) {
  std::int64_t last = h.size() - 1;
  for (int round = 0; last > 0;) {
    std::int64_t first = last;
    while (first > 0) {
      const double near = std::abs(h(first - 1, first - 1)) + std::abs(h(first, first));
      if (std::abs(h(first, first - 1)) <= eps * near || std::abs(h(first, first - 1)) < 1e-300) {
        h(first, first - 1) = 0;
        break;
      }
      --first;
    }
    if (first == last) {
      --last;
      round = 0;
      continue;
    }
    if (++round > 60) return false;
    const bool stuck = round % 10 == 0;
    const Complex shift = stuck ? h(last, last) + std::abs(h(last, last - 1)) : wilkinson_shift(h, last);
    qr_step(h, z, first, last, shift);
  }
  return true;
}

/// The eigenvector of a triangular matrix for its element k, times z, as column k.
void write_vector(const Square& t, const Square& z, const Square& vectors, std::int64_t k, double least) {
  const std::int64_t n = t.size();
  std::vector<Complex> x(static_cast<std::size_t>(n));
  const auto at = [&](std::int64_t i) -> Complex& { return x[static_cast<std::size_t>(i)]; };
  at(k) = 1;
  for (std::int64_t i = k - 1; i >= 0; --i) {
    Complex sum;
    for (std::int64_t j = i + 1; j <= k; ++j) sum += t(i, j) * at(j);
    Complex distance = t(i, i) - t(k, k);
    if (std::abs(distance) < least) distance = least;
    at(i) = -sum / distance;
  }
  double square = 0, largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    Complex sum;
    for (std::int64_t j = 0; j <= k; ++j) sum += z(i, j) * at(j);
    vectors(i, k) = sum;
    square += std::norm(sum);
    largest = std::max(largest, std::abs(sum));
  }
  std::int64_t i = 0;
  while (i + 1 < n && std::abs(vectors(i, k)) < 0.7 * largest) ++i;
  const Complex scale = std::conj(vectors(i, k)) / (std::abs(vectors(i, k)) * std::sqrt(square));
  for (std::int64_t j = 0; j < n; ++j) vectors(j, k) *= scale;
  vectors(i, k).imag(0);
}

}  // namespace

void find_eigenvectors(std::int64_t n, std::span<Complex> matrix, std::span<Complex> values,
                       std::span<Complex> vectors) {
  const Square h(n, matrix), out(n, vectors);
  std::vector<Complex> basis(matrix.size());
  const Square z(n, basis);
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) z(i, i) = 1;
  const bool finite =
      std::ranges::all_of(matrix, [](Complex x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); });
  if (finite) reduce_to_hessenberg(h, z);
  if (!finite || !find_schur_form(h, z)) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    std::ranges::fill(values, Complex(nan, nan));
    std::ranges::fill(vectors, Complex(nan, nan));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    values[static_cast<std::size_t>(i)] = h(i, i);
    for (std::int64_t j = i; j < n; ++j) largest = std::max(largest, std::abs(h(i, j)));
  }
  for (std::int64_t k = 0; k < n; ++k) write_vector(h, z, out, k, std::max(eps * largest, 1e-300));
}

}  // namespace lockstep::api
