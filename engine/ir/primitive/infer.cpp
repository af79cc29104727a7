#include <algorithm>
#include <string>

#include <lockstep/error.h>

#include "engine/core/checked_sizes.h"
#include "engine/ir/primitive.h"

namespace lockstep::ir {

namespace {

using Ints = std::vector<std::int64_t>;

/// Extents, paddings, strides and limits that rules may add up without a look at 64 bits.
void check_numbers(std::string_view op, const Attrs& attrs) {
  const auto check = [&](const Attrs::Entry& entry, const Ints& list) {
    const auto is_too_large = [](std::int64_t n) { return n > most_bytes || n < -most_bytes; };
    const auto place = std::ranges::find_if(list, is_too_large);
    if (place == list.end()) return;
    throw ShapeError(std::string(op) + ": " + entry.name + " holds " + std::to_string(*place) +
                     "; expected numbers from -2^56 to 2^56; give what an array that memory holds can have");
  };
  for (const Attrs::Entry& entry : attrs.entries()) {
    if (const auto* list = std::get_if<Ints>(&entry.value)) check(entry, *list);
    if (const auto* lists = std::get_if<std::vector<Ints>>(&entry.value)) {
      for (const Ints& list : *lists) check(entry, list);
    }
  }
}

}  // namespace

std::vector<ArrayType> infer_types(const Primitive& primitive, std::span<const ArrayType> inputs, const Attrs& attrs,
                                   const AxisSizes& axes) {
  check_numbers(primitive.name, attrs);
  std::vector<ArrayType> types = primitive.infer({primitive.name, inputs, attrs, axes});
  for (const ArrayType& type : types) check_size(primitive.name, type);
  if (primitive.traits.typed_axes) return types;
  AxisSet varying;
  for (const ArrayType& input : inputs) varying = varying.joined(input.varying);
  for (ArrayType& type : types) type.varying = varying;
  return types;
}

}  // namespace lockstep::ir
