#include "engine/ops/rules/algebra.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "engine/core/lists.h"

namespace lockstep::ops::algebra {

using ir::AlgebraContext;
using ir::Var;
using Equal = std::optional<Var>;

namespace {

bool is_number(const AttrValue* value, std::int64_t number) {
  if (value == nullptr) return false;
  if (const auto* real = std::get_if<double>(value)) return *real == static_cast<double>(number);
  const auto* integer = std::get_if<std::int64_t>(value);
  return integer != nullptr && *integer == number;
}

}  // namespace

ir::EqualTo operand() {
  return [](const AlgebraContext& context) -> Equal { return context.inputs[0]; };
}

ir::EqualTo operand_where(bool (*holds)(const Attrs&)) {
  return [holds](const AlgebraContext& context) -> Equal {
    if (!holds(context.attrs)) return std::nullopt;
    return context.inputs[0];
  };
}

ir::EqualTo neutral(std::int64_t number, std::vector<std::size_t> sides) {
  return [number, sides = std::move(sides)](const AlgebraContext& context) -> Equal {
    for (const std::size_t side : sides) {
      if (is_number(context.constant(context.inputs[side]), number)) return context.inputs[1 - side];
    }
    return std::nullopt;
  };
}

ir::EqualTo involution(PrimitiveGetter self) {
  return [self](const AlgebraContext& context) -> Equal {
    const ir::Equation* inner = context.definition(context.inputs[0]);
    if (inner == nullptr || inner->primitive != &self()) return std::nullopt;
    return inner->inputs[0];
  };
}

bool all_equal(const std::vector<std::int64_t>& numbers, std::int64_t number) {
  return std::ranges::all_of(numbers, [number](std::int64_t n) { return n == number; });
}

std::vector<std::int64_t> composed(const std::vector<std::int64_t>& outer, const std::vector<std::int64_t>& inner) {
  std::vector<std::int64_t> result;
  for (const std::int64_t i : inner) result.push_back(nth(outer, i));
  return result;
}

}  // namespace lockstep::ops::algebra
