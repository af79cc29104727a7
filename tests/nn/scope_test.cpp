#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

using namespace lockstep;

namespace {

Array unit_draw(const Array& key, const Shape& shape, DType dtype) {
  if (!is_float(dtype)) return zeros(shape, dtype);
  return random::uniform(key, shape, dtype, 0.0, 1.0, random::same_on_all);
}

VariableSpec spec(Shape shape, DType dtype = float32, Aggregation aggregation = Aggregation::none) {
  return {.shape = shape, .dtype = dtype, .initializer = unit_draw, .aggregation = aggregation};
}

template <class F>
std::pair<Tree, Tree> init_of(F declare) {
  const Model model([declare](Scope& scope, const Array& x) {
    declare(scope);
    return x;
  });
  return model.init(random::key(7), zeros({2, 3}));
}

void check_equal_bits(const Array& a, const Array& b) {
  CHECK(a.type() == b.type());
  CHECK(a.to_bytes() == b.to_bytes());
}

}  // namespace

TEST_CASE("variables are listed by path, with type, kind and aggregation") {
  const Model model([](Scope& scope, const Array& x) {
    scope["b"]["inner"].trainable("w", spec({2}, float64, Aggregation::sum));
    scope.non_trainable("count", spec({}, int32, Aggregation::only_first_replica));
    scope["a"].trainable("w", spec({3, 1}));
    CHECK(scope["b"]["inner"].path() == "b/inner");
    CHECK(scope.path().empty());
    return x;
  });
  const std::vector<Variable> found = model.variables(zeros({1}));
  REQUIRE(found.size() == 3);
  CHECK(found[0].path == "a/w");
  CHECK(to_string(found[0].type) == "f32[3,1]");
  CHECK(found[0].trainable);
  CHECK(found[0].aggregation == Aggregation::none);
  CHECK(found[1].path == "b/inner/w");
  CHECK(to_string(found[1].type) == "f64[2]");
  CHECK(found[1].aggregation == Aggregation::sum);
  CHECK(found[2].path == "count");
  CHECK_FALSE(found[2].trainable);
  CHECK(found[2].aggregation == Aggregation::only_first_replica);
}

TEST_CASE("init gives a tree of each kind, in order of path") {
  const auto [trainable, state] = init_of([](Scope& scope) {
    scope["z"].trainable("w", spec({2}));
    scope["a"].trainable("w", spec({1}));
    scope["z"].non_trainable("seen", spec({}, int64));
  });
  CHECK(trainable.paths() == std::vector<std::string>{"a/w", "z/w"});
  CHECK(state.paths() == std::vector<std::string>{"z/seen"});
}

