#include "engine/eval/eval.h"

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/ir/mapped.h"
#include "tests/support/expect_error.h"

namespace lockstep::eval {

using namespace ir;

using ops::operator+;
using ops::operator-;
using ops::operator*;
using tests::contains;
using tests::Elements;
using tests::error_text;
using tests::evaluate;
using tests::make_function;
using tests::mapped;
using tests::mesh;

namespace {

Attrs along(const char* axis, std::int64_t dim) { return {{"axis", std::string(axis)}, {"dim", dim}}; }

// Counts the kernels that run, by op.
class CountingBackend final : public backend::Backend {
 public:
  class CountingKernel final : public backend::Kernel {
   public:
    CountingKernel(std::unique_ptr<backend::Kernel> kernel, int& runs) : kernel_(std::move(kernel)), runs_(runs) {}
    void run(const backend::KernelArguments& arguments) const override {
      ++runs_;
      kernel_->run(arguments);
    }

   private:
    std::unique_ptr<backend::Kernel> kernel_;
    int& runs_;
  };

  std::string_view name() const override { return "counting"; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    auto kernel = ops::reference_backend()->make_kernel(request);
    if (kernel == nullptr) return nullptr;
    return std::make_unique<CountingKernel>(std::move(kernel), runs[std::string(request.op)]);
  }
  std::shared_ptr<backend::Buffer> allocate(std::size_t nbytes, Device device) const override {
    return owns_memory ? ops::reference_backend()->allocate(nbytes, device) : nullptr;
  }

