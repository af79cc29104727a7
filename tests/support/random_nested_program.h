#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/ir/control_flow.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/mapped_program.h"
#include "tests/support/random_program.h"

// Programs drawn from a seed whose steps hold programs: loops, branches, checkpoints, maps with collectives.
namespace lockstep::tests {

struct NestedOptions {
  int equations = 8;
  int nesting = 2;           ///< How deep programs hold programs.
  bool while_loops = false;  ///< They have no reverse mode.
  std::int64_t shards = 1;   ///< Of the maps.
  int devices = 1;           ///< Of the maps.
};

class RandomNestedProgram final : public RandomProgram {
 public:
  RandomNestedProgram(std::uint64_t seed, const NestedOptions& options) : RandomProgram(seed), options_(options) {}

  /// A function of `inputs` with results of the types `outputs`: float64, of the same mesh.
  ir::FunctionPtr body(const std::vector<ArrayType>& inputs, const std::vector<ArrayType>& outputs,
                       const ir::AxisSizes& mesh, bool collectives) {
    mesh_ = mesh;
    collectives_ = collectives;
    return make_function(
        inputs,
        [&](ir::Builder& builder, std::span<const Value> values) {
          begin(builder, values);
          for (std::size_t i = 0, n = 2 + below(4); i < n; ++i) add(step());
          std::vector<Value> results;
          for (const ArrayType& type : outputs) results.push_back(of_type(type));
          return results;
        },
        mesh);
  }

 private:
  /// Only floats can be worked with; a body has at least one.
  void begin(ir::Builder& builder, std::span<const Value> values) {
    std::vector<Value> floats;
    for (const Value& v : values) {
      if (v.dtype() == DType::float64) floats.push_back(v);
    }
    if (floats.empty()) floats.push_back(ops::full(builder, DType::float64, Shape{2}, 0.5));
    start(builder, floats);
  }

  Value step() override {
    if (options_.nesting > 0 && below(3) == 0) return nested();
    if (collectives_ && below(4) == 0) return reduced_over_replicas();
    return RandomProgram::step();
  }

  Value nested() {
    switch (below(5)) {
      case 0:
        return loop();
      case 1:
        return branch();
      case 2:
        return options_.while_loops ? repeated() : loop();
      case 3:
        return again();
      default:
        return mesh_.empty() ? map_over_replicas() : branch();
    }
  }

  // ---- types -----------------------------------------------------------------------------------------------------

  AxisSet all_axes() const {
    AxisSet all;
    for (const auto& axis : mesh_.axes()) all = all.joined({axis.name});
    return all;
  }
  Value varying(const Value& x, const AxisSet& axes) {
    const AxisSet missing = axes.without(x.type().varying);
    return missing.empty() ? x : ops::pvary(x, missing);
  }
  /// A small value, fully varying within a map, so that it may go in and out of any body.
  Value operand(std::int64_t most = 24) {
    Value x = pick();
    for (int tries = 0; tries < 4 && x.shape().size() > most; ++tries) x = pick();
    if (x.shape().size() > most) x = to_scalar(ops::tanh(x));
    return varying(x, all_axes());
  }
  Value of_type(const ArrayType& type) { return varying(ops::sin(pick_like(type.shape)), type.varying); }

  ir::FunctionPtr inner(const std::vector<ArrayType>& inputs, const std::vector<ArrayType>& outputs, bool collectives) {
    NestedOptions options = options_;
    options.nesting -= 1;
    return RandomNestedProgram(next_seed(), options).body(inputs, outputs, mesh_, collectives);
  }

  static std::vector<ArrayType> types_of(std::span<const Value> values) {
    std::vector<ArrayType> types;
    for (const Value& v : values) types.push_back(v.type());
    return types;
  }

  // ---- steps that hold programs ----------------------------------------------------------------------------------

  Value choose(const std::vector<Value>& results) { return results[below(results.size())]; }

