#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>
#include <xmmintrin.h>

#include <lockstep/backend/threefry.h>
#include <lockstep/error.h>

#include "tests/backends/aten/kernel_runs.h"

namespace lockstep::tests {

namespace {

constexpr Device gpu{DeviceKind::cuda, 0};

template <class T>
std::vector<T> elements_of(const std::vector<std::byte>& bytes) {
  std::vector<T> elements(bytes.size() / sizeof(T));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

template <class T>
Memory memory_of_elements(const std::vector<T>& elements) {
  return Memory(std::as_bytes(std::span(elements)));
}

}  // namespace

TEST_CASE("each backend says what it is for") {
  const auto of_aten = backend::make_aten_backend(), of_cpu = backend::make_cpu_backend();
  CHECK(of_aten->name() == "aten");
  CHECK(of_aten->version().starts_with("2."));
  CHECK(of_cpu->name() == "cpu");
  CHECK(of_cpu->version().empty());
  for (const auto& backend : {of_aten, of_cpu}) {
    CHECK(backend->supports(DeviceKind::cpu));
    CHECK_FALSE(backend->supports(DeviceKind::cuda));
  }
}

TEST_CASE("what the table does not have is null, not an error") {
  const std::vector<ArrayType> types = {{float32, {2}, {}}};
  const std::vector<ArrayType> keys = {{DType::key, {2}, {}}};
  CHECK(aten().make_kernel({"psum", {}, types, types, {}}) == nullptr);
  CHECK(aten().make_kernel({"no such op", {}, types, types, {}}) == nullptr);
  CHECK(aten().make_kernel({"neg", {}, types, types, gpu}) == nullptr);
  CHECK(aten().make_kernel({"neg", {}, keys, keys, {}}) == nullptr);
  CHECK(aten().make_kernel({"neg", {}, types, types, {}}) != nullptr);
}

TEST_CASE("memory is aligned, owned, and on the CPU") {
  for (const std::size_t nbytes : {0U, 1U, 63U, 64U, 4097U}) {
    const std::shared_ptr<backend::Buffer> buffer = aten().allocate(nbytes, {});
    REQUIRE(buffer != nullptr);
    CHECK(buffer->nbytes() == nbytes);
    CHECK(buffer->device() == Device{});
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64 == 0);
    if (nbytes > 0) std::memset(buffer->data(), 1, nbytes);
  }
  CHECK(aten().allocate(64, gpu) == nullptr);
}

TEST_CASE("a large array takes the memory of one of about its size that is gone") {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto take = [](std::size_t nbytes) {
    std::shared_ptr<backend::Buffer> buffer = aten().allocate(nbytes, {});
    std::memset(buffer->data(), 1, nbytes);
    return buffer;
  };
  std::shared_ptr<backend::Buffer> first = take(64 * mib - 8);
  const void* const place = first->data();
  CHECK_MESSAGE(reinterpret_cast<std::uintptr_t>(place) % (2 * mib) == 0, "large pages begin there");
  CHECK(take(64 * mib - 8)->data() != place);
  first.reset();
  const std::shared_ptr<backend::Buffer> larger = take(80 * mib);
  CHECK(larger->data() != place);
  const std::shared_ptr<backend::Buffer> half = take(32 * mib);
  CHECK(half->data() != place);
  const std::shared_ptr<backend::Buffer> second = take(60 * mib);
  CHECK(second->nbytes() == 60 * mib);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(second->data() == place);
#endif
}

TEST_CASE("memory that is not there is an error that says how much was asked for") {
  const auto ask = [](std::size_t nbytes) {
    const std::string asked = std::to_string(nbytes) + " bytes asked for on cpu:0";
    CHECK_THROWS_WITH_AS(aten().allocate(nbytes, {}), doctest::Contains(asked.c_str()), BackendError);
    CHECK_THROWS_WITH_AS(aten().allocate(nbytes, {}), doctest::Contains("use a smaller batch"), BackendError);
  };
  ask(std::size_t{1} << 63);
  ask(std::numeric_limits<std::size_t>::max());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They abort where malloc would return null.
  ask(std::size_t{1} << 60);
#endif
}

TEST_CASE("what ATen refuses is a BackendError that names the op") {
  const BoundOp bound(ops::primitives::add(), {{complex64, {2}, {}}, {complex64, {2}, {}}}, {});
  std::vector<std::complex<float>> data(8);
  const std::vector<ArrayView> unequal = {contiguous_view(data.data(), complex64, {2}),
                                          contiguous_view(data.data(), complex64, {3})};
  CHECK_THROWS_WITH_AS(bound.run(std::span<const ArrayView>(unequal)), doctest::Contains("aten kernel of add: "),
                       BackendError);
}

TEST_CASE("a thread's settings are those of a worker until the token goes") {
  std::thread([] {
    omp_set_num_threads(3);
    const unsigned flush_to_zero = _mm_getcsr() | 0x8040;
    _mm_setcsr(flush_to_zero);
    {
      const std::shared_ptr<void> token = aten().enter_thread();
      CHECK(omp_get_max_threads() == 1);
      CHECK((_mm_getcsr() & 0xFFC0) == 0x1F80);
      const BoundOp bound(ops::primitives::mul(), {{float32, {1}, {}}, {float32, {1}, {}}}, {});
      std::vector<Memory> operands;
      operands.push_back(memory_of_elements<float>({1e-20F}));
      operands.push_back(memory_of_elements<float>({1e-20F}));
      CHECK(elements_of<float>(bound.run(operands)[0])[0] == 1e-20F * 1e-20F);
      CHECK(elements_of<float>(bound.run(operands)[0])[0] > 0);
      // A kernel large enough for ATen to think of more threads leaves the setting alone.
      const BoundOp large(ops::primitives::reduce_sum(), {{float32, {512, 1024}, {}}},
                          {{"axes", std::vector<std::int64_t>{0}}});
      std::vector<Memory> zeros;
      zeros.push_back(memory_of_elements(std::vector<float>(512 * 1024)));
      large.run(zeros);
      CHECK(omp_get_max_threads() == 1);
    }
    CHECK(omp_get_max_threads() == 3);
    CHECK((_mm_getcsr() & 0xFFC0) == (flush_to_zero & 0xFFC0));
  }).join();
}

TEST_CASE("integer division by zero and of the least integer is defined") {
  const std::int32_t least = std::numeric_limits<std::int32_t>::min();
  std::vector<Memory> operands;
  operands.push_back(memory_of_elements<std::int32_t>({7, -7, least, 7, -7}));
  operands.push_back(memory_of_elements<std::int32_t>({0, 0, -1, -2, 2}));
  const std::vector<ArrayType> types = {{int32, {5}, {}}, {int32, {5}, {}}};
  const BoundOp quotient(ops::primitives::div(), types, {});
  CHECK(elements_of<std::int32_t>(quotient.run(operands)[0]) == std::vector<std::int32_t>{-1, -1, least, -3, -3});
  const BoundOp remainder(ops::primitives::rem(), types, {});
  CHECK(elements_of<std::int32_t>(remainder.run(operands)[0]) == std::vector<std::int32_t>{7, -7, 0, 1, -1});
}

TEST_CASE("conversions to integers end at the range's ends, and NaN is zero") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> x = {infinity, -infinity, std::nan(""), 1e300, -1e300, 2.9, -2.9, 4294967295.0};
  const auto converted = [&]<class T>(T) {
    const BoundOp bound(ops::primitives::convert(), {{float64, {8}, {}}}, {{"dtype", dtype_of<T>()}});
    std::vector<Memory> operands;
    operands.push_back(memory_of_elements(x));
    return elements_of<T>(bound.run(operands)[0]);
  };
  const auto ends = []<class T>(T) {
    return std::vector<T>{std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
  };
  using I32 = std::int32_t;
  using U32 = std::uint32_t;
  using I64 = std::int64_t;
  using U8 = std::uint8_t;
  const auto check = [&]<class T>(T zero, T down, T last) {
    const T high = ends(zero)[0], low = ends(zero)[1];
    CHECK(converted(zero) == std::vector<T>{high, low, 0, high, low, 2, down, last});
  };
  check(I32{}, I32{-2}, std::numeric_limits<I32>::max());
  check(U32{}, U32{0}, U32{4294967295U});
  check(I64{}, I64{-2}, I64{4294967295});
  check(U8{}, U8{0}, U8{255});
}

TEST_CASE("NaN wins every maximum and stands first in every order") {
  const float nan = std::nanf("");
  std::vector<Memory> x;
  x.push_back(memory_of_elements<float>({1, nan, 3, nan, 2, 3}));
  const std::vector<ArrayType> types = {{float32, {6}, {}}};
  const Attrs axis{{"axis", std::int64_t{0}}, {"dtype", int32}};
  const auto index = [&](const ir::Primitive& op) {
    return elements_of<std::int32_t>(BoundOp(op, types, axis).run(x)[0])[0];
  };
  CHECK(index(ops::primitives::argmax()) == 1);
  CHECK(index(ops::primitives::argmin()) == 1);
  const BoundOp top(ops::primitives::top_k(), types, {{"k", std::int64_t{5}}});
  CHECK(elements_of<std::int32_t>(top.run(x)[1]) == std::vector<std::int32_t>{1, 3, 2, 5, 4});
  for (const ir::Primitive* op : {&ops::primitives::reduce_max(), &ops::primitives::reduce_min()}) {
    const BoundOp bound(*op, types, {{"axes", std::vector<std::int64_t>{0}}});
    CHECK(std::isnan(elements_of<float>(bound.run(x)[0])[0]));
  }
  const BoundOp pooled(ops::primitives::window_max(), {{float32, {1, 6, 1}, {}}},
                       {{"window", std::vector<std::int64_t>{3}},
                        {"strides", std::vector<std::int64_t>{3}},
                        {"padding", std::vector<std::vector<std::int64_t>>{{0, 0}}}});
  CHECK(elements_of<std::int32_t>(pooled.run(x)[1]) == std::vector<std::int32_t>{1, 3});
}

TEST_CASE("a draw of many blocks is the cipher's, cut or whole") {
  const std::array<std::uint32_t, 2> key = {0x12345678, 0x9ABCDEF0};
  std::vector<Memory> operands;
  operands.push_back(memory_of_elements<std::uint32_t>({key[0], key[1]}));
  const std::vector<std::int64_t> shape = {3, 8, 177};
  const BoundOp whole(ops::primitives::random_bits(), {{DType::key, {}, {}}},
                      {{"shape", shape}, {"width", std::int64_t{32}}});
  const auto bits = elements_of<std::uint32_t>(whole.run(operands)[0]);
  for (std::size_t i = 0; i < bits.size(); ++i)
    REQUIRE(bits[i] == backend::threefry_draw(backend::threefry_bits(key, i), 32));

  // Blocks 0 to 3 of an array [8, 3, 177] cut along its first dimension, as a shard sees them: its dimension 1.
  const std::vector<std::int64_t> block_shape = {3, 2, 177};
  const BoundOp cut(ops::primitives::random_bits(), {{DType::key, {}, {}}, {int32, {}, {}}},
                    {{"shape", block_shape}, {"width", std::int64_t{32}}, {"cut", std::int64_t{1}}});
  for (std::int32_t block = 0; block < 4; ++block) {
    std::vector<Memory> with_block;
    with_block.push_back(memory_of_elements<std::uint32_t>({key[0], key[1]}));
    with_block.push_back(memory_of_elements<std::int32_t>({block}));
    const auto part = elements_of<std::uint32_t>(cut.run(with_block)[0]);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::size_t a = i / (2 * 177), c = i / 177 % 2, b = i % 177;
      REQUIRE(part[i] == bits[((static_cast<std::size_t>(block) * 2 + c) * 3 + a) * 177 + b]);
    }
  }
}

}  // namespace lockstep::tests
