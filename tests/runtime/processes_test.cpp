#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ops/reference_backend.h"
#include "tests/runtime/values.h"
#include "tests/support/control_flow_program.h"
#include "tests/support/drawn_cases.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"
#include "tests/support/thread_processes.h"

namespace lockstep::tests {
namespace {

using ir::Value;

/// The results of every process, by messages and in windows, with all sums at the end and in buckets that begin early.
/// `begun`: how many of the latter's programs begin some in a region.
std::vector<Bytes> run_everywhere(const ir::FunctionPtr& f, const std::vector<eval::HostArray>& arguments, int count,
                                  std::atomic<int>* begun = nullptr) {
  std::mutex mutex;
  std::vector<Bytes> results;
  for (const std::int64_t bucket_bytes : {0, 1, 100}) {
    for (const bool has_windows : {false, true}) {
      const auto run = [&](const std::shared_ptr<Processes>& processes) {
        compile::Options options;
        options.backends = {permissive_backend()};
        options.processes = processes;
        options.bucket_bytes = bucket_bytes;
        options.verify = true;
        const auto executable = compile::lower(f, options);
        if (begun != nullptr && executable->print().find("behind all shards") != std::string::npos) ++*begun;
        for (int i = 0; i < drawn_cases(3); ++i) {
          Bytes bytes = bytes_of(runtime::run(*executable, arguments));
          const std::lock_guard lock(mutex);
          results.push_back(std::move(bytes));
        }
      };
      run_processes(
          count, run, [](int) { return ProcessOptions(); }, has_windows);
    }
  }
  return results;
}

/// A random body whose first three results are whole; the last one is cut as `spec` says.
ir::FunctionPtr random_map(std::uint64_t seed, MapSpec spec, const std::vector<ArrayType>& types, const Shape& last) {
  const auto body = [&](ir::Builder& b, std::span<const Value> x) {
    std::vector<Value> results = RandomBody(seed, spec.mesh, 12)(b, x);
    for (std::size_t i = 0; i < 3; ++i) spec.out[i].assign(static_cast<std::size_t>(results[i].rank()), "");
    results[3] = ops::broadcast_in_dim(ops::reduce_sum(results[3], {0}), last, {});
    return results;
  };
  std::vector<ArrayType> local;
  for (std::size_t i = 0; i < types.size(); ++i) local.push_back(local_type(types[i], spec.in[i], spec.mesh));
  make_function(local, body, spec.mesh);
  return mapped(types, spec, body);
}

}  // namespace

TEST_CASE("2 and 4 processes give the bits of one" * drawn_suite) {
  const std::vector<ArrayType> types = {{DType::float32, Shape{8, 8}, {}}, {DType::float32, Shape{3, 8}, {}}};
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(drawn_cases(40)); ++seed) {
    CAPTURE(seed);
    const MapSpec spec{mesh({{"batch", 8}}), 2, {{"batch", ""}, {"", ""}}, {{}, {}, {}, {"", "batch"}}};
    const ir::FunctionPtr f = random_map(seed, spec, types, Shape{2, 3});
    const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
    const Bytes expected = evaluated(f, arguments);
    for (int processes : {2, 4}) {
      CAPTURE(processes);
      for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
    }
  }
}

TEST_CASE("axes that lie within a process and across processes" * drawn_suite) {
  const std::vector<ArrayType> types = {{DType::float32, Shape{4, 8}, {}}, {DType::float32, Shape{3, 4}, {}}};
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(drawn_cases(40)); ++seed) {
    CAPTURE(seed);
    const MapSpec spec{
        mesh({{"data", 4}, {"model", 2}}), 1, {{"data", "model"}, {"", "data"}}, {{}, {}, {}, {"model", "data"}}};
    const ir::FunctionPtr f = random_map(seed, spec, types, Shape{2, 3});
    const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
    const Bytes expected = evaluated(f, arguments);
    for (int processes : {2, 4, 8}) {
      CAPTURE(processes);
      for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
    }
  }
}