  Value loop() {
    const std::int64_t length = below(8) == 0 ? 0 : static_cast<std::int64_t>(1 + below(3));
    std::vector<Value> operands;
    const std::size_t consts = below(3);
    const std::size_t carries = 1 + below(2);
    for (std::size_t i = 0; i < consts + carries; ++i) operands.push_back(operand());
    std::vector<ArrayType> inputs = types_of(operands);
    std::vector<ArrayType> outputs(inputs.begin() + static_cast<std::ptrdiff_t>(consts), inputs.end());
    if (below(2) == 0) {
      const Value x = operand(8);
      inputs.push_back(x.type());
      operands.push_back(ops::broadcast_leading(x, length));
      outputs.push_back(x.type());
    }
    if (below(3) == 0) outputs.push_back({DType::float64, Shape{2}, all_axes()});
    const auto unroll = static_cast<std::int64_t>(1 + below(3));
    const ir::Scan scan{inner(inputs, outputs, collectives_), length, consts, carries, below(2) == 0, unroll};
    std::vector<Value> results = ops::apply(ops::primitives::scan(), operands, scan.attrs());
    if (length == 0) results.erase(results.begin() + static_cast<std::ptrdiff_t>(carries), results.end());  // no ys
    for (const Value& v : results) add(v);
    return ops::sin(choose(results));
  }

  /// 0, 1 or 2, by the value's sign or by its size.
  Value index(const Value& x, std::size_t branches) {
    const Value sum = ops::tanh(to_scalar(x)) * static_cast<double>(branches);
    return ops::convert(ops::floor(ops::abs(sum)), DType::int32);
  }

  Value branch() {
    const std::size_t count = 1 + below(3);
    const std::vector<Value> arguments = {operand(), operand()};
    const std::vector<ArrayType> types = types_of(arguments);
    const std::vector<ArrayType> outputs = {types[0], {DType::float64, Shape{}, all_axes()}};
    ir::Cond cond;
    for (std::size_t i = 0; i < count; ++i) cond.branches.push_back(inner(types, outputs, false));
    std::vector<Value> operands = {index(pick(), count)};
    operands.insert(operands.end(), arguments.begin(), arguments.end());
    const std::vector<Value> results = ops::apply(ops::primitives::cond(), operands, cond.attrs());
    for (const Value& v : results) add(v);
    return choose(results);
  }

  /// While a counter is below a bound that depends on data.
  Value repeated() {
    const Value x = operand();
    const Value bound = ops::convert(ops::floor(ops::abs(ops::sin(to_scalar(x)) * 4.0)), DType::int32);
    const ArrayType counter{DType::int32, Shape{}, all_axes()};
    const Value zero = varying(ops::full(builder(), DType::int32, Shape{}, 0), all_axes());
    ir::WhileLoop loop;
    loop.cond_consts = 1;
    loop.body_consts = 0;
    loop.cond = make_function(
        {bound.type(), counter, x.type()},
        [](ir::Builder&, std::span<const Value> in) { return std::vector{ops::less(in[1], in[0])}; }, mesh_);
    const ir::FunctionPtr update = inner({x.type()}, {x.type()}, false);
    loop.body = make_function(
        {counter, x.type()},
        [&](ir::Builder& b, std::span<const Value> in) {
          const ir::Var next = b.inline_function(*update, std::vector{in[1].var()})[0];
          return std::vector{in[0] + ops::full_like(in[0], 1), Value(b, next)};
        },
        mesh_);
    return ops::apply(ops::primitives::while_loop(), std::vector{bound, zero, x}, loop.attrs())[1];
  }

