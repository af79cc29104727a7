#include "engine/api/numpy/weak_types.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/weak_types.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace api {

namespace {

Array with_type(const Array& x, WeakType type, std::shared_ptr<const ArrayState> wide = nullptr) {
  ArrayState state = *x.state();
  state.weak = type;
  state.wide = std::move(wide);
  return Array(std::make_shared<const ArrayState>(std::move(state)));
}

bool has_functions(const Attrs& attrs) {
  return std::ranges::any_of(attrs.entries(), [](const Attrs::Entry& entry) {
    return std::holds_alternative<std::shared_ptr<const AttrObject>>(entry.value);
  });
}

}  // namespace

WeakType weak_type(const Array& x) { return x.has_value() ? x.state()->weak : WeakType::strong; }

ScalarKind kind_of(DType dtype) {
  if (dtype == DType::bool_) return ScalarKind::boolean;
  return is_integer(dtype) ? ScalarKind::integer : ScalarKind::real;
}

DType default_dtype(ScalarKind kind, bool wide) {
  switch (kind) {
    case ScalarKind::boolean:
      return DType::bool_;
    case ScalarKind::integer:
      return wide ? DType::int64 : DType::int32;
    case ScalarKind::real:
      break;
  }
  return DType::float32;
}

Array strong(const Array& x) { return is_weak(x) ? with_type(x, WeakType::strong) : x; }

Array weakened(const Array& x) {
  if (is_weak(x) || is_complex(x.dtype()) || x.dtype() == DType::key) return x;
  return with_type(x, WeakType::weak);
}

Array exact(const Array& x) { return x.has_value() && x.state()->wide != nullptr ? Array(x.state()->wide) : x; }

Array visible(const Array& x, WeakType type) {
  switch (type) {
    case WeakType::strong:
      return x;
    case WeakType::weak:
      return weakened(x);
    case WeakType::number:
      break;
  }
  const Array plain = strong(x);
  const Array narrow = bind_one(ops::primitives::convert(), {plain}, {{"dtype", DType::float32}});
  return with_type(narrow, WeakType::weak, with_type(plain, WeakType::number).state());
}

std::vector<Tree> visible(std::vector<Tree> arguments) {
  const auto seen = [](const Array& leaf) {
    return weak_type(leaf) == WeakType::number ? visible(leaf, WeakType::number) : leaf;
  };
  for (Tree& tree : arguments) tree = map(seen, tree);
  return arguments;
}

Tree strong(const Tree& tree) {
  return map([](const Array& leaf) { return strong(leaf); }, tree);
}

std::vector<Array> passed(const std::vector<Array>& leaves, std::vector<WeakType>& types) {
  std::vector<Array> all;
  types.clear();
  for (const Array& leaf : leaves) {
    all.push_back(exact(leaf));
    types.push_back(weak_type(all.back()));
  }
  return all;
}

Tree unflattened(const Tree& structure, std::span<const Array> leaves, std::span<const WeakType> types) {
  std::vector<Array> seen(leaves.begin(), leaves.end());
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = visible(seen[i], types[i]);
  return structure.unflatten(std::move(seen));
}

void check_integer(std::string_view op, const Array& x, DType dtype) {
  if (!is_weak(x) || !is_integer(x.dtype()) || !is_integer(dtype)) return;
  if (!x.is_traced() && x.size() == 1) check_fits(op, x.item<std::int64_t>(), dtype);
  if (x.state()->uses == nullptr) return;
  std::vector<IntegerUses::Use>& all = x.state()->uses->all;
  if (std::ranges::find(all, dtype, &IntegerUses::Use::dtype) == all.end()) all.push_back({std::string(op), dtype});
}

void check_integer(const IntegerUses& uses, const Array& value) {
  for (const IntegerUses::Use& use : uses.all) check_fits(use.op, value.item<std::int64_t>(), use.dtype);
}

Array noted(const Array& x, std::shared_ptr<IntegerUses> uses) {
  if (uses == nullptr || !is_weak(x)) return x;
  ArrayState state = *x.state();
  state.uses = std::move(uses);
  return Array(std::make_shared<const ArrayState>(std::move(state)));
}

bool are_numbers(std::initializer_list<const Operand*> operands) {
  bool unknown = false, real = false;
  for (const Operand* operand : operands) {
    real = real || (operand->is_scalar() ? operand->kind() : kind_of(operand->array().dtype())) == ScalarKind::real;
    if (operand->is_scalar()) continue;
    const Array& x = operand->array();
    if (!is_weak(x) || (kind_of(x.dtype()) == ScalarKind::real && x.state()->wide == nullptr)) return false;
    unknown = true;
  }
  return unknown && real;
}

std::vector<Array> as_weak_as(std::span<const Array> operands, const ir::Primitive& primitive, const Attrs& attrs,
                              std::vector<Array> results) {
  if (operands.empty() || !std::ranges::all_of(operands, [](const Array& x) { return is_weak(x); })) return results;
  if (&primitive == &ops::primitives::convert() || &primitive == &ops::primitives::bitcast_convert()) return results;
  if (has_functions(attrs)) return results;
  ScalarKind kind = ScalarKind::boolean;
  for (const Array& operand : operands) kind = std::max(kind, kind_of(operand.dtype()));
  for (Array& result : results) {
    if (result.dtype() == DType::bool_ || kind_of(result.dtype()) == kind) result = weakened(result);
  }
  return results;
}

Array fitted(const Array& x, DType dtype, WeakType expected) {
  if (!x.has_value() || x.dtype() == dtype) return x;
  if (expected == WeakType::number && is_float(x.dtype())) return convert(x, dtype);
  return is_weak(x) && promote(dtype, kind_of(x.dtype())) == dtype ? convert(x, dtype) : x;
}

}  // namespace api

namespace detail {

Array number(double value) { return api::with_type(array(value), WeakType::number); }

Array number(std::int64_t value) {
  using Narrow = std::numeric_limits<std::int32_t>;
  const bool fits = value >= Narrow::min() && value <= Narrow::max();
  return api::weakened(fits ? array(static_cast<std::int32_t>(value)) : array(value));
}

Array number(std::uint64_t value) {
  api::check_fits("weak_scalar", Operand(value), DType::int64);  // as it is, not converted to int64
  return number(static_cast<std::int64_t>(value));
}

Array number(bool value) { return api::weakened(array(value)); }

}  // namespace detail

Array weak_scalar(const Operand& value) {
  if (!value.is_scalar()) return api::weakened(value.array());
  switch (value.kind()) {
    case ScalarKind::boolean:
      return detail::number(value.integer() != 0);
    case ScalarKind::integer:
      return value.is_above_int64() ? detail::number(static_cast<std::uint64_t>(value.integer()))
                                    : detail::number(value.integer());
    case ScalarKind::real:
      break;
  }
  return api::visible(detail::number(value.real()), WeakType::number);
}

bool is_weak_type(const Array& x) { return api::is_weak(x); }

}  // namespace lockstep
