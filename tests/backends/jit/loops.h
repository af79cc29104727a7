#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/element_loop.h>
#include <lockstep/backend/isa.h>

#include "backends/cpu/bfloat16.h"
#include "backends/jit/backend.h"
#include "backends/jit/code.h"
#include "tests/support/skip.h"

// Loops of machine code, run on plain memory, and the same steps taken one element after the other.
namespace lockstep::tests {

inline constexpr const char* no_machine_code = "no machine code is made without vector instructions";

/// The instruction sets that this processor has and LOCKSTEP_MAX_ISA allows. A test case that finds none is skipped.
inline std::vector<backend::Isa> usable_sets() {
  std::vector<backend::Isa> sets;
  for (const backend::Isa isa : {backend::Isa::avx2, backend::Isa::avx512}) {
    if (isa <= backend::usable_isa()) sets.push_back(isa);
  }
  if (sets.empty()) skip(no_machine_code);
  return sets;
}

inline std::shared_ptr<const backend::ElementLoop> loop_of(std::vector<backend::ElementLoop::Operand> operands,
                                                           std::vector<backend::ElementLoop::Instruction> instructions,
                                                           const std::vector<int>& results) {
  std::vector<backend::ElementLoop::Result> as_they_are;
  for (const int value : results) as_they_are.push_back({value, {}});
  return std::make_shared<const backend::ElementLoop>(std::move(operands), std::move(instructions),
                                                      std::move(as_they_are));
}

/// A kernel of `fused` for a loop over `shape`.
struct BoundLoop {
  Attrs attrs;
  std::vector<ArrayType> inputs;
  std::vector<ArrayType> outputs;
  std::unique_ptr<backend::Kernel> kernel;

  BoundLoop(const backend::Backend& backend, const std::shared_ptr<const backend::ElementLoop>& loop,
            std::vector<ArrayType> operands, const Shape& shape)
      : attrs({{"loop", std::shared_ptr<const AttrObject>(loop)}}), inputs(std::move(operands)) {
    for (const auto& [value, sum_over] : loop->results()) {
      Shape left;
      for (int d = 0; d < shape.rank(); ++d) {
        if (std::ranges::count(sum_over, d) == 0) left.append(shape[d]);
      }
      outputs.push_back({loop->dtype(value), left, {}});
    }
    kernel = backend.make_kernel({"fused", attrs, inputs, outputs, {}});
  }

  using Bytes = std::vector<std::byte>;
  std::vector<Bytes> run(std::span<const Bytes> operands) const {
    std::vector<ArrayView> views;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      views.push_back(contiguous_view(const_cast<std::byte*>(operands[k].data()), inputs[k].dtype, inputs[k].shape));
    }
    return run_views(views);
  }
  std::vector<Bytes> run_views(std::span<const ArrayView> views) const {
    std::vector<Bytes> results;
    std::vector<ArrayView> out;
    for (const ArrayType& type : outputs) {
      results.emplace_back(static_cast<std::size_t>(type.nbytes()), std::byte{0x5A});
      out.push_back(contiguous_view(results.back().data(), type.dtype, type.shape));
    }
    std::vector<std::byte> scratch(kernel->scratch_bytes(), std::byte{0x5A});
    kernel->run({views, out, scratch.data()});
    return results;
  }
};

/// What a step gives for one element, of lanes.
inline std::uint32_t run_step(const backend::jit::Step& step, std::span<const std::uint32_t> operands, std::uint32_t a,
                              std::uint32_t b, std::uint32_t c) {
  using backend::jit::Op;
  const auto real = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const auto lane = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  const auto mask = [](bool truth) { return truth ? 0xFFFFFFFFU : 0U; };
  const auto shifted = [](std::uint32_t n) { return n < 32; };
  const float x = real(a), y = real(b), z = real(c);
  const auto ia = static_cast<std::int32_t>(a), ib = static_cast<std::int32_t>(b);
  switch (step.op) {
    case Op::load:
      return operands[step.bits];
    case Op::constant:
      return step.bits;
    case Op::add:
      return lane(x + y);
    case Op::sub:
      return lane(x - y);
    case Op::mul:
      return lane(x * y);
    case Op::div:
      return lane(x / y);
    case Op::sqrt:
      return lane(std::sqrt(x));
    case Op::fma:
      return lane(std::fma(x, y, z));
    case Op::min:
      return x < y ? a : b;
    case Op::max:
      return x > y ? a : b;
    case Op::floor:
      return lane(std::floor(x));
    case Op::ceil:
      return lane(std::ceil(x));
    case Op::round:
      return lane(std::nearbyint(x));
    case Op::int_add:
      return a + b;
    case Op::int_sub:
      return a - b;
    case Op::int_mul:
      return a * b;
    case Op::bit_and:
      return a & b;
    case Op::bit_or:
      return a | b;
    case Op::bit_xor:
      return a ^ b;
    case Op::shift_left:
      return shifted(b) ? a << b : 0;
    case Op::shift_right:
      return shifted(b) ? a >> b : 0;
    case Op::shift_sign:
      return static_cast<std::uint32_t>(ia >> (shifted(b) ? b : 31));
    case Op::equal:
      return mask(x == y);
    case Op::not_equal:
      return mask(x != y);
    case Op::less:
      return mask(x < y);
    case Op::less_equal:
      return mask(x <= y);
    case Op::int_equal:
      return mask(a == b);
    case Op::int_greater:
      return mask(ia > ib);
    case Op::select:
      return a != 0 ? b : c;
    case Op::to_int:
      return x >= -2147483648.0F && x < 2147483648.0F ? static_cast<std::uint32_t>(static_cast<std::int32_t>(x))
                                                      : 0x80000000U;
    case Op::to_float:
      return lane(static_cast<float>(ia));
    case Op::round_bfloat16:
      return std::uint32_t{backend::cpu::rounded_to_bfloat16(a)} << 16;
    case Op::widen_bfloat16:
      return a;
  }
  return 0;
}

/// The steps of a loop on one element: operands and results as lanes.
inline std::vector<std::uint32_t> run_steps(const backend::jit::Loop& loop, std::span<const std::uint32_t> operands) {
  std::vector<std::uint32_t> values;
  for (const backend::jit::Step& step : loop.code.steps()) {
    const auto at = [&](int v) { return v < 0 ? 0U : values[static_cast<std::size_t>(v)]; };
    values.push_back(run_step(step, operands, at(step.a), at(step.b), at(step.c)));
  }
  std::vector<std::uint32_t> results;
  for (const int v : loop.values) results.push_back(values[static_cast<std::size_t>(v)]);
  return results;
}

inline bool is_nan_lane(std::uint32_t bits) { return (bits & 0x7FFFFFFFU) > 0x7F800000U; }
/// Equal bits; a NaN equals every NaN.
inline bool same_float(std::uint32_t a, std::uint32_t b) { return a == b || (is_nan_lane(a) && is_nan_lane(b)); }

}  // namespace lockstep::tests
