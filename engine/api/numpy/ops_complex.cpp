#include <lockstep/elementwise.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

Array complex(const Operand& re, const Operand& im) {
  const DType dtype = promote(api::inexact(api::common_dtype({&re, &im})), DType::float32);
  return std::move(api::bind(ops::primitives::complex(), api::aligned(__func__, {&re, &im}, dtype)).front());
}

Array real(const ArrayOperand& x) {
  return is_complex(x.dtype()) ? api::bind_one(ops::primitives::real(), {x}) : Array(x);
}

Array imag(const ArrayOperand& x) {
  return is_complex(x.dtype()) ? api::bind_one(ops::primitives::imag(), {x}) : zeros_like(x);
}

Array conj(const ArrayOperand& x) {
  return is_complex(x.dtype()) ? api::bind_one(ops::primitives::conj(), {x}) : Array(x);
}

Array angle(const ArrayOperand& x) {
  const Array value = convert(x, api::inexact(x.dtype()));
  return atan2(imag(value), real(value));
}

}  // namespace lockstep
