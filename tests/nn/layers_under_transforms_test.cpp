// A layer means the same inside a transform as outside of it: the plain form is the source of every right value.
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"
#include "tests/support/layer_transforms.h"
#include "tests/support/replicas.h"

using namespace lockstep;

namespace {

using tests::LayerFunction;
using tests::once;
using tests::twice;
using Transform = tests::LayerTransform;

/// A layer that keeps the shape of its input.
struct LayerKind {
  std::string name;
  Shape input;
  LayerFunction layer;
};

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = {
      {"dense", {8, 6}, [](const Scope& s, const Array& x) { return tanh(dense(s["l"], x, {.units = 6})); }},
      {"conv2d", {8, 4, 4, 3}, [](const Scope& s, const Array& x) { return tanh(conv2d(s["l"], x, {.filters = 3})); }},
      {"batch_norm", {8, 6}, [](const Scope& s, const Array& x) { return batch_norm(s["l"], x, {.momentum = 0.5}); }},
      {"layer_norm", {8, 6}, [](const Scope& s, const Array& x) { return layer_norm(s["l"], x); }},
      {"dropout", {8, 6}, [](const Scope& s, const Array& x) { return dropout(s["l"], x, 0.5); }},
      {"embedding",
       {8, 6},
       [](const Scope& s, const Array& x) {
         return embedding(s["l"], convert(abs(x) * 4, int32), {.vocabulary = 9, .features = 6})[0][0] + x;
       }},
      {"attention",
       {8, 4, 6},
       [](const Scope& s, const Array& x) { return multi_head_attention(s["l"], x, {.heads = 2}); }},
      {"lstm", {8, 4, 6}, [](const Scope& s, const Array& x) { return lstm(s["l"], x, {.units = 6}); }},
      {"block",
       {8, 6},
       [](const Scope& s, const Array& x) {
         const Array h = batch_norm(s["norm"], dense(s["d"], x, {.units = 6}), {.momentum = 0.5});
         return x + dropout(s["drop_1"], tanh(dropout(s["drop_0"], h, 0.25)), 0.25);
       }},
  };
  return kinds;
}

/// A transform and the same without it.
struct TransformKind {
  std::string name;
  Transform lifted;
  Transform plain;
};

const std::vector<TransformKind>& transform_kinds() {
  static const std::vector<TransformKind> kinds = {
      {"remat", tests::in_remat, once},
      {"jit", tests::in_jit, once},
      {"scan", tests::in_scan, twice},
      {"scan over xs",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const Array xs = stack(std::vector<Array>{x, x * 2}, 0);
         const auto [last, ys] = scan(
             [&](const Array& c, const Array& v) {
               const Array y = f(s, v);
               return std::pair(c + y, y);
             },
             zeros(x.shape(), x.dtype()), xs);
         return last + ys[1];
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const Array a = f(s, x), b = f(s, x * 2);
         return (a + b) + b;
       }},
      {"fori_loop", tests::in_fori_loop, twice},
      {"map",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const Array ys = map([&](const Array& v) { return f(s, v); }, stack(std::vector<Array>{x, x * 2}, 0));
         return ys[0] - ys[1];
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const Array a = f(s, x);
         return a - f(s, x * 2);
       }},
      {"cond",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const auto branch = [&](bool taken) {
           return cond(
               Operand(full({}, taken, bool_)), [&](const Array& v) { return f(s, v); },
               [](const Array& v) { return v * 2; }, x);
         };
         return branch(false) + branch(true);
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) { return x * 2 + f(s, x); }},
      {"switch_", tests::in_switch, once},
      {"remat in scan", tests::in_remat_in_scan, twice},
      {"cond in scan",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return fori_loop(
             0, 3,
             [&](const Array& i, const Array& v) {
               return cond(
                   i != 1, [&](const Array& u) { return f(s, u); }, [](const Array& u) { return u * 2; }, v);
             },
             x);
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) { return f(s, f(s, x) * 2); }},
      {"scan in remat in jit", tests::in_scan_in_remat_in_jit, twice},
      {"before, in and after a loop",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return f(s, fori_loop(
                         0, 2, [&](const Array&, const Array& v) { return f(s, v); }, f(s, x)));
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) { return twice(s, twice(s, x, f), f); }},
      {"grad",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return grad([&](const Array& v) { return sum(sin(f(s, v))); })(x);
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const auto [y, back] = vjp([&](const Array& v) { return sum(sin(f(s, v))); }, x);
         return std::get<0>(back(ones({}, y.dtype())));
       }},
      {"jvp", tests::in_jvp, once},
      {"linearize",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return linearize([&](const Array& v) { return f(s, v); }, x).first;
       },
       once},
  };
  return kinds;
}