TEST_CASE("several axes cut a dimension, in any order, within a process and across processes" * drawn_suite) {
  const std::vector<ArrayType> types = {{DType::float32, Shape{16, 4}, {}}, {DType::float32, Shape{3, 8}, {}}};
  struct Row {
    Layouts in;
    std::vector<std::string> last;
  };
  const std::vector<Row> rows = {{{{"data,model", ""}, {"", "model"}}, {"", "data,model"}},
                                 {{{"model,data", ""}, {"", "data"}}, {"data,model", ""}},
                                 {{{"model,data", ""}, {"", "data,model"}}, {"model,data", ""}}};
  for (const Row& row : rows) {
    for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(drawn_cases(12)); ++seed) {
      CAPTURE(seed);
      MapSpec spec{mesh({{"data", 4}, {"model", 2}}), 1, row.in, {{}, {}, {}, row.last}};
      const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
      const ir::FunctionPtr f = random_map(seed, spec, types, Shape{2, 3});
      const Bytes expected = evaluated(f, arguments);
      for (int devices : {1, 2, 8}) {
        spec.devices = devices;
        CHECK(compiled(random_map(seed, spec, types, Shape{2, 3}), arguments, permissive_backend()) == expected);
      }
      for (int processes : {2, 4, 8}) {
        CAPTURE(processes);
        for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
      }
    }
  }
}

TEST_CASE("bfloat16 stays float32 between processes") {
  const MapSpec spec{mesh({{"batch", 8}}), 1, {{"batch"}}, {{""}}};
  const ArrayType type{DType::bfloat16, Shape{8}, {}};
  const ir::FunctionPtr f =
      mapped({type}, spec, [](ir::Builder&, std::span<const Value> x) { return Values{ops::psum(x[0], {"batch"})}; });
  const eval::HostArray argument = to_host(type, {256, 1, 0.5, 0.5, 256, 1, 0.5, 0.5});
  const Bytes expected = evaluated(f, {argument});
  for (int processes : {2, 4, 8}) {
    for (const Bytes& result : run_everywhere(f, {argument}, processes)) CHECK(result == expected);
  }
}

TEST_CASE("a large sum is cut into tiles here and chunks between processes") {
  const MapSpec spec{mesh({{"batch", 4}}), 2, {{"batch", ""}}, {{"", ""}}};
  const ArrayType type{DType::float32, Shape{4, 40001}, {}};
  const ir::FunctionPtr f = mapped({type}, spec, [](ir::Builder&, std::span<const Value> x) {
    return Values{ops::psum(ops::sin(x[0]), {"batch"}) * 0.5};
  });
  const std::vector<eval::HostArray> arguments = random_host_arrays({type}, 9);
  const Bytes expected = evaluated(f, arguments);
  for (const Bytes& result : run_everywhere(f, arguments, 2)) CHECK(result == expected);
}

/// psum_scatter of what each shard makes of its block.
ir::FunctionPtr scattered(const ir::AxisSizes& axes, const std::string& axis, std::int64_t dim, const Shape& block,
                          DType dtype, const MapSpec& spec) {
  std::int64_t shards = 1;
  for (const auto& of_axis : axes.axes()) shards *= of_axis.size;
  const ArrayType type{dtype, block.insert(0, shards), {}};
  return mapped({type}, spec, [&](ir::Builder&, std::span<const Value> x) {
    const Value own = ops::reshape(ops::sin(x[0]), block);
    return Values{ops::apply_one(ops::primitives::psum_scatter(), {own}, {{"axis", axis}, {"dim", dim}})};
  });
}

