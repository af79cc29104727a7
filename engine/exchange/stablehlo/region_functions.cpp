#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "engine/exchange/stablehlo/importer.h"
#include "engine/exchange/stablehlo/windows.h"

// What a region combines two elements by, as a function of many elements at once. Elements keep their order, as the
// specification of `reduce` says: a region is associative and need not be commutative.
namespace lockstep::exchange {
namespace {

using Arrays = std::vector<Array>;

std::vector<Array> broadcast_all(const Arrays& scalars, const Shape& shape) {
  Arrays all;
  for (const Array& scalar : scalars) all.push_back(broadcast_to(scalar, shape));
  return all;
}

/// The region for each pair of elements of arrays of one shape.
Arrays combined(const OpCall& call, const mlir::Region& region, const Arrays& a, const Arrays& b) {
  Arrays arguments = a;
  arguments.insert(arguments.end(), b.begin(), b.end());
  Arrays results = for_each_element(call, region, arguments);
  if (results.size() != a.size()) {
    call.refuse(fmt::format("its region gives {} values; expected {}", results.size(), a.size()));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (results[i].dtype() == a[i].dtype() && results[i].shape() == a[i].shape()) continue;
    call.refuse(fmt::format("its region gives {} for {}; expected the same type", to_string(results[i].type()),
                            to_string(a[i].type())));
  }
  return results;
}

/// Operands, and after them as many values that the reduction begins with.
std::pair<Arrays, Arrays> operands_and_starts(const OpCall& call) {
  const std::size_t count = call.operands.size() / 2;
  if (count == 0 || call.operands.size() != 2 * count) call.refuse("it takes arrays and as many initial values");
  const auto middle = call.operands.begin() + static_cast<std::ptrdiff_t>(count);
  std::pair<Arrays, Arrays> both{{call.operands.begin(), middle}, {middle, call.operands.end()}};
  for (std::size_t i = 0; i < count; ++i) {
    const Array &x = both.first[i], &start = both.second[i];
    if (x.shape() != both.first[0].shape()) call.refuse("its arrays must have one shape");
    if (start.ndim() == 0 && start.dtype() == x.dtype()) continue;
    call.refuse(fmt::format("the initial value of \"{}\" is {}; expected a scalar of {}", i, to_string(start.type()),
                            name(x.dtype())));
  }
  return both;
}

/// Rows [n, rest...]: neighbours are combined, and neighbours of what they give.
template <class Combine>
Arrays combined_rows(const Combine& combine, Arrays rows, std::int64_t count) {
  const auto part = [&](std::int64_t first, std::int64_t limit, std::int64_t stride) {
    Arrays parts;
    for (const Array& x : rows) {
      Axes from(static_cast<std::size_t>(x.ndim()), 0), strides(from.size(), 1), to = x.shape().to_vector();
      from[0] = first;
      to[0] = limit;
      strides[0] = stride;
      parts.push_back(slice(x, from, to, strides));
    }
    return parts;
  };
  for (; count > 1; count = (count + 1) / 2) {
    const std::int64_t even = count / 2 * 2;
    Arrays next = combine(part(0, even, 2), part(1, even, 2));
    if (even < count) {
      const Arrays last = part(even, count, 1);
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = concatenate({next[i], last[i]}, 0);
    }
    rows = std::move(next);
  }
  for (Array& x : rows) x = squeeze(x, 0);
  return rows;
}

}  // namespace

Tree list_of(std::vector<Array> arrays) {
  std::vector<Tree> items(std::make_move_iterator(arrays.begin()), std::make_move_iterator(arrays.end()));
  return Tree::list(std::move(items));
}

std::vector<Array> for_each_element(const OpCall& call, const mlir::Region& region, const std::vector<Array>& arrays) {
  const Shape shape = arrays.empty() ? Shape{} : arrays[0].shape();
  const auto scalars = [&](const std::vector<Tree>& elements) {
    return list_of(call.importer.run(region, elements[0].leaves(), &call.values));
  };
  if (shape.rank() == 0) return scalars({list_of(arrays)}).leaves();
  Arrays flat;
  for (const Array& x : arrays) flat.push_back(reshape(x, {-1}));
  Arrays results = lockstep::detail::vmap(scalars, {list_of(flat)}, {0}, 0, {}).leaves();
  for (Array& x : results) x = reshape(x, shape.to_vector());
  return results;
}

std::vector<Array> reduced_by_region(const OpCall& call, const mlir::Region& region, const Axes& axes) {
  const auto [operands, starts] = operands_and_starts(call);
  const Shape& shape = operands[0].shape();
  Axes order = axes;
  std::ranges::sort(order);
  Shape rest;
  std::int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (std::ranges::find(axes, d) == axes.end()) {
      order.push_back(d);
      rest.append(shape[d]);
    } else {
      count *= shape[d];
    }
  }
  const Arrays first = broadcast_all(starts, rest);
  if (count == 0) return first;
  Arrays rows;
  for (const Array& x : operands) rows.push_back(reshape(transpose(x, order), rest.insert(0, count).to_vector()));
  const auto combine = [&](const Arrays& a, const Arrays& b) { return combined(call, region, a, b); };
  return combine(first, combined_rows(combine, std::move(rows), count));
}

Array joined_by_region(const OpCall& call, const mlir::Region& region, const Array& a, const Array& b) {
  const Arrays joined = for_each_element(call, region, {a, b});
  if (joined.size() != 1) call.refuse(fmt::format("its region gives {} values; expected one", joined.size()));
  return joined[0];
}

std::vector<Array> windows_by_region(const OpCall& call, const mlir::Region& region, const Windows& windows) {
  const auto [operands, starts] = operands_and_starts(call);
  const Shape shape = windows.result(operands[0].shape());
  const Arrays first = broadcast_all(starts, shape);
  if (shape.size() == 0) return first;
  Arrays rows;
  for (std::size_t i = 0; i < operands.size(); ++i) rows.push_back(stack(windows.split(operands[i], starts[i]), 0));
  const auto combine = [&](const Arrays& a, const Arrays& b) { return combined(call, region, a, b); };
  if (!windows.has_padding()) return combine(first, combined_rows(combine, std::move(rows), windows.elements()));
  // Padding and holes join nothing: the last array says what is an element.
  rows.push_back(stack(windows.split(ones(operands[0].shape(), bool_), array(false)), 0));
  const auto combine_elements = [&](Arrays a, Arrays b) {
    const Array in_a = a.back(), in_b = b.back();
    a.pop_back();
    b.pop_back();
    Arrays both = combine(a, b);
    for (std::size_t i = 0; i < both.size(); ++i) both[i] = where(in_a, where(in_b, both[i], a[i]), b[i]);
    both.push_back(in_a | in_b);
    return both;
  };
  Arrays found = combined_rows(combine_elements, std::move(rows), windows.elements());
  const Array is_element = found.back();
  found.pop_back();
  Arrays results = combine(first, found);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = where(is_element, results[i], first[i]);
  return results;
}

}  // namespace lockstep::exchange
