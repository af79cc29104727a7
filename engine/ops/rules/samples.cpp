#include "engine/ops/rules/samples.h"

#include <utility>

namespace lockstep::ops::samples {

SampleInput input(DType dtype, const Shape& shape, Range range) {
  return {{dtype, shape, {}}, range.low, range.high, range.distinct};
}

SampleInput distinct(DType dtype, const Shape& shape, double low, double high) {
  return {{dtype, shape, {}}, low, high, true};
}

const std::vector<Shape>& small_shapes() {
  static const std::vector<Shape> shapes = {Shape{}, Shape{5}, Shape{2, 3}, Shape{1}, Shape{0}, Shape{3, 0}};
  return shapes;
}

Samples elementwise(std::vector<Range> ranges, std::vector<DType> dtypes) {
  return [ranges = std::move(ranges), dtypes = std::move(dtypes)] {
    std::vector<Sample> samples;
    for (const DType dtype : dtypes) {
      for (const Shape& shape : small_shapes()) {
        Sample sample;
        for (const Range& range : ranges) sample.inputs.push_back(input(dtype, shape, range));
        samples.push_back(std::move(sample));
      }
    }
    return samples;
  };
}

Samples unary(double low, double high, std::vector<DType> dtypes) {
  return elementwise({{low, high, false}}, std::move(dtypes));
}

Samples inexact(double low, double high, std::vector<DType> floating) {
  return both(unary(low, high, std::move(floating)), unary(low, high, complexes));
}

Samples both(Samples first, Samples second) {
  return [first = std::move(first), second = std::move(second)] {
    std::vector<Sample> samples = first();
    for (Sample& sample : second()) samples.push_back(std::move(sample));
    return samples;
  };
}

Samples list(std::vector<Sample> samples) {
  return [samples = std::move(samples)] { return samples; };
}

ErrorSamples errors(std::vector<ErrorSample> samples) {
  return [samples = std::move(samples)] { return samples; };
}

ErrorSamples elementwise_errors(std::size_t operands, DType legal, DType illegal) {
  return [operands, legal, illegal] {
    std::vector<ErrorSample> samples;
    const std::vector<ArrayType> wrong(operands, ArrayType{illegal, Shape{2}, {}});
    samples.push_back({wrong, {}, "expected a", {}});
    std::vector<ArrayType> types(operands, ArrayType{legal, Shape{2, 3}, {}});
    if (operands > 1) {
      types.back().shape = Shape{3};
      samples.push_back({types, {}, "expected operands of one shape", {}});
      types.back() = {legal == DType::float32 ? DType::float64 : DType::uint8, Shape{2, 3}, {}};
      samples.push_back({types, {}, "expected operands of one dtype", {}});
    }
    types.push_back(types.front());
    samples.push_back({types, {}, operands == 1 ? "expected 1 operand" : "operands; instead pass", {}});
    return samples;
  };
}

}  // namespace lockstep::ops::samples
