#include <random>

#include "engine/ir/backend_chain.h"
#include "engine/passes/pass.h"
#include "tests/backends/jit/loops.h"
#include "tests/support/cpu_and_aten.h"
#include "tests/support/mapped_program.h"
#include "tests/support/random_program.h"
#include "tests/support/run_compiled.h"

// Compiled programs: with fused loops and without, and equation by equation, bit for bit.
namespace lockstep::tests {
namespace {

using ir::Value;
using Values = std::vector<Value>;

Bytes run_program(const ir::FunctionPtr& f, const std::vector<eval::HostArray>& arguments,
                  const std::shared_ptr<const backend::Backend>& backend, bool fuse, std::string* text = nullptr,
                  int threads = 2) {
  compile::Options options;
  options.backends = {backend};
  options.threads = threads;
  options.verify = true;
  options.fuse = fuse;
  const auto executable = compile::lower(f, options);
  if (text != nullptr) *text = executable->print();
  return bytes_of(runtime::run(*executable, arguments));
}

/// How many loops there are in the fused program.
int check_equal(const ir::FunctionPtr& f, std::uint64_t seed) {
  const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), seed);
  int loops = 0;
  for (const backend::Isa isa : usable_sets()) {
    CAPTURE(std::string(name(isa)));
    const auto backend = ir::backend_chain({backend::jit::make_backend(isa), std::make_shared<const CpuAndAten>()});
    const Bytes expected = bytes_of(eval::eval(*f, arguments, *backend));
    CHECK(run_program(f, arguments, backend, false) == expected);
    std::string text;
    CHECK(run_program(f, arguments, backend, true, &text) == expected);
    for (const int threads : {1, 4}) CHECK(run_program(f, arguments, backend, true, nullptr, threads) == expected);
    loops = 0;
    for (std::size_t at = text.find(" fused("); at != std::string::npos; at = text.find(" fused(", at + 1)) ++loops;
  }
  return loops;
}

/// Element-wise programs on float32, with masks and broadcasts.
class RandomElements {
 public:
  RandomElements(std::uint64_t seed, Shape shape) : bits_(seed), shape_(std::move(shape)) {}

  ir::FunctionPtr make(int equations) {
    const std::int64_t rows = shape_[0], columns = shape_[1];
    const std::vector<ArrayType> types = {{DType::float32, shape_, {}},
                                          {DType::float32, shape_, {}},
                                          {DType::float32, Shape{columns}, {}},
                                          {DType::float32, Shape{rows}, {}},
                                          {DType::float32, Shape{1, columns}, {}},
                                          {DType::float32, Shape{}, {}}};
    return make_function(types, [&](ir::Builder&, std::span<const Value> x) {
      pool_ = {x[0],
               x[1],
               ops::broadcast_in_dim(x[2], shape_, {1}),
               ops::broadcast_in_dim(x[3], shape_, {0}),
               ops::broadcast_in_dim(x[4], shape_, {0, 1}),
               ops::broadcast_in_dim(x[5], shape_, {}),
               ops::full_like(x[0], 0.75)};
      for (int i = 0; i < equations; ++i) pool_.push_back(step());
      Values results;
      for (std::size_t i = pool_.size() - 3; i < pool_.size(); ++i) results.push_back(pool_[i]);
      results.push_back(ops::reduce_sum(pick(), {0}));
      results.push_back(ops::greater(pick(), pick()));
      results.push_back(ops::convert(pick(), DType::int32));
      return results;
    });
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits_() % n); }
  Value pick() { return pool_[below(pool_.size())]; }

  Value step() {
    switch (below(16)) {
      case 0:
        return pick() + pick();
      case 1:
        return pick() - pick();
      case 2:
        return pick() * pick();
      case 3:
        return ops::div(pick(), pick());
      case 4:
        return ops::maximum(pick(), pick());
      case 5:
        return ops::minimum(pick(), pick());
      case 6:
        return ops::select(ops::less(pick(), pick()), pick(), pick());
      case 7:
        return ops::sqrt(ops::abs(pick()));
      case 8:
        return ops::tanh(pick());
      case 9:
        return ops::exp(ops::neg(ops::abs(pick())));
      case 10:
        return ops::log(ops::abs(pick()));
      case 11:
        return ops::fma(pick(), pick(), pick());
      case 12:
        return ops::convert(ops::convert(pick(), DType::int32), DType::float32);
      case 13:
        return ops::logistic(pick());
      case 14:
        return ops::convert(ops::bitwise_and(ops::greater(pick(), pick()), ops::less_equal(pick(), pick())),
                            DType::float32);
      default:
        return ops::floor(pick()) + ops::sign(pick());
    }
  }

  std::mt19937_64 bits_;
  Shape shape_;
  Values pool_;
};

}  // namespace

