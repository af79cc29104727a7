#include "backends/jit/rounding.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::backend::jit {
namespace {

/// The rounded float, which is also what a result of bfloat16 is written from.
int rounded(Code& code, int x) {
  const int odd = code.step(Op::bit_and, code.step(Op::shift_right, x, code.constant(16)), code.constant(1));
  const int above = code.step(Op::int_add, code.step(Op::int_add, x, code.constant(0x7FFFU)), odd);
  const int quiet = code.step(Op::bit_or, x, code.constant(0x00400000U));
  const int wide = code.step(Op::select, code.step(Op::not_equal, x, x), quiet, above);
  return code.step(Op::bit_and, wide, code.constant(0xFFFF0000U));
}

}  // namespace

bool has_bfloat16_rounding() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

Loop round_in_integers(const Loop& loop) {
  Loop result{{}, loop.operands, loop.results, {}};
  std::vector<int> values;
  const auto moved = [&](int v) { return v < 0 ? v : values[static_cast<std::size_t>(v)]; };
  for (const Step& step : loop.code.steps()) {
    const int a = moved(step.a);
    if (step.op == Op::round_bfloat16) {
      values.push_back(rounded(result.code, a));
    } else if (step.op == Op::widen_bfloat16) {
      values.push_back(a);
    } else {
      values.push_back(result.code.step(step.op, a, moved(step.b), moved(step.c), step.bits));
    }
  }
  for (const int v : loop.values) result.values.push_back(moved(v));
  return result;
}

}  // namespace lockstep::backend::jit
