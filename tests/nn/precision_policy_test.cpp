#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Which dtypes a policy gives to a model's variables, computations and results.

using namespace lockstep;
using tests::check_same_bits;
using tests::expect_error;

namespace {

/// Dtypes that the layers of the last call computed in.
struct Seen {
  DType hidden = bool_, normed = bool_, head = bool_;
};

Model<Array, Array> network(Seen* seen = nullptr) {
  return Model<Array, Array>([seen](Scope& s, const Array& x) {
    const Array h = dense(s["in"], x, {.units = 8});
    const Array n = dropout(s["drop"], batch_norm(s["norm"], relu(h)), 0.25);
    const Array y = dense(s["head"], n, {.units = 4});
    if (seen != nullptr) *seen = {h.dtype(), n.dtype(), y.dtype()};
    return y;
  });
}

Array six_rows() { return random::normal(random::key(5), {6, 3}); }

double float64_distance(const Array& a, const Array& b) {
  return max(abs(convert(a, float64) - convert(b, float64))).item<double>();
}

const std::vector<std::string> narrow_names = {"bfloat16", "float16", "mixed_bfloat16", "mixed_float16"};

}  // namespace

TEST_CASE("policies by name") {
  const auto is = [](const char* text, DType param, DType compute, DType output) {
    const PrecisionPolicy policy(text);
    CHECK(policy.dtypes() == PrecisionDTypes{param, compute, output});
    CHECK(name(policy) == text);
  };
  is("float32", float32, float32, float32);
  is("float64", float64, float64, float64);
  is("bfloat16", bfloat16, bfloat16, float32);
  is("float16", float16, float16, float32);
  is("mixed_bfloat16", float32, bfloat16, float32);
  is("mixed_float16", float32, float16, float32);
  CHECK(PrecisionPolicy().dtypes() == PrecisionPolicy("float32").dtypes());
  CHECK(name(PrecisionPolicy(PrecisionDTypes{float32, bfloat16, bfloat16})) ==
        "param=float32 compute=bfloat16 output=bfloat16");
  expect_error<ValueError>([] { PrecisionPolicy("mixed"); }, "precision policy", "\"mixed\"", "mixed_bfloat16");
  expect_error<DtypeError>([] { PrecisionPolicy(PrecisionDTypes{.compute = int32}); }, "compute", "int32", "float");
}

TEST_CASE("rules: a path, a pattern of all of it, the nearest layer around it") {
  const PrecisionPolicy policy = PrecisionPolicy("mixed_bfloat16")
                                     .with_rules({{"head", "float32"},
                                                  {"blocks/.*/norm/.*", "float32"},
                                                  {"in/bias", "bfloat16"},
                                                  {"blocks/0", "float16"}});
  const auto variable = [&](const char* path) { return name(PrecisionPolicy(policy.of_variable(path))); };
  const auto layer = [&](const char* path) { return name(PrecisionPolicy(policy.of_layer(path))); };
  CHECK(variable("head/kernel") == "float32");
  CHECK(layer("head") == "float32");
  CHECK(layer("head/inner") == "float32");
  CHECK(variable("header/kernel") == "mixed_bfloat16");
  CHECK(variable("in/bias") == "bfloat16");
  CHECK(variable("in/kernel") == "mixed_bfloat16");
  CHECK(layer("in") == "mixed_bfloat16");
  CHECK(layer("blocks/1/norm") == "float32");
  CHECK(variable("blocks/1/norm/gamma") == "float32");
  CHECK(variable("blocks/0/dense/kernel") == "float16");
  CHECK(variable("blocks/0/norm/gamma") == "float32");  // nearer than blocks/0
  CHECK(policy.of_layer("") == policy.dtypes());

  const PrecisionPolicy both =
      PrecisionPolicy("float32").with_rules({{"a/.*", "bfloat16"}, {".*/kernel", "float16"}, {"a/own", "float64"}});
  expect_error<ValueError>([&] { static_cast<void>(both.of_variable("a/kernel")); }, "\"a/kernel\"",
                           "matches multiple policies", "\"a/.*\"", "\".*/kernel\"", "narrow one");
  CHECK(both.of_variable("a/own").param == float64);
  expect_error<ValueError>(
      [] {
        PrecisionPolicy().with_rules({{"a(", "float32"}});
      },
      "\"a(\"", "no regular expression");
  expect_error<ValueError>(
      [] {
        PrecisionPolicy().with_rules({{"a", "float32"}, {"a", "float16"}});
      },
      "\"a\"", "stands there twice");
}

