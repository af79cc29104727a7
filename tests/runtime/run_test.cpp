#include <algorithm>
#include <thread>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/runtime/values.h"
#include "tests/support/mapped_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/random_program.h"
#include "tests/support/refusing_backend.h"
#include "tests/support/run_compiled.h"

namespace lockstep::tests {
namespace {

using ir::Value;

std::vector<std::shared_ptr<const backend::Backend>> test_backends() {
  return {ops::reference_backend(), permissive_backend()};
}

void check_evaluated(const ir::FunctionPtr& f, std::uint64_t seed) {
  const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), seed);
  const Bytes expected = evaluated(f, arguments);
  for (const auto& backend : test_backends()) {
    for (bool optimize : {false, true}) {
      CAPTURE(backend->name());
      CAPTURE(optimize);
      CHECK(compiled(f, arguments, backend, 2, optimize) == expected);
    }
  }
}

}  // namespace

TEST_CASE("random straight-line programs give eval's bits") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    check_evaluated(random_program(seed, 20), seed);
  }
}

TEST_CASE("large arrays are cut into tiles without a change of bits") {
  const ArrayType type{DType::float32, Shape{3, 20000}, {}};
  const ir::FunctionPtr f = make_function({type, type}, [](ir::Builder& b, std::span<const Value> x) {
    const Value t = ops::sin(x[0]) * 0.5 + x[1];
    const Value s = ops::reduce_sum(t, {0, 1});
    const Value u = t * ops::broadcast_in_dim(s, t.shape(), {});
    const Value v = ops::broadcast_in_dim(ops::reduce_sum(u, {0}), t.shape(), {1}) - u;
    return Values{v, ops::transpose(v, {1, 0}), s, ops::full(b, DType::float32, t.shape(), 3)};
  });
  check_evaluated(f, 1);
}

TEST_CASE("results that are arguments, parts, repetitions and constants") {
  const ArrayType type{DType::float32, Shape{4, 6}, {}};
  const ir::FunctionPtr f = make_function({type}, [](ir::Builder& b, std::span<const Value> x) {
    const Value y = ops::sin(x[0]);
    return Values{x[0],
                  ops::reshape(x[0], Shape{24}),
                  y,
                  y,
                  ops::reshape(y, Shape{6, 4}),
                  ops::slice(x[0], {1, 0}, {3, 6}, {1, 1}),
                  ops::slice(y, {0, 1}, {4, 6}, {2, 2}),
                  ops::broadcast_in_dim(x[0], Shape{2, 4, 6}, {1, 2}),
                  ops::full(b, DType::float32, Shape{2, 3}, 1.5),
                  ops::full(b, DType::float32, Shape{}, 2.5)};
  });
  check_evaluated(f, 2);
}

TEST_CASE("random shard bodies give the same bits on every backend and device count") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    for (int shards : {1, 2, 4, 8}) {
      CAPTURE(shards);
      Bytes expected;
      for (int devices = 1; devices <= std::min(shards, 4); devices *= 2) {
        CAPTURE(devices);
        MapSpec spec{mesh({{"batch", shards}}), devices, {{"batch", ""}, {"", ""}, {}}, {{}, {}, {}, {"batch"}}};
        const std::vector<ArrayType> types = {
            {DType::float32, Shape{8, 8}, {}}, {DType::float32, Shape{3, 8}, {}}, {DType::float32, Shape{}, {}}};
        // Ranks of the results differ by seed: layouts are filled in from the body's types.
        RandomBody body(seed, spec.mesh, 14);
        const auto rank_layouts = [&](ir::Builder& b, std::span<const Value> x) {
          std::vector<Value> results = body(b, x);
          for (std::size_t i = 0; i < 3; ++i) spec.out[i].assign(static_cast<std::size_t>(results[i].rank()), "");
          return results;
        };
        const ir::FunctionPtr f = [&] {
          std::vector<ArrayType> local;
          for (std::size_t i = 0; i < types.size(); ++i) local.push_back(local_type(types[i], spec.in[i], spec.mesh));
          make_function(local, rank_layouts, spec.mesh);
          return mapped(types, spec, RandomBody(seed, spec.mesh, 14));
        }();
        const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), seed);
        if (expected.empty()) expected = evaluated(f, arguments);
        for (const auto& backend : test_backends()) {
          CAPTURE(backend->name());
          CHECK(compiled(f, arguments, backend, 2, devices % 2 == 0) == expected);
        }
      }
    }
  }
}

