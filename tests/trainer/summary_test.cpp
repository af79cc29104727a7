#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

using namespace lockstep;

TEST_CASE("a model's summary lists variables, sizes, aggregations and operations") {
  const Model model([](Scope& s, const Array& x) {
    const Array h = batch_norm(s["norm"], dense(s["hidden"], x, {.units = 400}));
    return dense(s["head"], h, {.units = 10});
  });
  const std::string expected =
      "variable              type          parameters      bytes  aggregation  trained\n"
      "head/bias             f32[10]               10         40  none         yes\n"
      "head/kernel           f32[400,10]        4,000     16,000  none         yes\n"
      "hidden/bias           f32[400]             400      1,600  none         yes\n"
      "hidden/kernel         f32[784,400]     313,600  1,254,400  none         yes\n"
      "norm/beta             f32[400]             400      1,600  none         yes\n"
      "norm/gamma            f32[400]             400      1,600  none         yes\n"
      "norm/moving_mean      f32[400]             400      1,600  none         no\n"
      "norm/moving_variance  f32[400]             400      1,600  none         no\n"
      "trained: 318,810 parameters, 1,275,240 bytes\n"
      "not trained: 800 numbers, 3,200 bytes\n"
      "an evaluation call: ";
  const std::string text = summary(model, ArrayType{float32, {2, 784}, {}});
  CHECK(text.substr(0, expected.size()) == expected);
  CHECK(text.ends_with(" FLOPs\n"));
  CHECK(text == summary(model, zeros({2, 784})));
  // Two rows through two products are 1,270,400; what is added for biases and the norm is little.
  const std::string flops = text.substr(expected.size());
  CHECK(flops.starts_with("1,27"));
}
