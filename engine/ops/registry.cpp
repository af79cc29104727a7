#include <array>
#include <map>

#include "engine/ops/call/implicit.h"
#include "engine/ops/primitives.h"

namespace lockstep::ops {

std::span<const PrimitiveGetter> all_primitives() {
  static constexpr std::array getters = {
#define LOCKSTEP_OP(name, form) PrimitiveGetter{&primitives::name},
#include <lockstep/ops.def>
#undef LOCKSTEP_OP
  };
  return getters;
}

const ir::Primitive* find_primitive(std::string_view name) {
  static const std::map<std::string_view, PrimitiveGetter> getters = {
#define LOCKSTEP_OP(name, form) {#name, &primitives::name},
#include <lockstep/ops.def>
#undef LOCKSTEP_OP
  };
  const auto found = getters.find(name);
  return found == getters.end() ? nullptr : &found->second();
}

const ir::Primitive* find_in_text(std::string_view name) {
  for (const ir::Primitive* defined : {&linear_solve(), &root()}) {
    if (defined->name == name) return defined;
  }
  return find_primitive(name);
}

}  // namespace lockstep::ops
