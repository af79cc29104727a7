#include <algorithm>

#include <doctest/doctest.h>

#include "tests/runtime/values.h"
#include "tests/support/control_flow_program.h"
#include "tests/support/expect_error.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/refusing_backend.h"
#include "tests/support/run_compiled.h"

// Compiled while loops, branches and calls against programs without them, bit for bit.
namespace lockstep::tests {
namespace {

using ir::Value;

const ArrayType counter{DType::int32, Shape{}, {}};

/// `f` compiled, with and without passes, gives what `plain`, which has no loops and branches, evaluates to.
void check_plain(const ir::FunctionPtr& f, const ir::FunctionPtr& plain,
                 const std::vector<eval::HostArray>& arguments) {
  const Bytes expected = evaluated(unrolled(plain), arguments);
  for (const auto& backend : {ops::reference_backend(), permissive_backend()}) {
    for (const bool optimize : {false, true}) {
      CAPTURE(backend->name());
      CAPTURE(optimize);
      CHECK(compiled(f, arguments, backend, 2, optimize) == expected);
    }
  }
}

std::shared_ptr<const executable::Executable> lowered_for(const ir::FunctionPtr& f,
                                                          const std::shared_ptr<const backend::Backend>& backend) {
  compile::Options options;
  options.backends = {backend};
  options.verify = true;
  return compile::lower(f, options);
}

Value whole(const Value& like, std::int64_t number) { return ops::full_like(like, static_cast<double>(number)); }
Value next_of(const Value& w, const Value& c) { return ops::sin(c * w) + w; }

}  // namespace

TEST_CASE("a while loop runs as long as its condition holds") {
  for (const std::int64_t trips : {0, 1, 2, 5}) {
    CAPTURE(trips);
    const std::vector<ArrayType> types = {counter, f32({3}), counter, f32({3}), f32({3}), f32({3})};
    const auto f = make_function(types, [](ir::Builder&, Bodies in) {
      return while_loop(
          1, 1, {in.begin(), in.end()}, [](ir::Builder&, Bodies v) { return Values{ops::less(v[1], v[0])}; },
          [](ir::Builder&, Bodies v) {
            return Values{v[1] + whole(v[1], 1), next_of(v[0], v[2]), v[4], ops::cos(v[3])};
          });
    });
    const auto plain = make_function(types, [&](ir::Builder&, Bodies in) {
      const Values r = scan({trips, 1, 3, false}, {in[1], in[3], in[4], in[5]}, [](ir::Builder&, Bodies v) {
        return Values{next_of(v[0], v[1]), v[3], ops::cos(v[2])};
      });
      return Values{whole(in[2], trips), r[0], r[1], r[2]};
    });
    std::vector<eval::HostArray> arguments = random_host_arrays(types, 3);
    arguments[0] = to_host(counter, {static_cast<double>(trips)});
    arguments[2] = to_host(counter, {0});
    check_plain(f, plain, arguments);
  }
}

TEST_CASE("a condition that is a carry, and carries that are consts") {
  const ArrayType flag{DType::bool_, Shape{}, {}};
  for (const double start : {0.0, 1.0}) {
    const std::vector<ArrayType> types = {f32({3}), flag, f32({3})};
    const auto f = make_function(types, [](ir::Builder&, Bodies in) {
      return while_loop(
          0, 1, {in[0], in[1], in[2]}, [](ir::Builder&, Bodies v) { return Values{v[0]}; },
          [](ir::Builder& b, Bodies v) {
            return Values{ops::convert(ops::full(b, DType::int32, Shape{}, 0), DType::bool_), v[0]};
          });
    });
    const auto plain = make_function(types, [&](ir::Builder& b, Bodies in) {
      return Values{ops::convert(ops::full(b, DType::int32, Shape{}, 0), DType::bool_), start == 0 ? in[2] : in[0]};
    });
    std::vector<eval::HostArray> arguments = random_host_arrays(types, 3);
    arguments[1] = to_host(flag, {start});
    check_plain(f, plain, arguments);
  }
}

TEST_CASE("every shard of a map goes round its loop as often as it has to, and takes its own branch") {
  const ArrayType local{DType::int32, Shape{}, {}};
  const std::vector<ArrayType> types = {{DType::int32, Shape{4}, {}}, f32({4, 3})};
  const auto limit = [](const Value& n) { return ops::reshape(n, Shape{}); };
  for (const int devices : {1, 2, 4}) {
    CAPTURE(devices);
    const MapSpec spec{mesh({{"batch", 4}}), devices, {{"batch"}, {"batch", ""}}, {{"batch", ""}, {"batch", ""}}};
    const auto zero = [](const Value& n) { return n - n; };
    const auto f = mapped(types, spec, [&](ir::Builder&, Bodies v) {
      const Value n = limit(v[0]);
      const Value c = while_loop(
          1, 0, {n, zero(n), v[1]}, [](ir::Builder&, Bodies u) { return Values{ops::less(u[1], u[0])}; },
          [](ir::Builder&, Bodies u) {
            return Values{u[0] + whole(u[0], 1), next_of(u[1], u[1])};
          })[1];
      const Value d = cond(n, {c, v[1]},
                           {[](ir::Builder&, Bodies u) { return Values{u[1]}; },
                            [](ir::Builder&, Bodies u) { return Values{ops::cos(u[0])}; },
                            [](ir::Builder&, Bodies u) { return Values{u[0] * u[1]}; }})[0];
      return Values{c, d};
    });
    const auto plain = mapped(types, spec, [&](ir::Builder&, Bodies v) {
      const Value n = ops::broadcast_in_dim(v[0], Shape{1, 3}, {0});
      Value c = v[1];
      for (std::int64_t k = 0; k < 3; ++k) c = ops::select(ops::less(whole(n, k), n), next_of(c, c), c);
      const Value d =
          ops::select(ops::less(n, whole(n, 1)), v[1], ops::select(ops::less(n, whole(n, 2)), ops::cos(c), c * v[1]));
      return Values{c, d};
    });
    const std::vector<eval::HostArray> arguments = {to_host(types[0], {2, 0, 3, 1}), random_host_arrays(types, 5)[1]};
    check_plain(f, plain, arguments);
  }
}

TEST_CASE("a while loop with collectives: all devices go on as one decides") {
  const std::vector<ArrayType> types = {counter, f32({8, 3})};
  for (const int devices : {1, 2, 4}) {
    for (const std::int64_t trips : {0, 1, 4}) {
      CAPTURE(devices);
      CAPTURE(trips);
      const MapSpec spec{mesh({{"batch", 4}}), devices, {{}, {"batch", ""}}, {{"batch", ""}, {""}}};
      const auto step = [](const Value& c) {
        const Value s = ops::psum(ops::reduce_sum(ops::sin(c), {0}), {"batch"});
        return Values{c * ops::pvary(ops::broadcast_in_dim(s, Shape{2, 3}, {1}), {"batch"}), s};
      };
      const auto f = mapped(types, spec, [&](ir::Builder& b, Bodies v) {
        const Value start = ops::full(b, DType::float32, Shape{3}, 0);
        const Values r = while_loop(
            0, 0, {v[0], v[1], start},
            [](ir::Builder&, Bodies u) { return Values{ops::greater(u[0], whole(u[0], 0))}; },
            [&](ir::Builder&, Bodies u) {
              const Values next = step(u[1]);
              return Values{ops::sub(u[0], whole(u[0], 1)), next[0], next[1]};
            });
        return Values{r[1], r[2]};
      });
      const auto plain = mapped(types, spec, [&](ir::Builder& b, Bodies v) {
        Values r = {v[1], ops::full(b, DType::float32, Shape{3}, 0)};
        for (std::int64_t k = 0; k < trips; ++k) r = step(r[0]);
        return r;
      });
      const std::vector<eval::HostArray> arguments = {to_host(counter, {static_cast<double>(trips)}),
                                                      random_host_arrays(types, 5)[1]};
      check_plain(f, plain, arguments);
      std::int64_t counted = -1;
      runtime::run(*lowered_for(f, permissive_backend()), arguments, {}, &counted);
      CHECK(counted == trips);
    }
  }
}

TEST_CASE("branches: the index is clamped, results are made, passed through or given twice") {
  const std::vector<ArrayType> types = {counter, f32({3}), f32({3})};
  const std::vector<ShardBody> branches = {
      [](ir::Builder&, Bodies v) {
        return Values{v[0], v[0], v[1]};
      },
      [](ir::Builder&, Bodies v) {
        const Value y = ops::sin(v[0]);
        return Values{y, y, ops::cos(v[1])};
      },
      [](ir::Builder& b, Bodies v) {
        const Value one = ops::full(b, DType::float32, Shape{3}, 1);
        return Values{one, v[1] * v[0], one};
      },
  };
  const auto f = make_function(types, [&](ir::Builder&, Bodies in) { return cond(in[0], {in[1], in[2]}, branches); });
  for (const int index : {-1, 0, 1, 2, 7}) {
    CAPTURE(index);
    const auto plain = make_function(types, [&](ir::Builder& b, Bodies in) {
      return branches[static_cast<std::size_t>(std::clamp(index, 0, 2))](b, in.subspan(1));
    });
    std::vector<eval::HostArray> arguments = random_host_arrays(types, 3);
    arguments[0] = to_host(counter, {static_cast<double>(index)});
    check_plain(f, plain, arguments);
  }
}

TEST_CASE("branches with collectives in a map, and in a loop around it") {
  const std::vector<ArrayType> types = {counter, f32({8, 3})};
  const auto reduced = [](const Value& c) {
    return ops::pvary(ops::broadcast_in_dim(ops::psum(ops::reduce_sum(c, {0}), {"batch"}), Shape{2, 3}, {1}),
                      {"batch"});
  };
  const std::vector<ShardBody> branches = {
      [&](ir::Builder&, Bodies v) { return Values{ops::sin(v[0]) * reduced(v[0])}; },
      [](ir::Builder&, Bodies v) { return Values{v[0]}; },
      [&](ir::Builder&, Bodies v) { return Values{ops::cos(reduced(v[0])) + v[0]}; },
  };
  for (const int devices : {1, 2, 4}) {
    for (const int index : {0, 1, 2}) {
      CAPTURE(devices);
      CAPTURE(index);
      const MapSpec spec{mesh({{"batch", 4}}), devices, {{}, {"batch", ""}}, {{"batch", ""}}};
      const auto program = [&](const ShardBody& choose) {
        return mapped(types, spec, [&](ir::Builder& b, Bodies v) {
          const Value once = choose(b, v)[0];
          return scan({3, 1, 1, false}, {v[0], once}, [&](ir::Builder& c, Bodies u) { return choose(c, u); });
        });
      };
      const auto f = program([&](ir::Builder&, Bodies v) { return cond(v[0], {v[1]}, branches); });
      const auto plain =
          program([&](ir::Builder& b, Bodies v) { return branches[static_cast<std::size_t>(index)](b, v.subspan(1)); });
      check_plain(f, plain, {to_host(counter, {static_cast<double>(index)}), random_host_arrays(types, 5)[1]});
    }
  }
}

TEST_CASE("shards that go different ways, with collectives along another axis, are refused") {
  const std::vector<ArrayType> types = {{DType::int32, Shape{2}, {}}, f32({4})};
  const MapSpec spec{mesh({{"data", 2}, {"model", 2}}), 2, {{"data"}, {"model"}}, {{"data"}}};
  const ShardBody first = [](ir::Builder&, Bodies v) { return Values{ops::psum(v[0], {"model"})}; };
  const ShardBody second = [](ir::Builder&, Bodies v) { return Values{ops::psum(ops::sin(v[0]), {"model"})}; };
  const auto f = mapped(types, spec, [&](ir::Builder&, Bodies v) {
    return cond(ops::reshape(v[0], Shape{}), {v[1]}, {first, second});
  });
  CHECK_THROWS_WITH_AS(lowered_for(f, permissive_backend()),
                       doctest::Contains("cond: the predicate varies along data while what it decides on has "
                                         "collectives; expected all shards to go the same way; instead reduce the "
                                         "predicate (psum, pmax) or compute both ways and select"),
                       MeshError);
}

TEST_CASE("a kernel's exception leaves a loop that all devices are in, and the next call works") {
  const ArrayType type = f32({4});
  const MapSpec spec{mesh({{"batch", 4}}), 4, {{"batch"}}, {{"batch"}}};
  const auto f = mapped({type}, spec, [](ir::Builder&, Bodies x) {
    return while_loop(
        0, 0, {x[0]},
        [](ir::Builder& b, Bodies v) {
          const Value most = ops::psum(ops::reduce_sum(v[0], {0}), {"batch"});
          return Values{ops::greater(most, ops::full(b, DType::float32, Shape{}, 1))};
        },
        [](ir::Builder&, Bodies v) { return Values{ops::log(v[0]) * 0.5}; });
  });
  const auto executable = lowered_for(f, std::make_shared<RefusingBackend>());
  for (std::size_t bad = 0; bad < 4; ++bad) {
    Elements elements(4, 2.0);
    CHECK_NOTHROW(runtime::run(*executable, {to_host(type, elements)}));
    elements[bad] = -1;
    CHECK_THROWS_WITH_AS(runtime::run(*executable, {to_host(type, elements)}), "log of -1", ValueError);
  }
}

/// Of a shard: an op that is not done again by every process for the others.
Value largest(const Value& x) {
  return ops::apply_one(ops::primitives::reduce_max(), {x}, {{"axes", ops::Dims{0, 1}}});
}

TEST_CASE("what a call computes waits for all of its operands") {
  const std::vector<ArrayType> types = {f32({8, 64})};
  const MapSpec spec{mesh({{"batch", 4}}), 2, {{"batch", ""}}, {{"batch", ""}}};
  const auto program = [&](bool recomputed) {
    return mapped(types, spec, [&](ir::Builder&, Bodies v) {
      const Value y = ops::sin(v[0]);
      const Value s = ops::pvary(ops::psum(largest(y), {"batch"}), {"batch"});
      const ShardBody backward = [](ir::Builder&, Bodies u) {
        return Values{ops::sin(u[0]) * ops::broadcast_in_dim(u[1], u[0].shape(), {})};
      };
      if (recomputed) return call({v[0], s}, backward);
      return Values{y * ops::broadcast_in_dim(s, y.shape(), {})};
    });
  };
  check_plain(program(true), program(false), random_host_arrays(types, 5));
  const auto kept = lowered_for(program(false), permissive_backend());
  const auto recomputed = lowered_for(program(true), permissive_backend());
  CHECK(kept->shard_bytes >= 2 * 64 * sizeof(float));  // sin(x) waits for the sum
  CHECK(recomputed->shard_bytes < 2 * 64 * sizeof(float));
}

}  // namespace lockstep::tests
