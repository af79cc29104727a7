#include "engine/ops/primitives.h"

namespace lockstep::ir {

const Primitive& pvary_primitive() { return ops::primitives::pvary(); }

}  // namespace lockstep::ir