TEST_CASE("random element-wise programs: fused, not fused, and equation by equation") {
  const std::vector<Shape> shapes = {Shape{1, 1},  Shape{3, 5},   Shape{16, 16},  Shape{7, 33},
                                     Shape{40, 1}, Shape{1, 100}, Shape{5, 4099}, Shape{0, 4}};
  int loops = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    CAPTURE(seed);
    const Shape& shape = shapes[seed % shapes.size()];
    loops += check_equal(RandomElements(seed, shape).make(6 + static_cast<int>(seed)), seed);
  }
  if (!usable_sets().empty()) CHECK(loops > 80);
}

TEST_CASE("arithmetic of bfloat16 in one loop is rounded behind each op") {
  const Shape shape{37, 129};
  const ArrayType narrow{DType::bfloat16, shape, {}}, row{DType::bfloat16, Shape{129}, {}};
  const auto normalized = [&](std::span<const Value> x) {
    const Value scale = ops::broadcast_in_dim(x[2], shape, {1});
    const Value a = x[0] * scale + x[1] * 0.3;
    const Value b = ops::tanh(a * a) - ops::div(x[1], ops::exp(a) + 1.0);
    const Value shown = ops::greater(a, b);
    const Value c = ops::select(shown, ops::neg(a), ops::maximum(b, scale));
    const Value wide = ops::convert(c, DType::float32);
    return Values{c * ops::convert(shown, DType::bfloat16), wide * wide, ops::logistic(c), shown,
                  ops::reduce_sum(wide, {0})};
  };
  const ir::FunctionPtr f =
      make_function({narrow, narrow, row}, [&](ir::Builder&, std::span<const Value> x) { return normalized(x); });
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const int loops = check_equal(f, seed);
    if (!usable_sets().empty()) CHECK(loops == 1);
  }
}

TEST_CASE("random shard bodies: fused, not fused, and equation by equation") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    check_equal(random_mapped(seed), seed);
  }
}

TEST_CASE("an optimizer's update is one loop, in tiles, written in place") {
  const ArrayType type{DType::float32, Shape{300, 200}, {}};
  const ArrayType scalar{DType::float32, Shape{}, {}};
  const ir::FunctionPtr f =
      make_function({type, type, type, type, scalar}, [&](ir::Builder&, std::span<const Value> x) {
        const Value rate = ops::broadcast_in_dim(x[4], type.shape, {});
        const Value m = x[1] * 0.9 + x[3] * 0.1;
        const Value v = x[2] * 0.999 + x[3] * x[3] * 0.001;
        return Values{x[0] - rate * ops::div(m, ops::sqrt(v) + ops::full_like(v, 1e-8)), m, v};
      });
  for (const backend::Isa isa : usable_sets()) {
    const auto backend = ir::backend_chain({backend::jit::make_backend(isa), std::make_shared<const CpuAndAten>()});
    compile::Options options;
    options.backends = {backend};
    options.threads = 2;
    options.verify = true;
    const auto executable = compile::lower(f, options);
    INFO(executable->print());
    CHECK(executable->plan().kernels == 1);
    CHECK(executable->chains.size() == 1);
    for (int r = 0; r < 3; ++r) CHECK(executable->results[static_cast<std::size_t>(r)].donor == r);
    check_equal(f, 5);
  }
}

TEST_CASE("norms stand in the loop of the update that they are of, in tiles, with the bits of sums apart") {
  for (const std::int64_t rows : {64, 300, 1000}) {
    CAPTURE(rows);
    const ArrayType type{DType::float32, Shape{rows, 331}, {}};
    const ArrayType scalar{DType::float32, Shape{}, {}};
    const ir::FunctionPtr f = make_function({type, type, type, scalar}, [&](ir::Builder&, std::span<const Value> x) {
      const auto spread = [&](const Value& v) { return ops::broadcast_in_dim(v, type.shape, {}); };
      const auto norm = [](const Value& v) { return ops::sqrt(ops::reduce_sum(v * v, {0, 1})); };
      const Value m = x[1] * 0.9 + x[2] * 0.1;
      const Value u = m * spread(ops::exp(x[3])) + x[0] * 0.01;
      return Values{x[0] - spread(ops::div(norm(x[0]), norm(u))) * u, m};
    });
    check_equal(f, 7);
    for (const backend::Isa isa : usable_sets()) {
      const auto backend = ir::backend_chain({backend::jit::make_backend(isa), std::make_shared<const CpuAndAten>()});
      compile::Options options;
      options.backends = {backend};
      options.threads = 2;
      options.verify = true;
      const auto executable = compile::lower(f, options);
      const std::string text = executable->print();
      INFO(text);
      CHECK(executable->chains.size() == 2);  // up to the norms, and behind them
      CHECK(text.find("= reduce_sum") == std::string::npos);
      CHECK(text.find("join_sums") != std::string::npos);
      CHECK(executable->results[1].donor == 1);
    }
  }
}

}  // namespace lockstep::tests
