// Correlations that keep the extents of their first operand.
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/scientific.h>

using namespace lockstep;

TEST_CASE("correlate2d of an even extent, \"same\", is centred as scipy.signal.correlate2d has it") {
  const auto row = [](std::vector<float> x) { return reshape(array(std::move(x)), {1, -1}); };
  const auto values = [](const Array& x) { return x.to_vector<float>(); };
  // SciPy: correlate2d([[1,2,3,4]], [[1,0]], "same"), and so on.
  CHECK(values(signal::correlate2d(row({1, 2, 3, 4}), row({1, 0}), "same")) == std::vector<float>{1, 2, 3, 4});
  CHECK(values(signal::correlate2d(row({1, 2, 3, 4}), row({1, 0, 0}), "same")) == std::vector<float>{0, 1, 2, 3});
  CHECK(values(signal::correlate2d(row({1, 2, 3, 4}), row({1, 0, 0, 0}), "same")) == std::vector<float>{0, 1, 2, 3});
  CHECK(values(signal::convolve2d(row({1, 2, 3, 4}), row({1, 0}), "same")) == std::vector<float>{1, 2, 3, 4});
  CHECK(values(signal::convolve2d(row({1, 2, 3, 4}), row({1, 0, 0}), "same")) == std::vector<float>{2, 3, 4, 0});
}
