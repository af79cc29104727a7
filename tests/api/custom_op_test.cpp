#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/api/custom_op_types.h"
#include "tests/support/array_values.h"
#include "tests/support/counted.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// Ops of a program's own, in every transform. The right values are those of the same function written with the library's
// ops.
using namespace lockstep;
using tests::Binary;
using tests::check_equal;
using tests::counted;
using tests::expect_error;
using tests::Leaves;
using tests::Types;

namespace {

/// x * scale / sqrt(mean(x^2)) along the last axis.
Array normalized(const Array& x, const Array& scale) { return x * scale * rsqrt(mean(square(x), {-1}, true)); }

/// The same in plain C++: scale is a row for all, or one for each of x's leading dimensions.
void rms_norm_kernel(const KernelCall& call) {
  const auto x = call.operand<double>(0);
  const auto scale = call.operand<double>(1);
  const auto y = call.result<double>(0);
  const auto n = static_cast<std::size_t>(call.operand_shape(0).dim(-1));
  const std::size_t rows_of_a_scale = scale.empty() ? 1 : x.size() / scale.size();
  for (std::size_t row = 0; row < (n == 0 ? 0 : x.size() / n); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += x[row * n + i] * x[row * n + i];
    const double r = 1 / std::sqrt(sum / static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
      y[row * n + i] = x[row * n + i] * scale[row / rows_of_a_scale * n + i] * r;
    }
  }
}

std::vector<ArrayType> like_x(Types types) {
  if (types.size() != 2 || types[0].dtype != DType::float64 || types[0].shape.dim(-1) != types[1].shape.dim(-1)) {
    throw ShapeError("x and scale must be float64 of one last extent");
  }
  return {types[0]};
}

std::vector<Array> rms_norm_vjp(Leaves operands, Leaves /*results*/, Leaves cotangents) {
  const auto [y, back] = vjp(normalized, operands[0], operands[1]);
  const auto [dx, dscale] = back(cotangents[0]);
  return {dx, dscale};
}

std::vector<Array> rms_norm_jvp(Leaves operands, Leaves /*results*/, Leaves tangents) {
  return {jvp(normalized, std::tuple(operands[0], operands[1]), std::tuple(tangents[0], tangents[1])).second};
}

CustomOpOptions kernel_options() {
  return {.name = "rms_norm",
          .infer = like_x,
          .kernel = rms_norm_kernel,
          .vmap_method = VmapMethod::sequential,
          .check = RuleCheck::always};
}

std::vector<Array> rms_norm_on_host(Leaves operands) { return {normalized(operands[0], operands[1])}; }

/// Every way to say the same op.
std::vector<std::pair<std::string, CustomOp>> rms_norm_forms() {
  CustomOpOptions one_by_one = kernel_options();
  one_by_one.vjp = rms_norm_vjp;
  CustomOpOptions at_once = kernel_options();
  at_once.vmap_method = VmapMethod::broadcast_all;
  at_once.vjp = rms_norm_vjp;
  CustomOpOptions both_modes = kernel_options();
  both_modes.jvp = rms_norm_jvp;
  CustomOpOptions own_rule = kernel_options();
  own_rule.vmap_method = VmapMethod::refuse;
  own_rule.vjp = rms_norm_vjp;
  own_rule.vmap = [](Leaves operands, const std::vector<bool>& batched, std::int64_t size) {
    Array x = operands[0], scale = operands[1];
    if (!batched[0]) x = broadcast_to(x, x.shape().insert(0, size));
    if (batched[1] && x.ndim() > scale.ndim()) scale = expand_dims(scale, {1});
    return std::vector<Array>{normalized(x, scale)};
  };
  CustomOpOptions callback = kernel_options();
  callback.kernel = nullptr;
  callback.callback = rms_norm_on_host;
  callback.vjp = rms_norm_vjp;
  return {{"kernel, examples one by one", CustomOp(one_by_one)},
          {"kernel, examples at once", CustomOp(at_once)},
          {"kernel with a jvp", CustomOp(both_modes)},
          {"kernel with a batching rule", CustomOp(own_rule)},
          {"callback", CustomOp(callback)}};
}

struct OpProgram {
  std::string name;
  std::function<Array(const Binary& f, const Array& x, const Array& scale)> run;
};

Array sine_loss(const Binary& f, const Array& x, const Array& scale) { return sum(sin(f(x, scale))); }

Array gradients(const Binary& f, const Array& x, const Array& scale) {
  const auto [dx, ds] = grad<0, 1>([&](const Array& a, const Array& b) { return sine_loss(f, a, b); })(x, scale);
  return concatenate({ravel(dx), ravel(ds)}, 0);
}

Array scanned(const Binary& f, const Array& x, const Array& scale) {
  return scan([&](const Array& carry, const Array& row) { return std::pair(f(carry + row, scale), f(row, carry)); },
              scale, x)
      .second;
}

/// Gradients of a loss over shards: the weight's is a psum.
Array gradient_over_shards(const Binary& f, const Array& x, const Array& scale, const tests::Replicas& replicas) {
  const auto step = pmap(
      [&](const Array& w, const Array& rows) {
        return grad([&](const Array& v) { return psum(sine_loss(f, rows, v), {"batch"}); })(w);
      },
      {.mesh = tests::mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {replicated}});
  return step(scale, x);
}

const std::vector<OpProgram> op_programs = {
    {"eager", [](const Binary& f, const Array& x, const Array& s) { return f(x, s); }},
    {"jit", [](const Binary& f, const Array& x, const Array& s) { return jit(f)(x, s) + jit(f)(x, s); }},
    {"grad", gradients},
    {"jit of grad",
     [](const Binary& f, const Array& x, const Array& s) {
       return jit([f](const Array& a, const Array& b) { return gradients(f, a, b); })(x, s);
     }},
    {"grad of remat in jit",
     [](const Binary& f, const Array& x, const Array& s) {
       const Binary again = [f](const Array& a, const Array& b) { return remat(f)(sin(a), b); };
       return jit([again](const Array& a, const Array& b) { return gradients(again, a, b); })(x, s);
     }},
    {"vmap",
     [](const Binary& f, const Array& x, const Array& s) {
       return vmap(f, {.in_axes = {0, std::nullopt}})(x, s);
     }},
    {"vmap of both", [](const Binary& f, const Array& x, const Array&) { return vmap(f)(x, cos(x)); }},
    {"vmap of the second",
     [](const Binary& f, const Array& x, const Array& s) {
       return vmap(f, {.in_axes = {std::nullopt, 0}})(s, x);
     }},
    {"vmap of vmap",
     [](const Binary& f, const Array& x, const Array&) {
       const auto inner = vmap(f, {.in_axes = {0, std::nullopt}});
       return vmap(inner, {.in_axes = {std::nullopt, 0}})(x, cos(x));
     }},
    {"vmap of grad in jit",
     [](const Binary& f, const Array& x, const Array&) {
       return jit(vmap([f](const Array& a, const Array& b) { return gradients(f, a, b); }))(x, cos(x));
     }},
    {"grad of vmap",
     [](const Binary& f, const Array& x, const Array& s) {
       return gradients(vmap(f, {.in_axes = {0, std::nullopt}}), x, s);
     }},
    {"scan", scanned},
    {"grad of scan in jit",
     [](const Binary& f, const Array& x, const Array& s) {
       const Binary loop = [f](const Array& a, const Array& b) { return scanned(f, a, b); };
       return jit([loop](const Array& a, const Array& b) { return gradients(loop, a, b); })(x, s);
     }},
    {"cond",
     [](const Binary& f, const Array& x, const Array& s) {
       return cond(
           sum(x) > 100.0, [&](const Array& a) { return a; }, [&](const Array& a) { return f(a, s); }, x);
     }},
    {"one device",
     [](const Binary& f, const Array& x, const Array& s) {
       return gradient_over_shards(f, x, s, {4, 1});
     }},
    {"two devices",
     [](const Binary& f, const Array& x, const Array& s) {
       return gradient_over_shards(f, x, s, {4, 2});
     }},
    {"replicas in turn",
     [](const Binary& f, const Array& x, const Array& s) {
       const auto part = [&](const Array& rows) { return psum(sine_loss(f, rows, s), {"part"}); };
       return sequential_map(part, x, {.axis = "part", .parts = 2});
     }},
};

CustomOpOptions doubling(std::function<void(const KernelCall&)> kernel) {
  return {.name = "twice",
          .infer = [](Types types) { return std::vector<ArrayType>{types[0]}; },
          .kernel = std::move(kernel)};
}

}  // namespace

