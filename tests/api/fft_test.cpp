#include <complex>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/fft.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::expect_error;

namespace {

using Complex = std::complex<double>;

Array complex_array(const std::vector<Complex>& elements, const Shape& shape) {
  return from_bytes({complex128, shape, {}}, std::as_bytes(std::span(elements)));
}

// The expected numbers were computed by numpy on these.
const Array real_signal = array({1.0, -2.0, 0.5, 3.0, 0.25});
const Array complex_signal = complex_array({{1, 0.5}, {-2, 1}, {0.5, -1}, {3, 2}, {0.25, 0}}, {5});
const Array plane = array(std::vector<double>{1, -2, 0.5, 3, 0.25, -1}, {2, 3});
const Array planes = complex_array({{1, 1.5}, {-2, 0.125}, {0.5, -0.5}, {3, 0.5}, {0.25, -1}, {-1, 0.25}}, {2, 3});

/// Real or imaginary parts.
std::vector<double> parts_of(const Array& a, bool imaginary) {
  if (!is_complex(a.dtype())) return imaginary ? std::vector<double>() : tests::values(a);
  const std::vector<std::byte> bytes = convert(a, complex128).to_bytes();
  std::vector<Complex> elements(static_cast<std::size_t>(a.size()));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  std::vector<double> result;
  for (const Complex c : elements) result.push_back(imaginary ? c.imag() : c.real());
  return result;
}

void check_spectrum(const Array& a, const Shape& shape, const std::vector<double>& real,
                    const std::vector<double>& imaginary, double tolerance) {
  CHECK(to_string(a.shape()) == to_string(shape));
  const auto check = [&](const std::vector<double>& given, const std::vector<double>& expected) {
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      CHECK(given[i] == doctest::Approx(expected[i]).epsilon(tolerance).scale(1));
    }
  };
  check(parts_of(a, false), real);
  check(parts_of(a, true), imaginary);
}

/// A number of which every part of a transform has its share.
Array weighted_parts(const Array& y) {
  const Array real = is_complex(y.dtype()) ? convert(y * y, float64) : y * y;
  return sum(real * cos(convert(reshape(arange(y.size()), y.shape().to_vector()), float64)));
}

}  // namespace