/// The transform's own derivative differs from the plain form's where the plain form has none.
struct Outcome {
  Tree trainable, state, next, gradients;
  Array y, evaluated;
};

Outcome outcome(const Transform& transform, const LayerKind& kind, const Array& x) {
  const Model model([&](const Scope& s, const Array& v) { return transform(s["model"], v, kind.layer); });
  Outcome o;
  std::tie(o.trainable, o.state) = model.init(random::key(3), x);
  const auto loss = [&](const Tree& w, const Array& v) {
    const auto [y, next] = model.stateless_call(w, o.state, v, true);
    return std::pair(sum(sin(y)), std::pair(y, next));
  };
  const auto run = [&](const Tree& w, const Array& v) { return value_and_grad<0, 1>(loss)(w, v); };
  const auto [value, gradients] = jit(run)(o.trainable, x);
  std::tie(o.y, o.next) = value.second;
  o.gradients = to_tree(gradients);
  o.evaluated = model.stateless_call(o.trainable, o.state, x, false).first;
  return o;
}

void check_leaves_close(const Tree& a, const Tree& b, double tolerance) {
  REQUIRE(a.paths() == b.paths());
  for (std::size_t i = 0; i < a.leaves().size(); ++i) {
    CAPTURE(a.paths()[i]);
    const Array p = a.leaves()[i], q = b.leaves()[i];
    REQUIRE(p.type() == q.type());
    if (!is_float(p.dtype())) {
      CHECK(p.to_bytes() == q.to_bytes());
      continue;
    }
    const double scale = 1 + convert(max(abs(q)), float64).item<double>();
    CHECK(convert(max(abs(p - q)), float64).item<double>() <= tolerance * scale);
  }
}

void check_same_leaves(const Tree& a, const Tree& b) {
  REQUIRE(a.paths() == b.paths());
  for (std::size_t i = 0; i < a.leaves().size(); ++i) {
    CAPTURE(a.paths()[i]);
    CHECK(a.leaves()[i].type() == b.leaves()[i].type());
    CHECK(a.leaves()[i].to_bytes() == b.leaves()[i].to_bytes());
  }
}

}  // namespace

TEST_CASE(
    "every layer in every transform: init, training, state, gradients and evaluation are those of the plain form") {
  for (const LayerKind& kind : layer_kinds()) {
    for (const TransformKind& transform : transform_kinds()) {
      CAPTURE(kind.name);
      CAPTURE(transform.name);
      const Array x = tests::spread_values(kind.input);
      const Outcome lifted = outcome(transform.lifted, kind, x), plain = outcome(transform.plain, kind, x);
      check_same_leaves(lifted.trainable, plain.trainable);
      check_same_leaves(lifted.state, plain.state);
      check_leaves_close(lifted.next, plain.next, 1e-12);
      check_leaves_close(Tree(lifted.y), Tree(plain.y), 1e-12);
      check_leaves_close(Tree(lifted.evaluated), Tree(plain.evaluated), 1e-12);
      check_leaves_close(lifted.gradients, plain.gradients, 1e-11);
    }
  }
}
