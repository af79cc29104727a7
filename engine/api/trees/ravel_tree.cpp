#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/ravel_tree.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/numpy/weak_types.h"
#include "engine/api/trees/tree_trace.h"

namespace lockstep::detail {

std::pair<Array, std::function<Tree(const Array&)>> ravel_tree(const Tree& tree) {
  const Tree given = api::strong(tree);
  std::vector<Array> leaves = given.leaves();
  std::vector<ArrayType> types;
  for (const Array& leaf : leaves) types.push_back({leaf.dtype(), leaf.shape(), {}});
  const DType dtype = leaves.empty() ? float32 : api::common_dtype(std::span<const Array>(leaves));
  std::int64_t size = 0;
  for (Array& leaf : leaves) {
    size += leaf.size();
    leaf = convert(ravel(leaf), dtype);
  }
  const Array flat = leaves.empty() ? zeros({0}, dtype) : concatenate(leaves, 0);
  auto unravel = [types, dtype, size, structure = api::skeleton(given)](const Array& vector) {
    if (vector.shape() != Shape{size}) {
      throw ShapeError(fmt::format("unravel: {} given; expected a vector of {} elements, as the tree was raveled to",
                                   to_string(vector.shape()), size));
    }
    if (vector.dtype() != dtype) {
      throw DtypeError(fmt::format("unravel: {} given; expected {}, as the tree was raveled to; convert it",
                                   to_string(vector.type()), name(dtype)));
    }
    std::vector<Array> parts;
    std::int64_t first = 0;
    for (const ArrayType& type : types) {
      const std::int64_t last = first + type.size();
      parts.push_back(convert(reshape(slice_in_dim(vector, first, last, 0), type.shape.to_vector()), type.dtype));
      first = last;
    }
    return structure.unflatten(std::move(parts));
  };
  return {flat, std::move(unravel)};
}

}  // namespace lockstep::detail
