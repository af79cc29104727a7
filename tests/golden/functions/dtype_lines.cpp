
#include <lockstep/ops.h>

#include "tests/golden/functions/table.h"

// What comes of two arrays of different dtypes, and of an array and a weak scalar.
namespace lockstep::tests::functions {
namespace {

const std::vector<DType> every_dtype = {bool_,  int8,    int16,    int32,   int64,   uint8,     uint16,    uint32,
                                        uint64, float16, bfloat16, float32, float64, complex64, complex128};

}  // namespace

Lines dtype_lines() {
  Lines lines;
  const Options alone = {
      .dtypes = every_dtype, .no_derivative = "a dtype is asked for", .no_vmap = "a dtype is asked for"};
  for (const DType dtype : every_dtype) {
    const Input x = given({0, 1, 3}), y = given({1, 1, 2}).of(dtype);
    lines.push_back({"operator+", "x + y", {x, y}, [](A x, A y) { return x + y; }, alone});
    lines.push_back({"where", "jnp.where(x != 0, x, y)", {x, y}, [](A x, A y) { return where(x != 0, x, y); }, alone});
  }
  const Input x = given({0, 1, 3});
  lines.push_back({"operator+", "x + True", {x}, [](A x) { return x + true; }, alone});
  lines.push_back({"operator+", "x + 2", {x}, [](A x) { return x + 2; }, alone});
  lines.push_back({"operator+", "x + 2.5", {x}, [](A x) { return x + 2.5; }, alone});
  lines.push_back({"operator/", "x / 2", {x}, [](A x) { return x / 2; }, alone});
  lines.push_back({"sum", "jnp.sum(x)", {x}, [](A x) { return sum(x); }, alone});
  lines.push_back({"prod", "jnp.prod(x)", {x}, [](A x) { return prod(x); }, alone});
  lines.push_back({"mean", "jnp.mean(x)", {x}, [](A x) { return mean(x); }, alone});
  lines.push_back({"exp", "jnp.exp(x)", {x}, [](A x) { return exp(x); }, alone});
  return lines;
}

}  // namespace lockstep::tests::functions
