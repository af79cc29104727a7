#include <array>
#include <complex>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/dlpack.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Arrays as programs handle them: making, slicing, going over, exchanging.
using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;

TEST_CASE("arrays are made of what holds numbers") {
  const std::array<std::int64_t, 3> fixed = {1, 2, 3};
  CHECK(array(fixed).dtype() == int64);
  check_close(array(fixed), {3}, {1, 2, 3});
  const std::vector<double> many = {1, 2};
  check_close(array(std::span<const double>(many)), {2}, {1, 2});
  check_close(array({1, 2, 3, 4}, {2, 2}), {2, 2}, {1, 2, 3, 4});
  check_close(array({{1, 2, 3}, {4, 5, 6}}), {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(array({{1.f}, {2.f}}).dtype() == float32);
  check_close(array({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}), {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  check_close(array(std::vector<std::vector<int>>{{1}, {2}, {3}}), {3, 1}, {1, 2, 3});
  check_close(array({{true, false}, {false, true}}), {2, 2}, {1, 0, 0, 1});
  const Array z = array({std::complex<float>(1, 2), std::complex<float>(3, 4)});
  CHECK(z.dtype() == complex64);
  CHECK(z.to_vector<std::complex<float>>()[1] == std::complex<float>(3, 4));
  expect_error<ShapeError>([] { array({{1, 2}, {3}}); }, "row 1", "1 elements", "have 2");
  expect_error<ShapeError>([] { array({1, 2, 3}, {2, 2}); }, "16 bytes", "12");
}

TEST_CASE("slices of the first axis") {
  const Array x = array({{1, 2, 3}, {4, 5, 6}});
  check_close(x[0], {3}, {1, 2, 3});
  check_close(x[-1], {3}, {4, 5, 6});
  check_close(x[1][2], {}, {6});
  CHECK(x[1].dtype() == int32);
  const Array keys = random::split(random::key(1), 2);
  check_same_bits(x[0].astype(float32), array({1.f, 2.f, 3.f}));
  CHECK(keys[1].shape() == Shape{});
  expect_error<ValueError>([&] { x[2]; }, "operator[]", "index 2", "i32[2,3]", "-2 to 1");
  expect_error<ValueError>([&] { x[-3]; }, "index -3");
  expect_error<ShapeError>([] { array(1)[0]; }, "operator[]", "i32[]", "item");
  // Staged and differentiated as any slice.
  check_close(grad([](const Array& v) { return v[1] * v[0]; })(array({2.f, 3.f})), {2}, {3, 2});
}

TEST_CASE("going over the first axis") {
  std::vector<float> sums;
  for (const Array row : array({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}})) sums.push_back(sum(row).item<float>());
  CHECK(sums == std::vector<float>{3, 7, 11});
  for (const Array row : zeros({0, 3})) FAIL("there is no row, got " << row);
  const auto total = jit([](const Array& x) {
    Array all = zeros({2});
    for (const Array row : x) all = all + row;
    return all;
  });
  check_close(total(array({{1.f, 2.f}, {3.f, 4.f}})), {2}, {4, 6});
  expect_error<ShapeError>([] { array(1.f).begin(); }, "iteration", "f32[]");
  std::ostringstream stream;
  stream << array({{1, 2}, {3, 4}});
  CHECK(stream.str() == "[[1 2]\n [3 4]]");
}

namespace {

/// A tensor of another library, which counts how often it was freed.
struct Foreign {
  alignas(64) std::array<float, 12> data{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  int freed = 0;
  dlpack::ManagedTensor managed;

  dlpack::Managed tensor(std::vector<std::int64_t> extents, std::vector<std::int64_t> steps, std::uint64_t offset = 0) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    shape = std::move(extents);
    strides = std::move(steps);
    managed.tensor = {data.data(), {1, 0},       static_cast<std::int32_t>(shape.size()),
                      {2, 32, 1},  shape.data(), strides.empty() ? nullptr : strides.data(),
                      offset};
    managed.context = this;
    managed.deleter = [](dlpack::ManagedTensor* own) { ++static_cast<Foreign*>(own->context)->freed; };
    return dlpack::Managed(&managed);
  }
};

}  // namespace

TEST_CASE("DLPack: arrays go out and come back without a copy") {
  Array x = array({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  dlpack::Managed out = to_dlpack(x);
  CHECK(out->tensor.ndim == 2);
  CHECK(out->tensor.shape[1] == 3);
  CHECK(out->tensor.strides[0] == 3);
  CHECK(out->tensor.dtype.code == 2);
  CHECK(out->tensor.dtype.bits == 32);
  CHECK(out->tensor.device.type == 1);
  const void* memory = out->tensor.data;
  x = Array();  // the tensor keeps the memory
  const Array back = from_dlpack(std::move(out));
  check_close(back, {2, 3}, {1, 2, 3, 4, 5, 6});
  dlpack::Versioned again = to_dlpack_versioned(back);
  CHECK(again->tensor.data == memory);
  CHECK(again->flags == dlpack::read_only);
  check_same_bits(from_dlpack(std::move(again)), back);
}

TEST_CASE("DLPack: every dtype goes through") {
  for (int i = 0; i < static_cast<int>(DType::key); ++i) {
    const auto dtype = static_cast<DType>(i);
    CAPTURE(name(dtype));
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}}) {
      const Array x =
          from_bytes({dtype, shape, {}},
                     std::vector<std::byte>(static_cast<std::size_t>(shape.size()) * size_of(dtype), std::byte{1}));
      check_same_bits(from_dlpack(to_dlpack(x)), x);
      CHECK(to_dlpack(x)->tensor.dtype.code == dlpack::data_type(dtype).code);
    }
  }
}

TEST_CASE("DLPack: imported memory lives as long as an array over it and is never written") {
  Foreign foreign;
  {
    Array x = from_dlpack(foreign.tensor({3, 4}, {}));
    CHECK(to_dlpack(x)->tensor.data == foreign.data.data());
    const auto add_one = jit([](const Array& v) { return v + 1.f; });
    const Array y = add_one(std::move(x));  // would be computed in place were the memory ours
    CHECK(foreign.data[0] == 0);
    check_close(y[0], {4}, {1, 2, 3, 4});
    Array z = from_dlpack(to_dlpack(y));
    CHECK(foreign.freed == 1);
  }
  CHECK(foreign.freed == 1);
}

TEST_CASE("DLPack: what is strided or not aligned is copied and given back") {
  Foreign foreign;
  const Array columns = from_dlpack(foreign.tensor({4, 3}, {1, 4}));
  CHECK(foreign.freed == 1);
  check_close(columns, {4, 3}, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  const Array backwards = from_dlpack(foreign.tensor({3}, {-2}, 4 * sizeof(float)));
  check_close(backwards, {3}, {4, 2, 0});
  const Array repeated = from_dlpack(foreign.tensor({2, 2}, {0, 1}));
  check_close(repeated, {2, 2}, {0, 1, 0, 1});
  const Array shifted = from_dlpack(foreign.tensor({3}, {1}, sizeof(float)));
  check_close(shifted, {3}, {1, 2, 3});
  CHECK(foreign.freed == 4);
  // An extent of 1 may have any stride.
  const Array one = from_dlpack(foreign.tensor({1, 4}, {77, 1}));
  CHECK(foreign.freed == 4);
  CHECK(to_dlpack(one)->tensor.data == foreign.data.data());
}

TEST_CASE("DLPack: what cannot be exchanged") {
  Foreign foreign;
  const auto import_with = [&](auto change) {
    dlpack::Managed tensor = foreign.tensor({3}, {});
    change(tensor->tensor);
    from_dlpack(std::move(tensor));
  };
  expect_error<BackendError>([&] { import_with([](dlpack::Tensor& t) { t.device.type = 2; }); }, "from_dlpack",
                             "type 2", "move it to the CPU");
  expect_error<DtypeError>([&] { import_with([](dlpack::Tensor& t) { t.dtype.bits = 24; }); }, "from_dlpack",
                           "24 bits");
  expect_error<DtypeError>([&] { import_with([](dlpack::Tensor& t) { t.dtype.lanes = 4; }); }, "4 lanes");
  expect_error<ShapeError>([&] { import_with([](dlpack::Tensor& t) { t.ndim = 13; }); }, "13 dimensions", "12");
  CHECK(foreign.freed == 4);  // also where it was refused
  expect_error<ValueError>([] { from_dlpack(dlpack::Managed()); }, "from_dlpack", "null");
  dlpack::Versioned newer = to_dlpack_versioned(ones({2}));
  newer->version.major = 2;
  expect_error<ValueError>([&] { from_dlpack(std::move(newer)); }, "DLPack 2.0", "1.x");
  expect_error<DtypeError>([] { to_dlpack(random::key(1)); }, "to_dlpack", "key_data");
  expect_error<DtypeError>([] { dlpack::data_type(DType::key); }, "to_dlpack", "key_data");
  expect_error<TraceError>(
      [] {
        jit([](const Array& x) {
          to_dlpack(x);
          return x;
        })(ones({2}));
      },
      "traced value");
}
