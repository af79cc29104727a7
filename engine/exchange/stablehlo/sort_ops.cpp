#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <lockstep/elementwise.h>
#include <lockstep/ops.h>

#include "engine/exchange/stablehlo/importer.h"

// sort: its comparator is read as keys, each ascending or descending, and the keys are computed for all elements.
namespace lockstep::exchange {
namespace {

/// A comparison that orders by a value of the left elements; its right side is the same value of the right ones.
struct SortKey {
  std::string left = {}, right = {};
  bool descending = false;
  bool total = false;
  bool operator==(const SortKey&) const = default;
};

bool same_attribute(const mlir::Attribute& a, const mlir::Attribute& b) {
  const auto all = [](const auto& x, const auto& y) { return std::ranges::equal(x, y, same_attribute); };
  return a.kind == b.kind && a.text == b.text && a.type == b.type && all(a.items, b.items) &&
         all(a.chained, b.chained) && std::ranges::equal(a.entries, b.entries, [](const auto& x, const auto& y) {
           return x.first == y.first && same_attribute(x.second, y.second);
         });
}

/// A comparator is LT or GT of one key, or of several or(LT(a), and(EQ(a), LT(b))), or select(EQ(a), LT(b), LT(a)).
class Comparator {
 public:
  explicit Comparator(const OpCall& call) : call_(call), region_(call.op.regions[0]) {}

  std::vector<SortKey> keys() {
    if (region_.arguments.size() != 2 * call_.operands.size() || region_.ops.empty() ||
        region_.ops.back().name != "stablehlo.return" || region_.ops.back().operands.size() != 1) {
      refuse();
    }
    std::vector<SortKey> found;
    mlir::Use value = region_.ops.back().operands[0];
    while (true) {
      const mlir::Op& op = defined(value);
      if (op.name == "stablehlo.compare") {
        found.push_back(key(op));
        return found;
      }
      const auto [first, next] = choice(op);
      found.push_back(first);
      value = next;
    }
  }

  /// The arrays that lax::sort orders by, ascending, one after the other.
  std::vector<Array> ascending(const SortKey& key) const {
    const std::string raw = key.total ? without_zeros_and_nan(key.left) : "";
    Array by = elements(raw.empty() ? key.left : raw);
    if (key.total && raw.empty() && is_float(by.dtype())) by = total_order(by);
    if (!key.descending) return {by};
    if (!is_float(by.dtype())) return {bitwise_not(by)};
    const Array ordered = equal(by, by);
    return {ordered, where(ordered, -by, zeros_like(by))};  // NaN first, as the largest
  }

 private:
  [[noreturn]] void refuse() const {
    call_.refuse(
        "a comparator that does not order by its operands; expected LT or GT of the same value of both elements, "
        "joined as or(LT(a), and(EQ(a), LT(b))) where there are several");
  }
  const mlir::Op* find(const std::string& name) const {
    const auto op = std::ranges::find(region_.ops, name, &mlir::Op::result);
    return name.empty() || op == region_.ops.end() || op->results != 1 ? nullptr : &*op;
  }
  const mlir::Op& defined(const mlir::Use& use) const {
    const mlir::Op* op = find(use.name);
    if (op == nullptr || use.index != 0) refuse();
    return *op;
  }
  /// Nothing for what is no argument.
  std::optional<std::size_t> argument(const std::string& name) const {
    const auto found = std::ranges::find(region_.arguments, name);
    if (found == region_.arguments.end()) return std::nullopt;
    return static_cast<std::size_t>(found - region_.arguments.begin());
  }

  /// Whether `right` is to the right elements what `left` is to the left ones.
  bool mirrors(const mlir::Use& left, const mlir::Use& right) {
    if (left.index != right.index) return false;
    const auto a = argument(left.name), b = argument(right.name);
    if (a || b) return a && b && *a % 2 == 0 && *b == *a + 1;
    if (mirrored_.contains({left.name, right.name})) return true;
    const mlir::Op *l = find(left.name), *r = find(right.name);
    if (l == nullptr || r == nullptr) return l == r && left.name == right.name && !is_inner(left.name);
    const bool alike = l->name == r->name && l->words == r->words && l->symbol == r->symbol && l->regions.empty() &&
                       r->regions.empty() && l->operands.size() == r->operands.size() && left.index == 0 &&
                       std::ranges::equal(l->attributes, r->attributes, [](const auto& x, const auto& y) {
                         return x.first == y.first && same_attribute(x.second, y.second);
                       });
    if (!alike || ++depth_ > 100) return false;
    for (std::size_t i = 0; i < l->operands.size(); ++i) {
      if (!mirrors(l->operands[i], r->operands[i])) return false;
    }
    --depth_;
    mirrored_.emplace(left.name, right.name);
    return true;
  }
  /// Whether an op of the region gives it, as one of several results.
  bool is_inner(const std::string& name) const {
    return std::ranges::any_of(region_.ops, [&](const mlir::Op& op) {
      return op.result == name || std::ranges::find(op.further_results, name) != op.further_results.end();
    });
  }

