#pragma once

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/algebra.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/flops.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/loops.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"
#include "engine/ops/values.h"

// What a definition of an op includes and names.
namespace lockstep::ops {

using ir::JvpContext;
using ir::Primitive;
using ir::Tangent;
using ir::TransposeContext;
using reference::Complex;

inline constexpr ir::Traits pointwise_traits{.pointwise = true};
/// An instruction or two for an element.
inline constexpr ir::Traits quick_traits{.pointwise = true, .steps = 1};
/// Likewise, with the same bits in every kernel.
inline constexpr ir::Traits exact_traits{.pointwise = true, .exact = true, .steps = 1};

}  // namespace lockstep::ops