TEST_CASE("a scattered sum has the bits of one process, along any dimension and axis, in several pieces") {
  struct Row {
    ir::AxisSizes axes;
    std::string axis;
    std::int64_t dim;
    Shape block;
    DType dtype;
    Layouts in, out;
  };
  const ir::AxisSizes one = mesh({{"batch", 8}});
  const ir::AxisSizes two = mesh({{"data", 4}, {"model", 2}});
  const std::vector<Row> rows = {
      {one, "batch", 0, Shape{16, 3}, DType::float32, {{"batch", "", ""}}, {{"batch", ""}}},
      {one, "batch", 1, Shape{3, 16}, DType::float32, {{"batch", "", ""}}, {{"", "batch"}}},
      {one, "batch", 0, Shape{8, 5}, DType::bfloat16, {{"batch", "", ""}}, {{"batch", ""}}},
      {one, "batch", 0, Shape{8, 40000}, DType::float32, {{"batch", "", ""}}, {{"batch", ""}}},
      {two, "data", 1, Shape{3, 8}, DType::float32, {{"data,model", "", ""}}, {{"model", "data"}}},
      {two, "model", 0, Shape{8, 3}, DType::float32, {{"data,model", "", ""}}, {{"data,model", ""}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.axis);
    CAPTURE(row.dim);
    const MapSpec spec{row.axes, 1, row.in, row.out};
    const ir::FunctionPtr f = scattered(row.axes, row.axis, row.dim, row.block, row.dtype, spec);
    const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), 5);
    const Bytes expected = evaluated(f, arguments);
    for (const int processes : {2, 4, 8}) {
      CAPTURE(processes);
      for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
    }
  }
}

TEST_CASE("sums that do not wait for each other cross the processes together, whatever their sizes") {
  const MapSpec spec{mesh({{"batch", 4}}), 1, {{"batch", ""}, {"batch", ""}}, {{"", ""}, {"", ""}, {""}, {"", ""}, {}}};
  const std::vector<ArrayType> types = {{DType::float32, Shape{4, 400003}, {}}, {DType::float32, Shape{8, 40}, {}}};
  const ir::FunctionPtr f = mapped(types, spec, [](ir::Builder&, std::span<const Value> x) {
    const Value large = ops::psum(ops::sin(x[0]), {"batch"});
    const Value small = ops::psum(ops::cos(x[1]), {"batch"});
    const Value row = ops::psum(ops::reduce_sum(x[1], {0}), {"batch"});
    const Value behind = ops::psum(x[1] * ops::pvary(small, {"batch"}), {"batch"});
    return Values{large, small * 0.5, row, behind, ops::psum(ops::reduce_sum(x[1], {0, 1}), {"batch"})};
  });
  const std::vector<eval::HostArray> arguments = random_host_arrays(types, 3);
  const Bytes expected = evaluated(f, arguments);
  for (const int processes : {2, 4}) {
    for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
  }
  run_processes(2, [&](const std::shared_ptr<Processes>& all) {
    compile::Options options;
    options.backends = {permissive_backend()};
    options.processes = all;
    const executable::PlanReport plan = compile::lower(f, options)->plan();
    CHECK(plan.collectives == 5);
    std::size_t folds = 0;
    for (std::size_t at = 0; (at = plan.text.find(" = fold_across_processes", at)) != std::string::npos; ++at) ++folds;
    CAPTURE(plan.text);
    CHECK(folds == 2);  // the last one but one waits for the second
  });
}

Value product(const Value& x, const Value& y, std::int64_t of_x, std::int64_t of_y) {
  using Pairs = std::vector<std::vector<std::int64_t>>;
  return ops::apply_one(ops::primitives::dot_general(), {x, y},
                        {{"contract", Pairs{{of_x}, {of_y}}}, {"batch", Pairs{{}, {}}}});
}