  /// A part that the backward pass computes again, or one with a rule for its derivative.
  Value again() {
    const std::vector<Value> operands = {operand(), operand()};
    const std::vector<ArrayType> types = types_of(operands);
    const bool is_custom = below(3) == 0;
    const ir::FunctionPtr f = inner(types, {types[0]}, collectives_ && !is_custom);
    const auto attribute = [](const ir::FunctionPtr& function) { return std::shared_ptr<const AttrObject>(function); };
    if (is_custom) {
      return ops::apply(ops::primitives::custom_jvp(), operands,
                        {{"body", attribute(f)},
                         {"jvp", attribute(transform::jvp(f, {true, true}))},
                         {"arguments", std::int64_t{2}}})[0];
    }
    const char* const policies[] = {"nothing_saveable", "everything_saveable", "dots_saveable"};
    return ops::apply(ops::primitives::checkpoint(), operands,
                      {{"body", attribute(f)},
                       {"policy", std::string(policies[below(3)])},
                       {"names", std::vector<std::string>()}})[0];
  }

  Value reduced_over_replicas() {
    const Value x = varying(pick(), all_axes());
    const AxisSet axes = all_axes();
    const double share = 1.0 / static_cast<double>(mesh_.total());
    switch (below(4)) {
      case 0:
        return ops::psum(x, axes) * share;
      case 1:
        return ops::apply_one(ops::primitives::pmax(), {x}, {{"axes", axes.names()}});
      case 2:
        return passed_on(x, axes.names()[0]);
      default: {
        const ir::Var index =
            builder().apply(ops::primitives::axis_index(), std::span<const ir::Var>{}, {{"axis", axes.names()[0]}})[0];
        const Value number = ops::convert(Value(builder(), index), DType::float64);
        return ops::sin(x + ops::broadcast_in_dim(number, x.shape(), {}));
      }
    }
  }

  /// Some replicas send to their successor; the others' successors get zeros.
  Value passed_on(const Value& x, const std::string& axis) {
    std::vector<std::vector<std::int64_t>> pairs;
    const std::int64_t size = mesh_.size(axis, "test");
    for (std::int64_t i = 0; i < size; ++i) {
      if (below(4) != 0) pairs.push_back({i, (i + 1) % size});
    }
    return ops::apply_one(ops::primitives::ppermute(), {x}, {{"axis", axis}, {"pairs", pairs}});
  }

  /// One argument cut along its rows, one replicated; one result cut, one reduced.
  Value map_over_replicas() {
    const std::int64_t rows = 2 * options_.shards;
    const Value x = ops::broadcast_leading(operand(4), rows);
    const Value number = ops::convert(ops::iota(builder(), DType::int32, x.shape(), 0), DType::float64);
    const std::vector<Value> operands = {ops::sin(x + number), operand()};
    MapSpec spec{ir::AxisSizes({{"batch", options_.shards}}), options_.devices, {}, {}};
    std::vector<std::string> cut(static_cast<std::size_t>(x.rank()));
    cut[0] = "batch";
    spec.in = {cut, std::vector<std::string>(static_cast<std::size_t>(operands[1].rank()))};
    spec.out = {cut, {}};
    NestedOptions options = options_;
    options.nesting -= 1;
    const ShardBody shard_body = [&](ir::Builder& b, std::span<const Value> in) {
      const ArrayType local = in[0].type();
      const ir::FunctionPtr f =
          RandomNestedProgram(next_seed(), options)
              .body(types_of(in), {local, {DType::float64, Shape{}, local.varying}}, spec.mesh, true);
      std::vector<Value> results;
      for (const ir::Var v : b.inline_function(*f, std::vector{in[0].var(), in[1].var()})) results.emplace_back(b, v);
      results[1] = ops::psum(results[1], {"batch"});
      return results;
    };
    const std::vector<Value> results = map(operands, spec, shard_body);
    add(results[0]);
    return results[1];
  }

  NestedOptions options_;
  ir::AxisSizes mesh_;
  bool collectives_ = false;
};

inline ir::FunctionPtr random_nested_program(std::uint64_t seed, const NestedOptions& options = {}) {
  return RandomNestedProgram(seed, options).make(options.equations);
}

}  // namespace lockstep::tests
