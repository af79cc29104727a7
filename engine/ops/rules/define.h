#pragma once

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/derivative.h"
#include "engine/ops/rules/flops.h"
#include "engine/ops/rules/infer.h"
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

inline constexpr ir::Traits pointwise_traits{
    .pointwise = true, .collective = false, .typed_axes = false, .alias = false};

}  // namespace lockstep::ops
