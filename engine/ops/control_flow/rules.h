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
ir::Equation trim_scan(const ir::TrimContext& context);
std::vector<ir::PerShard> evaluate_scan(const ir::EvaluateContext& context);
std::vector<ir::KeyElements> follow_scan_keys(const ir::KeyContext& context);
ir::Equation capture_in_scan(const ir::Equation& equation, std::span<const ir::Var> operands, const ir::Extend& extend);

ir::Aligned align_while_loop(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);
ir::JointTangents while_loop_tangents(const ir::JvpContext& context);
ir::SplitResult split_while_loop(const ir::SplitContext& context);
std::vector<ir::Tangent> transpose_while_loop(const ir::TransposeContext& context);
std::vector<ir::Value> batch_while_loop(const ir::BatchContext& context);
ir::Equation trim_while_loop(const ir::TrimContext& context);
std::vector<ir::PerShard> evaluate_while_loop(const ir::EvaluateContext& context);
std::vector<ir::KeyElements> follow_while_loop_keys(const ir::KeyContext& context);
ir::Equation capture_in_while_loop(const ir::Equation& equation, std::span<const ir::Var> operands,
                                   const ir::Extend& extend);
AxisSet choice_of_while_loop(const ir::Function& function, const ir::Equation& equation);

ir::Aligned align_cond(ir::Builder& builder, std::span<const ir::Var> operands, const Attrs& attrs);
ir::JointTangents cond_tangents(const ir::JvpContext& context);
ir::SplitResult split_cond(const ir::SplitContext& context);
std::vector<ir::Tangent> transpose_cond(const ir::TransposeContext& context);
std::vector<ir::Value> batch_cond(const ir::BatchContext& context);
ir::Equation trim_cond(const ir::TrimContext& context);
std::vector<ir::PerShard> evaluate_cond(const ir::EvaluateContext& context);
std::vector<ir::KeyElements> follow_cond_keys(const ir::KeyContext& context);
AxisSet choice_of_cond(const ir::Function& function, const ir::Equation& equation);

/// Of an op whose sub-function `body` runs once, on its operands.
ir::Equation trim_body(const ir::TrimContext& context);

}  // namespace lockstep::ops::control_flow