TEST_CASE("a model keeps, computes and gives the dtypes of its policy; state keeps its own") {
  const Array x = six_rows();
  const auto plain = network();
  const auto [w32, state32] = plain.init(random::key(1), x);
  for (const std::string& text : narrow_names) {
    CAPTURE(text);
    const PrecisionPolicy policy(text);
    Seen seen;
    const auto model = with_precision(network(&seen), policy);
    const auto [w, state] = model.init(random::key(1), x);
    for (const std::string& path : w.paths()) {
      CAPTURE(path);
      CHECK(w.at(path).array().dtype() == policy.dtypes().param);
      check_same_bits(w.at(path).array(), convert(w32.at(path).array(), policy.dtypes().param));
    }
    CHECK(fingerprint(state) == fingerprint(state32));
    const auto [y, next] = model.stateless_call(w, state, x, true);
    CHECK(seen.hidden == policy.dtypes().compute);
    CHECK(seen.normed == policy.dtypes().compute);
    CHECK(seen.head == policy.dtypes().compute);
    CHECK(y.dtype() == float32);
    check_same_types(state, next, "state");
    const auto [expected, next32] = plain.stateless_call(w32, state32, x, true);
    CHECK(float64_distance(y, expected) < 0.05);
    CHECK(float64_distance(next.at("norm/moving_mean").array(), next32.at("norm/moving_mean").array()) < 1e-3);
    check_same_bits(next.at("drop/rng").array(), next32.at("drop/rng").array());
    for (const Variable& v : model.variables(x)) {
      CHECK(v.type.dtype == (v.trainable ? policy.dtypes().param : state32.at(v.path).array().dtype()));
    }
  }
}

TEST_CASE("float32 as a policy is the model without one, bit for bit") {
  const auto plain = network(), named = with_precision(plain, "float32");
  const auto [w, state] = plain.init(random::key(1), six_rows());
  CHECK(fingerprint(named.init(random::key(1), six_rows()).first) == fingerprint(w));
  const auto [y, next] = plain.stateless_call(w, state, six_rows(), true);
  const auto [same, after] = named.stateless_call(w, state, six_rows(), true);
  check_same_bits(y, same);
  CHECK(fingerprint(next) == fingerprint(after));
}

TEST_CASE("a rule gives a layer other dtypes, and a layer may ask for its own") {
  Seen seen;
  const auto model = with_precision(
      network(&seen), PrecisionPolicy("mixed_bfloat16").with_rules({{"head/.*", "float32"}, {"in/bias", "bfloat16"}}));
  const auto [w, state] = model.init(random::key(1), six_rows());
  CHECK(w.at("in/bias").array().dtype() == bfloat16);
  CHECK(w.at("in/kernel").array().dtype() == float32);
  static_cast<void>(model.stateless_call(w, state, six_rows(), false));
  CHECK(seen.hidden == bfloat16);
  CHECK(seen.head == float32);

  const Model<Array, Array> inside([](Scope& s, const Array& x) {
    const Array h = dense(s["a"].with_precision("bfloat16"), x, {.units = 4});
    CHECK(h.dtype() == bfloat16);
    return dense(s["b"].with_precision("float32"), h, {.units = 2});
  });
  const auto [v, none] = inside.init(random::key(0), six_rows());
  CHECK(v.at("a/kernel").array().dtype() == bfloat16);
  CHECK(v.at("b/kernel").array().dtype() == float32);
  CHECK(inside.stateless_call(v, none, six_rows(), false).first.dtype() == float32);
}

