#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/attrs.h>

#include "engine/ir/primitive.h"

namespace lockstep::api {

/// One op on arrays: staged in the open trace; without one compiled alone, with the kernels of compiled code, and run.
std::vector<Array> bind(const ir::Primitive& primitive, std::span<const Array> operands, Attrs attrs = {});
/// The first result.
Array bind_one(const ir::Primitive& primitive, std::initializer_list<Array> operands, Attrs attrs = {});

}  // namespace lockstep::api
