#include <thread>

#include <doctest/doctest.h>

#include "tests/runtime/values.h"
#include "tests/support/control_flow_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"

// Compiled scans against the same programs with every iteration written out, bit for bit.
namespace lockstep::tests {
namespace {

using ir::Value;

/// On 1, 2 and 4 threads and with and without passes.
void check_unrolled(const ir::FunctionPtr& f, std::uint64_t seed = 1) {
  const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), seed);
  const Bytes expected = evaluated(unrolled(f), arguments);
  for (const auto& backend : {ops::reference_backend(), permissive_backend()}) {
    for (const int threads : {1, 2, 4}) {
      for (const bool optimize : {false, true}) {
        CAPTURE(backend->name());
        CAPTURE(threads);
        CAPTURE(optimize);
        CHECK(compiled(f, arguments, backend, threads, optimize) == expected);
      }
    }
  }
}

/// The map of `body` over the shards of `axes`, on 1, 2 and 4 devices; all operands are cut along dimension 0 by the
/// first axis, results too unless `invariant`.
void check_mapped(const ir::AxisSizes& axes, const std::vector<ArrayType>& types, const Layouts& in, const Layouts& out,
                  const ShardBody& body, std::uint64_t seed = 1) {
  for (const int devices : {1, 2, 4}) {
    CAPTURE(devices);
    check_unrolled(mapped(types, {axes, devices, in, out}, body), seed);
  }
}

Value scalar_sum(const Value& x) {
  ops::Dims dims;
  for (int d = 0; d < x.rank(); ++d) dims.push_back(d);
  return ops::reduce_sum(x, dims);
}

std::shared_ptr<const executable::Executable> lowered_on(const ir::FunctionPtr& f, int threads = 1) {
  compile::Options options;
  options.backends = {permissive_backend()};
  options.threads = threads;
  options.verify = true;
  return compile::lower(f, options);
}

}  // namespace

TEST_CASE("a scan gives the bits of its iterations written out") {
  for (const std::int64_t length : {0, 1, 2, 5}) {
    for (const bool reverse : {false, true}) {
      CAPTURE(length);
      CAPTURE(reverse);
      const std::vector<ArrayType> types = {f32({3}), f32({3}), f32({length, 3}), f32({length})};
      check_unrolled(make_function(types, [&](ir::Builder&, Bodies in) {
        return scan({length, 1, 1, reverse}, {in[0], in[1], in[2], in[3]}, [](ir::Builder&, Bodies v) {
          const Value next = ops::sin(v[1] * v[0]) + v[2];
          return Values{next, next * ops::broadcast_in_dim(v[3], Shape{3}, {}), scalar_sum(next)};
        });
      }));
    }
  }
}

TEST_CASE("carries that are passed through, exchanged, taken from consts and xs, or given twice") {
  for (const std::int64_t length : {0, 1, 2, 3}) {
    CAPTURE(length);
    const std::vector<ArrayType> types = {f32({4}), f32({4}), f32({4}), f32({4}), f32({length, 4})};
    const auto check = [&](const ShardBody& body) {
      check_unrolled(make_function(types, [&](ir::Builder&, Bodies in) {
        return scan({length, 1, 3, false}, {in[0], in[1], in[2], in[3], in[4]}, body);
      }));
    };
    // in the body: v[0] const, v[1] .. v[3] carries, v[4] x
    check([](ir::Builder&, Bodies v) { return Values{v[1], ops::sin(v[2]), v[3], v[1]}; });
    check([](ir::Builder&, Bodies v) { return Values{v[2], v[3], v[1], v[2]}; });
    check([](ir::Builder&, Bodies v) { return Values{v[2], v[1], ops::cos(v[3] + v[1]), v[4]}; });
    check([](ir::Builder&, Bodies v) { return Values{v[0], v[4], v[2], v[0], v[4]}; });
    check([](ir::Builder&, Bodies v) {
      const Value next = ops::sin(v[1] + v[4]);
      return Values{next, next, ops::cos(v[3]), next, next};
    });
    check([](ir::Builder&, Bodies v) {
      const Value y = ops::sin(v[1]);
      return Values{y + v[2], y - v[2], v[1] * v[2], y};
    });
    check([](ir::Builder& b, Bodies v) {
      const Value one = ops::full(b, DType::float32, Shape{4}, 1);
      return Values{one, ops::reshape(ops::reshape(v[1], Shape{2, 2}), Shape{4}), one, ops::neg(v[3])};
    });
  }
}

