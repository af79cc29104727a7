#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/ir/function.h"
#include "engine/ir/primitive.h"

// Every transform is Function -> Function. `active` says, per input, which ones are differentiated; they must be of float
// or complex type.
namespace lockstep::transform {

using ir::FunctionPtr;

/// (x..., tangent of each active x...) -> (y..., tangent of each float y...). Tangents have their primal's type.
FunctionPtr jvp(const FunctionPtr& f, const std::vector<bool>& active);

/// As `jvp`, with tangents only where an active input reaches an output or `forced` asks for one (zeros then).
ir::Differentiated jvp(const FunctionPtr& f, const std::vector<bool>& active, const std::vector<bool>& forced);

/// Cuts a function into what depends on the inputs marked `unknown` and what does not. Outputs marked in `forced` count as
/// unknown in any case. Equations with sub-functions are cut by their own rule; constants go to both sides.
ir::Partitioned partition(const FunctionPtr& f, const std::vector<bool>& unknown, const std::vector<bool>& forced);

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

/// What an input is called in errors; without one, by its number.
using InputName = std::function<std::string(std::size_t)>;

/// (x...) -> (y..., gradient of y[0] with respect to each active x...). y[0] must be a float scalar, a complex one where f
/// is `holomorphic`; where it varies along a mesh axis, every active input must vary along it too (else MeshError: psum it
/// or return Weighted).
FunctionPtr value_and_grad(const FunctionPtr& f, const std::vector<bool>& active, bool holomorphic = false,
                           const InputName& name = {});

/// Batched inputs carry a new dimension 0 of extent `size`; every output does.
FunctionPtr vmap(const FunctionPtr& f, const std::vector<bool>& batched, std::int64_t size);
/// As `vmap`, with the batch only on outputs that have it or for which `forced` asks. Where `axis` is not empty it is one of
/// f's mesh axes and becomes the batch: values that vary along it are batched, collectives over it reduce over the batch.
ir::Batched vmap(const FunctionPtr& f, const std::vector<bool>& batched, const std::vector<bool>& forced,
                 std::int64_t size, const std::string& axis);

/// The transforms as the rules of ops with sub-functions get them.
const ir::Transforms& transforms();

}  // namespace lockstep::transform
