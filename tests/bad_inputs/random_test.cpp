#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/rows.h"
#include "tests/support/key_reuse_checks.h"

namespace lockstep::tests {
namespace {

void dropout_row(double rate) {
  const Model<Array, Array> model(
      [=](Scope& s, const Array& x) { return dropout(s["drop"], x, static_cast<float>(rate)); });
  refused<ValueError>(115, [&] { static_cast<void>(model.init(random::key(0), zeros({1, 2}))); });
}

}  // namespace

TEST_CASE("bad inputs 113 and 114: keys that are used twice, seeds, counts") {
  refused<KeyReuseError>(113, [] {
    const KeyReuseChecks checked;
    const Array key = random::key(1);
    static_cast<void>(random::uniform(key, {2}));
    static_cast<void>(random::uniform(key, {2}));
  });
  refused<KeyReuseError>(113, [] {
    random::check_key_reuse(trace_function(
        [](const Array& k) {
          const Array first = random::uniform(k, {2});
          return first + random::uniform(random::split(k)[0], {2});
        },
        random::key(1)));
  });
  const Mesh mesh({{"batch", 2}}, {Device{}});
  refused<MeshError>(113, [&] {
    pmap([](const Array& k, const Array& x) { return x + random::uniform(k, {2}); },
         {.mesh = mesh, .in = {replicated, sharded("batch")}, .out = {sharded("batch")}})(random::key(1), zeros({4}));
  });
  row(113, [] { CHECK(fingerprint(Tree(random::key(0))) != fingerprint(Tree(random::key(1)))); });
  refused<ValueError>(114, [] { random::fold_in(random::key(0), std::int64_t{1} << 32); });
  refused<ValueError>(114, [] { random::fold_in(random::key(0), -1); });
  row(114, [] {  // the counter has 64 bits: draws beyond 2^32 of them are those of no earlier ones
    const std::int64_t many = (std::int64_t{1} << 32) + 7;
    const Function draw = trace_function([&](const Array& k) { return random::bits(k, {many}); }, random::key(3));
    CHECK(draw.output_types()[0].shape == Shape{many});
  });
  refused<ShapeError>(114, [] { random::uniform(random::key(0), {std::int64_t{1} << 62}); });
  refused<ShapeError>(114, [] { random::uniform(random::key(0), {-1}); });
}

TEST_CASE("bad inputs 115: odd counts, rates of dropout, shuffles") {
  row(115, [] {
    for (const std::int64_t count : {0, 1, 3, 7, 33}) {
      const auto part = random::uniform(random::key(5), {count}).to_vector<float>();
      const auto whole = random::uniform(random::key(5), {64}).to_vector<float>();
      CHECK(part == std::vector<float>(whole.begin(), whole.begin() + count));
    }
    for (const std::int64_t count : {0, 1}) CHECK(random::permutation(random::key(5), count).size() == count);
  });
  dropout_row(-0.1);
  dropout_row(1.1);
  dropout_row(1);
  dropout_row(std::nan(""));
  row(115, [] {
    for (const float rate : {0.0F}) {
      const Model<Array, Array> model([=](Scope& s, const Array& x) { return dropout(s["drop"], x, rate); });
      const auto [trainable, state] = model.init(random::key(0), ones({1, 3}));
      const auto [y, next] = model.stateless_call(trainable, state, ones({1, 3}), true);
      CHECK(y.to_vector<float>() == std::vector<float>(3, 1 - rate));
    }
  });
  refused<ValueError>(115, [] { random::permutation(random::key(0), -1); });
  row(115, [] {  // an epoch's order is found place by place: more rows than 32 bits can number take no table
    data::SourceLoader loader(
        data::generated((std::int64_t{1} << 32) + 1,
                        [](std::int64_t i, const data::RowKey&) {
                          return data::Row{{"x", data::host_table(std::vector<std::int64_t>{i}, Shape{})}};
                        }),
        {.batch = 64, .seed = 1});
    bool is_beyond = false;
    for (int i = 0; i < 8; ++i) {
      for (const std::int64_t x : loader.next().at("x").array().to_vector<std::int64_t>()) {
        CHECK((x >= 0 && x <= std::int64_t{1} << 32));
        is_beyond = is_beyond || x > std::int64_t{1} << 31;
      }
    }
    CHECK(is_beyond);
  });
}

}  // namespace lockstep::tests