  SortKey key(const mlir::Op& op) {
    if (op.operands.size() != 2) refuse();
    const Comparison comparison = comparison_of(call_, op);
    if (comparison.direction != "LT" && comparison.direction != "GT") refuse();
    const mlir::Use &a = op.operands[0], &b = op.operands[1];
    const bool greater = comparison.direction == "GT";
    if (mirrors(a, b)) return {a.name, b.name, greater, comparison.is_total()};
    if (mirrors(b, a)) return {b.name, a.name, !greater, comparison.is_total()};
    refuse();
  }
  bool is_tie(const mlir::Op& op, const SortKey& of) const {
    if (op.name != "stablehlo.compare" || op.operands.size() != 2) return false;
    const Comparison comparison = comparison_of(call_, op);
    const std::string &a = op.operands[0].name, &b = op.operands[1].name;
    return comparison.direction == "EQ" && comparison.is_total() == of.total &&
           ((a == of.left && b == of.right) || (a == of.right && b == of.left));
  }
  /// The key that decides, and what does where it is the same for both.
  std::pair<SortKey, mlir::Use> choice(const mlir::Op& op) {
    if (op.name == "stablehlo.select" && op.operands.size() == 3) {
      const mlir::Op& less = defined(op.operands[2]);
      if (less.name != "stablehlo.compare") refuse();
      const SortKey first = key(less);
      if (!is_tie(defined(op.operands[0]), first)) refuse();
      return {first, op.operands[1]};
    }
    if (op.name != "stablehlo.or" || op.operands.size() != 2) refuse();
    for (const std::size_t i : {0U, 1U}) {
      const mlir::Op &less = defined(op.operands[i]), &both = defined(op.operands[1 - i]);
      if (less.name != "stablehlo.compare" || both.name != "stablehlo.and" || both.operands.size() != 2) continue;
      const SortKey first = key(less);
      for (const std::size_t k : {0U, 1U}) {
        if (is_tie(defined(both.operands[k]), first)) return {first, both.operands[1 - k]};
      }
    }
    refuse();
  }

  /// The x of select(NE(x, x), NaN, select(EQ(x, 0), 0, x)), which lax::sort orders so by itself; "" of another form.
  std::string without_zeros_and_nan(const std::string& name) const {
    const mlir::Op* outer = find(name);
    const mlir::Op* inner = outer != nullptr && outer->operands.size() == 3 ? find(outer->operands[2].name) : nullptr;
    if (inner == nullptr || inner->operands.size() != 3 || outer->name != "stablehlo.select" ||
        inner->name != "stablehlo.select") {
      return "";
    }
    const std::string x = inner->operands[2].name, zero = inner->operands[1].name, nan = outer->operands[1].name;
    const std::optional<double> first = constant(zero), second = constant(nan);
    const bool fits = compares(outer->operands[0].name, "NE", x, x) &&
                      compares(inner->operands[0].name, "EQ", x, zero) && first == 0.0 && second &&
                      std::isnan(*second) && !std::signbit(*second);
    return fits ? x : "";
  }
  bool compares(const std::string& name, const char* direction, const std::string& a, const std::string& b) const {
    const mlir::Op* op = find(name);
    if (op == nullptr || op->name != "stablehlo.compare" || op->operands.size() != 2) return false;
    const Comparison comparison = comparison_of(call_, *op);
    return comparison.direction == direction && !comparison.is_total() && op->operands[0].name == a &&
           op->operands[1].name == b;
  }
  std::optional<double> constant(const std::string& name) const {
    const mlir::Op* inner = find(name);
    if (inner == nullptr) return is_inner(name) ? std::nullopt : constant_float(call_, name);
    const mlir::Attribute* value = nullptr;
    if (inner->name == "stablehlo.constant") value = OpCall{call_.importer, *inner, call_.values, {}}.find({"value"});
    if (value == nullptr || inner->result_types.empty()) return std::nullopt;
    return dense_float(*value, inner->result_types[0], inner->line);
  }

  /// A value of the left elements, for all of them.
  Array elements(const std::string& name) const {
    if (const auto found = argument(name)) return call_.operand(*found / 2);
    mlir::Region region = region_;
    region.ops.back().operands = {{.name = name}};
    std::vector<Array> arguments;
    for (const Array& x : call_.operands) arguments.insert(arguments.end(), 2, x);
    return for_each_element(call_, region, arguments)[0];
  }

  const OpCall& call_;
  const mlir::Region& region_;
  std::set<std::pair<std::string, std::string>> mirrored_;
  int depth_ = 0;
};

}  // namespace

Array total_order(const Array& x) {
  const auto key = [&](DType dtype, auto largest) {
    const Array bits = bitcast_convert(x, dtype);
    return where(bits < 0, bits ^ array(largest), bits);
  };
  switch (size_of(x.dtype())) {
    case 2:
      return key(int16, std::numeric_limits<std::int16_t>::max());
    case 4:
      return key(int32, std::numeric_limits<std::int32_t>::max());
    default:
      return key(int64, std::numeric_limits<std::int64_t>::max());
  }
}

std::vector<Array> sort_call(const OpCall& call) {
  if (call.op.regions.size() != 1) call.refuse("its comparator is missing");
  if (call.operands.empty()) call.refuse("it has no operand");
  for (const Array& x : call.operands) {
    if (x.shape() != call.operands[0].shape()) call.refuse("its operands must have one shape");
  }
  Comparator comparator(call);
  std::vector<Array> operands;
  for (const SortKey& key : comparator.keys()) {
    for (Array& by : comparator.ascending(key)) operands.push_back(std::move(by));
  }
  const auto keys = static_cast<std::int64_t>(operands.size());
  operands.insert(operands.end(), call.operands.begin(), call.operands.end());
  std::vector<Array> sorted = lax::sort(operands, {{"axis", call.integer({"dimension"}, -1)}, {"num_keys", keys}});
  sorted.erase(sorted.begin(), sorted.begin() + keys);
  return sorted;
}

}  // namespace lockstep::exchange