  mutable std::map<std::string, int> runs;
  bool owns_memory = true;
};

}  // namespace

TEST_CASE("equations are evaluated in order") {
  const ArrayType type{float64, {2}, {}};
  const FunctionPtr f = make_function({type, type}, [](Builder&, std::span<const Value> x) {
    const Value sum = x[0] + x[1];
    return std::vector{sum * x[0], ops::reduce_sum(sum, {0}), x[1]};
  });
  CHECK(evaluate(f, {{1, 2}, {3, 5}}) == std::vector<Elements>{{4, 14}, {11}, {3, 5}});
}

TEST_CASE("a map cuts its operands, sums over shards and puts its results together") {
  for (const std::int64_t shards : {1, 2, 4}) {
    const FunctionPtr body = make_function(
        {{float64, {4 / shards}, {"batch"}}, {float64, {}, {}}},
        [](Builder&, std::span<const Value> x) {
          const Value scaled = x[0] * ops::broadcast_in_dim(x[1], x[0].shape(), {});
          const Value total = ops::psum(ops::reduce_sum(scaled, {0}), {"batch"});
          return std::vector{scaled, total};
        },
        mesh({{"batch", shards}}));
    const FunctionPtr f = mapped(body, {{float64, {4}, {}}, {float64, {}, {}}}, {{"batch"}, {}}, {{"batch"}, {}});
    CHECK(evaluate(f, {{1, 2, 3, 4}, {10}}) == std::vector<Elements>{{10, 20, 30, 40}, {100}});
  }
}

TEST_CASE("sums over shards follow the fixed tree") {
  const double big = 0x1p53;
  const FunctionPtr body = make_function(
      {{float64, {1}, {"batch"}}},
      [](Builder&, std::span<const Value> x) { return std::vector{ops::psum(x[0], {"batch"})}; }, mesh({{"batch", 4}}));
  const FunctionPtr f = mapped(body, {{float64, {4}, {}}}, {{"batch"}}, {{""}});
  // Tree: (2^53 + 1) + (1 - 2^53) = 2^53 + (-2^53 + 1) = 1. Left to right: ((2^53 + 1) + 1) - 2^53 = 0.
  CHECK(evaluate(f, {{big, 1, 1, -big}}) == std::vector<Elements>{{1}});
}

TEST_CASE("several axes are summed in mesh order, last first") {
  const AxisSizes axes = mesh({{"batch", 2}, {"model", 2}});
  const FunctionPtr body = make_function(
      {{float64, {1, 1}, {"batch", "model"}}},
      [](Builder&, std::span<const Value> x) {
        const Value both = ops::psum(x[0], {"batch", "model"});
        return std::vector{both, ops::psum(x[0], {"batch"}), ops::psum(x[0], {"model"})};
      },
      axes);
  const FunctionPtr f =
      mapped(body, {{float64, {2, 2}, {}}}, {{"batch", "model"}}, {{"", ""}, {"", "model"}, {"batch", ""}});
  CHECK(evaluate(f, {{1, 2, 3, 4}}) == std::vector<Elements>{{10}, {4, 6}, {3, 7}});
  // Batch first would give (2^53 - 2^53) + (1 + 1) = 2.
  const double big = 0x1p53;
  CHECK(evaluate(f, {{big, 1, -big, 1}})[0] == Elements{1});
}

TEST_CASE("half precision sums stay float32 until they are complete") {
  for (const DType dtype : {float16, bfloat16}) {
    const FunctionPtr body = make_function(
        {{dtype, {1}, {"batch"}}},
        [](Builder&, std::span<const Value> x) { return std::vector{ops::psum(x[0], {"batch"})}; },
        mesh({{"batch", 4}}));
    const FunctionPtr f = mapped(body, {{dtype, {4}, {}}}, {{"batch"}}, {{""}});
    // Rounded after each addition, 1 + eps/2 would be 1 twice over.
    const double eps = dtype == float16 ? 0x1p-10 : 0x1p-7;
    CHECK(evaluate(f, {{1, eps / 2, eps / 2, 0}}) == std::vector<Elements>{{1 + eps}});
  }
}

TEST_CASE("maxima, minima and the moving collectives") {
  const FunctionPtr body = make_function(
      {{float64, {2}, {"batch"}}},
      [](Builder& builder, std::span<const Value> x) {
        const Attrs axes{{"axes", std::vector<std::string>{"batch"}}};
        return std::vector{
            ops::apply_one(ops::primitives::pmax(), {x[0]}, axes),
            ops::apply_one(ops::primitives::pmin(), {x[0]}, axes),
            ops::apply_one(ops::primitives::all_gather(), {x[0]}, along("batch", 0)),
            ops::apply_one(ops::primitives::all_gather_invariant(), {x[0]}, along("batch", 0)),
            ops::apply_one(ops::primitives::psum_scatter(), {x[0]}, along("batch", 0)),
            ops::convert(
                ops::reshape(Value(builder, builder.apply(ops::primitives::axis_index(), std::initializer_list<Var>{},
                                                          {{"axis", std::string("batch")}})[0]),
                             Shape{1}),
                float64),
        };
      },
      mesh({{"batch", 2}}));
  const FunctionPtr f =
      mapped(body, {{float64, {4}, {}}}, {{"batch"}}, {{""}, {""}, {"batch"}, {""}, {"batch"}, {"batch"}});
  CHECK(evaluate(f, {{1, 8, 5, 2}}) ==
        std::vector<Elements>{{5, 8}, {1, 2}, {1, 8, 5, 2, 1, 8, 5, 2}, {1, 8, 5, 2}, {6, 10}, {0, 1}});
}

TEST_CASE("collectives along an inner dimension of a two-axis mesh") {
  const FunctionPtr body = make_function(
      {{float64, {1, 2}, {"batch", "model"}}},
      [](Builder&, std::span<const Value> x) {
        return std::vector{
            ops::apply_one(ops::primitives::all_gather_invariant(), {x[0]}, along("model", 1)),
            ops::apply_one(ops::primitives::psum_scatter(), {x[0]}, along("batch", 1)),
        };
      },
      mesh({{"batch", 2}, {"model", 2}}));
  const FunctionPtr f =
      mapped(body, {{float64, {2, 4}, {}}}, {{"batch", "model"}}, {{"batch", ""}, {"model", "batch"}});
  // Rows 1 2 3 4 and 5 6 7 8: shard (b, m) holds columns 2m, 2m+1 of row b.
  CHECK(evaluate(f, {{1, 2, 3, 4, 5, 6, 7, 8}}) ==
        std::vector<Elements>{{1, 2, 3, 4, 5, 6, 7, 8}, {1 + 5, 2 + 6, 3 + 7, 4 + 8}});
}

TEST_CASE("a started collective is the collective") {
  const FunctionPtr body = make_function(
      {{float64, {1}, {"batch"}}},
      [](Builder&, std::span<const Value> x) {
        const Attrs attrs{{"axes", std::vector<std::string>{"batch"}}};
        const Value started =
            ops::apply_one(ops::primitives::collective_start(), {x[0]}, attrs.with("op", std::string("psum")));
        return std::vector{
            ops::apply_one(ops::primitives::collective_wait(), {started}, attrs.with("op", std::string("psum")))};
      },
      mesh({{"batch", 4}}));
  CHECK(evaluate(mapped(body, {{float64, {4}, {}}}, {{"batch"}}, {{""}}), {{1, 2, 3, 4}}) ==
        std::vector<Elements>{{10}});
}

TEST_CASE("what is invariant is computed once, what varies along one axis once per place on it") {
  const FunctionPtr body = make_function(
      {{float64, {1, 1}, {"batch", "model"}}, {float64, {1, 1}, {}}, {float64, {1, 1}, {"batch"}}},
      [](Builder&, std::span<const Value> x) {
        const Value invariant = ops::exp(x[1]);
        const Value by_batch = ops::sin(x[2]);
        return std::vector{ops::tanh(x[0]) + by_batch + invariant};
      },
      mesh({{"batch", 4}, {"model", 2}}));
  const FunctionPtr f = mapped(body, {{float64, {4, 2}, {}}, {float64, {1, 1}, {}}, {float64, {4, 1}, {}}},
                               {{"batch", "model"}, {"", ""}, {"batch", ""}}, {{"batch", "model"}});
  const CountingBackend backend;
  std::vector<HostArray> inputs;
  for (const ArrayType& type : f->input_types()) {
    inputs.push_back(tests::to_host(type, Elements(static_cast<std::size_t>(type.size()), 0)));
  }
  const std::vector<HostArray> outputs = eval(*f, inputs, backend);
  CHECK(tests::from_host(outputs[0]) == Elements(8, 1.0));
  CHECK(backend.runs["exp"] == 1);
  CHECK(backend.runs["sin"] == 4);
  CHECK(backend.runs["tanh"] == 8);
  CHECK(backend.runs["pvary"] == 0);
}

TEST_CASE("eval errors") {
  const ArrayType type{float32, {2}, {}};
  const FunctionPtr f =
      make_function({type}, [](Builder&, std::span<const Value> x) { return std::vector{ops::exp(x[0])}; });
  const HostArray x = tests::to_host(type, {1, 2});
  const backend::Backend& backend = *ops::reference_backend();
  const auto run = [&](const Function& function, std::vector<HostArray> inputs, const backend::Backend& with) {
    return [&function, inputs = std::move(inputs), &with] { eval(function, inputs, with); };
  };
  CHECK(error_text<IrError>(run(*f, {}, backend)) == "eval: got 0 inputs, expected 1");
  CHECK(error_text<IrError>(run(*f, {tests::to_host({float64, {2}, {}}, {1, 2})}, backend)) ==
        "eval: input a is f64[2], expected f32[2]");
  const FunctionPtr body = make_function(
      {type}, [](Builder&, std::span<const Value> v) { return std::vector{v[0]}; }, mesh({{"batch", 4}}));
  CHECK(error_text<IrError>(run(*body, {x}, backend)) ==
        "eval: the function is the body of a map over 4 shards; evaluate the function that contains the pmap");

  CountingBackend without_memory;
  without_memory.owns_memory = false;
  CHECK(error_text<BackendError>(run(*f, {x}, without_memory)) ==
        "backend counting owns no memory on cpu:0; take one that does");
  Primitive unknown = ops::primitives::exp();
  unknown.name = "unheard_of";
  Builder builder;
  const Var v = builder.input(type);
  const FunctionPtr g = builder.finish(builder.apply(unknown, {v}, {{"k", std::int64_t{1}}}));
  CHECK(error_text<BackendError>(run(*g, {x}, backend)) ==
        "backend reference has no kernel for unheard_of[k=1] from (f32[2]) to (f32[2])");
  CHECK(error_text<ValueError>([&] { host_array(type, std::vector<std::byte>(3), backend); }) ==
        "host_array: got 3 bytes for f32[2], expected 8");
}

}  // namespace lockstep::eval
