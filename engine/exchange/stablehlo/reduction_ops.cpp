#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include <lockstep/convolution.h>
#include <lockstep/transforms.h>

#include "engine/exchange/stablehlo/element_wise.h"
#include "engine/exchange/stablehlo/importer.h"

namespace lockstep::exchange {
namespace {

std::vector<std::string_view> names_in_region(const mlir::Region& region) {
  std::vector<std::string_view> names;
  for (const mlir::Op& op : region.ops) names.push_back(op.name);
  return names;
}

/// "LT", of a comparison.
std::string direction_of(const OpCall& call, const mlir::Op& op) {
  const OpCall compared{call.importer, op, call.values, {}};
  const mlir::Attribute* attribute = compared.find({"comparison_direction"});
  return attribute != nullptr ? attribute->text : op.words.empty() ? "" : op.words[0];
}

/// What a reduction begins with counts too: often it is the neutral element.
Array with_start(const SharedOp& op, const Array& reduced, const Array& start) {
  const SharedOp* both = find_shared(element_wise_ops(), op.name);
  return both->stage({reduced, broadcast_to(start, reduced.shape())}, {})[0];
}

std::string reducer_of(const OpCall& call) {
  if (!call.op.regions.empty()) return call.combiner(call.op.regions[0]);
  return call.op.words.size() > 1 && call.op.words[0] == "applies" ? call.op.words[1] : "";
}

/// The reduction of (values, positions) to the largest and its position that jax.numpy.argmax is exported as; nothing
/// where it is another one.
std::vector<Array> position_of_extremum(const OpCall& call, const Axes& axes) {
  constexpr std::string_view compare = "stablehlo.compare", either = "stablehlo.or", choose = "stablehlo.select";
  const std::vector<std::string_view> form = {compare,         compare, either, compare, compare,
                                              "stablehlo.and", either,  choose, choose,  "stablehlo.return"};
  const mlir::Region& region = call.op.regions[0];
  const auto origin =
      call.op.operands.size() == 4 ? call.values.origins.find(call.op.operands[1].name) : call.values.origins.end();
  const bool of_positions = origin != call.values.origins.end() && origin->second->name == "stablehlo.iota" &&
                            OpCall{call.importer, *origin->second, call.values, {}}.integer(
                                {"dim", "iota_dimension"}, 0) == (axes.empty() ? -1 : axes[0]);
  const std::string direction = region.ops.empty() ? "" : direction_of(call, region.ops[0]);
  if (axes.size() != 1 || !of_positions || call.operand(0).shape()[static_cast<int>(axes[0])] == 0 ||
      names_in_region(region) != form || (direction != "GT" && direction != "LT")) {
    return {};
  }
  const DType places = call.operand(1).dtype();
  const bool is_wide = places == DType::int32 || places == DType::int64;
  const Attrs attrs = {{"axis", axes[0]}, {"dtype", is_wide ? places : DType::int64}};
  const bool largest = direction == "GT";
  const Array x = call.operand(0);
  return {(largest ? lax::reduce_max : lax::reduce_min)({x}, {{"axes", axes}})[0],
          convert((largest ? lax::argmax : lax::argmin)({x}, attrs)[0], places)};
}

std::vector<Array> reduce(const OpCall& call) {
  const Axes axes = call.integers({"dimensions"}, {});
  if (call.operands.size() > 2 && !call.op.regions.empty()) {
    std::vector<Array> found = position_of_extremum(call, axes);
    return found.empty() ? reduced_by_region(call, call.op.regions[0], axes) : found;
  }
  const std::string reducer = reducer_of(call);
  const SharedOp* op = find_shared(reductions(), reducer);
  if (op == nullptr) {
    if (!call.op.regions.empty()) return reduced_by_region(call, call.op.regions[0], axes);
    call.refuse("a reduction by " + reducer + "; there are those by add, multiply, maximum, minimum, and, or, xor");
  }
  const Array reduced = op->stage({call.operand(0)}, {{"axes", axes}})[0];
  return {with_start(*op, reduced, call.operand(1))};
}

struct ReductionWindows {
  Axes sizes, strides, base, window;
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;

