#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/ir/builder.h"
#include "engine/transform/transforms.h"

// Reverse mode for callers that want some of the outputs only: what nobody wants is not emitted.
namespace lockstep::transform {

/// `linearize` that keeps, of the tangents of f's float outputs, those marked in `wanted` (one entry per float output).
Linearized linearize_wanted(const FunctionPtr& f, const std::vector<bool>& active, const std::vector<bool>& wanted);

/// `transpose` written into `builder`: the cotangents of the linear inputs. An absent cotangent means zero.
std::vector<ir::Var> emit_transpose(ir::Builder& builder, const ir::Function& linear,
                                    std::span<const ir::Var> residuals,
                                    std::span<const std::optional<ir::Var>> cotangents);

}  // namespace lockstep::transform