TEST_CASE("an op of one's own has the value and the derivative of the same function of library ops, in every program") {
  const Array x = counted({4, 3});
  const Array scale = counted({3}) + 2;
  const std::vector<std::pair<std::string, CustomOp>> ops = rms_norm_forms();
  for (const auto& [form, op] : ops) {
    for (const OpProgram& program : op_programs) {
      CAPTURE(form);
      CAPTURE(program.name);
      // The derivative of the examples at once repeats the scale, as does a scalar carry: values agree all the same.
      check_equal(program.run([op = op](const Array& a, const Array& b) { return op(a, b); }, x, scale),
                  program.run(normalized, x, scale));
    }
  }
}

TEST_CASE("forward mode takes a jvp; a vjp or nothing is refused by name") {
  const Array x = counted({2, 3});
  const Array s = ones({3}, float64);
  CustomOpOptions options = kernel_options();
  const auto tangent = [&](const CustomOp& op) {
    return jvp([&](const Array& a) { return op(a, s); }, std::tuple(x), std::tuple(cos(x))).second;
  };
  expect_error<TraceError>([&] { tangent(CustomOp(options)); }, "custom op \"rms_norm\" has no derivative",
                           "stop_gradient");
  expect_error<TraceError>([&] { grad([&](const Array& a) { return sum(CustomOp(options)(a, s)); })(x); },
                           "custom op \"rms_norm\" has no derivative");
  options.jvp = rms_norm_jvp;
  check_equal(tangent(CustomOp(options)),
              jvp([&](const Array& a) { return normalized(a, s); }, std::tuple(x), std::tuple(cos(x))).second);
  options.jvp = [](Leaves, Leaves, Leaves) { return std::vector<Array>(); };
  expect_error<StateError>([&] { tangent(CustomOp(options)); }, "\"rms_norm\"", "its jvp returned 0 arrays",
                           "expected 1");
}

