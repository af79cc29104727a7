#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// A map whose replicas run one after the other gives what a pmap over the same axis gives; inside of a pmap its axis comes
// behind the map's.

using namespace lockstep;

namespace {

const Array& eight_rows() {
  static const Array x = array(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {8, 1});
  return x;
}

std::vector<float> float_values(const Array& x) { return convert(x, float32).to_vector<float>(); }

template <class F>
auto in_parts(const F& f, std::int64_t parts) {
  return sequential_map(f, eight_rows(), {.axis = "part", .parts = parts});
}

}  // namespace

TEST_CASE("sums, extremes and blocks over the parts are those of all rows") {
  const auto f = [](const Array& part) {
    const Array total = sum(part);
    return std::vector<Array>{psum(total, {"part"}), pmax(total, {"part"}), pmin(total, {"part"}),
                              all_gather_invariant(part * 2.0, "part", 0), all_gather_invariant(part, "part", 1)};
  };
  for (const std::int64_t parts : {1, 2, 4}) {
    CAPTURE(parts);
    const std::vector<Array> results = in_parts(f, parts);
    CHECK(results[0].item<float>() == 36);
    const float n = 8.0F / static_cast<float>(parts);
    CHECK(results[1].item<float>() == n * (8 - (n - 1) / 2));
    CHECK(results[2].item<float>() == n * (n + 1) / 2);
    CHECK(float_values(results[3]) == float_values(eight_rows() * 2.0));
    CHECK(float_values(results[4]) == float_values(transpose(reshape(eight_rows(), {parts, 8 / parts}))));
    CHECK(float_values(jit([&](const Array&) { return in_parts(f, parts)[4]; })(eight_rows())) ==
          float_values(results[4]));
  }
}

TEST_CASE("what is made of a sum, and what is the same for all parts, is computed once") {
  const auto f = [](const Array& part) {
    const Array same = full({}, 3.0, float32) * 2.0;
    const Array mean = psum(sum(part), {"part"}) / 8.0;
    return std::vector<Array>{exp(mean) + same, psum(sum(part * same), {"part"})};
  };
  const std::vector<Array> results = in_parts(f, 4);
  CHECK(results[0].item<float>() == exp(full({}, 4.5, float32)).item<float>() + 6);
  CHECK(results[1].item<float>() == 216);
  const Function program = trace_function([&](const Array&) { return in_parts(f, 4); }, eight_rows());
  const std::string text = program.to_string();
  CHECK(program.count("scan") == 1);
  CHECK(text.find("exp") > text.find("scan"));
}

TEST_CASE("gradients of a weight are added up, with one psum along the map's axis") {
  const Array w = array(std::vector<float>{0.5F}, {1, 1});
  const auto loss = [](const Array& v, const Array& x) {
    const auto part_loss = [&](const Array& part) {
      const auto value = [&](const Array& u) {
        return psum(sum(square(tanh(matmul(part, u)))), {"batch", "part"}) / 8.0;
      };
      return value_and_grad(value)(v);
    };
    return sequential_map(part_loss, x, {.axis = "part", .parts = 2});
  };
  const auto plain = value_and_grad([](const Array& v) { return sum(square(tanh(matmul(eight_rows(), v)))) / 8.0; })(w);
  for (const std::int64_t shards : {1, 2, 4}) {
    CAPTURE(shards);
    const auto mapped = pmap(loss, {.mesh = data_mesh(shards, devices("cpu:0")),
                                    .in = {replicated, sharded("batch")},
                                    .out = {replicated, replicated}});
    const auto [value, gradient] = mapped(w, eight_rows());
    CHECK(value.item<float>() == doctest::Approx(plain.first.item<float>()));
    CHECK(gradient.item<float>() == doctest::Approx(plain.second.item<float>()));
    CHECK(trace_function(mapped, w, eight_rows()).count("psum") == 2);  // of the loss and of the gradient
  }
}

TEST_CASE("a draw cut along both axes gives a row what it has in the whole batch, inside of transforms too") {
  const Array key = random::key(3);
  const std::vector<float> whole = float_values(random::uniform(key, {8, 1}));
  const auto draw = [&](const Array& x) {
    return x * 0 +
           random::uniform(key, x.shape(), float32, 0.0, 1.0, {.cut = random::Cut{.dim = 0, .axes = bound_axes()}});
  };
  const auto looped = [&](const Array& x) {
    return scan([&](const Array& c, const Array& i) { return std::pair(remat(draw)(x) + c * 0.0, i); }, x, arange(2))
        .first;
  };
  const std::vector<std::function<Array(const Array&)>> bodies = {draw, remat(draw), looped};
  for (const auto& body : bodies) {
    for (const std::int64_t shards : {1, 2}) {
      for (const std::int64_t parts : {2, 4}) {
        const auto f = [&](const Array& x) {
          return sequential_map([&](const Array& part) { return all_gather_invariant(body(part), "part", 0); }, x,
                                {.axis = "part", .parts = parts});
        };
        const auto mapped =
            pmap(f, {.mesh = data_mesh(shards, devices("cpu:0")), .in = {sharded("batch")}, .out = {sharded("batch")}});
        CHECK(float_values(mapped(eight_rows())) == whole);
      }
    }
  }
}

TEST_CASE("sums of narrow floats over the parts are float32 until the last") {
  const Array x = full({4096}, 1.0, float16);
  const auto f = [](const Array& part) { return psum(sum(part), {"part"}); };
  // 4096 rows one by one: in float16, 2048 + 1 is 2048.
  CHECK(sequential_map(f, x, {.axis = "part", .parts = 4096}).item<float>() == 4096);
}

TEST_CASE("what a map in turn cannot be is refused by op and layer") {
  const auto centred = [](const Array& part) {
    const NamedScope layer("centre");
    const Array mean = psum(sum(part), {"part"}) / 8.0;
    return psum(sum(square(part - mean)), {"part"});
  };
  tests::expect_error<MeshError>([&] { static_cast<void>(in_parts(centred, 2)); },
                                 "needs what psum (in layer 'centre') makes of all parts along 'part'");
  tests::expect_error<MeshError>([&] { static_cast<void>(in_parts([](const Array& part) { return part; }, 2)); },
                                 "differs along 'part'; reduce it");
  tests::expect_error<MeshError>(
      [&] {
        static_cast<void>(in_parts(
            [](const Array& part) {
              return psum(ppermute(part, "part", {{0, 1}}), {"part"});
            },
            2));
      },
      "ppermute along 'part' needs another replica's values");
  const auto inside = [](const Array& part) {
    return psum(scan([](const Array& c, const Array& x) { return std::pair(c, psum(c + x, {"part"})); }, sum(part),
                     pvary(arange(3) * 1.0, {"part"}))
                    .first,
                {"part"}) +
           0.0;
  };
  tests::expect_error<MeshError>([&] { static_cast<void>(in_parts(inside, 2)); },
                                 "psum inside of scan communicates along 'part'");
  tests::expect_error<ShapeError>(
      [&] { static_cast<void>(in_parts([](const Array& part) { return psum(sum(part), {"part"}); }, 3)); },
      "that 3 parts share equally");
  tests::expect_error<ValueError>(
      [&] { static_cast<void>(in_parts([](const Array& part) { return psum(sum(part), {"part"}); }, 0)); },
      "parts is 0");
  tests::expect_error<ValueError>(
      [] {
        static_cast<void>(sequential_map([](const Array& x) { return sum(x); }, zeros({4}), {.axis = "", .parts = 2}));
      },
      "sequential_map: the axis has no name; give one");
}