TEST_CASE("Fourier transforms are numpy's") {
  struct Row {
    Array given;
    Shape shape;
    std::vector<double> real, imaginary;
  };
  const std::vector<Row> rows = {
      {fft::fft(complex_signal),
       {5},
       {2.75, -3.18463846105074, 6.93829402164641, 0.0563844192905409, -1.56003997988621},
       {2.5, 3.60934029239528, -1.05512447307982, 1.05512447307982, -3.60934029239528}},
      {fft::fft(real_signal),
       {5},
       {2.75, -2.37233922046847, 3.49733922046847, 3.49733922046847, -2.37233922046847},
       {0, 3.60934029239528, -1.05512447307982, 1.05512447307982, -3.60934029239528}},
      {fft::ifft(complex_signal),
       {5},
       {0.55, -0.312007995977242, 0.0112768838581082, 1.38765880432928, -0.636927692210148},
       {0.5, -0.721868058479056, 0.211024894615964, -0.211024894615964, 0.721868058479056}},
      {fft::fft(complex_signal, 3),
       {3},
       {-0.5, 3.48205080756888, 0.0179491924311228},
       {0.5, 2.6650635094611, -1.6650635094611}},
      {fft::fft(complex_signal, 7, -1, fft::Norm::ortho),
       {7},
       {1.03940230077537, -0.987136558124304, 1.0832643130062, 2.09999353457366, -0.292953249737284, 1.20032090331314,
        -1.49713993274219},
       {0.944911182523068, -0.216538973758423, 2.54833543129197, -1.09302377158836, -0.0178142210289345,
        -0.714884549101812, -0.128109442805216}},
      {fft::ifft(complex_signal, {}, -1, fft::Norm::forward),
       {5},
       {2.75, -1.56003997988621, 0.0563844192905409, 6.93829402164641, -3.18463846105074},
       {2.5, -3.60934029239528, 1.05512447307982, -1.05512447307982, 3.60934029239528}},
      {fft::rfft(real_signal),
       {3},
       {2.75, -2.37233922046847, 3.49733922046847},
       {0, 3.60934029239528, -1.05512447307982}},
      {fft::rfft(real_signal, 4, -1, fft::Norm::forward), {3}, {0.625, 0.125, 0.125}, {0, 1.25, 0}},
      {fft::irfft(complex_signal),
       {8},
       {0.53125, -1.07046356237309, 0.28125, 0.197303390593274, 0.03125, 1.75796356237309, -0.21875,
        -0.509803390593274},
       {}},
      {fft::irfft(complex_signal, 5),
       {5},
       {-0.4, -0.35432549997602, 0.293480286939897, 1.52455370181, -0.0637084887738753},
       {}},
      {fft::irfft(complex_signal, 12, -1, fft::Norm::ortho),
       {12},
       {1.29903810567666, -1.58253175473055, -2.2372322931098, 0.721687836487032, 1.38156986040721, -0.582531754730548,
        0.144337567297406, 3.30421959121758, 3.38156986040721, -0.433012701892219, -2.2372322931098, 0.304219591217581},
       {}},
      {fft::hfft(complex_signal),
       {8},
       {4.25, -4.07842712474619, -1.75, 14.0637084989848, 0.25, 1.57842712474619, 2.25, -8.56370849898476},
       {}},
      {fft::hfft(complex_signal, 7, -1, fft::Norm::ortho),
       {7},
       {1.51185789203691, -2.18197047758061, 1.67073565581008, 3.86407509990625, -0.921818468715636, 1.90484883642398,
        -3.20197722681638},
       {}},
      {fft::hfft(complex_signal, 5, 0, fft::Norm::forward),
       {5},
       {-0.4, -0.0637084887738753, 1.52455370181, 0.293480286939897, -0.35432549997602},
       {}},
      {fft::ihfft(real_signal),
       {3},
       {0.55, -0.474467844093695, 0.699467844093695},
       {0, -0.721868058479056, 0.211024894615964}},
      {fft::ihfft(real_signal, {}, -1, fft::Norm::forward),
       {3},
       {2.75, -2.37233922046847, 3.49733922046847},
       {0, -3.60934029239528, 1.05512447307982}},
      {fft::fft(planes, {}, 0), {2, 3}, {4, -1.75, -0.5, -2, -2.25, 1.5}, {2, -0.875, -0.25, 1, 1.125, -0.75}},
      {fft::fft2(planes),
       {2, 3},
       {1.75, 4.58373412263473, 5.66626587736527, -2.75, -0.00120236790417794, -3.24879763209582},
       {0.875, 3.64503175473055, 1.47996824526945, 1.375, 4.06009526419165, -2.43509526419164}},
      {fft::ifft2(planes),
       {2, 3},
       {0.291666666666667, 0.944377646227546, 0.763955687105788, -0.458333333333333, -0.54146627201597,
        -0.000200394650696323},
       {0.145833333333333, 0.246661374211575, 0.607505292455091, 0.229166666666667, -0.405849210698607,
        0.676682544031941}},
      {fft::rfft2(plane), {2, 2}, {1.75, 5.125, -2.75, -1.625}, {0, 1.08253175473055, 0, 3.24759526419164}},
      {fft::irfft2(planes), {2, 4}, {0, 0.78125, 0.875, 0.34375, -0.625, -0.71875, 0.5, -0.15625}, {}},
      {fft::irfft2(planes, Axes{2, 3}),
       {2, 3},
       {0.0833333333333333, 1.21092407610379, 0.705742590562872, -1.08333333333333, -0.283092859752498,
        0.366426193085831},
       {}},
      {fft::fftn(planes, Axes{3, 2}, Axes{1, 0}),
       {2, 3},
       {1.75, 4.58373412263473, 5.66626587736527, -2.75, -0.00120236790417771, -3.24879763209582},
       {0.875, 3.64503175473055, 1.47996824526945, 1.375, 4.06009526419165, -2.43509526419164}},
      {fft::rfftn(plane, {}, Axes{1, 0}),
       {2, 3},
       {1.75, 5.125, 5.125, -2.75, -1.625, -1.625},
       {0, 1.08253175473055, -1.08253175473055, 0, 3.24759526419164, -3.24759526419164}},
      {fft::irfftn(planes, Axes{4, 4}),
       {4, 4},
       {0, 0.390625, 0.4375, 0.171875, -0.078125, -0.03125, 0.171875, 0.0625, -0.3125, -0.359375, 0.25, -0.078125,
        -0.234375, 0.0625, 0.515625, 0.03125},
       {}},
      {fft::fftn(planes),
       {2, 3},
       {1.75, 4.58373412263473, 5.66626587736527, -2.75, -0.00120236790417794, -3.24879763209582},
       {0.875, 3.64503175473055, 1.47996824526945, 1.375, 4.06009526419165, -2.43509526419164}},
      {fft::ifftn(planes, {}, {}, fft::Norm::ortho),
       {2, 3},
       {0.71443450831176, 2.31324335774809, 1.8713016195065, -1.12268279877562, -1.32631607936617,
        -0.000490864641389255},
       {0.35721725415588, 0.604194506072057, 1.48807798255524, 0.561341399387812, -0.994123478722888,
        1.65752695072667}},
      {fft::fftfreq(5, 0.5, float64), {5}, {0, 0.4, 0.8, -0.8, -0.4}, {}},
      {fft::fftfreq(4, 1, float64), {4}, {0, 0.25, -0.5, -0.25}, {}},
      {fft::rfftfreq(5, 1, float64), {3}, {0, 0.2, 0.4}, {}},
      {fft::rfftfreq(4, 0.1, float64), {3}, {0, 2.5, 5}, {}},
      {fft::fftshift(real_signal), {5}, {3, 0.25, 1, -2, 0.5}, {}},
      {fft::ifftshift(real_signal), {5}, {0.5, 3, 0.25, 1, -2}, {}},
      {fft::fftshift(plane), {2, 3}, {-1, 3, 0.25, 0.5, 1, -2}, {}},
      {fft::fftshift(plane, Axes{1}), {2, 3}, {0.5, 1, -2, -1, 3, 0.25}, {}},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    check_spectrum(rows[i].given, rows[i].shape, rows[i].real, rows[i].imaginary, 1e-13);
  }
}