TEST_CASE("a wrong derivative is found by differences") {
  CustomOpOptions options = kernel_options();
  options.vjp = [](Leaves operands, Leaves, Leaves cotangents) {
    return std::vector<Array>{cotangents[0] * 2, zeros_like(operands[1])};
  };
  const CustomOp op(options);
  CHECK_THROWS_AS(grad([&](const Array& a) { return sum(op(a, ones({3}, float64))); })(counted({2, 3})),
                  DerivativeError);
}

TEST_CASE("several results, other dtypes and arrays without elements") {
  const CustomOp split({.name = "split_sign",
                        .infer =
                            [](Types types) {
                              return std::vector<ArrayType>{{DType::bool_, types[0].shape, {}}, types[0]};
                            },
                        .kernel =
                            [](const KernelCall& call) {
                              const auto x = call.operand<std::uint16_t>(0);  // bfloat16's bits
                              for (std::size_t i = 0; i < x.size(); ++i) {
                                call.result<bool>(0)[i] = (x[i] >> 15) != 0;
                                call.result<std::uint16_t>(1)[i] = x[i] & 0x7fffU;
                              }
                            },
                        .vmap_method = VmapMethod::broadcast_all});
  for (const std::int64_t n : {3, 1, 0}) {
    const Array x = convert(counted({n, 2}), bfloat16);
    const std::vector<Array> results = jit([&](const Array& a) { return split.call(std::vector{a}); })(x);
    tests::check_same_bits(results[0], x < 0);
    tests::check_same_bits(results[1], abs(x));
    tests::check_same_bits(vmap([&](const Array& a) { return split.call(std::vector{a})[1]; })(x), abs(x));
  }
  expect_error<ValueError>([&] { split(convert(counted({2}), bfloat16)); }, "\"split_sign\"", "it has 2 results");
}

TEST_CASE("an op that does not say what it does with a batch is refused by name, with what to set") {
  const CustomOp op(doubling([](const KernelCall&) {}));
  expect_error<TraceError>([&] { vmap([&](const Array& a) { return op(a); })(counted({2})); }, "custom op \"twice\"",
                           "sequential", "broadcast_all");
  CustomOpOptions options = doubling([](const KernelCall&) {});
  options.vmap = [outside = counted({2})](Leaves operands, const std::vector<bool>&, std::int64_t) {
    return std::vector<Array>{operands[0] + outside};
  };
  expect_error<TraceError>([&] { vmap([op = CustomOp(options)](const Array& a) { return op(a); })(counted({2})); },
                           "custom op \"twice\"", "make it an operand");
}