TEST_CASE("meshes of two axes, cuts along inner dimensions and both at once") {
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    CAPTURE(seed);
    MapSpec spec{mesh({{"data", 2}, {"model", 4}}), 2, {{"data", "model"}, {"", "data"}, {"model"}}, {{}, {}, {}, {}}};
    const std::vector<ArrayType> types = {
        {DType::float32, Shape{4, 8}, {}}, {DType::float32, Shape{3, 4}, {}}, {DType::float32, Shape{8}, {}}};
    std::vector<ArrayType> local;
    for (std::size_t i = 0; i < types.size(); ++i) local.push_back(local_type(types[i], spec.in[i], spec.mesh));
    const auto body = [&](ir::Builder& b, std::span<const Value> x) {
      std::vector<Value> results = RandomBody(seed, spec.mesh, 14)(b, x);
      for (std::size_t i = 0; i < 3; ++i) spec.out[i].assign(static_cast<std::size_t>(results[i].rank()), "");
      const Value last = ops::broadcast_in_dim(results[3], Shape{2, results[3].shape().size(), 3}, {1});
      results[3] = ops::add(last, ops::reduce_sum(last, {0, 1, 2}).rank() == 0 ? last : last);
      spec.out[3] = {"model", "", "data"};
      return results;
    };
    make_function(local, body, spec.mesh);
    check_evaluated(mapped(types, spec, body), seed);
  }
}

TEST_CASE("two maps of different meshes, and equations between and around them") {
  const MapSpec rows{mesh({{"batch", 4}}), 2, {{"batch", ""}, {"", ""}}, {{"batch", ""}, {""}}};
  const MapSpec columns{mesh({{"model", 2}}), 1, {{"", "model"}, {"", ""}}, {{"model", ""}, {"", "model"}}};
  const ArrayType type{DType::float32, Shape{8, 6}, {}};
  const ir::FunctionPtr f = make_function({type, type}, [&](ir::Builder&, std::span<const Value> x) {
    const Value shifted = ops::add(x[0], ops::cos(x[1]));
    const Values first = map(Values{shifted, x[1]}, rows, [](ir::Builder&, std::span<const Value> v) {
      const Value y = ops::sin(v[0]);
      const Value s = ops::psum(ops::reduce_sum(y, {0}), {"batch"});
      const Value w = ops::reduce_sum(ops::mul(ops::tanh(v[1]), v[1]), {0});
      return Values{ops::mul(y, ops::broadcast_in_dim(s, y.shape(), {1})), ops::sub(s, w)};
    });
    const Value between = ops::sub(first[0], ops::broadcast_in_dim(first[1], type.shape, {1}));
    const Values second = map(Values{between, x[1]}, columns, [](ir::Builder&, std::span<const Value> v) {
      const Value n = ops::psum(v[0], {"model"});
      return Values{ops::transpose(ops::mul(v[0], n), {1, 0}),
                    ops::add(n, ops::pvary(ops::slice(v[1], {0, 0}, {8, 6}, {1, 2}), {"model"}))};
    });
    return Values{ops::transpose(second[0], {1, 0}), ops::neg(second[1]), ops::exp(first[1]), between};
  });
  check_evaluated(f, 8);
}

TEST_CASE("sums over shards are the fixed tree") {
  const MapSpec spec{mesh({{"batch", 8}}), 2, {{"batch"}}, {{""}}};
  const ir::FunctionPtr f = mapped({{DType::float32, Shape{8}, {}}}, spec, [](ir::Builder&, std::span<const Value> x) {
    return Values{ops::psum(x[0], {"batch"})};
  });
  const std::vector<float> x = {1e8F, 1.0F, -1e8F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F};
  const float tree = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  float in_order = 0;
  for (float v : x) in_order += v;
  REQUIRE(tree != in_order);
  const eval::HostArray argument =
      eval::host_array({DType::float32, Shape{8}, {}}, std::as_bytes(std::span(x)), *ops::reference_backend());
  const Bytes result = compiled(f, {argument}, ops::reference_backend());
  CHECK(result[0].size() == sizeof(float));
  CHECK(std::memcmp(result[0].data(), &tree, sizeof(float)) == 0);
}

