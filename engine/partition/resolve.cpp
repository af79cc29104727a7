#include "engine/partition/resolve.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/ops/rules/layout.h"

namespace lockstep::partition {

namespace {

using ir::Factor;
using ir::FactorDims;
using ir::Factors;

/// Every dimension a factor of its own that cannot be cut.
Factors all_whole(const Question& q) {
  Factors factors;
  for (const OperandState& operand : q.operands) {
    factors.operands.push_back(ops::layout::own_dims(factors, operand.type->shape, Factor::Kind::whole));
  }
  for (const ArrayType& type : q.results) {
    factors.results.push_back(ops::layout::own_dims(factors, type.shape, Factor::Kind::whole));
  }
  return factors;
}

bool has(const FactorDims& dims, int f) {
  return std::ranges::any_of(dims, [&](const std::vector<int>& d) { return std::ranges::find(d, f) != d.end(); });
}

bool is_in_no_result(const Factors& factors, int f) {
  return std::ranges::none_of(factors.results, [&](const FactorDims& dims) { return has(dims, f); });
}

/// Which axes cut which factor.
class Cutting {
 public:
  Cutting(const Question& question, const Factors& factors)
      : question_(question), factors_(factors), axes_(factors.list.size()), contested_(factors.list.size()) {}

  void take_operands() {
    std::vector<std::size_t> order(question_.operands.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>{},
                             [&](std::size_t i) { return question_.operands[i].type->nbytes(); });
    for (const std::size_t i : order) {
      const std::vector<CutAxes>& cuts = question_.operands[i].layout.cuts;
      for (std::size_t d = 0; d < cuts.size(); ++d) take(factors_.operands[i][d], cuts[d], i);
    }
  }

  void take_wishes() {
    for (std::size_t r = 0; r < question_.wishes.size(); ++r) {
      const Wish& wish = question_.wishes[r];
      for (std::size_t d = 0; d < wish.size(); ++d) {
        if (wish[d]) take(factors_.results[r][d], *wish[d], std::nullopt);
      }
    }
  }

  const std::vector<CutAxes>& axes() const { return axes_; }
  bool is_used(const std::string& axis) const { return used_.contains(axis); }
  CutAxes cuts_of(const std::vector<int>& dimension) const {
    CutAxes cuts;
    for (const int f : dimension) cuts.insert(cuts.end(), at(axes_, f).begin(), at(axes_, f).end());
    return cuts;
  }
  /// Whether any cut of the dimension would do.
  bool is_open(const std::vector<int>& dimension) const {
    return std::ranges::all_of(dimension, [&](int f) {
      return at(axes_, f).empty() && !contested_[static_cast<std::size_t>(f)] &&
             at(factors_.list, f).kind != Factor::Kind::whole;
    });
  }

 private:
  template <class T>
  static const T& at(const std::vector<T>& list, int i) {
    return list[static_cast<std::size_t>(i)];
  }
  std::int64_t extent(int f) const { return at(factors_.list, f).extent; }
  bool is_used_up(int f) const { return blocks(at(axes_, f), question_.mesh()) == extent(f); }

  /// As many of the axes as the dimension's factors allow, from the outermost on.
  void take(const std::vector<int>& dimension, const CutAxes& cuts, std::optional<std::size_t> operand) {
    std::size_t k = 0;
    std::size_t matched = 0;
    for (const std::string& axis : cuts) {
      while (k < dimension.size() && matched == at(axes_, dimension[k]).size() && is_used_up(dimension[k])) {
        ++k;
        matched = 0;
      }
      if (k == dimension.size()) return;
      const int f = dimension[k];
      const bool is_there = matched < at(axes_, f).size() && at(axes_, f)[matched] == axis;
      if (!is_there && (matched < at(axes_, f).size() || !may_extend(f, axis, operand))) {
        if (operand) contested_[static_cast<std::size_t>(f)] = true;
        return;
      }
      if (!is_there) {
        axes_[static_cast<std::size_t>(f)].push_back(axis);
        used_.emplace(axis, f);
      }
      ++matched;
    }
  }