TEST_CASE("what a kernel throws arrives in its kind, with the op's name, from every device") {
  const Array x = counted({4});
  const auto everywhere = [&](const CustomOp& op) {
    return std::vector<std::function<void()>>{
        [&] { op(x); }, [&] { jit([&](const Array& a) { return op(a) + 1; })(x); },
        [&] {
          pmap([&](const Array& a) { return op(a); },
               {.mesh = tests::mesh_of({4, 2}), .in = {sharded("batch")}, .out = {sharded("batch")}})(x);
        },
        [&] { scan([&](const Array& c, const Array& a) { return std::pair(c, op(a)); }, x, x); }};
  };
  const CustomOp own(doubling([](const KernelCall&) { throw DataError("the table is closed"); }));
  for (const auto& run : everywhere(own)) expect_error<DataError>(run, "custom op \"twice\": the table is closed");
  const CustomOp standard(doubling([](const KernelCall&) { throw std::out_of_range("row 7"); }));
  for (const auto& run : everywhere(standard)) expect_error<CustomOpError>(run, "custom op \"twice\": row 7");
  const CustomOp any(doubling([](const KernelCall&) { throw 1; }));
  for (const auto& run : everywhere(any)) expect_error<CustomOpError>(run, "custom op \"twice\": threw what is no");
  const CustomOp narrow(doubling([](const KernelCall& call) { call.operand<float>(0); }));
  for (const auto& run : everywhere(narrow)) {
    expect_error<DtypeError>(run, "custom op \"twice\"", "the kernel takes operand 0 for float32, but it is float64");
  }
  const CustomOp beyond(doubling([](const KernelCall& call) { call.result<double>(1); }));
  for (const auto& run : everywhere(beyond)) expect_error<ValueError>(run, "\"twice\"", "asks for result 1");
}

TEST_CASE("what the shape rule throws, or a type that no memory holds, names the op") {
  expect_error<ShapeError>(
      [&] {
        CustomOp{kernel_options()}(counted({2, 3}), counted({2}));
      },
      "custom op \"rms_norm\": x and scale must be");
  CustomOpOptions options = doubling([](const KernelCall&) {});
  options.infer = [](Types) -> std::vector<ArrayType> { throw std::runtime_error("no rule"); };
  expect_error<CustomOpError>(
      [&] {
        CustomOp op(options);
        op(counted({2}));
      },
      "custom op \"twice\": no rule");
  options.infer = [](Types) { return std::vector<ArrayType>{{DType::float64, {std::int64_t{1} << 60}, {}}}; };
  CHECK_THROWS_AS(CustomOp{options}(counted({2})), ShapeError);
}

TEST_CASE("options that miss or exclude something are refused") {
  const auto refused = [](CustomOpOptions options, const char* part) {
    expect_error<ValueError>([&] { CustomOp op(options); }, part);
  };
  CustomOpOptions options = doubling([](const KernelCall&) {});
  options.name = "";
  refused(options, "needs a name");
  options = doubling(nullptr);
  refused(options, "a kernel or a callback, one of both");
  options.kernel = [](const KernelCall&) {};
  options.callback = [](Leaves a) { return std::vector<Array>(a.begin(), a.end()); };
  refused(options, "a kernel or a callback, one of both");
  options.callback = nullptr;
  options.infer = nullptr;
  refused(options, "shape rule");
  options = kernel_options();
  options.vjp = rms_norm_vjp;
  options.jvp = rms_norm_jvp;
  refused(options, "a vjp and a jvp");
}

TEST_CASE("a program prints an op by name, and its text is refused with the reason") {
  const CustomOp op(kernel_options());
  const Function program =
      trace_function([&](const Array& a, const Array& b) { return op(a, b); }, counted({2, 3}), counted({3}));
  CAPTURE(program.to_string());
  CHECK(program.to_string().find("custom_call[mapped=() op=\"rms_norm\" sizes=[]] a b") != std::string::npos);
  expect_error<IrError>([&] { parse_function(program.to_string()); }, "a custom op is C++ code", "trace the function");
  const std::vector<Array> operands = {counted({2, 3}), counted({3})};
  check_equal(program(operands)[0], normalized(operands[0], operands[1]));
  tests::check_same_bits(program.eval(operands)[0], program(operands)[0]);
}