TEST_CASE("dtypes of Fourier transforms") {
  CHECK(fft::fft(arange(3)).dtype() == complex64);
  CHECK(fft::fft(real_signal).dtype() == complex128);
  CHECK(fft::rfft(ones({4}) > 0.0).dtype() == complex64);
  CHECK(fft::irfft(ones({3})).dtype() == float32);
  CHECK(fft::hfft(complex_signal).dtype() == float64);
  CHECK(fft::fftfreq(3).dtype() == float32);
}

TEST_CASE("an inverse transform gives back what was transformed, in any size") {
  for (const std::int64_t n : {1, 2, 3, 8, 15, 31, 64, 100}) {
    const Array signal = sin(convert(arange(n), float64) * 1.7);
    for (const fft::Norm norm : {fft::Norm::backward, fft::Norm::ortho, fft::Norm::forward}) {
      check_close(fft::irfft(fft::rfft(signal, {}, -1, norm), n, -1, norm), {n}, tests::values(signal), 1e-13);
      check_close(fft::hfft(fft::ihfft(signal, {}, -1, norm), n, -1, norm), {n}, tests::values(signal), 1e-13);
      check_spectrum(fft::ifft(fft::fft(signal, {}, -1, norm), {}, -1, norm), {n}, tests::values(signal),
                     std::vector<double>(static_cast<std::size_t>(n), 0), 1e-13);
    }
  }
  CHECK(fft::fft(zeros({0, 4})).shape() == Shape{0, 4});
  check_close(fft::ifftshift(fft::fftshift(arange(5))), {5}, {0, 1, 2, 3, 4});
  check_spectrum(fft::fftn(real_signal, {}, Axes{}), {5}, tests::values(real_signal), {0, 0, 0, 0, 0}, 1e-15);
}

