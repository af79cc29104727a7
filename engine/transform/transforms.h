#pragma once

#include <vector>

#include "engine/ir/function.h"

// Every transform is Function -> Function. `active` says, per input, which ones are differentiated; they must be of float
// or complex type.
namespace lockstep::transform {

using ir::FunctionPtr;

/// (x..., tangent of each active x...) -> (y..., tangent of each float y...). Tangents have their primal's type.
FunctionPtr jvp(const FunctionPtr& f, const std::vector<bool>& active);

/// forward: (x...) -> (y..., residual...). linear: (residual..., tangent of each active x...) -> (tangent of each float y...);
/// every equation of `linear` is linear in the tangents.
struct Linearized {
  FunctionPtr forward;
  FunctionPtr linear;
  int residuals = 0;
};
Linearized linearize(const FunctionPtr& f, const std::vector<bool>& active);

/// `linear`: (residual..., t...) -> (u...), linear in the inputs from `residuals` on. The result: (residual..., cotangent of
/// each u...) -> (cotangent of each t...). Throws TraceError naming an equation that is not linear or has no transpose.
FunctionPtr transpose(const FunctionPtr& linear, int residuals);

/// (x..., cotangent of each float y...) -> (y..., cotangent of each active x...), in one function.
FunctionPtr vjp(const FunctionPtr& f, const std::vector<bool>& active);

/// (x...) -> (y..., gradient of y[0] with respect to each active x...). y[0] must be a float scalar; where it varies
/// along a mesh axis, every active input must vary along it too (else MeshError: psum it or return Weighted).
FunctionPtr value_and_grad(const FunctionPtr& f, const std::vector<bool>& active);

/// Batched inputs carry a new dimension 0 of extent `size`; every output does.
FunctionPtr vmap(const FunctionPtr& f, const std::vector<bool>& batched, std::int64_t size);

}  // namespace lockstep::transform