TEST_CASE("products that are summed over shards are computed together where their operands are smaller") {
  const auto function = [](std::int64_t rows, int devices) {
    const MapSpec spec{mesh({{"batch", 4}}), devices, {{"batch", ""}, {"batch", ""}}, {{"", ""}}};
    const std::vector<ArrayType> types = {{DType::float32, Shape{4 * rows, 24}, {}},
                                          {DType::float32, Shape{4 * rows, 40}, {}}};
    return mapped(types, spec, [](ir::Builder&, std::span<const Value> x) {
      const std::vector<std::vector<std::int64_t>> contract = {{0}, {0}}, batch = {{}, {}};
      const Value product = ops::apply(ops::primitives::dot_general(), {{x[0], ops::tanh(x[1])}},
                                       {{"contract", contract}, {"batch", batch}})[0];
      return Values{ops::psum(product, {"batch"})};
    });
  };
  compile::Options options;
  options.backends = {permissive_backend()};
  const auto plan_of = [&](std::int64_t rows) { return compile::lower(function(rows, 2), options)->plan(); };
  CHECK(plan_of(3).text.find("sum_of_products") != std::string::npos);
  CHECK(plan_of(3).flops == doctest::Approx(4 * 2.0 * 3 * 24 * 40 + 12 * 40));
  CHECK(plan_of(3).collectives == 1);
  CHECK(plan_of(40).text.find("sum_of_products") == std::string::npos);
  for (const int devices : {1, 2, 4}) {
    check_evaluated(function(3, devices), 4);
    check_evaluated(function(40, devices), 5);
  }
}

TEST_CASE("convolutions of a device's shards and the sums of their gradients are computed together") {
  const auto function = [](std::int64_t images, bool own_windows, int devices) {
    const std::string layout = own_windows ? "batch" : "";
    const MapSpec spec{
        mesh({{"batch", 4}}), devices, {{"batch", "", ""}, {layout, "", ""}}, {{"batch", "", ""}, {"", "", ""}}};
    const std::vector<ArrayType> types = {{DType::float32, Shape{4 * images, 2, 3}, {}},
                                          {DType::float32, Shape{own_windows ? 12 : 3, 3, 32}, {}}};
    return mapped(types, spec, [&](ir::Builder&, std::span<const Value> x) {
      using Dims = std::vector<std::int64_t>;
      const Attrs attrs = {{"strides", Dims{1}},
                           {"padding", std::vector<Dims>{{1, 1}}},
                           {"dilation", Dims{1}},
                           {"groups", std::int64_t{1}}};
      const Value window = own_windows ? x[1] : ops::pvary(x[1], {"batch"});
      const Value y = ops::tanh(ops::apply(ops::primitives::conv(), {{ops::tanh(x[0]), window}}, attrs)[0]);
      const Attrs of_window = attrs.with("window", Dims{3});
      const Value grad = ops::apply(ops::primitives::conv_kernel_grad(), {{x[0], y}}, of_window)[0];
      return Values{y, ops::psum(grad, {"batch"})};
    });
  };
  compile::Options options;
  options.backends = {permissive_backend()};
  const auto plan_of = [&](std::int64_t images, bool own_windows, int devices) {
    return compile::lower(function(images, own_windows, devices), options)->plan();
  };
  const auto has = [](const executable::PlanReport& plan, const std::string& op) {
    return plan.text.find(op) != std::string::npos;
  };
  CHECK(has(plan_of(1, false, 2), "conv_of_shards"));
  CHECK(has(plan_of(1, false, 1), "conv_of_shards"));
  CHECK_FALSE(has(plan_of(1, false, 4), "conv_of_shards"));
  CHECK_FALSE(has(plan_of(1, true, 2), "conv_of_shards"));
  CHECK(has(plan_of(1, false, 2), "sum_of_kernel_grads"));
  CHECK_FALSE(has(plan_of(8, false, 2), "sum_of_kernel_grads"));
  CHECK(plan_of(1, false, 2).flops == doctest::Approx(plan_of(1, false, 4).flops));
  for (const int devices : {1, 2, 4}) {
    check_evaluated(function(1, false, devices), 6);
    check_evaluated(function(8, false, devices), 7);
    check_evaluated(function(1, true, devices), 8);
  }
}

