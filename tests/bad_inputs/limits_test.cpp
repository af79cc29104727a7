// Counts that no memory holds, objects that hold nothing, and weights that are none.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/extremes.h"
#include "tests/bad_inputs/rows.h"
#include "tests/trainer/small_training.h"

namespace lockstep::tests {
namespace {

data::SourcePtr rows_of(std::int64_t rows) {
  return data::generated(rows, [](std::int64_t i, const data::RowKey&) {
    return data::Row{{"x", data::host_table(std::vector<std::int64_t>{i}, Shape{})}};
  });
}

struct Negative final : data::Source {
  std::int64_t rows() const override { return -3; }
  data::Row row(std::int64_t /*i*/, const data::RowKey& /*key*/) const override { return {}; }
};

Batch batch_of(std::vector<float> weights) {
  const auto rows = static_cast<std::int64_t>(weights.size());
  return {ones({rows, 3}), ones({rows, 1}), array(weights)};
}

void step_with(std::vector<float> weights) {
  const TrainStep step = line_step();
  static_cast<void>(step(line_start(step), batch_of(std::move(weights))));
}

void step_with_weights(const Array& weights) {
  const TrainStep step = line_step();
  static_cast<void>(step(line_start(step), {ones({weights.dim(0), 3}), ones({weights.dim(0), 1}), weights}));
}

void step_of_microbatches(std::int64_t microbatches) {
  const TrainStep step =
      data_parallel(StepLoss(line_loss), optim::sgd(0.1), {.shards = 1, .microbatches = microbatches});
  const Tree weights = Tree::dict({{"w", Tree(ones({3, 1}))}, {"b", Tree(zeros({1}))}});
  static_cast<void>(step(step.init(weights, Tree()), batch_of({1, 1})));
}

CustomOp twice() {
  return CustomOp({.name = "twice",
                   .infer = [](std::span<const ArrayType> types) { return std::vector{types[0]}; },
                   .callback = [](std::span<const Array> x) { return std::vector{x[0] + x[0]}; }});
}

}  // namespace

TEST_CASE("bad inputs 129: counts of rows, shards and parts beyond all memory") {
  const auto four = [](const auto& make) { return std::vector{make(), make(), make(), make()}; };
  all_refused(129, {[&] { data::concatenate_rows(four([] { return rows_of(huge_count); })); },
                    [&] {
                      data::concatenate_rows({rows_of(huge_count), rows_of(huge_count)});
                    },
                    [&] { data::concatenate_rows({std::make_shared<Negative>()}); },
                    [&] { data::concatenate_rows({}); },
                    [&] { data::concatenate_rows({nullptr}); },
                    [&] { data::repeat_rows(rows_of(4), huge_count); },
                    [&] { data::repeat_rows(rows_of(huge_count), 2); },
                    [&] { data::repeat_rows(rows_of(4), -1); },
                    [&] { data::interleave_rows({}); },
                    [&] {
                      data::interleave_rows({rows_of(huge_count), rows_of(huge_count)});
                    },
                    [&] { data::slice_rows(rows_of(4), 0, 9); },
                    [&] { data::slice_rows(rows_of(4), 0, 4, 0); },
                    [&] { data::slice_rows(rows_of(4), 3, 1); },
                    [&] { data::unbatch_rows(rows_of(huge_count), 4); },
                    [&] { data::unbatch_rows(rows_of(4), 0); },
                    [&] { rows_of(-1); },
                    [&] { data::SourceLoader(rows_of(4), {.batch = huge_count}); },
                    [&] { data::SourceLoader(rows_of(4), {.batch = -1}); },
                    [&] { data::SourceLoader(nullptr, {.batch = 1}); },
                    [&] {
                      Mesh({{"a", huge_count}, {"b", 4}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"a", huge_count}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"a", std::int64_t{1} << 21}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"a", 3}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"a", 0}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"a", -2}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"a", 2}, {"a", 2}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"", 2}}, {Device{}});
                    },
                    [&] {
                      Mesh({{"a,b", 2}}, {Device{}});
                    },
                    [&] { Mesh({}, {Device{}}); },
                    [&] {
                      Mesh({{"a", 2}}, {});
                    },
                    [&] {
                      Mesh({{"a", 2}}, {Device{}, Device{}});
                    },
                    [&] {
                      Mesh({{"a", 2}}, {{DeviceKind::cpu, -1}});
                    },
                    [&] {
                      static_cast<void>(Mesh({{"a", 2}}, {Device{}}).size("b"));
                    },
                    [&] { data_mesh(-1, {}); },
                    [&] { data_mesh(huge_count, {}); },
                    [&] { data_mesh(8, {}, 0); },
                    [&] { step_of_microbatches(huge_count); },
                    [&] { step_of_microbatches(0); },
                    [&] { step_of_microbatches(-1); },
                    [&] { step_of_microbatches((std::int64_t{1} << 20) + 1); },
                    [&] { world()->finish(77); },
                    [&] { world()->finish(std::numeric_limits<std::uint64_t>::max()); }});
}