TEST_CASE("zero-size arrays, scalars and bodies without equations") {
  const std::vector<ArrayType> types = {f32({0, 3}), f32({}), f32({2, 0, 3})};
  check_unrolled(make_function(types, [&](ir::Builder&, Bodies in) {
    return scan({2, 0, 2, false}, {in[0], in[1], in[2]}, [](ir::Builder&, Bodies v) {
      return Values{v[0] + v[2], v[1] + scalar_sum(v[2]), ops::sin(v[0])};
    });
  }));
  check_unrolled(make_function({f32({2, 3})}, [&](ir::Builder&, Bodies in) {
    return scan({2, 0, 0, true}, {in[0]}, [](ir::Builder&, Bodies v) { return Values{v[0], v[0]}; });
  }));
}

TEST_CASE("scans in scans, and around them large element-wise work") {
  const std::vector<ArrayType> types = {f32({3}), f32({4, 3}), f32({20000})};
  check_unrolled(make_function(types, [&](ir::Builder&, Bodies in) {
    const Value wide = ops::sin(in[2]);
    const Values outer = scan({4, 0, 2, true}, {in[0], wide, in[1]}, [](ir::Builder&, Bodies v) {
      const Values inner = scan({3, 1, 1, false}, {v[2], v[0]}, [](ir::Builder&, Bodies w) {
        const Value next = ops::sin(w[0] * w[1]);
        return Values{next, next + w[0]};
      });
      return Values{inner[0], ops::cos(v[1]), scalar_sum(inner[1])};
    });
    return Values{outer[0], ops::add(outer[1], wide), outer[2]};
  }));
}

TEST_CASE("a scan inside a map runs for every shard") {
  const std::vector<ArrayType> types = {f32({8, 3}), f32({3}), f32({5, 8, 3})};
  const Layouts in = {{"batch", ""}, {""}, {"", "batch", ""}};
  check_mapped(mesh({{"batch", 4}}), types, in, {{"batch", ""}, {""}, {"", "batch", ""}}, [](ir::Builder&, Bodies v) {
    const Value w = ops::pvary(ops::broadcast_in_dim(v[1], Shape{2, 3}, {1}), {"batch"});
    const Values r = scan({5, 1, 1, true}, {w, v[0], v[2]}, [](ir::Builder&, Bodies u) {
      const Value next = ops::sin(u[1] * u[0]) + u[2];
      return Values{next, next * u[2]};
    });
    return Values{r[0], ops::psum(ops::reduce_sum(r[0], {0}), {"batch"}), r[1]};
  });
}

TEST_CASE("what a body needs of its shard becomes an operand, also of loops and calls inside") {
  const ir::AxisSizes axes = mesh({{"data", 2}, {"model", 2}});
  const auto coordinate = [](ir::Builder& b, const std::string& axis) {
    return ops::convert({b, b.apply(ops::primitives::axis_index(), std::span<const ir::Var>{}, {{"axis", axis}})[0]},
                        DType::float32);
  };
  const AxisSet both = {"data", "model"};
  check_mapped(axes, {f32({4, 2})}, {{"data", "model"}}, {{"data", "model"}}, [&](ir::Builder&, Bodies v) {
    return scan({3, 0, 1, false}, {v[0]}, [&](ir::Builder& b, Bodies u) {
      const Value inner = scan({2, 0, 1, false}, {u[0]}, [&](ir::Builder& c, Bodies t) {
        const Value called = call({t[0]}, [&](ir::Builder& d, Bodies s) {
          const Value at = ops::pvary(coordinate(d, "model"), {"data"});
          return Values{ops::sin(s[0]) + ops::broadcast_in_dim(at, s[0].shape(), {})};
        })[0];
        const Value at = ops::pvary(coordinate(c, "data"), {"model"});
        return Values{called * ops::broadcast_in_dim(at, called.shape(), {})};
      })[0];
      const Value at = ops::pvary(coordinate(b, "model"), {"data"});
      return Values{inner + ops::broadcast_in_dim(at, inner.shape(), {})};
    });
  });
}