TEST_CASE("gradients of Fourier transforms, once and twice, agree with differences") {
  using Scalar = std::function<Array(const Array&)>;
  const std::vector<std::pair<std::string, Scalar>> functions = {
      {"fft", [](const Array& a) { return weighted_parts(fft::fft(a, 7, 0)); }},
      {"ifft", [](const Array& a) { return weighted_parts(fft::ifft(a)); }},
      {"rfft, odd", [](const Array& a) { return weighted_parts(fft::rfft(a)); }},
      {"rfft, even", [](const Array& a) { return weighted_parts(fft::rfft(a, 4)); }},
      {"irfft, even", [](const Array& a) { return weighted_parts(fft::irfft(fft::fft(a))); }},
      {"irfft, odd", [](const Array& a) { return weighted_parts(fft::irfft(fft::fft(a), 5)); }},
      {"hfft", [](const Array& a) { return weighted_parts(fft::hfft(fft::fft(a))); }},
      {"ihfft", [](const Array& a) { return weighted_parts(fft::ihfft(a)); }},
      {"rfft2", [](const Array& a) { return weighted_parts(fft::rfft2(a * a)); }},
      {"irfft2",
       [](const Array& a) {
         return weighted_parts(fft::irfft2(fft::fft(a), {}, {-1, -2}, fft::Norm::ortho));
       }},
      {"fftshift", [](const Array& a) { return weighted_parts(fft::fftshift(a)); }},
  };
  const auto differences = [](const Scalar& f, const Array& at) {
    std::vector<double> result;
    for (std::size_t i = 0; i < tests::values(at).size(); ++i) {
      const auto value = [&](double h) {
        std::vector<double> moved = tests::values(at);
        moved[i] += h;
        return tests::values(f(array(moved, at.shape())))[0];
      };
      result.push_back((value(1e-4) - value(-1e-4)) / 2e-4);
    }
    return result;
  };
  for (const auto& [what, f] : functions) {
    CAPTURE(what);
    check_close(grad(f)(plane), plane.shape(), differences(f, plane), 1e-6);
    const Scalar slope = [&f = f](const Array& a) { return sum(grad(f)(a) * cos(a)); };
    check_close(grad(slope)(plane), plane.shape(), differences(slope, plane), 1e-5);
    const Array batch = stack(std::vector<Array>{plane, plane * 2.0}, 0);
    const std::vector<double> both = tests::values(vmap(f)(batch));
    CHECK(both[0] == doctest::Approx(tests::values(f(plane))[0]).epsilon(1e-13));
    CHECK(both[1] == doctest::Approx(tests::values(f(plane * 2.0))[0]).epsilon(1e-13));
  }
}

TEST_CASE("what fft refuses") {
  expect_error<DtypeError>([] { fft::rfft(complex_signal); }, "fft.rfft", "real numbers, got c128[5]", "use fft");
  expect_error<DtypeError>([] { fft::ihfft(complex_signal); }, "fft.ihfft", "real numbers", "use ifft");
  expect_error<DtypeError>([] { fft::fft(ones({2}, float16)); }, "fft.fft", "no transform of", "float32");
  expect_error<ShapeError>([] { fft::fft(real_signal, 0); }, "fft.fft", "lengths of 1 or more, got 0 for axis 0");
  expect_error<ShapeError>([] { fft::irfft(ones({1})); }, "fft.irfft", "got 0");
  expect_error<ShapeError>([] { fft::fftn(plane, {}, Axes{0, -2}); }, "fft.fftn", "axes [0,-2] name a dimension twice");
  expect_error<ShapeError>([] { fft::fftn(plane, Axes{2}, Axes{0, 1}); }, "fft.fftn", "1 lengths for 2 axes");
  expect_error<ShapeError>([] { fft::rfftn(plane, {}, Axes{}); }, "fft.rfftn", "at least one axis to halve");
  expect_error<ShapeError>([] { fft::fft2(plane, {}, Axes{0}); }, "fft.fft2", "two axes, got [0]", "fft.fftn");
  expect_error<ShapeError>([] { fft::fft(real_signal, {}, 1); }, "fft.fft");
  expect_error<ValueError>([] { fft::fftfreq(0); }, "fft.fftfreq", "n of 1 or more, got 0");
  expect_error<DtypeError>([] { fft::rfftfreq(3, 1, int32); }, "fft.rfftfreq", "a float dtype");
}
