#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lockstep/lockstep.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// When which kernel ran.
using namespace lockstep;
using nlohmann::json;
using tests::check_same_bits;
using tests::expect_error;

namespace {

Array two_layers(const Array& x, const Array& w) {
  Array y = x;
  {
    const NamedScope layer("encoder");
    y = matmul(y, w);
  }
  const NamedScope layer("head");
  return sum(tanh(y));
}

std::vector<json> slices_of(const Profile& profile) {
  std::vector<json> slices;
  const json trace = json::parse(profile.chrome_trace());
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("cat") != "call") slices.push_back(event);
  }
  return slices;
}

const ProfileRow& profile_row(const std::vector<ProfileRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &ProfileRow::name);
  REQUIRE_MESSAGE(found != rows.end(), name);
  return *found;
}

std::size_t count_slices(const std::vector<json>& slices, const std::string& op) {
  return static_cast<std::size_t>(std::ranges::count_if(slices, [&](const json& s) { return s.at("name") == op; }));
}

}  // namespace

TEST_CASE("a profile skips the first call and records the next ones, with the same results") {
  const auto profile = std::make_shared<Profile>(ProfileOptions{.skip = 1, .calls = 3});
  const auto plain = jit(two_layers);
  const auto f = jit(two_layers, {.debug = {.profile = profile}});
  const Array x = full({4, 3}, 0.1), w = full({3, 5}, 0.2);
  for (int i = 0; i < 7; ++i) {
    CHECK(profile->recorded() == std::clamp(i - 1, 0, 3));
    CHECK(profile->is_complete() == (i >= 4));
    check_same_bits(f(x, w), plain(x, w));
  }
  CHECK(profile->devices() == 1);
  CHECK(profile->seconds() > 0);

  const std::vector<json> slices = slices_of(*profile);
  CHECK(count_slices(slices, "dot_general") == 3);
  std::set<int> calls;
  for (const json& slice : slices) calls.insert(slice.at("args").at("call").get<int>());
  CHECK(calls == std::set<int>{1, 2, 3});
}

TEST_CASE("slices carry op, layer, direction, flops and bytes; rows add them up") {
  const auto profile = std::make_shared<Profile>(ProfileOptions{.skip = 0, .calls = 2});
  const auto step = [](const Array& x, const Array& w) {
    return grad([&x](const Array& v) { return two_layers(x, v); })(w);
  };
  const auto f = jit(step, {.debug = {.profile = profile}});
  for (int i = 0; i < 2; ++i) f(full({4, 3}, 0.1), full({3, 5}, 0.2));
  for (const json& slice : slices_of(*profile)) {
    if (slice.at("name") != "dot_general") continue;
    CHECK(slice.at("args").at("layer") == "encoder");
    CHECK(slice.at("args").at("flops") == 2 * 4 * 3 * 5);
    CHECK(slice.at("args").at("bytes") == 4 * (4 * 3 + 3 * 5 + 4 * 5));
    CHECK(slice.at("dur").get<double>() >= 0);
  }
  const ProfileRow product = profile_row(profile->by_op(), "dot_general");
  CHECK(product.runs == 4);
  CHECK(product.flops == 4 * 2. * 4 * 3 * 5);
  CHECK(profile_row(profile->by_layer(), "encoder").runs >= 2);
  CHECK(profile_row(profile->by_layer(), "encoder backward").flops >= 2 * 2. * 4 * 3 * 5);
  CHECK(profile_row(profile->by_layer(), "head").flops > 0);
  double sum = 0;
  for (const ProfileRow& row : profile->by_op()) sum += row.seconds;
  CHECK(sum <= profile->seconds() * 1.0001);
}