TEST_CASE("two calls on one path share the variables, and their gradients add") {
  const Model model([](Scope& scope, const Array& x) {
    const DenseOptions options{.units = 2, .kernel_initializer = initializers::ones()};
    return dense(scope["tied"], dense(scope["tied"], x, options), options);
  });
  const auto [trainable, state] = model.init(random::key(0), zeros({1, 2}));
  CHECK(trainable.paths() == std::vector<std::string>{"tied/bias", "tied/kernel"});
  const Array x = array(std::vector<float>{1, 2}, {1, 2});
  const auto y = [&, state = state](const Tree& w) { return sum(model.stateless_call(w, state, x, true).first); };
  const auto [value, gradient] = value_and_grad(y)(trainable);
  // h = x K, y = h K: with K of ones h = (3, 3) and every output is 6.
  CHECK(value.item<float>() == 12);
  CHECK(gradient.at("tied/kernel").array().to_vector<float>() == std::vector<float>{5, 5, 7, 7});
  CHECK(gradient.at("tied/bias").array().to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("a second declaration with another spec is refused by path") {
  struct Case {
    VariableSpec second;
    bool trainable;
    std::string text;
  };
  const std::vector<Case> cases = {
      {spec({3}), true, "f32[2] aggregation=none trainable, then f32[3] aggregation=none trainable"},
      {spec({2}, float64), true, "then f64[2] aggregation=none trainable"},
      {spec({2}, float32, Aggregation::sum), true, "then f32[2] aggregation=sum trainable"},
      {spec({2}), false, "then f32[2] aggregation=none non-trainable"},
  };
  for (const Case& c : cases) {
    const auto declare = [&c](Scope& scope) {
      scope["layer"].trainable("w", spec({2}));
      c.trainable ? scope["layer"].trainable("w", c.second) : scope["layer"].non_trainable("w", c.second);
    };
    tests::expect_error<StateError>([&] { static_cast<void>(init_of(declare)); }, c.text);
    tests::expect_error<StateError>([&] { static_cast<void>(init_of(declare)); },
                                    "variable 'layer/w' is declared twice");
  }
}

TEST_CASE("a variable and a scope cannot have one path") {
  const auto above = [](Scope& scope) {
    scope.trainable("a", spec({2}));
    scope["a"].trainable("b", spec({2}));
  };
  tests::expect_error<StateError>([&] { static_cast<void>(init_of(above)); },
                                  "'a' is a variable, and variable 'a/b' lies below it");
  const auto below = [](Scope& scope) {
    scope["a"].trainable("b", spec({2}));
    scope.trainable("a", spec({2}));
  };
  tests::expect_error<StateError>([&] { static_cast<void>(init_of(below)); },
                                  "'a' is a variable, and variable 'a/b' lies below it");
}

TEST_CASE("names are non-empty and hold no slash") {
  tests::expect_error<StateError>([&] { static_cast<void>(init_of([](Scope& scope) { scope[""]; })); },
                                  "'' below '' is no name");
  tests::expect_error<StateError>([&] { static_cast<void>(init_of([](Scope& scope) { scope["a"]["b/c"]; })); },
                                  "'b/c' below 'a' is no name");
  tests::expect_error<StateError>(
      [&] { static_cast<void>(init_of([](Scope& scope) { scope["a"].trainable("b/w", spec({1})); })); }, "without '/'");
  tests::expect_error<StateError>(
      [&] { static_cast<void>(init_of([](Scope& scope) { scope["a"].non_trainable("", spec({1})); })); }, "is no name");
}

TEST_CASE("an initializer returns what was declared") {
  const auto with = [](Initializer initializer) {
    return [initializer](Scope& scope) {
      scope["layer"].trainable("w", {.shape = {2, 3}, .dtype = float32, .initializer = initializer});
    };
  };
  const auto other_shape = with([](const Array&, const Shape&, DType dtype) { return zeros({3, 2}, dtype); });
  tests::expect_error<StateError>([&] { static_cast<void>(init_of(other_shape)); },
                                  "initializer of 'layer/w' returned f32[3,2], the variable is declared f32[2,3]");
  const auto other_dtype = with([](const Array&, const Shape& shape, DType) { return zeros(shape, float64); });
  tests::expect_error<StateError>([&] { static_cast<void>(init_of(other_dtype)); }, "returned f64[2,3]");
}

TEST_CASE("a variable's key is fold_in(key, first four bytes of SHA-256 of its path)") {
  const auto [trainable, state] = init_of([](Scope& scope) {
    scope["dense"].trainable("kernel", spec({4}));
    scope["drop"].next_key();
  });
  // sha256("dense/kernel") and sha256("drop/rng") begin with these bytes.
  const Array kernel_key = random::fold_in(random::key(7), array<std::uint32_t>(0x69F92721));
  check_equal_bits(trainable.at("dense/kernel").array(), unit_draw(kernel_key, {4}, float32));
  const std::vector<std::uint32_t> words =
      random::key_data(random::fold_in(random::key(7), array<std::uint32_t>(0x305B60B1))).to_vector<std::uint32_t>();
  CHECK(state.at("drop/rng").array().to_vector<std::uint32_t>() == std::vector<std::uint32_t>{words[0], words[1], 0});
}

TEST_CASE("adding a layer changes no other layer's randomness") {
  const auto model = [](bool more) {
    return Model([more](Scope& scope, const Array& x) {
      Array h = dense(scope["first"], x, {.units = 4});
      if (more) h = dropout(scope["between"], dense(scope["between"], h, {.units = 4}), 0.5);
      return dropout(scope["drop"], dense(scope["last"], h, {.units = 4}), 0.5);
    });
  };
  const auto [few, few_state] = model(false).init(random::key(3), zeros({2, 4}));
  const auto [many, many_state] = model(true).init(random::key(3), zeros({2, 4}));
  for (const std::string& path : few.paths()) check_equal_bits(few.at(path).array(), many.at(path).array());
  check_equal_bits(few_state.at("drop/rng").array(), many_state.at("drop/rng").array());
  CHECK(few.at("first/kernel").array().to_bytes() != few.at("last/kernel").array().to_bytes());
}

TEST_CASE("draw i of call n uses fold_in(fold_in(key, n), i); evaluation leaves the leaf as it is") {
  const Model model([](Scope& scope, const Array& x) {
    const Array first = random::key_data(scope["noise"].next_key());
    const Array second = random::key_data(scope["noise"].next_key());
    return stack(std::vector<Array>{first, second}, 0) + convert(x, uint32);
  });
  const Array x = zeros({1}, uint32);
  auto [trainable, state] = model.init(random::key(7), x);
  const std::vector<std::uint32_t> leaf = state.at("noise/rng").array().to_vector<std::uint32_t>();
  const Array key = random::wrap_key_data(array(std::vector<std::uint32_t>{leaf[0], leaf[1]}));
  for (std::uint32_t call = 0; call < 3; ++call) {
    const auto evaluated = model.stateless_call(trainable, state, x, false);
    check_equal_bits(evaluated.second.at("noise/rng").array(), state.at("noise/rng").array());
    auto [keys, next] = model.stateless_call(trainable, state, x, true);
    check_equal_bits(keys, evaluated.first);
    const Array of_call = random::fold_in(key, array<std::uint32_t>(call));
    for (std::uint32_t draw = 0; draw < 2; ++draw) {
      const Array expected = random::key_data(random::fold_in(of_call, array<std::uint32_t>(draw)));
      check_equal_bits(squeeze(slice_in_dim(keys, draw, draw + 1, 0), {0}), expected);
    }
    CHECK(next.at("noise/rng").array().to_vector<std::uint32_t>() ==
          std::vector<std::uint32_t>{leaf[0], leaf[1], call + 1});
    state = next;
  }
}

TEST_CASE("a leaf of another kind of dtype is refused by path") {
  const Model model([](Scope& scope, const Array& x) {
    scope.non_trainable("count", spec({}, int32));
    return x * scope.trainable("w", spec({}));
  });
  const Array x = zeros({1});
  const auto [trainable, state] = model.init(random::key(0), x);
  tests::expect_error<StateError>(
      [&] { static_cast<void>(model.stateless_call(trainable.with("w", Tree(array(1))), state, x, true)); },
      "leaf 'w' has dtype int32, its declaration says float32");
  tests::expect_error<StateError>(
      [&] { static_cast<void>(model.stateless_call(trainable, state.with("count", Tree(array(1.0F))), x, true)); },
      "leaf 'count' has dtype float32, its declaration says int32");
}

TEST_CASE("what a scope says of its call") {
  const Model model([](Scope& scope, const Array& x) {
    if (scope.is_init()) return x;
    CHECK(scope.rows().has_value());
    CHECK(scope.batch_axes().empty());
    CHECK(scope.over_batch().same_on_all);
    return scope.training() ? x + 1 : x - 1;
  });
  const auto [trainable, state] = model.init(random::key(0), zeros({1}));
  CHECK(model.stateless_call(trainable, state, zeros({1}), true, {.rows = ones({1})}).first.item<float>() == 1);
  CHECK(model.stateless_call(trainable, state, zeros({1}), false, {.rows = ones({1})}).first.item<float>() == -1);
}

TEST_CASE("assign and accumulate take declared, non-trainable variables and values of their type") {
  tests::expect_error<StateError>([&] { static_cast<void>(init_of([](Scope& s) { s["a"].assign("n", zeros({})); })); },
                                  "no variable 'a/n' is declared");
  tests::expect_error<StateError>(
      [&] { static_cast<void>(init_of([](Scope& s) { s["a"].accumulate("n", zeros({})); })); },
      "declare it with non_trainable");
  const auto to_weight = [](Scope& scope) {
    scope.trainable("w", spec({2}));
    scope.assign("w", zeros({2}));
  };
  tests::expect_error<StateError>([&] { static_cast<void>(init_of(to_weight)); },
                                  "'w' is trainable; only non-trainable variables take new values");
  const auto another_type = [](Scope& scope) {
    scope.non_trainable("n", spec({2}));
    scope.assign("n", zeros({3}));
  };
  tests::expect_error<StateError>([&] { static_cast<void>(init_of(another_type)); },
                                  "'n' is f32[2], the value given is f32[3]; convert or reshape it");
}

TEST_CASE("a model declared in float32 runs in float64: its leaves come so, what it assigns is converted") {
  const Model model([](Scope& scope, const Array& x) {
    const Array narrow = convert(scope.trainable("w", spec({2})), float32) * 1.5F;
    scope.non_trainable("last", spec({2}));
    scope.non_trainable("total", spec({2}, float32, Aggregation::sum));
    scope.assign("last", scope.training() ? narrow : x);
    scope.accumulate("total", narrow);
    return x;
  });
  const Array x = zeros({2}, float64);
  const auto [trainable, state] = model.init(random::key(0), x);
  const auto wide = [](const Tree& tree) {
    return map([](const Array& leaf) { return convert(leaf, float64); }, tree);
  };
  const Tree next = model.stateless_call(wide(trainable), wide(state), x, true).second;
  CHECK(to_string(next.at("last").array().type()) == "f64[2]");
  CHECK(to_string(next.at("total").array().type()) == "f64[2]");
  CHECK(next.at("last").array().to_vector<double>() ==
        convert(trainable.at("w").array() * 1.5F, float64).to_vector<double>());
  tests::expect_error<StateError>([&] { static_cast<void>(model.stateless_call(trainable, state, x, false)); },
                                  "'last' is f32[2], the value given is f64[2]");
}

TEST_CASE("a trainable variable without a gradient is refused where it is declared") {
  for (const DType dtype : {int8, int32, uint64, DType::bool_}) {
    CAPTURE(name(dtype));
    const auto declare = [&](Scope& scope) { scope["layer"].trainable("n", spec({2}, dtype)); };
    tests::expect_error<DtypeError>([&] { static_cast<void>(init_of(declare)); },
                                    "trainable variable 'layer/n' is declared ");
    tests::expect_error<DtypeError>([&] { static_cast<void>(init_of(declare)); },
                                    "declare it with non_trainable, or give it a float dtype");
  }
  for (const DType dtype : {float16, bfloat16, float64}) {
    init_of([&](Scope& scope) { scope["layer"].trainable("n", spec({2}, dtype)); });
  }
}

namespace {

/// A layer of a user's own, of raw ops alone; it takes inputs of three features.
Array own_layer(const Scope& scope, const Array& x) {
  const Array w = scope.trainable("w", spec({4, 2}));
  return matmul(reshape(x, {-1, 3}), w);
}

Model<Array, Array> model_of(bool in_remat) {
  return Model([=](Scope& s, const Array& x) {
    const Array h = relu(dense(s["before"], x, {.units = x.dim(x.ndim() - 1)}));
    const Scope blocks = s["blocks"];
    const Scope other = s["other"];
    const auto layer = [&](const Array& v) { return own_layer(blocks["own"], v); };
    return in_remat ? remat(layer)(h) : layer(h);
  });
}

}  // namespace

TEST_CASE("an error of a raw op says the layer: eager, in init, compiled, in a gradient, a batch and a remat") {
  const Array x = ones({2, 3});
  const Tree weights =
      Tree().with("blocks/own/w", zeros({4, 2})).with("before/kernel", zeros({3, 3})).with("before/bias", zeros({3}));
  for (const bool in_remat : {false, true}) {
    const Model model = model_of(in_remat);
    const auto call = [model](const Tree& w, const Array& v) { return model.stateless_call(w, {}, v, true).first; };
    for (const std::string place : {", in layer \"blocks/own\")", "(at scope_test.cpp:"}) {
      tests::expect_error<ShapeError>([&] { static_cast<void>(model.init(random::key(0), x)); }, place);
      tests::expect_error<ShapeError>([&] { static_cast<void>(call(weights, x)); }, place);
      tests::expect_error<ShapeError>([&] { static_cast<void>(jit(call)(weights, x)); }, place);
      tests::expect_error<ShapeError>(
          [&] { static_cast<void>(grad([&](const Array& v) { return sum(call(weights, v)); })(x)); }, place);
      tests::expect_error<ShapeError>(
          [&] {
            static_cast<void>(vmap([&](const Array& v) { return call(weights, v); })(ones({5, 2, 3})));
          },
          place);
    }
  }
}

TEST_CASE("an error behind a layer is not the layer's") {
  const Model model([](Scope& s, const Array& x) { return matmul(dense(s["d"], x, {.units = 2}), ones({5, 5})); });
  const std::string text = tests::error_text<ShapeError>([&] { (void)model.init(random::key(0), ones({2, 3})); });
  INFO("the error says: ", text);
  CHECK(!tests::contains(text, "\"d\""));
  CHECK(tests::contains(text, "(at scope_test.cpp:"));
}