/// A chain of weights, as a backward pass is: each one's sum over the shards is final at another place of the region, some
/// by one shard's values, some by an op between two of them, some in bfloat16, of some each shard gets its block; then
/// something is made of all others.
ir::FunctionPtr drawn_backward_pass(std::uint64_t seed, const MapSpec& map, std::vector<ArrayType>& types) {
  std::mt19937_64 bits(seed);
  MapSpec spec = map;
  const std::size_t layers = 3 + bits() % 4;
  types = {{DType::float32, Shape{8, 8}, {}}};
  spec.in = {{"batch", ""}};
  for (std::size_t i = 0; i < layers; ++i) {
    const std::int64_t width = bits() % 4 == 0 ? 2100 : 1 + static_cast<std::int64_t>(bits() % 40);
    types.push_back({DType::float32, Shape{8, width}, {}});
    spec.in.push_back({"", ""});
    spec.out.push_back({"", ""});
  }
  spec.out.push_back({""});
  const bool is_clipped = bits() % 2 == 0;
  const std::uint64_t kinds = bits();
  const auto is_scattered = [=](std::size_t i) { return i > 1 && (kinds >> (8 + i)) % 2 == 1; };
  for (std::size_t i = 1; i <= layers; ++i) {
    if (is_scattered(i)) spec.out[i - 1] = {"batch", ""};
  }
  return mapped(types, spec, [=](ir::Builder&, std::span<const Value> x) {
    Value rows = ops::sin(x[0]);
    std::vector<Value> sums;
    for (std::size_t i = 1; i < x.size(); ++i) {
      const Value weight = ops::pvary(x[i], {"batch"});
      const Value made = product(rows, weight, 1, 0);
      Value gradient = product(rows, ops::cos(made), 0, 0);
      if ((kinds >> i) % 4 == 1) gradient = ops::convert(ops::convert(gradient, DType::bfloat16), DType::float32);
      if (is_scattered(i)) {
        sums.push_back(ops::apply_one(ops::primitives::psum_scatter(), {gradient},
                                      {{"axis", std::string("batch")}, {"dim", std::int64_t{0}}}));
      } else {
        sums.push_back(ops::psum(gradient, {"batch"}));
      }
      rows = ops::sin(rows * ops::broadcast_in_dim(ops::reduce_sum(made, {1}), rows.shape(), {0}));
    }
    Value norm = ops::reduce_sum(sums[0] * sums[0], {0, 1});
    for (std::size_t i = 1; i < sums.size(); ++i) {
      if (!is_scattered(i + 1)) norm = norm + ops::reduce_sum(sums[i] * sums[i], {0, 1});
    }
    std::vector<Value> results;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (is_scattered(i + 1)) {
        results.push_back(sums[i] * 0.5);
        continue;
      }
      const Value step = is_clipped ? sums[i] * ops::broadcast_in_dim(ops::sin(norm), sums[i].shape(), {}) : sums[i];
      results.push_back(x[i + 1] - step * 0.5);
    }
    results.push_back(ops::broadcast_in_dim(norm, Shape{1}, {}));
    return results;
  });
}

TEST_CASE("sums that begin while their region runs have the bits of one process" * drawn_suite) {
  std::atomic<int> begun = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(drawn_cases(8)); ++seed) {
    for (const int shards : {2, 4, 8}) {
      for (const int devices : {1, 2}) {
        CAPTURE(seed);
        CAPTURE(shards);
        CAPTURE(devices);
        const MapSpec spec{mesh({{"batch", shards}}), devices, {}, {}};
        std::vector<ArrayType> types;
        const ir::FunctionPtr f = drawn_backward_pass(seed, spec, types);
        const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
        const Bytes expected = evaluated(f, arguments);
        for (const int processes : {2, 4}) {
          if (shards % (processes * devices) != 0) continue;
          CAPTURE(processes);
          std::atomic<int> here = 0;
          for (const Bytes& result : run_everywhere(f, arguments, processes, &here)) CHECK(result == expected);
          CHECK(here > 0);
          begun += here;
        }
      }
    }
  }
  CHECK(begun > 8 * drawn_cases(8));
}

/// tanh that calls `waited` with how often its thread has come here before.
class WaitingTanh final : public backend::Backend {
 public:
  explicit WaitingTanh(std::function<void(int layer)> waited) : waited_(std::move(waited)) {}
  std::string_view name() const override { return "waiting"; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    if (request.op != ops::primitives::tanh().name) return nullptr;
    return std::make_unique<WaitingKernel>(*this, ops::reference_backend()->make_kernel(request));
  }
  std::shared_ptr<backend::Buffer> allocate(std::size_t /*nbytes*/, Device /*device*/) const override {
    return nullptr;
  }

