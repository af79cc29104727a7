#include <algorithm>
#include <limits>
#include <string>

#include "backends/jit/expand.h"
#include "engine/ops/primitives.h"
#include "tests/backends/jit/loops.h"
#include "tests/support/cpu_and_aten.h"

// Each op alone: against ATen's kernel over special values, where both must be exact.
namespace lockstep::tests {
namespace {

constexpr std::array dtypes = {DType::float32, DType::int32, DType::uint32, DType::bool_, DType::bfloat16};
constexpr std::array inexact = {"erf", "erfc", "exp", "expm1", "log", "log1p", "logistic", "tanh"};

std::vector<std::uint32_t> special_lanes(DType dtype) {
  if (dtype == DType::bool_) return {0, 1};
  if (dtype == DType::bfloat16) {
    std::vector<std::uint32_t> halves = {0x7F81, 0xFFC1, 0x0001};
    for (const std::uint32_t lane : special_lanes(DType::float32)) halves.push_back(lane >> 16);
    return halves;
  }
  if (dtype != DType::float32)
    return {0, 1, 2, 5, 31, 32, 33, 100, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFE0};
  std::vector<std::uint32_t> lanes;
  for (const float x : {0.0F,
                        -0.0F,
                        1.0F,
                        -1.0F,
                        0.5F,
                        -0.5F,
                        1.5F,
                        -1.5F,
                        2.5F,
                        3.0F,
                        1e-45F,
                        -1e-45F,
                        1.1754944e-38F,
                        1e-40F,
                        3.4e38F,
                        -3.4028235e38F,
                        16777217.0F,
                        2147483648.0F,
                        -2147483648.0F,
                        2147483520.0F,
                        8388607.5F,
                        0.1F,
                        1.00390625F,
                        1.01171875F,
                        -1.0039064F,
                        -std::numeric_limits<float>::quiet_NaN(),
                        std::numeric_limits<float>::signaling_NaN(),
                        -7.25F,
                        std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN()}) {
    lanes.push_back(std::bit_cast<std::uint32_t>(x));
  }
  return lanes;
}

std::vector<std::byte> bytes_of_lanes(DType dtype, const std::vector<std::uint32_t>& lanes) {
  const std::size_t width = size_of(dtype);
  std::vector<std::byte> bytes(lanes.size() * width);
  for (std::size_t i = 0; i < lanes.size(); ++i) std::memcpy(bytes.data() + i * width, &lanes[i], width);
  return bytes;
}

/// Every combination of special values of these dtypes, one array each.
std::vector<std::vector<std::byte>> combinations(const std::vector<DType>& operands) {
  std::vector<std::vector<std::uint32_t>> lanes(operands.size());
  std::size_t total = 1;
  for (const DType dtype : operands) total *= special_lanes(dtype).size();
  for (std::size_t i = 0; i < total; ++i) {
    std::size_t rest = i;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const std::vector<std::uint32_t> values = special_lanes(operands[k]);
      lanes[k].push_back(values[rest % values.size()]);
      rest /= values.size();
    }
  }
  std::vector<std::vector<std::byte>> bytes;
  for (std::size_t k = 0; k < operands.size(); ++k) bytes.push_back(bytes_of_lanes(operands[k], lanes[k]));
  return bytes;
}

struct OpCase {
  std::string op;
  Attrs attrs;
  std::vector<DType> operands;
  DType result;
};

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& primitive = get();
    if (!primitive.traits.pointwise) continue;
    const std::size_t count = primitive.samples().at(0).inputs.size();
    for (const DType from : dtypes) {
      for (const DType to : dtypes) {
        if (primitive.traits.in_loops == nullptr || !primitive.traits.in_loops(from, to)) continue;
        std::vector<DType> operands(count, from);
        if (primitive.name == "select") {
          if (from != to) continue;
          operands[0] = DType::bool_;
        }
        if (primitive.name == "convert" || primitive.name == "bitcast_convert") {
          cases.push_back({primitive.name, {{"dtype", to}}, operands, to});
        } else if (primitive.name == "integer_pow") {
          for (const std::int64_t exponent : {0, 1, 2, 3, 7, -1, -2}) {
            cases.push_back({primitive.name, {{"exponent", exponent}}, operands, to});
          }
        } else {
          cases.push_back({primitive.name, {}, operands, to});
        }
      }
    }
  }
  return cases;
}

