#include "engine/api/transforms/loop_checks.h"

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/api/trees/tree_paths.h"

namespace lockstep::api {

namespace {

/// `carry` at "" or `carry "state/w"`.
std::string component(std::string_view what, const std::string& path) {
  return path.empty() ? std::string(what) : fmt::format("{} \"{}\"", what, path);
}

}  // namespace

void check_carry(std::string_view op, const Tree& taken, std::span<const ArrayType> taken_types, const Tree& returned,
                 std::span<const ArrayType> returned_types) {
  if (const auto difference = first_difference(taken, returned)) {
    throw StateError(
        fmt::format("{}: the body must return a carry of the structure it takes; at \"{}\" it takes {} and returns {}",
                    op, difference->path, difference->a, difference->b));
  }
  const std::vector<std::string> paths = taken.paths();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const ArrayType& from = taken_types[i];
    const ArrayType& to = returned_types[i];
    if (from.dtype != to.dtype) {
      throw DtypeError(fmt::format(
          "{}: dtypes do not match: {} is {} where the loop starts, but the body returns {}; convert one of them, to "
          "start from {} write convert(init, {})",
          op, component("carry", paths[i]), to_string(from), to_string(to), name(to.dtype), name(to.dtype)));
    }
    if (!(from.shape == to.shape)) {
      throw ShapeError(fmt::format(
          "{}: shapes do not match: {} is {} where the loop starts, but the body returns {}; a carry keeps its shape, "
          "stack what grows as ys of a scan",
          op, component("carry", paths[i]), to_string(from), to_string(to)));
    }
  }
}

void check_branches(std::string_view op, const std::pair<std::string, std::string>& names, const Tree& first,
                    std::span<const ArrayType> first_types, const Tree& other, std::span<const ArrayType> other_types) {
  if (const auto difference = first_difference(first, other)) {
    throw StateError(
        fmt::format("{}: {} and {} must return the same structure; at \"{}\" the first returns {} and the second {}",
                    op, names.first, names.second, difference->path, difference->a, difference->b));
  }
  const std::vector<std::string> paths = first.paths();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const bool same_dtype = first_types[i].dtype == other_types[i].dtype;
    if (same_dtype && first_types[i].shape == other_types[i].shape) continue;
    const std::string text =
        fmt::format("{}: {} do not match: {} is {} from {} and {} from {}; {}", op, same_dtype ? "shapes" : "dtypes",
                    component("result", paths[i]), to_string(first_types[i]), names.first, to_string(other_types[i]),
                    names.second, same_dtype ? "reshape or broadcast one of them" : "convert one of them");
    if (same_dtype) throw ShapeError(text);
    throw DtypeError(text);
  }
}

std::int64_t loop_length(const Tree& xs, std::span<const ArrayType> types, const std::optional<std::int64_t>& length) {
  if (length && *length < 0) {
    throw ValueError(fmt::format("scan: length is {}; expected how many iterations, 0 or more", *length));
  }
  if (types.empty() && !length) {
    throw ValueError("scan: there are no xs to say how many iterations; set length");
  }
  std::optional<std::int64_t> common = length;
  const std::vector<std::string> paths = xs.paths();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string what = component("xs", paths[i]);
    if (types[i].shape.rank() == 0) {
      throw ShapeError(
          fmt::format("scan: {} is {}, which has no first dimension to go along; capture what every iteration sees",
                      what, to_string(types[i])));
    }
    const std::int64_t extent = types[i].shape[0];
    if (common && extent != *common) {
      throw ShapeError(fmt::format("scan: {} is {}, its first extent {} is not {}, {}", what, to_string(types[i]),
                                   extent, *common,
                                   length ? "the length given" : fmt::format("that of {}", component("xs", paths[0]))));
    }
    common = extent;
  }
  return *common;
}

}  // namespace lockstep::api