 private:
  class WaitingKernel final : public backend::Kernel {
   public:
    WaitingKernel(const WaitingTanh& owner, std::unique_ptr<backend::Kernel> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    void run(const backend::KernelArguments& arguments) const override {
      owner_.waited_(owner_.next_layer());
      inner_->run(arguments);
    }

   private:
    const WaitingTanh& owner_;
    std::unique_ptr<backend::Kernel> inner_;
  };

  int next_layer() const {
    const std::lock_guard lock(mutex_);
    return layers_[std::this_thread::get_id()]++;
  }

  std::function<void(int layer)> waited_;
  mutable std::mutex mutex_;
  mutable std::map<std::thread::id, int> layers_;
};

/// Four layers, each behind its sum over all shards: as a sum, or as blocks of it that are put together.
ir::FunctionPtr layers_behind_sums(const MapSpec& spec, const ArrayType& type, std::int64_t elements,
                                   bool is_scattered) {
  return mapped({type}, spec, [elements, is_scattered](ir::Builder&, std::span<const Value> x) {
    Value value = x[0];
    std::vector<Value> results;
    for (int layer = 0; layer < 4; ++layer) {
      const Value gradient = ops::broadcast_in_dim(value, Shape{elements}, {0});
      results.push_back(is_scattered ? ops::apply_one(ops::primitives::psum_scatter(), {gradient},
                                                      {{"axis", std::string("batch")}, {"dim", std::int64_t{0}}})
                                     : ops::psum(gradient, {"batch"}));
      value = ops::tanh(value);
    }
    results.push_back(value);
    return results;
  });
}

/// How many layers of both processes ended before what they sum had been sent, by messages. The first `early` layers
/// wait for that (a minute, so that what never comes is counted and nothing hangs), the others look once.
int layers_before_their_sums(int devices, bool is_scattered, int early) {
  constexpr std::int64_t elements = 16384;
  constexpr std::size_t bytes_of_half = 2 * elements;
  const int shards = 2 * devices;
  const std::vector<std::string> out = {is_scattered ? "batch" : ""};
  const MapSpec spec{mesh({{"batch", shards}}), devices, {{"batch"}}, {out, out, out, out, {"batch"}}};
  const ArrayType type{DType::float32, Shape{shards}, {}};
  const ir::FunctionPtr f = layers_behind_sums(spec, type, elements, is_scattered);
  const auto mail = std::make_shared<ThreadMail>(2);
  std::atomic<int> unsent = 0;
  run_processes(mail, [&](const std::shared_ptr<Processes>& processes) {
    const int rank = processes->rank();
    std::atomic<std::size_t> before = 0;
    const auto waited = [&, rank](int layer) {
      const auto is_sent = [&] {
        return mail->sent_bytes(rank) - before >= bytes_of_half * static_cast<std::size_t>(layer + 1);
      };
      const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(layer < early ? 1 : 0);
      while (!is_sent() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      if (!is_sent()) ++unsent;
    };
    compile::Options options;
    options.backends = {std::make_shared<WaitingTanh>(waited), permissive_backend()};
    options.processes = processes;
    options.bucket_bytes = early > 0 ? 1 : 0;
    const auto executable = compile::lower(f, options);
    const std::vector<eval::HostArray> arguments = random_host_arrays({type}, 1);
    processes->barrier();
    before = mail->sent_bytes(rank);
    runtime::run(*executable, arguments);
  });
  return unsent;
}

TEST_CASE("what has begun to cross is on its way while the region goes on") {
  for (const int devices : {1, 2}) {
    for (const bool is_scattered : {false, true}) {
      CAPTURE(devices);
      CAPTURE(is_scattered);
      // Of a region on several devices the last sum begins right behind it.
      const int early = devices == 1 ? 4 : 3;
      CHECK(layers_before_their_sums(devices, is_scattered, 0) == 2 * devices * 4);
      CHECK(layers_before_their_sums(devices, is_scattered, early) == 2 * devices * (4 - early));
    }
  }
}

TEST_CASE("windows are written again only when they have been read") {
  const MapSpec spec{
      mesh({{"batch", 4}}), 1, {{"batch", ""}, {"batch", ""}}, {{"", ""}, {"", "batch"}, {"", ""}, {""}}};
  const std::vector<ArrayType> types = {{DType::float32, Shape{4, 40000}, {}}, {DType::float32, Shape{4, 4096}, {}}};
  const ir::FunctionPtr f = mapped(types, spec, [](ir::Builder&, std::span<const Value> x) {
    const auto everywhere = [](const Value& v) { return ops::pvary(v, {"batch"}); };
    const Value large = ops::psum(ops::sin(x[0]), {"batch"});
    const Value blocks = ops::apply_one(ops::primitives::psum_scatter(), {x[0]},
                                        {{"axis", std::string("batch")}, {"dim", std::int64_t{1}}});
    const Value factor = ops::broadcast_in_dim(everywhere(ops::reduce_sum(large, {1})), x[1].shape(), {0});
    const Value small = ops::psum(x[1] * factor, {"batch"});
    const Value last = ops::psum(ops::reduce_sum(x[1] * everywhere(small), {1}), {"batch"});
    return Values{large * 0.5, blocks, small, last};
  });
  std::vector<std::vector<eval::HostArray>> arguments;
  std::vector<Bytes> expected;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    arguments.push_back(random_host_arrays(types, seed));
    expected.push_back(evaluated(f, arguments.back()));
  }
  for (const int count : {2, 4}) {
    std::atomic<int> right = 0;
    const auto run = [&](const std::shared_ptr<Processes>& processes) {
      compile::Options options;
      options.backends = {permissive_backend()};
      options.processes = processes;
      const auto executable = compile::lower(f, options);
      std::mt19937_64 bits(static_cast<std::uint64_t>(processes->rank()));
      for (std::size_t i = 0; i < 60; ++i) {
        if (bits() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits() % 500));
        if (bytes_of(runtime::run(*executable, arguments[i % 3])) == expected[i % 3]) ++right;
      }
    };
    run_processes(
        count, run, [](int) { return ProcessOptions(); }, true);
    CHECK(right == 60 * count);
  }
}