  bool may_extend(int f, const std::string& axis, std::optional<std::size_t> operand) const {
    const Factor& factor = at(factors_.list, f);
    if (factor.kind == Factor::Kind::whole || used_.contains(axis)) return false;
    CutAxes longer = at(axes_, f);
    longer.push_back(axis);
    if (factor.extent % blocks(longer, question_.mesh()) != 0) return false;
    return fits_blocks_of_sum(f, longer) && is_outermost_everywhere(f) &&
           (!operand || is_worth_a_sum(f, axis, *operand));
  }

  /// As replicas are numbered, and their sums taken.
  bool is_in_mesh_order(const CutAxes& axes) const {
    std::size_t next = 0;
    for (const auto& axis : question_.mesh().axes()) {
      if (next < axes.size() && axes[next] == axis.name) ++next;
    }
    return next == axes.size();
  }

  /// Where bits must not depend on layouts, what is summed is cut no further than into its blocks.
  bool fits_blocks_of_sum(int f, const CutAxes& longer) const {
    const Setting& setting = question_.setting;
    const bool is_sum = at(factors_.list, f).kind == Factor::Kind::sum && is_in_no_result(factors_, f);
    if (setting.contraction_blocks == 0 || !is_sum) return true;
    return summed_factor(factors_, setting) == f &&
           blocks_of_sum(extent(f), setting) % blocks(longer, setting.mesh) == 0 && is_in_mesh_order(longer);
  }

  /// A block of an inner factor is a block of the dimension only where the outer ones are cut to the last.
  bool is_outermost_everywhere(int f) const {
    const auto fits = [&](const std::vector<int>& dimension) {
      const auto place = std::ranges::find(dimension, f);
      return place == dimension.end() ||
             std::all_of(dimension.begin(), place, [&](int outer) { return is_used_up(outer); });
    };
    const auto all_fit = [&](const std::vector<FactorDims>& values) {
      return std::ranges::all_of(values, [&](const FactorDims& dims) { return std::ranges::all_of(dims, fits); });
    };
    return all_fit(factors_.operands) && all_fit(factors_.results);
  }

  /// Of a contraction with a factor that is not cut so: whether the sums that come of it are smaller than the operand.
  bool is_worth_a_sum(int f, const std::string& axis, std::size_t operand) const {
    if (has(factors_.results[0], f)) return true;
    for (std::size_t i = 0; i < question_.operands.size(); ++i) {
      if (i == operand || !has(factors_.operands[i], f)) continue;
      if (question_.operands[i].layout.cutting().contains(axis)) continue;
      return 2 * question_.results[0].nbytes() <= question_.operands[operand].type->nbytes();
    }
    return true;
  }