TEST_CASE("bfloat16 sums stay float32 until they are complete") {
  const MapSpec spec{mesh({{"batch", 4}}), 1, {{"batch"}}, {{""}}};
  const ir::FunctionPtr f = mapped({{DType::bfloat16, Shape{4}, {}}}, spec, [](ir::Builder&, std::span<const Value> x) {
    return Values{ops::psum(x[0], {"batch"})};
  });
  const eval::HostArray argument = to_host({DType::bfloat16, Shape{4}, {}}, {256, 1, 1, 1});  // 257 is no bfloat16
  const eval::HostArray expected = to_host({DType::bfloat16, Shape{1}, {}}, {260});           // 259 rounds to 260
  CHECK(compiled(f, {argument}, ops::reference_backend())[0] == eval::host_bytes(expected));
}

TEST_CASE("a donated buffer becomes the result of its type") {
  const ArrayType type{DType::float32, Shape{40000}, {}};
  const ir::FunctionPtr f = make_function({type, type, type}, [](ir::Builder&, std::span<const Value> x) {
    const Value m = x[1] * 0.9 + x[2] * 0.1;
    return Values{x[0] - m * 0.01, m};
  });
  compile::Options options;
  options.backends = {permissive_backend()};
  options.threads = 2;
  const auto executable = compile::lower(f, options);
  std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), 5);
  const Bytes expected = evaluated(f, arguments);
  const void* first = arguments[0].buffer->data();
  const void* second = arguments[1].buffer->data();
  const auto kept = runtime::run(*executable, arguments, {true, true, false});
  CHECK(kept[0].buffer->data() != first);  // the caller still holds it
  CHECK(bytes_of(kept) == expected);
  const auto reused = runtime::run(*executable, std::move(arguments), {true, true, false});
  CHECK(bytes_of(reused) == expected);
  CHECK(reused[0].buffer->data() == first);
  CHECK(reused[1].buffer->data() == second);
}

TEST_CASE("a donated argument read after the result is written is not its memory") {
  const ArrayType type{DType::float32, Shape{6}, {}};
  const ir::FunctionPtr f = make_function({type}, [](ir::Builder&, std::span<const Value> x) {
    const Value y = ops::sin(x[0]);
    return Values{y, ops::cos(ops::add(x[0], y)), x[0]};
  });
  compile::Options options;
  options.backends = {permissive_backend()};
  const auto executable = compile::lower(f, options);
  std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), 5);
  const Bytes expected = evaluated(f, arguments);
  const auto results = runtime::run(*executable, std::move(arguments), {true});
  CHECK(bytes_of(results) == expected);
}

TEST_CASE("an invariant equation runs once and a psum is counted once") {
  const MapSpec spec{mesh({{"batch", 4}}), 2, {{"batch"}, {""}}, {{""}}};
  const std::vector<ArrayType> types = {{DType::float32, Shape{4}, {}}, {DType::float32, Shape{1}, {}}};
  const ir::FunctionPtr f = mapped(types, spec, [](ir::Builder&, std::span<const Value> x) {
    const Value w = ops::sin(x[1]);
    return Values{ops::psum(w * x[0], {"batch"})};
  });
  compile::Options options;
  options.backends = {ops::reference_backend()};
  const auto executable = compile::lower(f, options);
  CHECK(executable->plan().collectives == 1);
  const auto arguments = random_host_arrays(types, 3);
  for (int i = 0; i < 3; ++i) runtime::run(*executable, arguments);
  CHECK(executable->collectives_run() == 3);
  int sines = 0;
  for (std::size_t c = 0; c < executable->calls.size(); ++c) sines += executable->call_names[c] == "sin" ? 1 : 0;
  CHECK(sines == 1);
  CHECK(executable->steps[0].kind == executable::Step::Kind::shared);
}

TEST_CASE("per-shard state that is donated is updated where it lies") {
  const MapSpec spec{mesh({{"batch", 4}}), 2, {{"batch", ""}, {"batch", ""}}, {{"batch", ""}}};
  const ArrayType type{DType::float32, Shape{8, 16}, {}};
  const ir::FunctionPtr f = mapped(
      {type, type}, spec, [](ir::Builder&, std::span<const Value> x) { return Values{x[0] * 0.5 - ops::sin(x[1])}; });
  compile::Options options;
  options.backends = {permissive_backend()};
  const auto executable = compile::lower(f, options);
  std::vector<eval::HostArray> arguments = random_host_arrays({type, type}, 5);
  const Bytes expected = evaluated(f, arguments);
  const void* state = arguments[0].buffer->data();
  const auto results = runtime::run(*executable, std::move(arguments), {true, false});
  CHECK(bytes_of(results) == expected);
  CHECK(results[0].buffer->data() == state);
}