  /// The axis along which each window ends (or, reversed, begins) at its own element and takes all before it.
  std::optional<std::pair<std::int64_t, bool>> cumulative(const Shape& shape) const {
    std::optional<std::pair<std::int64_t, bool>> found;
    for (int d = 0; d < shape.rank(); ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (strides[i] != 1 || base[i] != 1 || window[i] != 1) return std::nullopt;
      if (sizes[i] == 1 && padding[i] == std::pair<std::int64_t, std::int64_t>(0, 0)) continue;
      const std::int64_t before = shape[d] - 1;
      const bool forwards = padding[i] == std::pair<std::int64_t, std::int64_t>(before, 0);
      const bool backwards = padding[i] == std::pair<std::int64_t, std::int64_t>(0, before);
      if (found || sizes[i] != shape[d] || (!forwards && !backwards)) return std::nullopt;
      found = {d, backwards && !forwards};
    }
    return found;
  }

  /// Whether each window holds an element that is neither padding nor a hole, and padding is narrower than a window.
  bool all_hold_elements(const Shape& shape, const Shape& result) const {
    for (int d = 0; d < shape.rank(); ++d) {
      const auto i = static_cast<std::size_t>(d);
      const std::int64_t reach = (sizes[i] - 1) * window[i] + 1;
      if (padding[i].first >= reach || padding[i].second >= reach) return false;
      const auto is_element = [&](std::int64_t place) {
        return place >= 0 && place % base[i] == 0 && place / base[i] < shape[d];
      };
      for (std::int64_t out = 0; out < result[d]; ++out) {
        bool found = false;
        for (std::int64_t k = 0; k < sizes[i] && !found; ++k) {
          found = is_element(out * strides[i] + k * window[i] - padding[i].first);
        }
        if (!found) return false;
      }
    }
    return true;
  }
};

/// The region that jax.lax.cumlogsumexp is exported with.
bool adds_logarithms(const mlir::Region& region) {
  return names_in_region(region) ==
         std::vector<std::string_view>{"stablehlo.maximum",     "stablehlo.subtract",     "stablehlo.compare",
                                       "stablehlo.add",         "stablehlo.abs",          "stablehlo.negate",
                                       "stablehlo.exponential", "stablehlo.log_plus_one", "stablehlo.add",
                                       "stablehlo.select",      "stablehlo.return"};
}

std::vector<Array> reduce_windows(const OpCall& call) {
  const Array& x = call.operand(0);
  if (call.op.regions.size() != 1) call.refuse("the function that joins two elements is missing");
  const Axes ones(static_cast<std::size_t>(x.ndim()), 1);
  const ReductionWindows windows{call.integers({"window_dimensions"}, ones), call.integers({"window_strides"}, ones),
                                 call.integers({"base_dilations"}, ones), call.integers({"window_dilations"}, ones),
                                 call.pairs({"padding"}, x.ndim())};
  for (const Axes* list : {&windows.sizes, &windows.strides, &windows.base, &windows.window}) {
    if (list->size() != ones.size()) call.refuse("its windows have another rank than its operand");
  }
  const std::string reducer = call.operands.size() == 2 ? call.combiner(call.op.regions[0]) : "";
  if (const auto along = windows.cumulative(x.shape())) {
    const Attrs attrs = {{"axis", along->first}, {"reverse", along->second}};
    if (adds_logarithms(call.op.regions[0])) return lax::cumlogsumexp({x}, attrs);
    if (const SharedOp* op = find_shared(cumulative_ops(), reducer)) {
      return {with_start(*op, op->stage({x}, attrs)[0], call.operand(1))};
    }
  }
  const ReduceWindowOptions options{.window = windows.sizes,
                                    .strides = windows.strides,
                                    .padding = windows.padding,
                                    .base_dilation = windows.base,
                                    .window_dilation = windows.window};
  const bool is_extremum = reducer == "stablehlo.maximum" || reducer == "stablehlo.minimum";
  const bool is_whole = call.result().shape.size() > 0 && windows.all_hold_elements(x.shape(), call.result().shape);
  if (reducer != "stablehlo.add" && (!is_extremum || !is_whole)) {
    return windows_by_region(call, call.op.regions[0], options);
  }
  if (call.result().shape.size() == 0) return {zeros(call.result().shape, x.dtype())};
  const auto reduce_windows_of = reducer == "stablehlo.add"       ? reduce_window_sum
                                 : reducer == "stablehlo.maximum" ? reduce_window_max
                                                                  : reduce_window_min;
  return {with_start(*find_shared(reductions(), reducer), reduce_windows_of(x, options), call.operand(1))};
}

/// What a comparator orders by: an operand, or of a complex one the part that an op of this name gives.
struct SortKey {
  std::size_t operand = 0;
  std::string part = {};
  bool operator==(const SortKey&) const = default;
};

/// The first key first, and whether descending.
struct SortOrder {
  std::vector<SortKey> keys;
  bool descending = false;
};

/// A comparator is a comparison of both arguments of one operand, or LT of one and, where they are equal, that of the next:
/// or(LT, and(EQ, ...)). Arguments are followed back through the selects that make one value of both zeros, and of all NaN.
class Comparator {
 public:
  explicit Comparator(const OpCall& call) : call_(call), region_(call.op.regions[0]) {}

