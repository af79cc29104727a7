#pragma once

#include <vector>

#include "engine/ir/primitive.h"

// The rules of the ops with sub-functions, by which transforms pass through them.
namespace lockstep::ops::control_flow {

ir::Aligned align_scan(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);
ir::JointTangents scan_tangents(const ir::JvpContext& context);
ir::SplitResult split_scan(const ir::SplitContext& context);
std::vector<ir::Tangent> transpose_scan(const ir::TransposeContext& context);
std::vector<ir::Value> batch_scan(const ir::BatchContext& context);

ir::Aligned align_while_loop(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);
ir::JointTangents while_loop_tangents(const ir::JvpContext& context);
ir::SplitResult split_while_loop(const ir::SplitContext& context);
std::vector<ir::Tangent> transpose_while_loop(const ir::TransposeContext& context);
std::vector<ir::Value> batch_while_loop(const ir::BatchContext& context);

ir::Aligned align_cond(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);
ir::JointTangents cond_tangents(const ir::JvpContext& context);
ir::SplitResult split_cond(const ir::SplitContext& context);
std::vector<ir::Tangent> transpose_cond(const ir::TransposeContext& context);
std::vector<ir::Value> batch_cond(const ir::BatchContext& context);

}  // namespace lockstep::ops::control_flow