TEST_CASE("aliases and views need no kernel where readers take strides") {
  const ArrayType matrix{DType::float32, Shape{4, 6}, {}};
  const ArrayType row{DType::float32, Shape{6}, {}};
  const ir::FunctionPtr f = make_function({matrix, row}, [](ir::Builder& b, std::span<const Value> x) {
    const Value wide = ops::broadcast_in_dim(x[1], Shape{4, 6}, {1});
    const Value two = ops::full(b, DType::float32, Shape{4, 6}, 2);
    const Value turned = ops::transpose(ops::mul(ops::add(x[0], wide), two), {1, 0});
    return Values{ops::neg(ops::reshape(ops::slice(turned, {1, 0}, {3, 4}, {1, 1}), Shape{8}))};
  });
  const auto kernels = [&](const std::shared_ptr<const backend::Backend>& backend) {
    compile::Options options;
    options.backends = {backend};
    return compile::lower(f, options)->call_names;
  };
  CHECK(kernels(permissive_backend()) == std::vector<std::string>{"add", "mul", "transpose", "neg"});
  CHECK(kernels(ops::reference_backend()) ==
        std::vector<std::string>{"broadcast_in_dim", "full", "add", "mul", "transpose", "neg"});
  check_evaluated(f, 4);
}

TEST_CASE("values of a step share the arena once they are dead") {
  const ArrayType type{DType::float32, Shape{3, 20000}, {}};
  const ir::FunctionPtr f = make_function({type}, [](ir::Builder&, std::span<const Value> x) {
    Value y = x[0];
    for (int i = 0; i < 8; ++i) {
      const Value sums = ops::reduce_sum(ops::sin(y), {1});
      y = ops::mul(y, ops::broadcast_in_dim(sums, y.shape(), {0}));
    }
    return Values{y};
  });
  compile::Options options;
  options.backends = {ops::reference_backend()};
  const auto executable = compile::lower(f, options);
  const auto bytes = static_cast<std::size_t>(type.nbytes());
  CHECK(executable->arena_bytes <= 4 * bytes);  // 24 values of that size
  CHECK(executable->plan().kernels == 32);
  check_evaluated(f, 5);
}

TEST_CASE("what a result is written over lies in the result's memory") {
  const ArrayType type{DType::float32, Shape{3, 20}, {}}, row{DType::float32, Shape{20}, {}};
  const auto product = [](std::span<const Value> x) {
    return ops::tanh(ops::sin(ops::broadcast_in_dim(x[0], Shape{3, 20}, {1}) + x[1]));
  };
  compile::Options options;
  options.backends = {permissive_backend()};
  const auto has_memory_of_its_own = [&](const ir::FunctionPtr& f) {
    check_evaluated(f, 6);
    const std::string plan = compile::lower(f, options)->print();
    return plan.find("@scratch") != std::string::npos || plan.find("@arena") != std::string::npos;
  };
  const auto f = [&](auto body) {
    return make_function({row, type}, [&](ir::Builder&, std::span<const Value> x) { return body(x); });
  };
  CHECK_FALSE(has_memory_of_its_own(f([&](auto x) { return Values{ops::neg(product(x))}; })));
  // Which its other reader would miss, and so would the argument's, whose memory the result may take.
  CHECK(has_memory_of_its_own(f([&](auto x) {
    return Values{ops::neg(product(x)), ops::reduce_sum(product(x), {1})};
  })));
  CHECK(has_memory_of_its_own(f([&](auto x) { return Values{ops::neg(product(x)) + x[1]}; })));
}

TEST_CASE("a sum over shards is consumed tile by tile, though its reader waits for another one") {
  constexpr std::int64_t features = 40000;
  const auto function = [](int devices) {
    const MapSpec spec{mesh({{"batch", 4}}), devices, {{"batch", ""}, {"batch"}}, {{"", ""}}};
    const std::vector<ArrayType> types = {{DType::float32, Shape{4, features}, {}}, {DType::float32, Shape{4}, {}}};
    return mapped(types, spec, [](ir::Builder&, std::span<const Value> x) {
      const Value gradient = ops::psum(ops::sin(x[0]), {"batch"});
      const Value weight = ops::reduce_sum(ops::psum(x[1], {"batch"}), {0});
      return Values{gradient * ops::broadcast_in_dim(weight, gradient.shape(), {})};
    });
  };
  compile::Options options;
  options.backends = {permissive_backend()};
  CHECK(compile::lower(function(2), options)->arena_bytes < features);
  for (const int devices : {1, 2, 4}) check_evaluated(function(devices), 8);
}