TEST_CASE("a rule that nothing takes is an error of init, and two that do of any call") {
  const auto ruled = [](std::vector<PrecisionPolicy::Rule> rules) {
    return with_precision(network(), PrecisionPolicy("mixed_bfloat16").with_rules(std::move(rules)));
  };
  expect_error<ValueError>(
      [&] {
        static_cast<void>(ruled({{"haed/.*", "float32"}}).init(random::key(0), six_rows()));
      },
      "\"haed/.*\"", "head/kernel", "leave it out");
  expect_error<ValueError>(
      [&] {
        static_cast<void>(ruled({{"head/.*", "float32"}, {".*/kernel", "float32"}}).init(random::key(0), six_rows()));
      },
      "\"head/kernel\"", "multiple policies");
}

TEST_CASE("trees of functions that know no Scope") {
  const PrecisionPolicy policy = PrecisionPolicy("mixed_bfloat16").with_rules({{"head/.*", "float32"}});
  const Tree w = Tree::dict({{"in", Tree::dict({{"kernel", Tree(ones({2, 2}, float64))}})},
                             {"head", Tree::dict({{"kernel", Tree(ones({2, 2}, float64))}})},
                             {"count", Tree(zeros({}, int32))}});
  const auto dtype_of = [](const Tree& tree, const char* path) { return tree.at(path).array().dtype(); };
  const Tree kept = policy.in_param_dtypes(w), computed = policy.in_compute_dtypes(w),
             given = policy.in_output_dtype(w);
  CHECK(dtype_of(kept, "in/kernel") == float32);
  CHECK(dtype_of(computed, "in/kernel") == bfloat16);
  CHECK(dtype_of(computed, "head/kernel") == float32);
  CHECK(dtype_of(given, "in/kernel") == float32);
  CHECK(dtype_of(computed, "count") == int32);
  expect_error<ValueError>(
      [&] {
        static_cast<void>(policy.in_compute_dtypes(Tree::dict({{"a", Tree(ones({2}))}})));
      },
      "\"head/.*\"", "'a'");
  // Gradients are those of the masters, of a loss that is computed in 16 bits: jmp's way, and the model's.
  const Model<Array, Array> model([](Scope& s, const Array& x) { return dense(s["in"], x, {.units = 4}); });
  const auto narrow = with_precision(model, "mixed_bfloat16");
  const auto [v, state] = narrow.init(random::key(2), six_rows());
  const auto of_model = [&, state = state](const Tree& t) {
    return sum(sin(narrow.stateless_call(t, state, six_rows(), true).first));
  };
  const auto by_hand = [](const Tree& t) {
    const PrecisionPolicy mixed("mixed_bfloat16");
    const Tree c = mixed.in_compute_dtypes(t);
    const Array y = matmul(convert(six_rows(), bfloat16), c.at("in/kernel").array()) + c.at("in/bias").array();
    return sum(sin(convert(y, float32)));
  };
  const Tree a = grad(of_model)(v), b = grad(by_hand)(v);
  CHECK(a.at("in/kernel").array().dtype() == float32);
  CHECK(fingerprint(a) == fingerprint(b));
}

TEST_CASE("an embedding's rows are rounded, and its gradient is added up in the table's dtype") {
  const auto model = with_precision(Model<Array, Array>([](Scope& s, const Array& i) {
                                      const Array rows = embedding(s, i, {.vocabulary = 3, .features = 2});
                                      CHECK(rows.dtype() == bfloat16);
                                      return rows;
                                    }),
                                    "mixed_bfloat16");
  const Array indices = zeros({1000}, int32);
  const auto [w, state] = model.init(random::key(0), indices);
  const Tree slopes =
      grad([&, state = state](const Tree& t) { return sum(model.stateless_call(t, state, indices, true).first); })(w);
  tests::check_close(slopes.at("embeddings").array(), {3, 2}, {1000, 1000, 0, 0, 0, 0});
}