TEST_CASE("two ops of one name are two, copies of one are the same, and programs keep what an op needs") {
  const auto made = [](double factor) {
    CustomOpOptions options = doubling([factor, kept = std::make_shared<double>(factor)](const KernelCall& call) {
      for (std::size_t i = 0; i < call.operand<double>(0).size(); ++i) {
        call.result<double>(0)[i] = call.operand<double>(0)[i] * *kept;
      }
    });
    return CustomOp(std::move(options));
  };
  const Array x = counted({3});
  const CustomOp two = made(2), three = made(3);
  check_equal(jit([&](const Array& a) { return two(a) + three(a); })(x), x * 5);
  check_equal(two(x) + three(x), x * 5);
  const auto step = [&] {
    const CustomOp gone = made(7);
    return jit([gone](const Array& a) { return gone(a); });
  }();
  check_equal(step(x), x * 7);
  std::atomic<int> runs{0};
  const CustomOp counting(doubling([&](const KernelCall& call) {
    ++runs;
    std::ranges::copy(call.operand<double>(0), call.result<double>(0).begin());
  }));
  const CustomOp copy = counting;
  check_equal(jit([&](const Array& a) { return counting(a) + copy(a); })(x), x * 2);
  CHECK(runs == 1);  // equal calls are merged
}

TEST_CASE("several threads may call one op at once") {
  const CustomOp op(kernel_options());
  const Array x = counted({64, 16}), s = counted({16});
  const Array expected = op(x, s);
  const auto compiled = jit([op](const Array& a, const Array& b) { return op(a, b); });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) wrong += compiled(x, s).to_bytes() == expected.to_bytes() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("pure_callback runs on the host wherever its program runs, and may call the library there") {
  const Array x = counted({4, 3});
  const auto host = [](const Array& a) {
    return pure_callback([](Leaves v) { return jit([](const Array& b) { return exp(b) * 2; })(v[0]); }, a.type(), {a},
                         {.name = "twice_exp", .vmap_method = VmapMethod::sequential});
  };
  const Array expected = exp(x) * 2;
  check_equal(host(x), expected);
  check_equal(jit(host)(x), expected);
  check_equal(vmap(host)(x), expected);
  check_equal(scan([&](const Array& c, const Array& a) { return std::pair(c, host(a)); }, x[0], x).second, expected);
  for (const tests::Replicas& replicas : tests::replica_counts) {
    check_equal(pmap(host, {.mesh = tests::mesh_of(replicas), .in = {sharded("batch")}, .out = {sharded("batch")}})(x),
                expected);
  }
  const auto sine = custom_vjp(
      [](const Array& a) { return pure_callback([](Leaves v) { return sin(v[0]); }, a.type(), {a}); },
      [](const Array& a) { return std::pair(pure_callback([](Leaves v) { return sin(v[0]); }, a.type(), {a}), a); },
      [](const Array& a, const Array& g) { return std::tuple(g * cos(a)); });
  check_equal(jit(grad([&](const Array& a) { return sum(sine(a)); }))(x), cos(x));
}

TEST_CASE(
    "results of a callback that are not of the declared types are errors that name it, in and outside of a trace") {
  const Array x = counted({3});
  const auto check = [&]<class E>(E*, std::function<std::vector<Array>(Leaves)> callback, const char* part) {
    const auto call = [&](const Array& a) {
      return pure_callback(callback, std::vector<ArrayType>{{DType::float64, {3}, {}}}, std::vector{a},
                           {.name = "host"})[0];
    };
    expect_error<E>([&] { call(x); }, "custom op \"host\"", part);
    expect_error<E>([&] { jit(call)(x); }, "custom op \"host\"", part);
  };
  check(
      static_cast<ShapeError*>(nullptr), [](Leaves a) { return std::vector{sum(a[0])}; },
      "result 0 of the callback is f64[] where f64[3] is declared");
  check(
      static_cast<DtypeError*>(nullptr), [](Leaves a) { return std::vector{convert(a[0], float32)}; },
      "is f32[3] where f64[3] is declared");
  check(
      static_cast<ValueError*>(nullptr), [](Leaves) { return std::vector<Array>(); }, "returned 0 arrays where 1");
  check(
      static_cast<ValueError*>(nullptr), [](Leaves) { return std::vector<Array>(1); }, "is an empty Array");
  check(
      static_cast<CustomOpError*>(nullptr), [](Leaves) -> std::vector<Array> { throw std::runtime_error("no answer"); },
      "no answer");
}

TEST_CASE("over shards the bits of an op of one's own do not depend on the devices") {
  CustomOpOptions options = kernel_options();
  options.vjp = rms_norm_vjp;
  const Binary f = [op = CustomOp(options)](const Array& a, const Array& b) { return op(a, b); };
  const Array x = counted({8, 3}), scale = counted({3}) + 2;
  const Array once = gradient_over_shards(f, x, scale, {4, 1});
  check_equal(once, gradient_over_shards(normalized, x, scale, {4, 1}));
  for (const int devices : {2, 4}) tests::check_same_bits(gradient_over_shards(f, x, scale, {4, devices}), once);
}
