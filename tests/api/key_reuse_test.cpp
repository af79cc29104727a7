#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/layers.h>
#include <lockstep/model.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/key_reuse_checks.h"

// A key that is used twice is found, in what is traced and in what is not.
using namespace lockstep;
using tests::check_same_bits;
using tests::expect_error;
using tests::KeyReuseChecks;

namespace {

const Array& example() {
  static const Array key = random::key(1);
  return key;
}

template <class F>
void check_reuse(const F& function) {
  random::check_key_reuse(trace_function(function, example()));
}

template <class F>
void expect_reuse(const F& function, const char* second, const char* first) {
  expect_error<KeyReuseError>([&] { check_reuse(function); }, std::string(second) + " uses a random key",
                              std::string("that ") + first + " has used before");
}

}  // namespace

TEST_CASE("two draws from one key are found") {
  expect_reuse([](const Array& k) { return random::uniform(k, {2}) + random::normal(k, {2}); }, "random_bits",
               "random_bits");
  // The operands of + may be evaluated in any order, so what comes first stands in a line of its own.
  expect_reuse(
      [](const Array& k) {
        const Array first = random::gamma(random::split(k)[0], 1.0, {2});
        return first + random::uniform(k, {2});
      },
      "random_bits", "random_split");
  expect_reuse(
      [](const Array& k) {
        const Array first = random::uniform(k, {2});
        return first + random::uniform(random::split(k)[1], {2});
      },
      "random_split", "random_bits");
  expect_reuse(
      [](const Array& k) {
        const Array keys = random::split(k, 3);
        return random::uniform(keys[1], {2}) + random::uniform(keys[1], {2});
      },
      "random_bits", "random_bits");
  expect_reuse(
      [](const Array& k) {
        const Array keys = random::split(k, 4);
        const Array all = random::uniform(keys, {});  // all of them, and then one again
        return sum(all) + random::uniform(reshape(keys, {2, 2})[1][0], {});
      },
      "random_bits", "random_bits");
  expect_reuse(
      [](const Array& k) {
        const Array keys = random::split(k, 4);
        const Array first = random::uniform(keys[2], {});
        return first + random::uniform(split(keys, 2, 0)[1][0], {});
      },
      "random_bits", "random_bits");
}

TEST_CASE("what is no second use is let pass") {
  check_reuse([](const Array& k) {
    const Array keys = random::split(k, 3);
    return random::uniform(keys[0], {2}) + random::uniform(keys[1], {2}) + random::uniform(keys[-1], {2});
  });
  check_reuse([](const Array& k) {  // fold_in and key_data leave the key as it is
    const Array x = random::uniform(random::fold_in(k, 1), {2}) + random::uniform(random::fold_in(k, 2), {2});
    return x + convert(random::key_data(k), float32) + random::uniform(k, {2});
  });
  check_reuse([](const Array& k) { return random::uniform(random::clone(k), {2}) + random::uniform(k, {2}); });
  check_reuse([](const Array& k) {  // distributions of several draws split for themselves
    const Array keys = random::split(k, 4);
    return random::beta(keys[0], 1.0, 2.0, {}) + random::t(keys[1], 3.0, {}) + random::wald(keys[2], 1.0, {}) +
           convert(sum(random::permutation(keys[3], 100)), float32);
  });
  check_reuse([](const Array& k) {  // one of a reversed and joined array each
    const Array keys = reverse(random::split(k, 2), {0});
    const Array joined = concatenate({keys, random::split(random::fold_in(k, 1), 2)}, 0);
    return random::uniform(joined[0], {}) + random::uniform(joined[1], {}) + random::uniform(joined[3], {});
  });
  check_reuse([](const Array& k) {
    const std::vector<Array> halves = split(random::split(k, 4), 2, 0);
    return random::uniform(halves[0][0], {}) + random::uniform(halves[1][0], {});
  });
}

TEST_CASE("layers are named, and draw from keys of their own") {
  expect_error<KeyReuseError>(
      [] {
        check_reuse([](const Array& k) {
          const auto draw = [&](const char* path) {
            const NamedScope named = NamedScope::at(path);
            return random::uniform(k, {2});
          };
          const Array first = draw("block/a");
          return first + draw("block/b");
        });
      },
      "random_bits (in layer 'block/b')", "random_bits (in layer 'block/a')");
  const Model model([](Scope& s, const Array& x) {
    return dropout(s["first"], x, 0.5f) + dropout(s["second"], dropout(s["first"], x, 0.5f), 0.5f);
  });
  const auto [trainable, state] = model.init(random::key(0), ArrayType{float32, {4, 2}, {}});
  random::check_key_reuse(
      trace_function([&, weights = trainable,
                      rest = state](const Array& x) { return model.stateless_call(weights, rest, x, true).first; },
                     ones({4, 2})));
}

TEST_CASE("a key used twice is found in a scan body") {
  const auto draws = [](bool captured) {
    return [=](const Array& k) {
      return scan([&](const Array& total,
                      const Array& own) { return std::pair(total + random::uniform(captured ? k : own, {}), total); },
                  array(0.f), random::split(random::fold_in(k, 1), 4))
          .first;
    };
  };
  check_reuse(draws(false));
  expect_error<KeyReuseError>([&] { check_reuse(draws(true)); }, "random_bits", "earlier iteration of the same scan");
}

