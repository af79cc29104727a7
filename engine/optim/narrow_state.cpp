#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optimizer_wrappers.h>
#include <lockstep/random.h>

#include "engine/optim/moments.h"
#include "engine/optim/wrapping.h"

// What is kept in 16 bits: an optimizer's moments, and parameters without a wider copy.
const std::optional<std::uint64_t> lockstep::detail::no_seed;

namespace lockstep::optim {
namespace {

/// Of a step and a path: whatever else is rounded, the draws for an element are these.
Array key_of(std::uint64_t seed, const Array& step, std::string_view path) {
  const auto word = static_cast<std::int64_t>(std::stoul(sha256(path).substr(0, 8), nullptr, 16));
  return random::fold_in(random::fold_in(random::key(seed), step), word);
}

void check_narrow(std::string_view function, DType dtype) {
  if (dtype == bfloat16 || dtype == float16) return;
  throw DtypeError(
      fmt::format("[{}] the dtype is {}; give bfloat16 or float16, or leave it out", function, name(dtype)));
}

/// What a leaf of a state is called that is one element for each of a parameter, as "mu" in "0/mu/layer/kernel": it has
/// the parameter's shape, and its path ends with the parameter's.
std::optional<std::string_view> slot_name(std::string_view path, const Shape& shape,
                                          const std::vector<std::string>& names, const std::vector<Array>& params) {
  std::optional<std::size_t> own;  // of the longest path: one may be the end of another
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_own = path == names[i] || path.ends_with("/" + names[i]);
    if (is_own && shape == params[i].shape()) own = std::max(own.value_or(0), names[i].size());
  }
  if (!own) return std::nullopt;
  std::string_view before = path.substr(0, path.size() - *own);
  if (before.ends_with('/')) before.remove_suffix(1);
  return before.substr(before.rfind('/') + 1);
}

/// Which leaves of a state are called as one element for each of a parameter is; of float16, without averages of squares,
/// which it has no place for: they are 0 below 6e-8 and infinite above 65504.
std::vector<bool> slots_of(const Tree& state, const Tree& params, DType dtype) {
  constexpr std::array<std::string_view, 4> squares = {"nu", "nu_max", "squares", "moves"};
  const std::vector<std::string> paths = state.paths(), names = params.paths();
  const std::vector<Array> slots = state.leaves(), leaves = params.leaves();
  std::vector<bool> found(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!is_float(slots[i].dtype())) continue;
    const std::optional<std::string_view> name = slot_name(paths[i], slots[i].shape(), names, leaves);
    found[i] = name && (dtype != float16 || std::ranges::find(squares, *name) == squares.end());
  }
  return found;
}

/// Which leaves `init` fills with the parameters themselves. Parameters are taken back to what stands there, or measured
/// from it: rounded, it would move them.
std::vector<bool> copies_of(const std::function<Tree(const Tree&)>& init, const Tree& params) {
  const Tree wide = widened(params);
  const std::vector<Array> slots = init(wide).leaves(), leaves = wide.leaves();
  std::vector<bool> found;
  for (const Array& slot : slots) {
    found.push_back(std::ranges::any_of(leaves, [&](const Array& leaf) { return leaf.state() == slot.state(); }));
  }
  return found;
}

Tree converted(const Tree& state, const std::vector<bool>& chosen, DType dtype) {
  std::vector<Array> slots = state.leaves();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (chosen[i] && size_of(slots[i].dtype()) <= size_of(float32)) slots[i] = convert(slots[i], dtype);
  }
  return state.unflatten(std::move(slots));
}

}  // namespace

GradientTransformation moments_dtype(GradientTransformation inner, DType dtype,
                                     const std::optional<std::uint64_t>& seed) {
  check_narrow("moments_dtype", dtype);
  const auto init = [=](const Tree& params) {
    const Tree state = inner.init(params);
    std::vector<bool> slots = slots_of(state, params, dtype);
    const std::vector<bool> copies = copies_of(inner.init, params);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = slots[i] && !copies[i];
    return Tree::dict({{"count", Tree(first_count())}, {"inner", converted(state, slots, dtype)}});
  };
  const auto step = [=](const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Array count = state.at("count").array();
    const Tree& kept = state.at("inner");
    // `init` has said which are narrow.
    std::vector<bool> slots = slots_of(kept, params, dtype);
    const std::vector<Array> given = kept.leaves();
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = slots[i] && given[i].dtype() == dtype;
    auto [updates, next] = update(inner, gradients, converted(kept, slots, float32), params, loss);
    std::vector<Array> leaves = next.leaves();
    const std::vector<std::string> paths = next.paths();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!slots[i] || leaves[i].dtype() != float32) continue;
      leaves[i] =
          seed ? random::round_stochastically(key_of(*seed, count, paths[i]), leaves[i], dtype, random::same_on_all)
               : convert(leaves[i], dtype);
    }
    return std::pair(std::move(updates),
                     Tree::dict({{"count", Tree(count + 1)}, {"inner", next.unflatten(std::move(leaves))}}));
  };
  return wrapping({inner}, init, step);
}

GradientTransformation stochastic_rounding(GradientTransformation inner, std::uint64_t seed) {
  const auto init = [=](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())}, {"inner", inner.init(params)}});
  };
  const auto step = [=](const Tree& gradients, const Tree& state, const Tree& params, const KnownLoss& loss) {
    const Array count = state.at("count").array();
    auto [updates, next] = update(inner, gradients, state.at("inner"), params, loss);
    std::vector<Array> leaves = updates.leaves();
    const std::vector<Array> kept = params.leaves();
    const std::vector<std::string> paths = params.paths();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const DType dtype = kept[i].dtype();
      if (dtype != bfloat16 && dtype != float16) continue;
      const Array before = convert(kept[i], float32);
      const Array after = random::round_stochastically(
          key_of(seed, count, paths[i]), before + convert(leaves[i], float32), dtype, random::same_on_all);
      // Exact, and so is its sum with the parameter: where the two are far apart, the sum has few digits.
      leaves[i] = convert(after, float32) - before;
    }
    return std::pair(updates.unflatten(std::move(leaves)),
                     Tree::dict({{"count", Tree(count + 1)}, {"inner", std::move(next)}}));
  };
  return wrapping({inner}, init, step);
}

}  // namespace lockstep::optim
