#pragma once

#include <string_view>

#include <lockstep/layers_attention.h>
#include <lockstep/types.h>

namespace lockstep::nn {

/// Throws DtypeError for a mask that is not of bool and a bias that is of bool or complex, ShapeError for a mask or a
/// bias that does not broadcast to the logits. `name` stands in front: "[multi_head_attention 'l']".
void check_logit_operands(std::string_view name, const AttentionContext& context, const Shape& logits);

}  // namespace lockstep::nn