TEST_CASE("bad inputs 130: what std::move took the value of") {
  all_refused(
      130,
      {[&] {
         CustomOp op = twice();
         const CustomOp moved = std::move(op);
         op(ones({2}));
       },
       [&] {
         CustomOp op = twice();
         const CustomOp moved = std::move(op);
         static_cast<void>(op.name());
       },
       [&] {
         CustomOp op = twice();
         const CustomOp moved = std::move(op);
         jit([&](const Array& x) { return op(x); })(ones({2}));
       },
       [&] {
         TrainStep step = line_step();
         const TrainStep moved = std::move(step);
         static_cast<void>(step(line_start(moved), batch_of({1, 1})));
       },
       [&] {
         auto model = Model<Array, Array>([](Scope& s, const Array& x) { return dense(s["a"], x, {.units = 1}); });
         const auto moved = std::move(model);
         static_cast<void>(model.init(random::key(0), ones({1, 2})));
       },
       [&] {
         models::Generator generator({});
         const models::Generator moved = std::move(generator);
         static_cast<void>(generator.traces());
       },
       [&] {
         data::SourceLoader loader(rows_of(4), {.batch = 2});
         const data::SourceLoader moved = std::move(loader);
         static_cast<void>(loader.next());
       },
       [&] {
         data::TreeLoader loader(Batch{ones({4, 1}), ones({4, 1}), ones({4})}, {.batch = 2});
         const data::TreeLoader moved = std::move(loader);
         static_cast<void>(loader.next());
       },
       [&] {
         Array x = ones({2});
         const Array moved = std::move(x);
         sum(x);
       },
       [&] {
         static_cast<void>(
             Model<Array, Array>(std::function<Array(Scope&, const Array&)>()).init(random::key(0), ones({1})));
       },
       [&] { jit(std::function<Array(const Array&)>())(ones({1})); },
       [&] { grad(std::function<Array(const Array&)>())(array(1.0F)); },
       [&] { data_parallel(StepLoss(line_loss), optim::GradientTransformation{}); },
       [&] { CustomOp({.name = "none", .infer = {}}); }, [&] { CustomOp({}); }, [&] { data::map_rows(rows_of(4), {}); },
       [&] { data::generated(4, {}); }, [&] { data::filter_rows(rows_of(4), {}); }});
}

TEST_CASE("bad inputs 131: weights of rows") {
  const float infinity = std::numeric_limits<float>::infinity();
  all_refused(131, {[&] {
                      step_with({1, -1, 1, 1});
                    },
                    [&] {
                      step_with({std::nanf(""), 1});
                    },
                    [&] {
                      step_with({1, infinity});
                    },
                    [&] {
                      step_with({1, -infinity});
                    },
                    [&] { step_with({-0.5F}); },
                    [&] {
                      const EvaluateStep step(StepLoss(line_loss), {.shards = 1});
                      const Tree weights = Tree::dict({{"w", Tree(ones({3, 1}))}, {"b", Tree(zeros({1}))}});
                      static_cast<void>(step(weights, Tree(), batch_of({1, -2})));
                    },
                    [&] {
                      const TrainStep step = line_step();
                      static_cast<void>(step(line_start(step), to_tree(batch_of({1, 1, -3, 1}))));
                    },
                    [] {
                      step_with_weights(array(std::vector<float>{1, -0.25F}).astype(bfloat16));
                    },
                    [] {
                      step_with_weights(array(std::vector<float>{std::nanf(""), 1}).astype(bfloat16));
                    },
                    [] {
                      step_with_weights(array(std::vector<float>{1, 1e6F}).astype(float16));
                    },
                    [] {
                      step_with_weights(array(std::vector<double>{-1e-300, 1}));
                    },
                    [] {
                      step_with_weights(array(std::vector<std::int32_t>{1, -2}));
                    },
                    [] {
                      const Mesh mesh({{"batch", 2}}, devices("cpu:0-1"));
                      step_with_weights(reshard(array(std::vector<float>{1, 1, 1, -4}), mesh, Layout({{0, "batch"}})));
                    }});
  row(131, [] {
    step_with({0, 1, 2.5F, 0});
    step_with({-0.0F, 1, 1, 1});
  });
}

}  // namespace lockstep::tests