TEST_CASE("a loop with invariant and varying carries") {
  const ArrayType counter{DType::int32, Shape{}, {}};
  check_mapped(mesh({{"batch", 4}}), {counter, f32({8}), f32({3, 2})}, {{}, {"batch"}, {"", ""}},
               {{}, {"batch"}, {"", ""}, {""}}, [](ir::Builder&, Bodies v) {
                 const Values r = scan({3, 0, 2, false}, {v[0], v[1], v[2]}, [](ir::Builder&, Bodies u) {
                   const Value step = ops::broadcast_in_dim(ops::convert(u[0], DType::float32), Shape{2}, {});
                   return Values{u[0] + ops::full_like(u[0], 1), ops::sin(u[1]) + ops::pvary(step + u[2], {"batch"}),
                                 step * u[2]};
                 });
                 const Value total = ops::convert(ops::broadcast_in_dim(r[0], Shape{2}, {}), DType::float32);
                 return Values{r[0], r[1] * ops::pvary(total, {"batch"}), r[2], total + ops::reduce_sum(r[2], {0})};
               });
}

TEST_CASE("a scan with collectives inside a map") {
  const std::vector<ArrayType> types = {f32({8, 3}), f32({3}), f32({5, 8, 3})};
  const Layouts in = {{"batch", ""}, {""}, {"", "batch", ""}};
  check_mapped(mesh({{"batch", 4}}), types, in, {{"batch", ""}, {""}, {"", "batch", ""}, {"", ""}},
               [](ir::Builder&, Bodies v) {
                 const Value x = ops::sin(v[0]);
                 const Values r = scan({5, 1, 2, true}, {x, v[0], v[1], v[2]}, [](ir::Builder&, Bodies u) {
                   const Value mean = ops::psum(ops::reduce_sum(u[1], {0}), {"batch"}) * 0.125;
                   const Value next = ops::sin(u[1] * u[0]) + u[3];
                   return Values{ops::sub(next, ops::pvary(ops::broadcast_in_dim(mean, Shape{2, 3}, {1}), {"batch"})),
                                 ops::cos(u[2]) + mean, next, mean};
                 });
                 return Values{r[0] + x, r[1], r[2], r[3]};
               });
}

TEST_CASE("stacked values that are passed through, exchanged and given twice") {
  const std::vector<ArrayType> types = {f32({8, 3}), f32({8, 3}), f32({3, 8, 3})};
  const Layouts in = {{"batch", ""}, {"batch", ""}, {"", "batch", ""}};
  const Layouts out = {{"batch", ""}, {"batch", ""}, {"", "batch", ""}, {"", "batch", ""}, {"", ""}};
  const auto check = [&](const ShardBody& body) {
    check_mapped(mesh({{"batch", 4}}), types, in, out, [&](ir::Builder&, Bodies v) {
      return scan({3, 0, 2, false}, {v[0], v[1], v[2]}, body);
    });
  };
  const auto mean = [](const Value& x) { return ops::psum(ops::reduce_sum(x, {0}), {"batch"}); };
  check([&](ir::Builder&, Bodies u) { return Values{u[1], u[0], u[2], u[2], mean(u[0])}; });
  check([&](ir::Builder&, Bodies u) { return Values{u[0], u[0], u[1], ops::sin(u[2]), mean(u[1])}; });
  check([&](ir::Builder&, Bodies u) {
    const Value next = ops::sin(u[0] + u[2]);
    return Values{next, next, next, next, mean(next)};
  });
  check([&](ir::Builder&, Bodies u) {
    const Value s = ops::pvary(ops::broadcast_in_dim(mean(u[0]), Shape{2, 3}, {1}), {"batch"});
    return Values{s, u[1] * s, s, u[2], mean(s)};
  });
}

