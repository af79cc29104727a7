#include "backends/jit/rounding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "backends/jit/expand.h"
#include "backends/jit/generator.h"
#include "tests/backends/jit/loops.h"

// Floats rounded to bfloat16, bit for bit, by the processor's own instruction and in integers.
namespace lockstep::tests {
namespace {

using backend::jit::Access;
using backend::jit::Element;
using backend::jit::Loop;
using backend::jit::MachineCode;
using backend::jit::Op;
using Lanes = std::vector<std::uint32_t>;
using LoopBytes = BoundLoop::Bytes;

/// Every upper half with lower ones around ties and between them. Neighbours are far apart, so that vectors have floats
/// of all kinds.
Lanes dense_lanes() {
  Lanes lower = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  for (std::uint32_t low = 0x0A31; low < 0x10000; low += 0x1353) lower.push_back(low);
  Lanes all;
  for (const std::uint32_t low : lower) {
    for (std::uint32_t i = 0; i < 0x10000; ++i) all.push_back((i * 0x9E37U % 0x10000U) << 16 | low);
  }
  return all;
}

/// Rounded floats that are written as they are, go on as floats, and both.
struct RoundingCase {
  const char* name;
  std::vector<int> results;  ///< 0: x, 1: x rounded, 2: that as a float, 3: the sum of x and that
  bool has_sum;              ///< The last result is added to what is there.
};
const std::array rounding_cases = {RoundingCase{"written", {1}, false}, RoundingCase{"goes on", {3, 2}, false},
                                   RoundingCase{"both", {2, 1, 3, 1}, false},
                                   RoundingCase{"written and added", {1, 2}, true}};

Loop loop_of_case(const RoundingCase& c) {
  const auto to = [](DType dtype, int of) {
    return backend::ElementLoop::Instruction{"convert", {{"dtype", dtype}}, dtype, {of}};
  };
  const auto steps = backend::jit::expand(
      *loop_of({{DType::float32, {0}}},
               {to(DType::bfloat16, 0), to(DType::float32, 1), {"add", {}, DType::float32, {0, 2}}}, c.results));
  REQUIRE(steps.has_value());
  Loop loop = *steps;
  if (c.has_sum) loop.results.back().written = Access::Written::added;
  return loop;
}

constexpr std::size_t guard = 64;
constexpr std::byte untouched{0x5A};

/// Memory of the results of one row, and what must stay untouched behind it.
std::vector<LoopBytes> run_code(const MachineCode& code, const Loop& loop, const Lanes& x) {
  std::vector<LoopBytes> results;
  std::vector<std::int64_t> numbers = {static_cast<std::int64_t>(x.size()), 1,
                                       reinterpret_cast<std::int64_t>(x.data())};
  for (const Access& access : loop.results) {
    const std::size_t bytes = x.size() * static_cast<std::size_t>(size_of(access.element));
    results.emplace_back(bytes + guard, untouched);
    if (access.written == Access::Written::added) std::fill_n(results.back().begin(), bytes, std::byte{});
    numbers.push_back(reinterpret_cast<std::int64_t>(results.back().data()));
  }
  numbers.resize(numbers.size() + 1 + results.size());
  code.run(numbers.data());
  return results;
}

/// Lanes of a result other than expected, and bytes behind it that were written.
std::size_t wrong_lanes(const Loop& loop, std::size_t result, const LoopBytes& given,
                        const std::vector<Lanes>& expected) {
  const Access& access = loop.results[result];
  const auto width = static_cast<std::size_t>(size_of(access.element));
  const Op op = loop.code[loop.values[result]].op;
  const bool is_exact = access.written == Access::Written::once && op != Op::add;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::uint32_t lane = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&lane) + 4 - width, given.data() + width * i, width);
    std::uint32_t wanted = expected[i][result];
    if (access.written == Access::Written::added) {
      wanted = std::bit_cast<std::uint32_t>(0.0F + std::bit_cast<float>(wanted));
    }
    wrong += (is_exact ? lane == wanted : same_float(lane, wanted)) ? 0 : 1;
  }
  const auto behind = given.end() - static_cast<std::ptrdiff_t>(guard);
  return wrong + guard - static_cast<std::size_t>(std::count(behind, given.end(), untouched));
}

void check_rounding(const Loop& loop, const Lanes& x) {
  std::vector<Lanes> expected;
  for (const std::uint32_t lane : x) expected.push_back(run_steps(loop, {&lane, 1}));
  for (const backend::Isa isa : usable_sets()) {
    CAPTURE(std::string(name(isa)));
    for (const bool in_integers : {false, true}) {
      CAPTURE(in_integers);
      const auto code = generate(in_integers ? round_in_integers(loop) : loop, isa);
      const std::vector<LoopBytes> results = run_code(*code, loop, x);
      for (std::size_t r = 0; r < results.size(); ++r) {
        CAPTURE(r);
        CHECK(wrong_lanes(loop, r, results[r], expected) == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("floats of all kinds are rounded to bfloat16 by its definition, denormals and NaN too") {
  const Lanes x = dense_lanes();
  for (const RoundingCase& c : rounding_cases) {
    CAPTURE(c.name);
    check_rounding(loop_of_case(c), x);
  }
}

TEST_CASE("what is left of a row is rounded, and nothing behind it written") {
  for (const RoundingCase& c : rounding_cases) {
    CAPTURE(c.name);
    const Loop loop = loop_of_case(c);
    for (std::uint32_t n = 1; n <= 33; ++n) {
      CAPTURE(n);
      Lanes normal, mixed;
      for (std::uint32_t i = 0; i < n; ++i) {
        normal.push_back(0x3F808000U + i * 0x00018000U);
        mixed.push_back(i % 3 == n % 3 ? 0x80018000U + i * 0x00038000U : normal.back());
      }
      check_rounding(loop, normal);
      check_rounding(loop, mixed);
    }
  }
}

}  // namespace lockstep::tests
