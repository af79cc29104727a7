#include "tests/golden/functions/table.h"

namespace lockstep::tests::functions {

std::vector<DType> operator+(std::vector<DType> a, const std::vector<DType>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Input Input::of(DType held) const {
  Input input = *this;
  input.dtype = held;
  return input;
}

Input drawn(const Shape& shape, double low, double high) { return {shape, low, high}; }
Input distinct(const Shape& shape, double low, double high) { return {shape, low, high, true}; }
Input given(const std::vector<double>& values) { return given(values, {static_cast<std::int64_t>(values.size())}); }
Input given(const std::vector<double>& values, const Shape& shape) {
  Input input{shape};
  input.values = values;
  return input;
}
Input whole(const std::vector<double>& values, DType dtype) { return given(values).of(dtype); }
Input whole(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return given(values, shape).of(dtype);
}
Input mask(const Shape& shape) { return Input{shape, 0, 2}.of(bool_); }
Input edges() {
  Input input;
  input.edges = true;
  return input;
}
Input edge_column() {
  Input input{{1, 1}};
  input.edges = true;
  return input;
}

const Lines& table() {
  static const Lines all = [] {
    Lines lines;
    struct Family {
      std::string_view name;
      Lines (*lines)();
    };
    constexpr Family families[] = {{"elementwise", elementwise_lines},
                                   {"edge", edge_lines},
                                   {"reduction", reduction_lines},
                                   {"order", order_lines},
                                   {"activation", activation_lines},
                                   {"manipulation", manipulation_lines},
                                   {"indexing", indexing_lines},
                                   {"linalg", linalg_lines},
                                   {"signal", signal_lines},
                                   {"numerics", numerics_lines},
                                   {"solver", solver_lines},
                                   {"arithmetic", arithmetic_lines},
                                   {"training", training_lines},
                                   {"dtype", dtype_lines},
                                   {"kink", kink_lines},
                                   {"image", image_lines}};
    for (const Family& family : families) {
      for (Line line : family.lines()) {
        line.family = family.name;
        lines.push_back(std::move(line));
      }
    }
    return lines;
  }();
  return all;
}

}  // namespace lockstep::tests::functions
