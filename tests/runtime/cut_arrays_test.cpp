#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/eval/blocks.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/collective/local_part.h"
#include "tests/runtime/values.h"
#include "tests/support/expect_error.h"
#include "tests/support/mapped_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"
#include "tests/support/thread_processes.h"

// Arrays that lie cut over processes, against whole ones in one process.
namespace lockstep::tests {
namespace {

using ir::Value;
using ops::collective::LocalPart;
using Layout = std::vector<std::string>;

const ir::AxisSizes& data_and_model() {
  static const ir::AxisSizes mesh({{"data", 4}, {"model", 2}});
  return mesh;
}

Attrs lies(const Layout& layout, int devices = 1, bool given = false) {
  Attrs attrs = {{"axes", std::vector<std::string>{"data", "model"}},
                 {"sizes", std::vector<std::int64_t>{4, 2}},
                 {"devices", device_names(devices)},
                 {"layout", layout}};
  return given ? attrs.with("given", true) : attrs;
}

Value reshard(const Value& x, const Attrs& attrs) { return ops::apply_one(ops::primitives::reshard(), {x}, attrs); }

/// Each axis cuts one of the dimensions or none, in any order.
Layout drawn_layout(std::mt19937_64& bits, int rank) {
  std::vector<std::string> axes = {"data", "model"};
  if (bits() % 2 == 0) std::swap(axes[0], axes[1]);
  std::vector<std::vector<std::string>> dimensions(static_cast<std::size_t>(rank));
  for (const std::string& axis : axes) {
    const std::size_t d = bits() % (dimensions.size() + 1);
    if (d < dimensions.size()) dimensions[d].push_back(axis);
  }
  Layout layout;
  for (const auto& dimension : dimensions) layout.push_back(ops::collective::entry_of(dimension));
  return layout;
}

AxisSet axes_of(const Layout& layout) { return AxisSet(ops::collective::axes_of_layout(layout)); }

/// What a process has of a whole array.
eval::HostArray part_of(const eval::HostArray& whole, const Layout& layout, int process, int processes) {
  const std::int64_t shards = data_and_model().total() / processes;
  const LocalPart part(layout, data_and_model(), process * shards, shards);
  const Shape block = local_type(whole.type, layout, data_and_model()).shape;
  const ArrayType type{whole.type.dtype, part.shape(block), {}};
  eval::HostArray result = eval::host_array(type, std::vector<std::byte>(static_cast<std::size_t>(type.nbytes())),
                                            *ops::reference_backend());
  for (const std::int64_t shard : part.distinct_shards()) {
    std::vector<std::int64_t> from = part.block_of(shard), to;
    for (int d = 0; d < block.rank(); ++d) {
      to.push_back(part.place(shard, d) * block[d]);
      from[static_cast<std::size_t>(d)] *= block[d];
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(ArrayType{type.dtype, block, {}}.nbytes()));
    const std::size_t size = size_of(type.dtype);
    eval::cut_block({whole.type.shape, block, Shape(from), size}, whole.buffer->data(), bytes.data());
    eval::place_block({type.shape, block, Shape(to), size}, bytes.data(), result.buffer->data());
  }
  return result;
}

/// A map from one layout to another, which mixes what all shards have.
Value mixed(const Value& x, const Layout& from, const Layout& to, int devices) {
  return map(std::vector{x}, {data_and_model(), devices, {from}, {to}}, [&](ir::Builder&, std::span<const Value> v) {
    const AxisSet lost = axes_of(from).without(axes_of(to)), won = axes_of(to).without(axes_of(from));
    Value y = ops::sin(v[0]) + v[0] * 0.25;
    if (!lost.empty()) y = ops::psum(y, lost) * 0.5;
    if (!won.empty()) y = ops::pvary(y, won);
    return Values{y};
  })[0];
}

compile::Options options_of(const std::shared_ptr<Processes>& together) {
  compile::Options options = verified(permissive_backend());
  options.processes = together;
  return options;
}

}  // namespace

TEST_CASE("drawn layouts: what lies cut means what whole arrays do, in 1, 2, 4 and 8 processes") {
  const std::vector<ArrayType> types = {{DType::float32, Shape{64, 64}, {}}};
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 bits(seed);
    const Layout in = drawn_layout(bits, 2), out = drawn_layout(bits, 2), other = drawn_layout(bits, 2);
    const auto build = [&](int devices) {
      return make_function(types, [&](ir::Builder&, std::span<const Value> v) {
        const Value x = ops::collective::is_cut(in) ? reshard(v[0], lies(in, devices, true)) : v[0];
        const Value y = reshard(mixed(x, in, out, devices), lies(out, devices));
        const Value z = reshard(mixed(y, out, other, devices), lies(other, devices));
        const Value back = reshard(reshard(y, lies(other, devices)), lies(in, devices));
        return Values{y, z, reshard(z, lies({"", ""}, devices)), back, x};
      });
    };
    const std::vector<eval::HostArray> arguments = random_host_arrays(types, seed);
    const std::vector<eval::HostArray> whole = eval::eval(*build(1), arguments, *ops::reference_backend());
    const std::vector<Layout> layouts = {out, other, {"", ""}, in, in};
    for (int processes : {1, 2, 4, 8}) {
      for (int devices : {1, 2}) {
        if (processes * devices > 8) continue;
        CAPTURE(processes);
        CAPTURE(devices);
        const ir::FunctionPtr f = build(devices);
        run_processes(processes, [&](const std::shared_ptr<Processes>& together) {
          const int rank = together->rank();
          const auto executable = compile::lower(f, options_of(together));
          const auto given = part_of(arguments[0], in, rank, processes);
          const auto results = runtime::run(*executable, std::vector{given});
          for (std::size_t k = 0; k < layouts.size(); ++k) {
            CAPTURE(k);
            const auto expected = part_of(whole[k], layouts[k], rank, processes);
            CHECK(results[k].type.shape == expected.type.shape);
            CHECK(eval::host_bytes(results[k]) == eval::host_bytes(expected));
          }
        });
      }
    }
  }
}