TEST_CASE("one executable runs in several threads at once") {
  const MapSpec spec{mesh({{"batch", 4}}), 2, {{"batch", ""}}, {{"batch", ""}, {"", ""}}};
  const ArrayType type{DType::float32, Shape{8, 16}, {}};
  const ir::FunctionPtr f = mapped({type}, spec, [](ir::Builder&, std::span<const Value> x) {
    const Value y = ops::sin(x[0]);
    return Values{y, ops::psum(y, {"batch"})};
  });
  compile::Options options;
  options.backends = {permissive_backend()};
  const auto executable = compile::lower(f, options);
  std::vector<std::thread> threads;
  std::vector<int> wrong(3, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    const std::vector<eval::HostArray> arguments = random_host_arrays({type}, t);
    const Bytes expected = evaluated(f, arguments);
    threads.emplace_back([&, t, arguments, expected] {
      for (int i = 0; i < 50; ++i) wrong[t] += bytes_of(runtime::run(*executable, arguments)) == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>{0, 0, 0});
}

TEST_CASE("a kernel's exception reaches the caller, whichever device ran it, and the next call works") {
  const MapSpec spec{mesh({{"batch", 4}}), 4, {{"batch"}}, {{""}}};
  const ArrayType type{DType::float32, Shape{4}, {}};
  const ir::FunctionPtr f = mapped({type}, spec, [](ir::Builder&, std::span<const Value> x) {
    return Values{ops::psum(ops::log(x[0]), {"batch"})};
  });
  compile::Options options;
  options.backends = {std::make_shared<RefusingBackend>()};
  const auto executable = compile::lower(f, options);
  for (std::size_t bad = 0; bad < 4; ++bad) {
    Elements elements(4, 1.0);
    CHECK_NOTHROW(runtime::run(*executable, {to_host(type, elements)}));
    elements[bad] = -1;
    CHECK_THROWS_WITH_AS(runtime::run(*executable, {to_host(type, elements)}), "log of -1", ValueError);
  }
}

TEST_CASE("backends without memory are not enough") {
  const ArrayType type{DType::float32, Shape{6}, {}};
  const ir::FunctionPtr f = make_function({type}, [](ir::Builder&, std::span<const Value> x) { return Values{-x[0]}; });
  compile::Options options;
  options.backends = {std::make_shared<RefusingBackend>(false)};
  const auto executable = compile::lower(f, options);
  CHECK_THROWS_WITH_AS(runtime::run(*executable, random_host_arrays({type}, 0)),
                       doctest::Contains("none of the given backends owns memory"), BackendError);
}

TEST_CASE("wrong arguments and impossible device counts are named") {
  const ArrayType type{DType::float32, Shape{6}, {}};
  const ir::FunctionPtr f = make_function({type}, [](ir::Builder&, std::span<const Value> x) { return Values{-x[0]}; });
  compile::Options options;
  options.backends = {ops::reference_backend()};
  const auto executable = compile::lower(f, options);
  CHECK_THROWS_WITH_AS(runtime::run(*executable, {}), doctest::Contains("0 arguments given, the function takes 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(runtime::run(*executable, random_host_arrays({{DType::float32, Shape{2, 3}, {}}}, 0)),
                       doctest::Contains("argument 0 is f32[2,3], the function takes f32[6]"), ValueError);
  const MapSpec spec{mesh({{"batch", 4}}), 3, {{"batch"}}, {{"batch"}}};
  const ir::FunctionPtr g = mapped({{DType::float32, Shape{4}, {}}}, spec,
                                   [](ir::Builder&, std::span<const Value> x) { return Values{-x[0]}; });
  CHECK_THROWS_WITH_AS(compile::lower(g, options), doctest::Contains("3 device(s) each do not divide 4 shards"),
                       MeshError);
  options.backends = {};
  CHECK_THROWS_WITH_AS(compile::lower(f, options), doctest::Contains("neg: no backend has a kernel for (f32[6])"),
                       BackendError);
}

}  // namespace lockstep::tests