TEST_CASE("each device has a row of slices that do not overlap; each shard is named") {
  const auto profile = std::make_shared<Profile>(ProfileOptions{.skip = 0, .calls = 1});
  const Mesh mesh({{"batch", 4}}, devices("cpu:0-1"));
  const auto shard = [](const Array& x) { return psum(sum(sin(x)), {"batch"}); };
  const auto f =
      jit([&](const Array& x) { return pmap(shard, {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}})(x); },
          {.debug = {.profile = profile}});
  f(ones({8, 1000}));
  CHECK(profile->devices() == 2);
  std::multiset<int> shards;  // a device may have taken over what was dealt to the other
  std::map<int, double> end;
  for (const json& slice : slices_of(*profile)) {
    const int device = slice.at("tid").get<int>();
    const double begin = slice.at("ts").get<double>();
    CHECK(begin >= end[device] - 0.002);
    end[device] = begin + slice.at("dur").get<double>();
    if (slice.at("name") == "sin") shards.insert(slice.at("args").at("shard").get<int>());
    if (slice.at("name") == "add") CHECK_FALSE(slice.at("args").contains("shard"));
  }
  CHECK(shards == std::multiset<int>{0, 1, 2, 3});
  CHECK(count_slices(slices_of(*profile), "barrier") > 0);
}

TEST_CASE("a loop's slice holds those of its body, and its row only what they leave over") {
  const auto profile = std::make_shared<Profile>(ProfileOptions{.skip = 0, .calls = 1});
  const auto f = jit(
      [](const Array& x) {
        return scan([](const Array& c, const Array& a) { return std::pair(c + sin(a), a); }, zeros({3}), x).first;
      },
      {.debug = {.profile = profile}});
  f(ones({5, 3}));
  const std::vector<json> slices = slices_of(*profile);
  CHECK(count_slices(slices, "sin") == 5);
  REQUIRE(count_slices(slices, "scan") == 1);
  const json loop = *std::ranges::find_if(slices, [](const json& s) { return s.at("name") == "scan"; });
  const double begin = loop.at("ts").get<double>(), end = begin + loop.at("dur").get<double>();
  for (const json& slice : slices) {
    if (slice.at("name") != "sin") continue;
    CHECK(slice.at("ts").get<double>() >= begin);
    CHECK(slice.at("ts").get<double>() + slice.at("dur").get<double>() <= end + 0.002);
  }
  CHECK(profile_row(profile->by_op(), "scan").seconds < (end - begin) * 1e-6);
  CHECK(profile_row(profile->by_op(), "sin").runs == 5);
}

TEST_CASE("a training step is profiled by its options") {
  const auto profile = std::make_shared<Profile>(ProfileOptions{.skip = 1, .calls = 2});
  const Model model([](Scope& s, const Array& x) { return dense(s["head"], x, {.units = 2}); });
  const auto loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(w, state, b.x, true);
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {}};
  };
  const TrainStep step = data_parallel(model, loss, optim::sgd(0.1), {.shards = 2, .debug = {.profile = profile}});
  const Batch batch{.x = ones({4, 3}), .y = zeros({4}, int32), .weight = {}};
  auto [trainable, non_trainable] = model.init(random::key(0), batch.x);
  TrainState state = step.init(trainable, non_trainable);
  for (int i = 0; i < 4; ++i) state = step(std::move(state), batch).first;
  CHECK(profile->recorded() == 2);
  CHECK(profile_row(profile->by_layer(), "head").flops > 0);
  CHECK(profile_row(profile->by_layer(), "head backward").flops > 0);
}

TEST_CASE("a trace is written to a file; what cannot be is an error") {
  const auto profile = std::make_shared<Profile>(ProfileOptions{.skip = 0});
  jit(two_layers, {.debug = {.profile = profile}})(ones({4, 3}), ones({3, 5}));
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "lockstep_profile_test.json";
  profile->write_chrome_trace(file);
  std::ifstream in(file);
  CHECK(json::parse(in) == json::parse(profile->chrome_trace()));
  std::filesystem::remove(file);
  expect_error<ValueError>([&] { profile->write_chrome_trace("/nowhere/at/all.json"); },
                           "[write_chrome_trace] /nowhere/at/all.json cannot be", "No such file or directory");
  CHECK(json::parse(Profile().chrome_trace()).at("traceEvents").size() == 1);
  expect_error<ValueError>([] { Profile({.skip = -1}); }, "skip is -1 and calls is 10");
  expect_error<ValueError>([] { Profile({.calls = 0}); }, "calls is 0; expected 0 or more and 1 or more");
}

TEST_CASE("the machine's peaks are measured, of one device") {
  const std::clock_t cpu_begin = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  const Peak peak = measure_peak();
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  CHECK(cpu_seconds < 1.05 * seconds.count());
  CHECK(peak.flops_per_second > 1e8);
  CHECK(peak.bytes_per_second > 1e8);
}