TEST_CASE("what lies cut goes from map to map without communication, where it lay, and takes a process its share") {
  const Layout layout = {"data,model", ""};
  const ArrayType type{DType::float32, Shape{64, 32}, {}};
  const ir::FunctionPtr f = make_function({type, type}, [&](ir::Builder&, std::span<const Value> v) {
    const Value w = reshard(v[0], lies(layout, 1, true)), g = reshard(v[1], lies(layout, 1, true));
    const MapSpec spec{data_and_model(), 1, {layout, layout}, {layout}};
    const Value next = map(std::vector{w, g}, spec,
                           [](ir::Builder&, std::span<const Value> x) { return Values{x[0] - x[1] * 0.5}; })[0];
    const Value kept = reshard(next, lies(layout));
    const Value again =
        map(std::vector{kept, g}, spec, [](ir::Builder&, std::span<const Value> x) { return Values{x[0] * x[1]}; })[0];
    return Values{reshard(again, lies(layout))};
  });
  const std::vector<eval::HostArray> arguments = random_host_arrays({type, type}, 5);
  const std::vector<eval::HostArray> whole = eval::eval(*f, arguments, *ops::reference_backend());
  for (int processes : {1, 2, 4, 8}) {
    CAPTURE(processes);
    run_processes(processes, [&](const std::shared_ptr<Processes>& together) {
      const auto executable = compile::lower(f, options_of(together));
      const std::int64_t share = type.nbytes() / processes;
      CHECK(executable->argument_types[0].nbytes() == share);
      CHECK(executable->result_types[0].nbytes() == share);
      CHECK(executable->cut.whole_results[0] == type);
      CHECK(executable->plan().text.find("gather_") == std::string::npos);
      CHECK(executable->plan().collectives == 0);
      CHECK(static_cast<std::int64_t>(executable->arena_bytes) <= share);
      std::vector<eval::HostArray> given;
      for (const eval::HostArray& argument : arguments) {
        given.push_back(part_of(argument, layout, together->rank(), processes));
      }
      const backend::Buffer* const first = given[0].buffer.get();
      const backend::Buffer* const second = given[1].buffer.get();
      const auto results = runtime::run(*executable, std::move(given), {true, true});
      CHECK((results[0].buffer.get() == first || results[0].buffer.get() == second));
      CHECK(eval::host_bytes(results[0]) == eval::host_bytes(part_of(whole[0], layout, together->rank(), processes)));
    });
  }
}

TEST_CASE("an array that lies cut is read by maps of its layout alone, wherever the function runs") {
  const ArrayType type{DType::float32, Shape{8, 4}, {}};
  const auto lowered = [&](const std::function<Values(const Value&)>& use) {
    const auto f = make_function({type}, [&](ir::Builder&, std::span<const Value> v) {
      return use(reshard(v[0], lies({"data", ""}, 1, true)));
    });
    compile::lower(f, options_of(nullptr));
  };
  expect_error<MeshError>([&] { lowered([](const Value& x) { return Values{ops::sin(x)}; }); }, "sin: operand 0",
                          "f32[8,4]", "lies cut (dimension 0 along data)", "gather(x)");
  expect_error<MeshError>([&] { lowered([](const Value& x) {
                                  return Values{mixed(x, {"", "data"}, {"", ""}, 1)};
                                }); },
                          "pmap: operand 0", "lies cut (dimension 0 along data)", "dimension 1 along data", "reshard");
  expect_error<MeshError>(
      [&] {
        const auto f = make_function({type}, [&](ir::Builder&, std::span<const Value> v) {
          return Values{reshard(ops::sin(v[0]), lies({"data", ""}, 3))};
        });
        compile::lower(f, options_of(nullptr));
      },
      "reshard: 1 process(es) with 3 device(s)", "8 shards");
  lowered([](const Value& x) { return Values{ops::sin(reshard(x, lies({"", ""})))}; });
}

TEST_CASE("a process's part of an array") {
  // 8 shards in two processes: the second has data 2 and 3. Along model,data these are blocks 2, 3, 6 and 7.
  const LocalPart part({"model,data", ""}, data_and_model(), 4, 4);
  CHECK(part.shape({2, 5}) == Shape{8, 5});
  CHECK(part.block_of(4) == std::vector<std::int64_t>{2, 0});
  CHECK(part.block_of(5) == std::vector<std::int64_t>{6, 0});
  CHECK(part.place(5, 0) == 2);
  CHECK(part.place(7, 0) == 3);
  CHECK(part.distinct_shards() == std::vector<std::int64_t>{4, 5, 6, 7});
  const LocalPart columns({"", "model"}, data_and_model(), 4, 4);
  CHECK(columns.shape({2, 5}) == Shape{2, 10});
  CHECK(columns.distinct_shards() == std::vector<std::int64_t>{4, 5});
}

}  // namespace lockstep::tests
