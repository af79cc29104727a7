#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/reduce.h>
#include <lockstep/weak_types.h>

#include "engine/api/numpy/axes.h"
#include "engine/core/lists.h"

namespace lockstep::detail {

namespace {

class Reduction {
 public:
  Reduction(std::string_view op, const TreeFunction& combine, const Tree& elems, const Tree& initial)
      : op_(op), combine_(combine), leaves_(elems.leaves()) {
    if (leaves_.empty()) throw ValueError(fmt::format("{}: there are no elements; give at least one array", op));
    if (!elems.same_structure(initial)) {
      throw StateError(fmt::format("{}: the elements are {}, the initial values {}; expected one structure", op,
                                   elems.structure(), initial.structure()));
    }
    const std::vector<std::string> paths = elems.paths();
    std::vector<Array> starts = initial.leaves();
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (leaves_[i].shape() != leaves_[0].shape()) {
        throw ShapeError(fmt::format("{}: \"{}\" is {}, \"{}\" is {}; expected one shape", op, paths[0],
                                     to_string(leaves_[0].shape()), paths[i], to_string(leaves_[i].shape())));
      }
      if (starts[i].ndim() != 0) {
        throw ShapeError(fmt::format("{}: the initial value of \"{}\" is {}; expected a scalar", op, paths[i],
                                     to_string(starts[i].type())));
      }
      if (starts[i].dtype() != leaves_[i].dtype() && !is_weak_type(starts[i])) {
        throw DtypeError(fmt::format("{}: \"{}\" is {}, its initial value {}; expected one dtype: convert one", op,
                                     paths[i], to_string(leaves_[i].type()), to_string(starts[i].type())));
      }
      starts[i] = convert(starts[i], leaves_[i].dtype());
    }
    initial_ = elems.unflatten(std::move(starts));
  }

  const Shape& shape() const { return leaves_[0].shape(); }
  const Tree& initial() const { return initial_; }
  Tree initial_of(const Shape& shape) const {
    return map([&](const Array& x) { return broadcast_to(x, shape); }, initial_);
  }

  Tree combined(const Tree& a, const Tree& b) const {
    Tree result = combine_({a, b});
    check_same_types(a, result, fmt::format("{}: the function's result", op_));
    return result;
  }

  /// Rows [n, rest...], in a tree over halves; a row that is left over joins the other ones left over.
  Tree rows(Tree elems, std::int64_t count) const {
    std::optional<Tree> rest;
    const auto part = [&](std::int64_t first, std::int64_t last) {
      return map([&](const Array& x) { return slice_in_dim(x, first, last, 0); }, elems);
    };
    while (count > 1) {
      const std::int64_t half = count / 2;
      if (count % 2 != 0) {
        const Tree last = part(count - 1, count);
        rest = rest ? combined(*rest, last) : last;
      }
      elems = combined(part(0, half), part(half, 2 * half));
      count = half;
    }
    const Tree all = rest ? combined(elems, *rest) : elems;
    return map([](const Array& x) { return squeeze(x, 0); }, all);
  }

 private:
  std::string_view op_;
  const TreeFunction& combine_;
  std::vector<Array> leaves_;
  Tree initial_;
};

}  // namespace

Tree reduce(const TreeFunction& combine, const Tree& elems, const Tree& initial, const OptionalAxes& axes) {
  const Reduction reduction("reduce", combine, elems, initial);
  const Shape& shape = reduction.shape();
  const Axes along = api::resolve_axes(axes, shape.rank(), "reduce");
  Axes order = along;
  Shape rest;
  std::int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (std::ranges::find(along, d) == along.end()) {
      order.push_back(d);
      rest.append(shape[d]);
    } else {
      count *= shape[d];
    }
  }
  const Tree start = reduction.initial_of(rest);
  if (count == 0) return start;
  const auto as_rows = [&](const Array& x) { return reshape(transpose(x, order), rest.insert(0, count).to_vector()); };
  return reduction.combined(start, reduction.rows(map(as_rows, elems), count));
}

Tree reduce_window(const TreeFunction& combine, const Tree& elems, const Tree& initial,
                   const ReduceWindowOptions& options) {
  const Reduction reduction("reduce_window", combine, elems, initial);
  const Shape& shape = reduction.shape();
  const auto rank = static_cast<std::size_t>(shape.rank());
  const auto entries = [&](const Axes& given) { return given.empty() ? Axes(rank, 1) : given; };
  const Axes strides = entries(options.strides), base = entries(options.base_dilation),
             dilation = entries(options.window_dilation);
  for (const Axes* list : std::initializer_list<const Axes*>{&options.window, &strides, &base, &dilation}) {
    if (list->size() == rank && std::ranges::all_of(*list, [](std::int64_t n) { return n >= 1; })) continue;
    throw ShapeError(
        fmt::format("reduce_window: window, strides and dilations must be {} numbers of 1 or more, one "
                    "per dimension, got [{}]",
                    rank, fmt::join(*list, ",")));
  }
  Axes extents, out, low, high, interior;
  for (std::size_t d = 0; d < rank; ++d) {
    extents.push_back(std::max<std::int64_t>((nth(shape.to_vector(), d) - 1) * base[d] + 1, 0));
  }
  const auto padding = resolve_padding(options.padding, extents, options.window, strides, dilation);
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    low.push_back(padding[d].first);
    high.push_back(padding[d].second);
    interior.push_back(base[d] - 1);
    const std::int64_t room = extents[d] + low[d] + high[d] - (options.window[d] - 1) * dilation[d] - 1;
    out.push_back(room < 0 ? 0 : room / strides[d] + 1);
    elements *= options.window[d];
  }
  const Tree padded = map([&](const Array& x, const Array& start) { return pad(x, start, low, high, interior); }, elems,
                          reduction.initial());
  const std::vector<std::int64_t> places = row_major_strides(Shape(options.window));
  const auto element = [&](const Array& x, std::int64_t w) {
    Axes first, limit;
    for (std::size_t d = 0; d < rank; ++d) {
      // A window that does not fit has no place, so no element of it has one either.
      first.push_back(out[d] == 0 ? 0 : w / places[d] % options.window[d] * dilation[d]);
      limit.push_back(out[d] == 0 ? 0 : first[d] + (out[d] - 1) * strides[d] + 1);
    }
    return slice(x, first, limit, strides);
  };
  const auto windows = [&](const Array& x) {
    std::vector<Array> all;
    for (std::int64_t w = 0; w < elements; ++w) all.push_back(element(x, w));
    return stack(all, 0);
  };
  return reduction.combined(reduction.initial_of(Shape(out)), reduction.rows(map(windows, padded), elements));
}

}  // namespace lockstep::detail