TEST_CASE("jit, remat, vmap, scan_layers and two derivatives of a model in 16 bits") {
  const auto body = [](Scope& s, const Array& x) {
    const auto block = [](const Scope& layer, const Array& h) {
      return remat([&](const Array& v) {
        return v + tanh(dense(layer["dense"], layer_norm(layer["norm"], v), {.units = 3}));
      })(h);
    };
    return dense(s["head"], scan_layers(s["blocks"], 3, block, x), {.units = 2});
  };
  const Model<Array, Array> wide(body);
  const auto narrow =
      with_precision(wide, PrecisionPolicy("mixed_bfloat16").with_rules({{"blocks/norm/.*", "float32"}}));
  const auto [w, state] = narrow.init(random::key(3), six_rows());
  CHECK(w.at("blocks/dense/kernel").array().type() == ArrayType{float32, {3, 3, 3}, {}});
  const auto of = [&, state = state](const Model<Array, Array>& model) {
    return [model, state](const Tree& t, const Array& x) { return model.stateless_call(t, state, x, true).first; };
  };
  const auto call = of(narrow);
  const Array y = call(w, six_rows());
  CHECK(float64_distance(y, of(wide)(w, six_rows())) < 0.05);
  check_same_bits(jit(call)(w, six_rows()), y);
  const Array each =
      vmap([&, w = w](const Array& row) { return squeeze(call(w, expand_dims(row, 0)), {0}); })(six_rows());
  CHECK(float64_distance(each, y) < 0.02);
  const auto loss_of = [](const auto& f) { return [f](const Tree& t) { return sum(square(f(t, six_rows()))); }; };
  const auto slope_of = [](const auto& loss) {
    return [loss](const Tree& t) { return optim::global_norm(grad(loss)(t)); };
  };
  const Tree second = jit(grad(slope_of(loss_of(call))))(w), expected = grad(slope_of(loss_of(of(wide))))(w);
  for (const std::string& path : second.paths()) {
    CAPTURE(path);
    CHECK(second.at(path).array().dtype() == float32);
    const double size = max(abs(expected.at(path).array())).item<double>();
    CHECK(float64_distance(second.at(path).array(), expected.at(path).array()) < 0.1 * (1 + size));
  }
}

TEST_CASE("generating with a cache in a model of 16 bits") {
  const MultiHeadAttentionOptions options{.heads = 2, .rotary = true};
  const Array x = random::normal(random::key(4), {2, 3, 8});
  const auto whole =
      with_precision(Model<Array, Array>([&](Scope& s, const Array& v) {
                       AttentionContext context;
                       return multi_head_attention(s, v, {.heads = 2, .is_causal = true, .rotary = true}, context);
                     }),
                     "mixed_bfloat16");
  const auto [w, state] = whole.init(random::key(1), x);
  const Array y = whole.stateless_call(w, state, x, false).first;
  KvCache cache = empty_cache(x, 3, options);
  for (std::int64_t t = 0; t < 3; ++t) {
    const auto step = with_precision(
        Model<std::pair<Array, KvCache>, std::pair<Array, KvCache>>([&](Scope& s, const std::pair<Array, KvCache>& in) {
          return multi_head_attention(s, in.first, in.second, options);
        }),
        "mixed_bfloat16");
    auto [part, next] = step.stateless_call(w, state, std::pair(slice_in_dim(x, t, t + 1, 1), cache), false).first;
    CHECK(float64_distance(part, slice_in_dim(y, t, t + 1, 1)) < 0.03);
    cache = next;
  }
}