TEST_CASE("loops with collectives over processes, and loops without") {
  const std::vector<ArrayType> types = {{DType::float32, Shape{8, 3}, {}}, {DType::float32, Shape{3}, {}}};
  for (const auto& [name, sizes] : {std::pair("one axis", 8), std::pair("two axes", 4)}) {
    CAPTURE(name);
    const ir::AxisSizes axes = sizes == 8 ? mesh({{"batch", 8}}) : mesh({{"batch", 4}, {"model", 2}});
    const MapSpec spec{axes, 1, {{"batch", ""}, {""}}, {{"batch", ""}, {""}, {"", "", ""}}};
    const ir::FunctionPtr f = mapped(types, spec, [](ir::Builder&, std::span<const Value> v) {
      const Value start = scan({2, 0, 1, false}, {v[0]},
                               [](ir::Builder&, std::span<const Value> u) { return Values{ops::sin(u[0])}; })[0];
      return scan({3, 0, 2, false}, {start, v[1]}, [](ir::Builder&, std::span<const Value> u) {
        const Value s = ops::psum(ops::reduce_sum(u[0], {0}), {"batch"});
        const Value all = ops::apply_one(ops::primitives::all_gather_invariant(), {u[0]},
                                         {{"axis", std::string("batch")}, {"dim", std::int64_t{0}}});
        const Value wide = ops::pvary(ops::broadcast_in_dim(s * u[1], u[0].shape(), {1}), {"batch"});
        return Values{ops::cos(u[0]) * wide, ops::sin(u[1]) + s, all};
      });
    });
    const std::vector<eval::HostArray> arguments = random_host_arrays(types, 4);
    const Bytes expected = evaluated(unrolled(f), arguments);
    for (int processes : {2, 4}) {
      CAPTURE(processes);
      for (const Bytes& result : run_everywhere(f, arguments, processes)) CHECK(result == expected);
    }
  }
}

}  // namespace lockstep::tests