TEST_CASE("a key used twice is found in maps, vmap and derivatives") {
  const Mesh mesh({{"batch", 2}}, devices("cpu:0"));
  const auto mapped = [&](auto body) {
    return [&mesh, body](const Array& k) {
      return pmap(body, {.mesh = mesh, .in = {replicated}, .out = {sharded("batch")}})(k);
    };
  };
  const random::Placement cut{.cut = random::Cut{0, {"batch"}}};
  check_reuse(mapped([&](const Array& k) { return random::uniform(k, {2}, float32, 0.0, 1.0, cut); }));
  expect_reuse(mapped([&](const Array& k) {
                 return random::uniform(k, {2}, float32, 0.0, 1.0, cut) +
                        random::uniform(k, {2}, float32, 0.0, 1.0, random::same_on_all);
               }),
               "random_bits", "random_bits");
  expect_reuse(
      [&](const Array& k) {
        const Array inside =
            mapped([&](const Array& own) { return random::uniform(own, {2}, float32, 0.0, 1.0, cut); })(k);
        return inside + random::uniform(k, {4});
      },
      "random_bits", "random_bits");
  const auto draw = [](const Array& k) { return random::uniform(k, {2}); };
  check_reuse([&](const Array& k) { return vmap(draw)(random::split(k, 3)); });
  expect_reuse(
      [&](const Array& k) {
        const Array keys = random::split(k, 3);
        return sum(vmap(draw)(keys)) + sum(draw(keys[2]));
      },
      "random_bits", "random_bits");
  check_reuse([](const Array& k) {
    return grad([&](const Array& x) { return sum(x * random::normal(k, {3}) * random::fold_in(k, 1).size()); })(
        ones({3}));
  });
}

TEST_CASE("what a checkpoint computes again in a backward pass is no second use, whatever stands around it") {
  const auto noisy = [](const Array& k) {
    return [k](const Array& x) { return sum(sin(x * random::normal(k, {4}))); };
  };
  const Array x = ones({4});
  const auto gradient = [&](const Array& k) { return grad(remat(noisy(k)))(x); };
  check_reuse(gradient);
  check_reuse([&](const Array& k) {
    const auto noise = [](const Array& own, const Array& z) { return sum(sin(z * random::normal(own, {4}))); };
    return grad([&](const Array& y) { return remat(noise)(k, y); })(x);
  });
  check_reuse([&](const Array& k) { return grad([&](const Array& y) { return sum(grad(remat(noisy(k)))(y)); })(x); });
  check_reuse([&](const Array& k) { return vmap(grad(remat(noisy(k))))(ones({3, 4})); });
  check_reuse([&](const Array& k) {
    const auto body = [](const Array& carry, const Array& own) {
      const auto scaled = [](const Array& q, const Array& z) { return z * random::normal(q, {4}); };
      return std::pair(remat(scaled)(own, carry), sum(carry));
    };
    return grad([&](const Array& y) { return sum(scan(body, y, random::split(k, 3)).first); })(x);
  });
  const auto run = jit(gradient);
  const KeyReuseChecks checks;
  run(random::key(2));
  // A second draw in the body or around it is one.
  expect_reuse(
      [&](const Array& k) {
        return grad(remat([&](const Array& z) { return sum(z * random::normal(k, {4}) * random::normal(k, {4})); }))(x);
      },
      "random_bits", "random_bits");
  expect_reuse(
      [&](const Array& k) {
        return grad([&](const Array& y) { return remat(noisy(k))(y) + sum(y * random::normal(k, {4})); })(x);
      },
      "random_bits", "random_bits");
}

TEST_CASE("jit and calls without a trace remember keys while checks are on") {
  const KeyReuseChecks checked;
  const Array key = random::key(5);
  const Array keys = random::split(key, 3);
  expect_error<KeyReuseError>([&] { random::uniform(key, {2}); }, "random_bits", "random_split", "clone");
  const Array first = random::uniform(keys[0], {2});
  expect_error<KeyReuseError>([&] { random::uniform(keys[0], {2}); }, "random_bits uses", "random_bits has used");
  random::uniform(keys[1], {2});
  check_same_bits(random::uniform(random::clone(keys[0]), {2}), first);
  const auto draw = jit([](const Array& k) { return random::normal(k, {2}); });
  draw(keys[2]);
  expect_error<KeyReuseError>([&] { draw(keys[2]); }, "random_bits");
  // A key that a compiled function returns.
  const auto next = jit([](const Array& k) {
    const Array both = random::split(k);
    return std::pair(both[0], random::uniform(both[1], {}));
  });
  const auto [carried, x] = next(random::key(6));
  const auto [again, y] = next(carried);
  expect_error<KeyReuseError>([&, used = carried] { next(used); }, "random_split");
  // What jit traces is checked by itself.
  const auto reuses = jit([](const Array& k) { return random::uniform(k, {2}) + random::normal(k, {2}); });
  expect_error<KeyReuseError>([&] { reuses(random::key(7)); }, "random_bits");
}

TEST_CASE("keys are not remembered while checks are off") {
  const bool before = random::key_reuse_checks();
  random::set_key_reuse_checks(false);
  const Array key = random::key(5);
  check_same_bits(random::uniform(key, {2}), random::uniform(key, {2}));
  random::set_key_reuse_checks(before);
}