std::vector<std::byte> computed_case(const backend::Backend& backend, const OpCase& c,
                                     const std::vector<std::vector<std::byte>>& x) {
  const auto n = static_cast<std::int64_t>(x[0].size() / size_of(c.operands[0]));
  std::vector<ArrayType> inputs;
  std::vector<ArrayView> views;
  for (std::size_t k = 0; k < x.size(); ++k) {
    inputs.push_back({c.operands[k], Shape{n}, {}});
    views.push_back(contiguous_view(const_cast<std::byte*>(x[k].data()), c.operands[k], Shape{n}));
  }
  const ArrayType output{c.result, Shape{n}, {}};
  const auto kernel = backend.make_kernel({c.op, c.attrs, inputs, {&output, 1}, {}});
  if (kernel == nullptr) return {};
  std::vector<std::byte> result(static_cast<std::size_t>(output.nbytes()));
  const ArrayView out = contiguous_view(result.data(), c.result, output.shape);
  kernel->run({views, {&out, 1}, nullptr});
  return result;
}

/// NaN is NaN, of any bits.
bool same_bfloat16(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); i += 2) {
    std::uint16_t x = 0, y = 0;
    std::memcpy(&x, a.data() + i, 2);
    std::memcpy(&y, b.data() + i, 2);
    const auto is_nan = [](std::uint16_t bits) { return (bits & 0x7FFFU) > 0x7F80U; };
    if (x != y && !(is_nan(x) && is_nan(y))) return false;
  }
  return true;
}

bool same(DType dtype, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  if (dtype == DType::bfloat16) return same_bfloat16(a, b);
  if (dtype != DType::float32) return a == b;
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); i += 4) {
    std::uint32_t x = 0, y = 0;
    std::memcpy(&x, a.data() + i, 4);
    std::memcpy(&y, b.data() + i, 4);
    if (!same_float(x, y)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every op that loops are made of has a kernel, and exact ops have ATen's values") {
  const auto aten = std::make_shared<const CpuAndAten>();
  const auto settings = aten->enter_thread();
  const std::vector<OpCase> cases = all_cases();
  CHECK(cases.size() > 60);
  for (const OpCase& c : cases) {
    const auto x = combinations(c.operands);
    std::vector<std::byte> first;
    for (const backend::Isa isa : usable_sets()) {
      INFO(c.op << " " << std::string(name(c.operands.back())) << " -> " << std::string(name(c.result)) << " "
                << to_string(c.attrs) << " by " << std::string(name(isa)));
      const std::vector<std::byte> y = computed_case(*backend::jit::make_backend(isa), c, x);
      REQUIRE(!y.empty());
      if (first.empty()) first = y;
      CHECK(same(c.result, y, first));
      if (std::ranges::count(inexact, c.op) == 0) CHECK(same(c.result, y, computed_case(*aten, c, x)));
    }
  }
}

TEST_CASE("without instructions, and for other dtypes, there is no kernel") {
  const auto none = backend::jit::make_backend(backend::Isa::none);
  CHECK(!none->fuses());
  const ArrayType x{DType::float32, Shape{4}, {}};
  const std::vector<ArrayType> two = {x, x};
  CHECK(none->make_kernel({"add", {}, two, {&x, 1}, {}}) == nullptr);
  CHECK(none->version() == "4 (none)");
  for (const backend::Isa isa : usable_sets()) {
    const auto backend = backend::jit::make_backend(isa);
    CHECK(backend->version() == "4 (" + std::string(name(isa)) + ")");
    CHECK(backend->allocate(64, {}) == nullptr);
    const ArrayType wide{DType::float64, Shape{4}, {}};
    CHECK(backend->make_kernel({"exp", {}, {&wide, 1}, {&wide, 1}, {}}) == nullptr);
    CHECK(backend->make_kernel({"sin", {}, {&x, 1}, {&x, 1}, {}}) == nullptr);
  }
}

}  // namespace lockstep::tests
