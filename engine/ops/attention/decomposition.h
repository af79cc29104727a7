#pragma once

#include <vector>

#include "engine/ir/primitive.h"

// The derivatives of attention's derivatives: these ops written out in dot_general and element-wise ops, so that second
// and higher orders exist (with T x S matrices in memory).
namespace lockstep::ops {

std::vector<ir::Tangent> tangent_of_attention_tangent(const ir::JvpContext& context);
std::vector<ir::Tangent> tangent_of_attention_grad(const ir::JvpContext& context);

}  // namespace lockstep::ops
