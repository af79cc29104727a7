#include <complex>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <lockstep/aten.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/support/expect_error.h"

// Arrays and ATen's tensors over one memory.  c10 has a CHECK of its own.
using namespace lockstep;

TEST_CASE("an array becomes a tensor over its memory and back") {
  Array x = array({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  at::Tensor tensor = to_aten(x);
  DOCTEST_CHECK(tensor.sizes() == at::IntArrayRef{2, 3});
  DOCTEST_CHECK((tensor.scalar_type() == at::kFloat));
  DOCTEST_CHECK(tensor.data_ptr() == to_aten(x).data_ptr());
  x = Array();  // the tensor keeps the memory
  DOCTEST_CHECK(tensor.sum().item<float>() == 21);
  const Array back = from_aten(tensor);
  DOCTEST_CHECK(to_aten(back).data_ptr() == tensor.data_ptr());
  tensor = at::Tensor();
  DOCTEST_CHECK(back.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("every dtype that both have") {
  const std::pair<DType, at::ScalarType> dtypes[] = {{bool_, at::kBool},
                                                     {uint8, at::kByte},
                                                     {int8, at::kChar},
                                                     {int16, at::kShort},
                                                     {int32, at::kInt},
                                                     {int64, at::kLong},
                                                     {float16, at::kHalf},
                                                     {bfloat16, at::kBFloat16},
                                                     {float32, at::kFloat},
                                                     {float64, at::kDouble},
                                                     {complex64, at::kComplexFloat},
                                                     {complex128, at::kComplexDouble},
                                                     {uint16, at::kUInt16},
                                                     {uint32, at::kUInt32},
                                                     {uint64, at::kUInt64}};
  for (const auto& [dtype, type] : dtypes) {
    CAPTURE(name(dtype));
    const Array x = from_bytes({dtype, Shape{2}, {}}, std::vector<std::byte>(2 * size_of(dtype), std::byte{1}));
    const at::Tensor tensor = to_aten(x);
    DOCTEST_CHECK((tensor.scalar_type() == type));
    DOCTEST_CHECK((from_aten(tensor).to_bytes() == x.to_bytes()));
  }
}

TEST_CASE("a tensor's own allocation is taken as it is, a view of it is copied") {
  const at::Tensor tensor = at::arange(12, at::kFloat).reshape({3, 4});
  const Array x = from_aten(tensor);
  DOCTEST_CHECK(to_aten(x).data_ptr() == tensor.data_ptr());
  const Array t = from_aten(tensor.t());
  DOCTEST_CHECK(t.shape() == Shape{4, 3});
  DOCTEST_CHECK(t.to_vector<float>() == std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  const Array part = from_aten(tensor.narrow(0, 1, 2));
  DOCTEST_CHECK(part.to_vector<float>() == std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11});
  const at::Tensor z = at::ones({2}, at::kComplexFloat) * c10::complex<float>(1, 2);
  DOCTEST_CHECK(from_aten(z.conj()).to_vector<std::complex<float>>()[0] == std::complex<float>(1, -2));
  DOCTEST_CHECK(from_aten(tensor.clone().requires_grad_(true)).shape() == Shape{3, 4});
}

TEST_CASE("tensors that have no array") {
  tests::expect_error<DtypeError>([] { from_aten(at::empty({2}, at::kFloat8_e4m3fn)); }, "from_dlpack", "8 bits");
}
