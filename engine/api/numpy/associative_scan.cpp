#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep::detail {

namespace {

/// Every second element from `start` on, of `count` of them.
Array every_second(const Array& x, std::int64_t start, std::int64_t count, std::int64_t axis) {
  const auto rank = static_cast<std::size_t>(x.ndim());
  Axes first(rank, 0), limit = x.shape().to_vector(), strides(rank, 1);
  const auto at = static_cast<std::size_t>(axis);
  first[at] = start;
  limit[at] = count == 0 ? start : start + 2 * count - 1;
  strides[at] = 2;
  return slice(x, first, limit, strides);
}

/// even[0], odd[0], even[1], ...; as many of both, or one more of the even ones.
Array interleaved(const Array& even, const Array& odd, std::int64_t axis) {
  const std::int64_t pairs = odd.dim(static_cast<int>(axis));
  const Array both = stack(std::vector<Array>{slice_in_dim(even, 0, pairs, axis), odd}, axis + 1);
  Shape shape = odd.shape();
  shape = shape.with(static_cast<int>(axis), 2 * pairs);
  const Array joined = reshape(both, shape.to_vector());
  const std::int64_t evens = even.dim(static_cast<int>(axis));
  return evens == pairs ? joined : concatenate({joined, slice_in_dim(even, pairs, evens, axis)}, axis);
}

class AssociativeScan {
 public:
  AssociativeScan(const TreeFunction& combine, std::int64_t axis) : combine_(combine), axis_(axis) {}

  /// Pairs are combined, their prefixes found, and those between filled in.
  Tree run(const Tree& elems, std::int64_t count) const {
    if (count < 2) return elems;
    const std::int64_t pairs = count / 2, evens = count - pairs;
    const Tree odd = run(combined(second(elems, 0, pairs), second(elems, 1, pairs)), pairs);
    const Tree before = map([&](const Array& x) { return slice_in_dim(x, 0, evens - 1, axis_); }, odd);
    const Tree inner = combined(before, second(elems, 2, evens - 1));
    const Tree even = map(
        [&](const Array& x, const Array& rest) {
          return concatenate({slice_in_dim(x, 0, 1, axis_), rest}, axis_);
        },
        elems, inner);
    return map([&](const Array& e, const Array& o) { return interleaved(e, o, axis_); }, even, odd);
  }

 private:
  Tree second(const Tree& elems, std::int64_t start, std::int64_t count) const {
    return map([&](const Array& x) { return every_second(x, start, count, axis_); }, elems);
  }

  Tree combined(const Tree& a, const Tree& b) const {
    Tree result = combine_({a, b});
    check_same_types(a, result, "associative_scan: the function's result");
    return result;
  }

  const TreeFunction& combine_;
  std::int64_t axis_;
};

}  // namespace

Tree associative_scan(const TreeFunction& combine, const Tree& elems, bool reverse, std::int64_t axis) {
  const std::vector<Array> leaves = elems.leaves();
  if (leaves.empty()) throw ValueError("associative_scan: there are no elements; give at least one array");
  const std::int64_t along = normalize_axis(axis, leaves[0].ndim(), "associative_scan");
  const std::vector<std::string> paths = elems.paths();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].ndim() > along && leaves[i].dim(static_cast<int>(along)) == leaves[0].dim(static_cast<int>(along))) {
      continue;
    }
    throw ShapeError(fmt::format("associative_scan: \"{}\" is {}, \"{}\" is {}; expected one extent along axis {}",
                                 paths[0], to_string(leaves[0].type()), paths[i], to_string(leaves[i].type()), along));
  }
  const auto turned = [&](const Tree& tree) {
    return reverse ? map([&](const Array& x) { return lockstep::reverse(x, {along}); }, tree) : tree;
  };
  const AssociativeScan scan(combine, along);
  return turned(scan.run(turned(elems), leaves[0].dim(static_cast<int>(along))));
}

}  // namespace lockstep::detail