  SortOrder order() const {
    SortOrder order;
    std::string name =
        region_.ops.empty() || region_.ops.back().operands.size() != 1 ? "" : region_.ops.back().operands[0].name;
    while (true) {
      const mlir::Op& op = defined(name);
      if (op.name == "stablehlo.compare") {
        const std::string direction = direction_of(call_, op);
        order.keys.push_back(key(op));
        order.descending = direction == "GT";
        if (direction != "LT" && (direction != "GT" || order.keys.size() > 1)) refuse();
        return order;
      }
      if (op.name != "stablehlo.or" || op.operands.size() != 2) refuse();
      const mlir::Op &less = defined(op.operands[0].name), &tie = defined(op.operands[1].name);
      if (tie.name != "stablehlo.and" || tie.operands.size() != 2) refuse();
      const mlir::Op& equal = defined(tie.operands[0].name);
      if (direction_of(call_, less) != "LT" || direction_of(call_, equal) != "EQ" || key(less) != key(equal)) refuse();
      order.keys.push_back(key(less));
      name = tie.operands[1].name;
    }
  }

 private:
  [[noreturn]] void refuse() const {
    call_.refuse("a comparator that does not order by its operands, ascending, or by one of them, descending");
  }
  const mlir::Op& defined(const std::string& name) const {
    const auto op = std::ranges::find(region_.ops, name, &mlir::Op::result);
    if (op == region_.ops.end() || name.empty()) refuse();
    return *op;
  }
  SortKey argument(std::string name) const {
    std::string part;
    for (std::size_t steps = 0; steps <= region_.ops.size(); ++steps) {
      const auto found = std::ranges::find(region_.arguments, name);
      if (found != region_.arguments.end()) return {static_cast<std::size_t>(found - region_.arguments.begin()), part};
      const mlir::Op& op = defined(name);
      const bool is_part = op.name == "stablehlo.real" || op.name == "stablehlo.imag";
      if (is_part && part.empty()) {
        part = op.name;
      } else if (op.name != "stablehlo.select" || op.operands.size() != 3) {
        refuse();
      }
      if (op.operands.empty()) refuse();
      name = op.operands.back().name;
    }
    refuse();
  }
  /// That of which a comparison has both arguments.
  SortKey key(const mlir::Op& op) const {
    if (op.name != "stablehlo.compare" || op.operands.size() != 2) refuse();
    SortKey a = argument(op.operands[0].name), b = argument(op.operands[1].name);
    if (a.operand % 2 != 0 || b.operand != a.operand + 1 || a.part != b.part) refuse();
    a.operand /= 2;
    return a;
  }