  const Question& question_;
  const Factors& factors_;
  std::vector<CutAxes> axes_;
  std::vector<bool> contested_;
  std::map<std::string, int> used_;
};

/// The operands that an op is linear in, jointly; of several sets the one whose sums pass.
std::vector<std::size_t> linear_operands(const Question& q) {
  using Kind = ir::Derivative::Kind;
  const ir::Derivative& derivative = q.primitive.derivative;
  std::vector<std::size_t> linear;
  if (!rule_of(q.primitive).passes_sums || q.setting.contraction_blocks > 0) return linear;
  if (derivative.kind == Kind::linear) {
    for (const int i : derivative.linear_in) linear.push_back(static_cast<std::size_t>(i));
    if (linear.empty()) {
      for (std::size_t i = 0; i < q.operands.size(); ++i) linear.push_back(i);
    }
  } else if (derivative.kind == Kind::bilinear) {
    const bool second =
        !q.operands[1].layout.sums.empty() &&
        (q.operands[0].layout.sums.empty() || q.operands[1].type->nbytes() > q.operands[0].type->nbytes());
    linear.push_back(second ? 1 : 0);
  } else if (derivative.kind == Kind::jvp && derivative.transpose && derivative.linear_in.size() == 1) {
    linear.push_back(static_cast<std::size_t>(derivative.linear_in[0]));
  }
  return linear;
}

bool is_rounded(const ArrayType& from, const ArrayType& to) {
  return !is_inexact(to.dtype) || size_of(to.dtype) < size_of(from.dtype);
}

/// The axes along which the linear operands are all sums, and may stay so.
AxisSet passed_sums(const Question& q, const std::vector<std::size_t>& linear, const Cutting& cutting) {
  std::optional<AxisSet> common;
  for (const std::size_t i : linear) {
    const OperandState& operand = q.operands[i];
    if (operand.is_zero) continue;
    AxisSet own = operand.layout.sums;
    for (const ArrayType& result : q.results) {
      const bool is_dearer = result.nbytes() > operand.type->nbytes();
      if (is_dearer || (is_inexact(operand.type->dtype) && is_rounded(*operand.type, result))) own = {};
    }
    common = common ? common->without(common->without(own)) : own;
  }
  if (!common) return {};
  std::vector<std::string> kept;
  for (const std::string& axis : common->names()) {
    if (!cutting.is_used(axis)) kept.push_back(axis);
  }
  return AxisSet(std::move(kept));
}

void add_operands(const Question& q, const Factors& factors, const Cutting& cutting, Resolution& resolution) {
  const std::vector<std::size_t> linear = linear_operands(q);
  const AxisSet sums = passed_sums(q, linear, cutting);
  for (std::size_t i = 0; i < q.operands.size(); ++i) {
    ValueLayout layout;
    Wish wish;
    for (const std::vector<int>& dimension : factors.operands[i]) {
      layout.cuts.push_back(cutting.cuts_of(dimension));
      wish.emplace_back(cutting.is_open(dimension) ? std::nullopt : std::optional(layout.cuts.back()));
    }
    if (std::ranges::find(linear, i) != linear.end()) layout.sums = sums;
    resolution.operands.push_back(std::move(layout));
    resolution.wishes.push_back(std::move(wish));
  }
  for (ValueLayout& layout : resolution.results) layout.sums = layout.sums.joined(sums);
}

void add_results(const Question& q, const Factors& factors, const Cutting& cutting, Resolution& resolution) {
  for (std::size_t r = 0; r < q.results.size(); ++r) {
    ValueLayout layout;
    std::vector<bool> is_there(factors.list.size());
    for (const std::vector<int>& dimension : factors.results[r]) {
      layout.cuts.push_back(cutting.cuts_of(dimension));
      for (const int f : dimension) is_there[static_cast<std::size_t>(f)] = true;
    }
    AxisSet maxima;
    AxisSet minima;
    for (std::size_t f = 0; f < factors.list.size(); ++f) {
      if (is_there[f] || cutting.axes()[f].empty()) continue;
      AxisSet& parts = factors.list[f].kind == Factor::Kind::max   ? maxima
                       : factors.list[f].kind == Factor::Kind::min ? minima
                                                                   : layout.sums;
      parts = parts.joined(AxisSet(cutting.axes()[f]));
    }
    resolution.results.push_back(std::move(layout));
    resolution.maxima.push_back(std::move(maxima));
    resolution.minima.push_back(std::move(minima));
  }
}

}  // namespace

const ir::LayoutRule& rule_of(const ir::Primitive& primitive) {
  static const ir::LayoutRule elementwise = ops::layout::pointwise();
  const bool has_own = primitive.layout.factors != nullptr;
  return has_own || !primitive.traits.pointwise ? primitive.layout : elementwise;
}

Factors factors_of(const Question& q) {
  const ir::LayoutRule& rule = rule_of(q.primitive);
  if (!rule.factors) return all_whole(q);
  std::vector<ArrayType> inputs;
  for (const OperandState& operand : q.operands) inputs.push_back(*operand.type);
  return rule.factors({inputs, q.results, q.attrs});
}

std::int64_t blocks_of_sum(std::int64_t extent, const Setting& setting) {
  std::int64_t count = 1;
  while (2 * count <= setting.contraction_blocks && extent > 0 && extent % (2 * count) == 0) count *= 2;
  return count;
}

std::optional<int> summed_factor(const Factors& factors, const Setting& setting) {
  for (std::size_t f = 0; f < factors.list.size(); ++f) {
    const Factor& factor = factors.list[f];
    if (factor.kind != Factor::Kind::sum || blocks_of_sum(factor.extent, setting) == 1) continue;
    if (is_in_no_result(factors, static_cast<int>(f))) return static_cast<int>(f);
  }
  return std::nullopt;
}

Resolution resolve(const Question& question) {
  const Factors factors = factors_of(question);
  Cutting cutting(question, factors);
  cutting.take_operands();
  cutting.take_wishes();
  Resolution resolution;
  add_results(question, factors, cutting, resolution);
  add_operands(question, factors, cutting, resolution);
  resolution.axes = cutting.axes();
  return resolution;
}

}  // namespace lockstep::partition
