#include "engine/ir/function.h"

#include <lockstep/error.h>

#include "engine/core/quoting.h"

namespace lockstep::ir {

namespace {

std::string list_axes(const AxisSizes& axes) {
  if (axes.empty()) return "no axis is bound here";
  std::string text = "bound here are";
  for (const AxisSizes::Axis& axis : axes.axes()) {
    text += " " + quoted_unless_bare(axis.name) + "=" + std::to_string(axis.size);
  }
  return text;
}

}  // namespace

bool AxisSizes::has(std::string_view name) const {
  for (const Axis& axis : axes_) {
    if (axis.name == name) return true;
  }
  return false;
}

std::int64_t AxisSizes::size(std::string_view name, std::string_view op) const {
  for (const Axis& axis : axes_) {
    if (axis.name == name) return axis.size;
  }
  throw MeshError(std::string(op) + ": unbound axis " + quoted(name) + "; " + list_axes(*this) +
                  "; call it inside pmap over a mesh with this axis, or inside vmap with this axis_name");
}

std::int64_t AxisSizes::size(const AxisSet& names, std::string_view op) const {
  std::int64_t product = 1;
  for (const std::string& name : names) product *= size(name, op);
  return product;
}

AxisSizes AxisSizes::without(std::string_view name) const {
  std::vector<Axis> rest = axes_;
  std::erase_if(rest, [&](const Axis& axis) { return axis.name == name; });
  return AxisSizes(std::move(rest));
}

std::int64_t AxisSizes::total() const {
  std::int64_t product = 1;
  for (const Axis& axis : axes_) product *= axis.size;
  return product;
}

std::vector<ArrayType> Function::input_types() const {
  std::vector<ArrayType> result;
  for (const Var v : inputs_) result.push_back(type(v));
  return result;
}

std::vector<ArrayType> Function::output_types() const {
  std::vector<ArrayType> result;
  for (const Var v : outputs_) result.push_back(type(v));
  return result;
}

}  // namespace lockstep::ir
