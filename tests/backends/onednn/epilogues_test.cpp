#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/dims.h"
#include "tests/support/mapped_program.h"
#include "tests/support/run_compiled.h"

// Loops that follow convolutions a few rows behind, in compiled functions.
namespace lockstep::tests {
namespace {

using ir::Value;
using Values = std::vector<Value>;

/// What is computed of y, the convolution, x of its shape, a bias, and a number for each image.
struct Operands {
  Value y, x, bias, of_images;
  Value other;  ///< Another convolution.
};

struct EpilogueCase {
  const char* name;
  std::function<Values(const Operands&)> body;
  std::string call;  ///< That the plan has; empty where no loop is joined.
};

Value spread(const Value& v, const Value& like, Dims dims) {
  return ops::broadcast_in_dim(v, like.shape(), std::move(dims));
}

/// No element-wise loop.
Value running_sum(const Value& x, std::int64_t axis) {
  return ops::apply_one(ops::primitives::cumsum(), {x}, {{"axis", axis}, {"reverse", false}});
}

std::vector<EpilogueCase> epilogue_cases() {
  const auto biased = [](const Operands& o) { return o.y + spread(o.bias, o.y, {2}); };
  return {
      {"a bias and an activation", [=](const Operands& o) { return Values{ops::tanh(biased(o))}; },
       "conv + fused(add, tanh)"},
      {"the convolution is read again",
       [=](const Operands& o) {
         return Values{running_sum(ops::tanh(biased(o)), 1), running_sum(o.y, 0)};
       },
       "conv + fused(add, tanh)"},
      {"a bias and what was there before", [=](const Operands& o) { return Values{ops::tanh(biased(o) + o.x)}; },
       "conv + fused(add, tanh)"},
      {"what is read beside it is computed behind it",
       [=](const Operands& o) { return Values{ops::tanh(biased(o) + running_sum(o.x, 1))}; },
       "conv + fused(add, tanh)"},
      {"a number for each image",
       [=](const Operands& o) { return Values{ops::tanh(o.y * spread(o.of_images, o.y, {0}))}; },
       "conv + fused(mul, tanh)"},
      {"sums of features, then what is computed from both",
       [=](const Operands& o) {
         return Values{o.y - spread(ops::reduce_sum(o.y * o.y, {0, 1}), o.y, {2})};
       },
       "conv + fused(mul, reduce_sum)"},
      {"one that waits for what its loop reads, while another one's loop reads it",
       [=](const Operands& o) {
         const Value late = running_sum(running_sum(running_sum(o.x, 1), 1), 1);
         return Values{ops::tanh(o.y + late), running_sum(ops::exp(o.other * o.y), 1)};
       },
       "conv + fused(add, tanh)"},
      {"what is computed from it stands between",
       [=](const Operands& o) { return Values{ops::exp(o.y) + running_sum(o.y, 1)}; }, ""},
  };
}

Value convolved(const Value& x, const Value& window) {
  const Attrs attrs = {
      {"strides", Dims{1}}, {"padding", std::vector<Dims>{{1, 1}}}, {"dilation", Dims{1}}, {"groups", std::int64_t{1}}};
  return ops::apply(ops::primitives::conv(), {{x, window}}, attrs)[0];
}

ir::FunctionPtr function(const EpilogueCase& c, int devices) {
  const MapSpec one{ir::AxisSizes({{"batch", 2}}),
                    devices,
                    {{"batch", "", ""}, {"", "", ""}, {"batch", "", ""}, {""}, {"batch"}},
                    {{"batch", "", ""}}};
  const std::vector<ArrayType> types = {{DType::float32, Shape{10, 9, 16}, {}},
                                        {DType::float32, Shape{3, 16, 32}, {}},
                                        {DType::float32, Shape{10, 9, 32}, {}},
                                        {DType::float32, Shape{32}, {}},
                                        {DType::float32, Shape{10}, {}}};
  MapSpec spec = one;
  const auto body = [&](ir::Builder&, std::span<const Value> x) {
    const Value window = ops::pvary(x[1], {"batch"});
    Values results =
        c.body({convolved(x[0], window), x[2], ops::pvary(x[3], {"batch"}), x[4], convolved(ops::sin(x[0]), window)});
    spec.out.resize(results.size(), {"batch", "", ""});
    return results;
  };
  make_function({local_type(types[0], spec.in[0], spec.mesh), types[1], local_type(types[2], spec.in[2], spec.mesh),
                 types[3], local_type(types[4], spec.in[4], spec.mesh)},
                body, spec.mesh);
  return mapped(types, spec, body);
}

struct Compiled {
  Bytes results;
  std::string plan;
};

Compiled run(const ir::FunctionPtr& f, bool fuse) {
  compile::Options options;
  options.backends = backend::make_backends();
  options.threads = 2;
  options.verify = true;
  options.fuse = fuse;
  const auto executable = compile::lower(f, options);
  return {bytes_of(runtime::run(*executable, random_host_arrays(f->input_types(), 4))), executable->plan().text};
}

/// Convolutions and element-wise ops of values drawn from those before, with sums and what is no loop between.
ir::FunctionPtr random_function(std::uint64_t seed, int devices) {
  const MapSpec spec{ir::AxisSizes({{"batch", 2}}),
                     devices,
                     {{"batch", "", ""}, {"", "", ""}, {""}},
                     {{"batch", "", ""}, {"batch", "", ""}, {"batch", "", ""}}};
  const std::vector<ArrayType> types = {
      {DType::float32, Shape{6, 11, 32}, {}}, {DType::float32, Shape{3, 32, 32}, {}}, {DType::float32, Shape{32}, {}}};
  return mapped(types, spec, [&](ir::Builder&, std::span<const Value> x) {
    std::mt19937_64 bits(seed);
    const Value window = ops::pvary(x[1], {"batch"}) * 0.1, bias = ops::pvary(x[2], {"batch"});
    Values pool = {x[0]};
    const auto pick = [&] { return pool[pool.size() - 1 - bits() % std::min<std::size_t>(pool.size(), 4)]; };
    for (int i = 0; i < 14; ++i) {
      const Value v = pick();
      switch (bits() % 8) {
        case 0:
        case 1:
        case 2:
          pool.push_back(convolved(v, window));
          break;
        case 3:
          pool.push_back(ops::tanh(v + spread(bias, v, {2})));
          break;
        case 4:
          pool.push_back(v * 0.5 + ops::sin(pick()));
          break;
        case 5:
          pool.push_back(v - spread(ops::reduce_sum(v, {0, 1}), v, {2}) * 0.01);
          break;
        case 6:
          pool.push_back(v * spread(ops::tanh(ops::reduce_sum(v, {2})), v, {0, 1}));
          break;
        default:
          pool.push_back(ops::tanh(running_sum(v, 1)));
      }
    }
    return Values(pool.end() - 3, pool.end());
  });
}

}  // namespace

TEST_CASE("random programs of convolutions and loops have the same bits, joined or apart") {
  int joined_programs = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    for (const int devices : {1, 2}) {
      const ir::FunctionPtr f = random_function(seed, devices);
      const Compiled joined = run(f, true), apart = run(f, false);
      INFO(joined.plan);
      CHECK(joined.results == apart.results);
      joined_programs += joined.plan.find(" + fused") != std::string::npos ? 1 : 0;
    }
  }
  if (offers()) CHECK(joined_programs > 40);
}

TEST_CASE("the loop that reads a convolution follows it, with the same bits") {
  for (const EpilogueCase& c : epilogue_cases()) {
    CAPTURE(std::string(c.name));
    for (const int devices : {1, 2}) {
      const ir::FunctionPtr f = function(c, devices);
      const Compiled joined = run(f, true), apart = run(f, false);
      CHECK(joined.results == apart.results);
      INFO(joined.plan);
      if (offers())
        CHECK((joined.plan.find(c.call.empty() ? "conv + " : c.call) != std::string::npos) == !c.call.empty());
      CHECK(apart.plan.find("conv + ") == std::string::npos);
    }
  }
}

}  // namespace lockstep::tests
