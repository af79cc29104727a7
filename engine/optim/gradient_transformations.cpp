#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/gradient_transformations.h>
#include <lockstep/random.h>

#include "engine/optim/arguments.h"
#include "engine/optim/moments.h"
#include "engine/optim/scaled_norm.h"
#include "engine/optim/wrapping.h"

namespace lockstep::optim {
namespace {

/// The dimensions along which the norm of a unit's weights is taken; empty: all.
std::vector<std::int64_t> within_unit(const Array& leaf) {
  const std::span<const std::int64_t> extents = leaf.shape().dims();
  // A vector, however it is written.
  if (std::count_if(extents.begin(), extents.end(), [](std::int64_t extent) { return extent != 1; }) < 2) return {};
  switch (leaf.shape().rank()) {
    case 2:
    case 3:
      return {0};
    case 4:
      return {0, 1, 2};
    case 5:
      return {0, 1, 2, 3};
    default:
      throw ShapeError("[adaptive_grad_clip] a leaf is " + to_string(leaf.type()) +
                       "; which dimensions are a unit's is known of ranks up to 5: give this leaf to another "
                       "clipping by masked");
  }
}

Array unit_norm(const Array& leaf) {
  const std::vector<std::int64_t> dimensions = within_unit(leaf);
  return (dimensions.empty() ? scaled_norm(leaf) : scaled_norm(leaf, dimensions)).value();
}

}  // namespace

Array all_finite(const Tree& tree) {
  // 0 times what is not finite is NaN; sums are computed where the leaves are.
  Array zero = full({}, 0.0, float32);
  for (const Array& leaf : tree.leaves()) {
    if (is_complex(leaf.dtype())) {
      zero = zero + convert(sum(real(leaf) * 0.0) + sum(imag(leaf) * 0.0), float32);
    } else if (is_float(leaf.dtype())) {
      zero = zero + convert(sum(wide(leaf) * 0.0), float32);
    }
  }
  return zero == 0;
}

GradientTransformation clip_by_block_rms(double threshold) {
  check_positive("clip_by_block_rms", "threshold", threshold);
  return leafwise(
      [threshold](const Array& u, const Array&) { return times(1.0 / maximum(leaf_rms(u) / threshold, 1.0), u); });
}

GradientTransformation adaptive_grad_clip(double clipping, double epsilon) {
  check_positive("adaptive_grad_clip", "clipping", clipping);
  check_positive("adaptive_grad_clip", "epsilon", epsilon);
  return leafwise([=](const Array& u, const Array& p) {
    const Array norm = unit_norm(u), limit = clipping * maximum(unit_norm(p), epsilon);
    const Array factor = where(norm < limit, 1.0, limit / maximum(norm, 1e-6));
    return u * convert(factor, u.dtype());
  });
}

GradientTransformation zero_nans() {
  auto init = [](const Tree& params) { return map([](const Array&) { return full({}, false, bool_); }, params); };
  auto update = [](const Tree& updates, const Tree&, const Tree&) {
    Tree found = map([](const Array& u) { return any(isnan(u)); }, updates);
    return std::pair(map([](const Array& u) { return where(isnan(u), 0.0, u); }, updates), std::move(found));
  };
  return {init, update};
}

GradientTransformation keep_params_nonnegative() {
  GradientTransformation rule = leafwise([](const Array& u, const Array& p) {
    const Array from = convert(p, u.dtype());
    return where(from + u < 0, -from, u);
  });
  rule.init = [](const Tree& params) {
    check_real("keep_params_nonnegative", params);
    return Tree();
  };
  return rule;
}

GradientTransformation centralize() {
  GradientTransformation rule = leafwise([](const Array& u, const Array&) {
    if (u.shape().rank() < 2) return u;
    std::vector<std::int64_t> others;
    for (int i = 1; i < u.shape().rank(); ++i) others.push_back(i);
    return u - mean(u, others, true);
  });
  rule.linear = true;
  return rule;
}

GradientTransformation normalize() {
  auto update = [](const Tree& updates, const Tree& state, const Tree&) {
    const Array factor = 1.0 / global_norm(updates);
    return std::pair(map([&](const Array& u) { return times(factor, wide(u)); }, updates), state);
  };
  return {no_state, update};
}

GradientTransformation normalize_by_update_norm(double scale, double epsilon) {
  check_positive("normalize_by_update_norm", "scale", scale);
  check_not_negative("normalize_by_update_norm", "epsilon", epsilon);
  auto update = [=](const Tree& updates, const Tree& state, const Tree&) {
    const Array factor = scale / (global_norm(updates) + epsilon);
    return std::pair(map([&](const Array& u) { return times(factor, wide(u)); }, updates), state);
  };
  return {no_state, update};
}

GradientTransformation ema(double decay, bool debias) {
  check_share("ema", "decay", decay);
  auto init = [](const Tree& params) {
    return Tree::dict({{"count", Tree(first_count())}, {"ema", zeros_of(params)}});
  };
  auto update = [=](const Tree& updates, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    Tree average = next_averages(decay, state.at("ema"), updates);
    Tree next = Tree::dict({{"count", Tree(count)}, {"ema", average}});
    if (!debias) return std::pair(std::move(average), std::move(next));
    const Array scale = correction(decay, count);
    return std::pair(map([&](const Array& m) { return times(scale, m); }, average), std::move(next));
  };
  return {.init = init, .update = update, .linear = true};
}

GradientTransformation add_noise(double eta, double gamma, const Array& key) {
  check_not_negative("add_noise", "eta", eta);
  check_not_negative("add_noise", "gamma", gamma);
  check_key("add_noise", key);
  auto init = [key](const Tree& params) {
    check_real("add_noise", params);
    return Tree::dict({{"count", Tree(first_count())}, {"key", Tree(random::key_data(key))}});
  };
  auto update = [=](const Tree& updates, const Tree& state, const Tree&) {
    const Array count = state.at("count").array() + 1;
    const Array deviation = sqrt(eta / pow(convert(count, float64), full({}, gamma, float64)));
    const Array keys = random::split(random::wrap_key_data(state.at("key").array()));
    Leaves noisy = updates.leaves();
    const Array of_leaves = random::split(keys[1], static_cast<std::int64_t>(noisy.size()));
    for (std::size_t i = 0; i < noisy.size(); ++i) {
      const Array u = wide(noisy[i]);
      const Array drawn =
          random::normal(of_leaves[static_cast<std::int64_t>(i)], u.shape(), u.dtype(), random::same_on_all);
      noisy[i] = u + times(deviation, drawn);
    }
    return std::pair(updates.unflatten(std::move(noisy)),
                     Tree::dict({{"count", Tree(count)}, {"key", Tree(random::key_data(keys[0]))}}));
  };
  return {init, update};
}

GradientTransformation monitor(Named<std::function<Array(const Tree& updates)>> measures) {
  const auto measured = [measures = std::move(measures)](const Tree& updates) {
    std::map<std::string, Tree> values;
    for (const auto& [name, measure] : measures) values.emplace(name, Tree(measure(updates)));
    return Tree::dict(std::move(values));
  };
  auto init = [measured](const Tree& params) { return measured(zeros_of(params)); };
  auto update = [measured](const Tree& updates, const Tree&, const Tree&) {
    return std::pair(updates, measured(widened(updates)));
  };
  return {.init = init, .update = update, .linear = true};
}

}  // namespace lockstep::optim
