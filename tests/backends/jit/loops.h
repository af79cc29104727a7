#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/element_loop.h>
#include <lockstep/isa.h>

#include "backends/bfloat16.h"
#include "backends/jit/backend.h"
#include "backends/jit/code.h"

// Loops of machine code, run on plain memory, and the same steps taken one element after the other.
namespace lockstep::tests {

/// The instruction sets that this processor has and LOCKSTEP_MAX_ISA allows.
inline std::vector<Isa> usable_sets() {
  std::vector<Isa> sets;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa <= usable_isa()) sets.push_back(isa);
  }
  return sets;
}

inline std::shared_ptr<const ElementLoop> loop_of(std::vector<ElementLoop::Operand> operands,
                                                  std::vector<ElementLoop::Instruction> instructions,
                                                  const std::vector<int>& results) {
  std::vector<ElementLoop::Result> as_they_are;
  for (const int value : results) as_they_are.push_back({value, {}});
  return std::make_shared<const ElementLoop>(std::move(operands), std::move(instructions), std::move(as_they_are));
}

/// A kernel of `fused` for a loop over `shape`.
struct BoundLoop {
  Attrs attrs;
  std::vector<ArrayType> inputs;
  std::vector<ArrayType> outputs;
  std::unique_ptr<Kernel> kernel;

  BoundLoop(const Backend& backend, const std::shared_ptr<const ElementLoop>& loop, std::vector<ArrayType> operands,
            const Shape& shape)
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

/// The steps of a loop on one element: operands and results as lanes.
inline std::vector<std::uint32_t> run_steps(const backends::jit::Loop& loop, std::span<const std::uint32_t> operands) {
  using backends::jit::Op;
  const auto real = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const auto lane = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  const auto mask = [](bool truth) { return truth ? 0xFFFFFFFFU : 0U; };
  const auto shifted = [](std::uint32_t n) { return n < 32; };
  std::vector<std::uint32_t> values;
  for (const backends::jit::Step& step : loop.code.steps()) {
    const auto at = [&](int v) { return v < 0 ? 0U : values[static_cast<std::size_t>(v)]; };
    const std::uint32_t a = at(step.a), b = at(step.b), c = at(step.c);
    const float x = real(a), y = real(b), z = real(c);
    const auto ia = static_cast<std::int32_t>(a), ib = static_cast<std::int32_t>(b);
    std::uint32_t r = 0;
    switch (step.op) {
      case Op::load:
        r = operands[step.bits];
        break;
      case Op::constant:
        r = step.bits;
        break;
      case Op::add:
        r = lane(x + y);
        break;
      case Op::sub:
        r = lane(x - y);
        break;
      case Op::mul:
        r = lane(x * y);
        break;
      case Op::div:
        r = lane(x / y);
        break;
      case Op::sqrt:
        r = lane(std::sqrt(x));
        break;
      case Op::fma:
        r = lane(std::fma(x, y, z));
        break;
      case Op::min:
        r = x < y ? a : b;
        break;
      case Op::max:
        r = x > y ? a : b;
        break;
      case Op::floor:
        r = lane(std::floor(x));
        break;
      case Op::ceil:
        r = lane(std::ceil(x));
        break;
      case Op::round:
        r = lane(std::nearbyint(x));
        break;
      case Op::int_add:
        r = a + b;
        break;
      case Op::int_sub:
        r = a - b;
        break;
      case Op::int_mul:
        r = a * b;
        break;
      case Op::bit_and:
        r = a & b;
        break;
      case Op::bit_or:
        r = a | b;
        break;
      case Op::bit_xor:
        r = a ^ b;
        break;
      case Op::shift_left:
        r = shifted(b) ? a << b : 0;
        break;
      case Op::shift_right:
        r = shifted(b) ? a >> b : 0;
        break;
      case Op::shift_sign:
        r = static_cast<std::uint32_t>(ia >> (shifted(b) ? b : 31));
        break;
      case Op::equal:
        r = mask(x == y);
        break;
      case Op::not_equal:
        r = mask(x != y);
        break;
      case Op::less:
        r = mask(x < y);
        break;
      case Op::less_equal:
        r = mask(x <= y);
        break;
      case Op::int_equal:
        r = mask(a == b);
        break;
      case Op::int_greater:
        r = mask(ia > ib);
        break;
      case Op::select:
        r = a != 0 ? b : c;
        break;
      case Op::to_int:
        r = x >= -2147483648.0F && x < 2147483648.0F ? static_cast<std::uint32_t>(static_cast<std::int32_t>(x))
                                                     : 0x80000000U;
        break;
      case Op::to_float:
        r = lane(static_cast<float>(ia));
        break;
      case Op::round_bfloat16:
        r = std::uint32_t{backends::rounded_to_bfloat16(a)} << 16;
        break;
      case Op::widen_bfloat16:
        r = a;
        break;
    }
    values.push_back(r);
  }
  std::vector<std::uint32_t> results;
  for (const int v : loop.values) results.push_back(values[static_cast<std::size_t>(v)]);
  return results;
}

inline bool is_nan_lane(std::uint32_t bits) { return (bits & 0x7FFFFFFFU) > 0x7F800000U; }
/// Equal bits; a NaN equals every NaN.
inline bool same_float(std::uint32_t a, std::uint32_t b) { return a == b || (is_nan_lane(a) && is_nan_lane(b)); }

}  // namespace lockstep::tests