TEST_CASE("a scan over a whole map, loops in loops, all devices together") {
  const std::vector<ArrayType> types = {f32({3}), f32({4, 8, 3})};
  for (const int devices : {1, 2, 4}) {
    const MapSpec spec{mesh({{"batch", 4}}), devices, {{""}, {"batch", ""}}, {{""}, {"batch", ""}}};
    const ir::FunctionPtr f = make_function(types, [&](ir::Builder&, Bodies in) {
      return scan({4, 0, 1, false}, {in[0], in[1]}, [&](ir::Builder&, Bodies u) {
        const Values r = map(Values{u[0], u[1]}, spec, [](ir::Builder&, Bodies v) {
          const Value wide = ops::pvary(ops::broadcast_in_dim(v[0], Shape{2, 3}, {1}), {"batch"});
          const Values inner = scan({2, 0, 1, false}, {wide}, [](ir::Builder&, Bodies w) {
            const Value s = ops::psum(ops::reduce_sum(ops::sin(w[0]), {0}), {"batch"});
            return Values{w[0] * ops::pvary(ops::broadcast_in_dim(s, Shape{2, 3}, {1}), {"batch"})};
          });
          const Value g = ops::psum(ops::reduce_sum(ops::sin(inner[0] + v[1]), {0}), {"batch"});
          return Values{ops::sub(v[0], g * 0.1), inner[0] * v[1]};
        });
        return Values{r[0], scalar_sum(r[1])};
      });
    });
    check_unrolled(f);
    const auto executable = lowered_on(f);
    CHECK(executable->plan().collectives == 4 * (2 + 1));
    std::int64_t counted = 0;
    runtime::run(*executable, random_host_arrays(types, 3), {}, &counted);
    CHECK(counted == 4 * (2 + 1));
    CHECK(executable->collectives_run() == 4 * (2 + 1));
  }
}

TEST_CASE("a donated carry is updated where it lies") {
  const std::vector<ArrayType> types = {f32({64}), f32({64}), f32({5, 64})};
  const ir::FunctionPtr f = make_function(types, [&](ir::Builder&, Bodies in) {
    return scan({5, 0, 2, false}, {in[0], in[1], in[2]}, [](ir::Builder&, Bodies v) {
      const Value m = v[1] * 0.9 + v[2];
      return Values{v[0] - m * 0.1, m};
    });
  });
  const auto executable = lowered_on(f);
  std::vector<eval::HostArray> arguments = random_host_arrays(types, 5);
  const Bytes expected = evaluated(unrolled(f), arguments);
  const void* first = arguments[0].buffer->data();
  const void* second = arguments[1].buffer->data();
  const auto results = runtime::run(*executable, std::move(arguments), {true, true, true});
  CHECK(bytes_of(results) == expected);
  CHECK(results[0].buffer->data() == first);
  CHECK(results[1].buffer->data() == second);
}

TEST_CASE("one array given as two carries is not written where it is read") {
  const ir::FunctionPtr f = make_function({f32({6})}, [&](ir::Builder&, Bodies in) {
    return scan({3, 1, 2, false}, {in[0], in[0], in[0]}, [](ir::Builder&, Bodies v) {
      return Values{ops::sin(v[1]) + v[0], ops::cos(v[2]) * v[0]};
    });
  });
  const auto executable = lowered_on(f);
  std::vector<eval::HostArray> arguments = random_host_arrays({f32({6})}, 5);
  const Bytes expected = evaluated(unrolled(f), arguments);
  CHECK(bytes_of(runtime::run(*executable, std::move(arguments), {true})) == expected);
}

TEST_CASE("random bodies with collectives, meshes of one and two axes") {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    const ir::AxisSizes axes = seed % 2 == 0 ? mesh({{"data", 4}}) : mesh({{"data", 2}, {"model", 2}});
    const std::vector<std::string> cut =
        seed % 2 == 0 ? std::vector<std::string>{"data", ""} : std::vector<std::string>{"data", "model"};
    const std::vector<ArrayType> types = {f32({8, 4}), f32({3, 4})};
    const int devices = 1 << (seed % 3);
    const MapSpec spec{axes, devices, {cut, {"", ""}}, {cut, {"", ""}, {"", cut[0], cut[1]}, {""}}};
    check_unrolled(mapped(types, spec,
                          [&](ir::Builder&, Bodies v) {
                            return scan({3, 0, 2, seed % 4 > 1}, {v[0], v[1]}, [&](ir::Builder& b, Bodies u) {
                              const Values r = RandomBody(seed, axes, 10)(b, u);
                              const Value mixed = ops::broadcast_in_dim(scalar_sum(r[3]), u[0].shape(), {});
                              const Value state = ops::sin(u[0] + mixed);
                              const Value shared =
                                  ops::cos(u[1] * ops::broadcast_in_dim(scalar_sum(r[0]), u[1].shape(), {}));
                              return Values{state, shared, mixed * u[0], scalar_sum(r[1])};
                            });
                          }),
                   seed);
  }
}

