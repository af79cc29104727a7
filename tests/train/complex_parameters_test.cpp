#include <cmath>
#include <complex>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// Trainable variables of complex dtype: optimizers are given the direction of steepest ascent, so steps descend.

using namespace lockstep;

namespace {

using Complex = std::complex<double>;

const Complex complex_start(0.5, 0.25), complex_truth(1, -2);

Array complex_scalar(Complex value) { return complex(array(value.real()), array(value.imag())); }
Complex value_of(const Array& x) { return {real(x).item<double>(), imag(x).item<double>()}; }

/// Mean of |w z - truth z|^2 over rows (re z, im z).
WithAux squared_distance(const Tree& w, const Tree& state, const Batch& batch) {
  const Array columns = transpose(batch.x);
  const Array z = complex(columns[0], columns[1]);
  const Array off = (w.at("w").array() - complex_scalar(complex_truth)) * z;
  return {weighted(real(off * conj(off)), batch.weight), state, {}};
}

Batch complex_rows() {
  const Array x = sin(convert(reshape(arange(16), {8, 2}), float64) * 1.3);
  return {x, zeros({8}), {}};
}

Complex trained_weight(const optim::GradientTransformation& optimizer, int steps, std::int64_t shards,
                       std::int64_t microbatches = 1) {
  const auto step = data_parallel(squared_distance, optimizer, {.shards = shards, .microbatches = microbatches});
  TrainState state = step.init(Tree::dict({{"w", Tree(complex_scalar(complex_start))}}), Tree());
  for (int i = 0; i < steps; ++i) state = step(std::move(state), complex_rows()).first;
  return value_of(state.trainable.at("w").array());
}

void check_complex(Complex given, Complex expected, double tolerance) {
  CHECK_MESSAGE(std::abs(given - expected) <= tolerance, "given " << given.real() << " + " << given.imag()
                                                                  << "i, expected " << expected.real() << " + "
                                                                  << expected.imag() << "i");
}

}  // namespace

TEST_CASE("steps on complex parameters descend") {
  // d/dw* of mean |w - t|^2 |z|^2, times 2 as the steepest ascent is: 2 (w - t) mean |z|^2.
  const Batch batch = complex_rows();
  const double mean_square = sum(batch.x * batch.x).item<double>() / 8;
  const Complex ascent = 2 * mean_square * (complex_start - complex_truth);
  for (const std::int64_t shards : {1, 2, 4}) {
    for (const std::int64_t microbatches : {1, 2}) {
      check_complex(trained_weight(optim::sgd(0.1), 1, shards, microbatches), complex_start - 0.1 * ascent, 1e-12);
    }
  }
  check_complex(trained_weight(optim::sgd(0.3), 100, 2), complex_truth, 1e-9);
  // The first update of Adam is the rate along the gradient, whatever its length: the second moment is |g|^2.
  check_complex(trained_weight(optim::adam(0.1), 1, 2), complex_start - 0.1 * ascent / std::abs(ascent), 1e-7);
  check_complex(trained_weight(optim::adam(0.05), 400, 2), complex_truth, 1e-3);
}