  const OpCall& call_;
  const mlir::Region& region_;
};

std::vector<Array> sort_by_key(const OpCall& call) {
  if (call.op.regions.size() != 1) call.refuse("its comparator is missing");
  const SortOrder order = Comparator(call).order();
  const Attrs attrs = {{"axis", call.integer({"dimension"}, -1)}};
  std::vector<Array> operands;
  for (const SortKey& key : order.keys) {
    const Array& by = call.operand(key.operand);
    operands.push_back(key.part.empty() ? by : find_shared(element_wise_ops(), key.part)->stage({by}, {})[0]);
  }
  if (order.descending) {
    const Array by = operands[0];
    const bool of_floats = is_float(by.dtype());
    const Array ordered = equal(by, by);
    operands = {of_floats ? where(ordered, -by, zeros_like(by)) : bitwise_not(by)};
    if (of_floats) operands.insert(operands.begin(), ordered);  // NaN first, as the largest
  }
  const auto keys = static_cast<std::int64_t>(operands.size());
  operands.insert(operands.end(), call.operands.begin(), call.operands.end());
  std::vector<Array> sorted = lax::sort(operands, attrs.with("num_keys", keys));
  sorted.erase(sorted.begin(), sorted.begin() + keys);
  return sorted;
}

/// The derivative of the windows' maxima or minima: each window adds to its first largest, or least, element.
std::vector<Array> spread_to_extrema(const OpCall& call) {
  const Array &x = call.operand(0), &source = call.operand(1), &start = call.operand(2);
  const std::vector<mlir::Region>& regions = call.op.regions;
  const bool compares =
      regions.size() == 2 &&
      names_in_region(regions[0]) == std::vector<std::string_view>{"stablehlo.compare", "stablehlo.return"};
  const std::string direction = compares ? direction_of(call, regions[0].ops[0]) : "";
  if ((direction != "GE" && direction != "LE") || call.combiner(regions[1]) != "stablehlo.add") {
    call.refuse("windows that choose by something else than GE and LE, or join by something else than add");
  }
  const auto chosen_by = direction == "GE" ? reduce_window_max : reduce_window_min;
  const Axes ones(static_cast<std::size_t>(x.ndim()), 1);
  const ReduceWindowOptions options{.window = call.integers({"window_dimensions"}, ones),
                                    .strides = call.integers({"window_strides"}, ones),
                                    .padding = call.pairs({"padding"}, x.ndim())};
  const auto [maxima, spread] = vjp([&](const Array& values) { return chosen_by(values, options); }, x);
  return {std::get<0>(spread(source)) + broadcast_to(start, x.shape())};
}

}  // namespace

std::vector<Array> apply_reduction(const OpCall& call) {
  const std::string& name = call.op.name;
  if (name == "stablehlo.reduce") return reduce(call);
  if (name == "stablehlo.reduce_window") return reduce_windows(call);
  if (name == "stablehlo.select_and_scatter") return spread_to_extrema(call);
  if (name == "stablehlo.sort") return sort_by_key(call);
  if (name == "chlo.top_k" || (name == "stablehlo.composite" && call.op.symbol == "chlo.top_k")) {
    return lax::top_k({call.operand(0)}, {{"k", call.integer({"k"}, 1)}});
  }
  if (name == "stablehlo.compare") {
    const std::string word = direction_of(call, call.op);
    const SharedOp* op = find_shared(comparisons(), word);
    if (op == nullptr) call.refuse("a comparison '" + word + "'; there are EQ, NE, LT, LE, GT and GE");
    return op->stage(call.operands, {});
  }
  return {};
}

}  // namespace lockstep::exchange