TEST_CASE("the gradient of scans in scans, recomputed by chunks, keeps the square root of all states") {
  const std::int64_t size = 1024;
  const auto step = [](const Value& w, const Value& c) { return ops::sin(c * w); };
  // d(c') = cos(c w) (w dc + c dw)
  const auto backward = [](ir::Builder&, Bodies v) {  // w, dc, dw, c
    const Value g = v[1] * ops::cos(v[3] * v[0]);
    return Values{g * v[0], v[2] + g * v[3]};
  };
  const auto gradient = [&](std::int64_t n) {
    return make_function({f32({size}), f32({size}), f32({n}), f32({n})}, [&](ir::Builder& b, Bodies in) {
      const Value none = ops::full(b, DType::float32, Shape{size}, 0);
      const Values forward = scan({n, 2, 1, false}, {in[0], in[3], in[1], in[2]}, [&](ir::Builder&, Bodies v) {
        const Value last = scan({n, 1, 1, false}, {v[0], v[2], v[1]},
                                [&](ir::Builder&, Bodies u) { return Values{step(u[0], u[1])}; })[0];
        return Values{last, v[2]};
      });
      const Values r = scan({n, 2, 2, true}, {in[0], in[3], forward[0], none, forward[1]}, [&](ir::Builder&, Bodies v) {
        const Values states = scan({n, 1, 1, false}, {v[0], v[4], v[1]}, [&](ir::Builder&, Bodies u) {
          return Values{step(u[0], u[1]), u[1]};
        });
        return scan({n, 1, 2, true}, {v[0], v[2], v[3], states[1]}, backward);
      });
      return Values{r[0], r[1]};
    });
  };
  check_unrolled(gradient(3));
  const std::size_t state = static_cast<std::size_t>(size) * sizeof(float);
  for (const std::size_t n : {8U, 32U}) {
    const auto executable = lowered_on(gradient(static_cast<std::int64_t>(n)));
    const std::size_t bytes = executable->arena_bytes + executable->scratch_bytes;
    CHECK(bytes >= 2 * n * state);
    CHECK(bytes <= (2 * n + 16) * state);
  }
}

TEST_CASE("one executable with loops runs in several threads at once") {
  const MapSpec spec{mesh({{"batch", 4}}), 2, {{"batch", ""}}, {{"batch", ""}, {"", ""}}};
  const ArrayType type = f32({8, 16});
  const ir::FunctionPtr f = mapped({type}, spec, [](ir::Builder&, Bodies x) {
    const Value local =
        scan({3, 0, 1, false}, {x[0]}, [](ir::Builder&, Bodies u) { return Values{ops::sin(u[0])}; })[0];
    const Values r = scan({4, 0, 1, false}, {local}, [](ir::Builder&, Bodies u) {
      const Value s = ops::psum(u[0], {"batch"});
      return Values{ops::cos(u[0]) * ops::pvary(s, {"batch"}), s};
    });
    return Values{r[0], ops::reduce_sum(r[1], {0})};
  });
  const auto executable = lowered_on(f);
  std::vector<std::thread> threads;
  std::vector<int> wrong(3, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    const std::vector<eval::HostArray> arguments = random_host_arrays({type}, t);
    const Bytes expected = evaluated(unrolled(f), arguments);
    threads.emplace_back([&, t, arguments, expected] {
      for (int i = 0; i < 50; ++i) wrong[t] += bytes_of(runtime::run(*executable, arguments)) == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>{0, 0, 0});
}

}  // namespace lockstep::tests
