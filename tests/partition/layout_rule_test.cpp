#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "tests/partition/partitioned.h"
#include "tests/support/expect_error.h"

namespace lockstep::tests {
namespace {

using partition::Move;
using partition::Partitioned;
using partition::ValueLayout;

const ir::AxisSizes mesh({{"data", 2}, {"model", 2}});

ValueLayout cut(std::vector<ir::CutAxes> cuts) { return {std::move(cuts), {}}; }

Elements counted(std::int64_t n) {
  Elements elements;
  for (std::int64_t i = 0; i < n; ++i) elements.push_back(static_cast<double>((7 * i) % 11) - 5);
  return elements;
}

/// The moves of a function whose values are checked on the way.
std::vector<Move> moves_of(const std::vector<ArrayType>& types, const std::vector<ValueLayout>& in,
                           const ShardBody& body, std::vector<std::optional<ValueLayout>> out = {},
                           const partition::Options& options = {}) {
  const ir::FunctionPtr f = make_function(types, body);
  out.resize(f->outputs().size());
  const Partitioned parts = partition::partition(f, mesh, in, out, options);
  std::vector<Elements> inputs;
  for (const ArrayType& type : types) inputs.push_back(counted(type.size()));
  CHECK(evaluate(mapped_over(*f, mesh, parts), inputs) == evaluate(f, inputs));
  return parts.moves;
}

std::vector<std::string> ops_of(const std::vector<Move>& moves) {
  std::vector<std::string> names;
  for (const Move& move : moves) names.push_back(move.op + " " + to_string(move.axes));
  return names;
}

using Names = std::vector<std::string>;

ArrayType f64(const Shape& shape) { return {DType::float64, shape, {}}; }

ir::Value matmul(const ir::Value& a, const ir::Value& b) {
  using Pairs = std::vector<std::vector<std::int64_t>>;
  return ops::apply_one(ops::primitives::dot_general(), {a, b},
                        {{"contract", Pairs{{a.rank() - 1}, {0}}}, {"batch", Pairs{{}, {}}}});
}

TEST_CASE("two dense layers, cut by columns and then by rows, take one psum") {
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{
        ops::tanh(matmul(ops::maximum(matmul(x[0], x[1]), ops::full_like(matmul(x[0], x[1]), 0)), x[2]))};
  };
  const std::vector<Move> moves = moves_of({f64({4, 6}), f64({6, 8}), f64({8, 2})},
                                           {cut({{"data"}, {}}), cut({{}, {"model"}}), cut({{"model"}, {}})}, body);
  CHECK(ops_of(moves) == Names{"psum model"});
  CHECK(moves[0].bytes == 2 * 2 * 8);
  CHECK(moves[0].made_by == "dot_general");
  CHECK(moves[0].read_by == "tanh");
  CHECK(moves[0].from == "[data, -] summed over model");
  CHECK(moves[0].to == "[data, -]");
}

TEST_CASE("a sum that several read is reduced once") {
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    const ir::Value g = matmul(ops::transpose(x[0], {1, 0}), x[1]);
    return std::vector{g * 0.5, ops::mul(g, g)};
  };
  CHECK(ops_of(moves_of({f64({4, 6}), f64({4, 2})}, {cut({{"data"}, {}}), cut({{"data"}, {}})}, body)) ==
        Names{"psum data"});
}

TEST_CASE("it is scattered where its readers are cut") {
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    const ir::Value g = matmul(ops::transpose(x[0], {1, 0}), x[1]);
    return std::vector{ops::add(x[2], g * 0.5), ops::add(x[2], ops::mul(g, g))};
  };
  const std::vector<Move> moves = moves_of({f64({4, 6}), f64({4, 2}), f64({6, 2})},
                                           {cut({{"data"}, {}}), cut({{"data"}, {}}), cut({{"data"}, {}})}, body);
  CHECK(ops_of(moves) == Names{"psum_scatter data"});
}

TEST_CASE("sums pass through what is linear, and are reduced late") {
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    const ir::Value a = ops::reduce_sum(x[0], {0});
    const ir::Value b = ops::reduce_sum(ops::sin(x[0]) * 0.0, {0});
    return std::vector{ops::exp(ops::sub(a * 3.0, b))};
  };
  CHECK(ops_of(moves_of({f64({4, 6})}, {cut({{"data"}, {}})}, body)) == Names{"psum data"});
}

TEST_CASE("the larger operand keeps its layout; a dimension that an axis left is gathered, or exchanged") {
  const auto sum = [](ir::Builder&, std::span<const ir::Value> x) { return std::vector{ops::add(x[0], x[1])}; };
  const ArrayType square = f64({4, 4});
  CHECK(ops_of(moves_of({square, square}, {cut({{"data"}, {}}), cut({{}, {"data"}})}, sum)) ==
        Names{"all_to_all data"});
  CHECK(ops_of(moves_of({square, square}, {cut({{"data"}, {}}), cut({{}, {}})}, sum)).empty());
  const auto out = std::optional(cut({{}, {}}));
  CHECK(ops_of(moves_of({square, square}, {cut({{"data"}, {"model"}}), cut({{}, {}})}, sum, {out})) ==
        Names{"all_gather_invariant data", "all_gather_invariant model"});
}

TEST_CASE("a table cut by rows is looked up where the rows are; its gradient stays there") {
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    const ir::Value rows = ops::apply_one(ops::primitives::gather_rows(), {x[0], x[1]});
    const ir::Value back =
        ops::apply_one(ops::primitives::scatter_add_rows(), {x[1], rows * 2.0}, {{"rows", std::int64_t{8}}});
    return std::vector{ops::sin(rows), ops::add(x[0], back)};
  };
  const std::vector<Move> moves =
      moves_of({f64({8, 3}), {DType::int32, {4}, {}}}, {cut({{"model"}, {}}), cut({{}})}, body);
  CHECK(ops_of(moves) == Names{"psum model"});
}

TEST_CASE("a maximum over a cut dimension is one pmax") {
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    return ops::apply(ops::primitives::reduce_max(), x, {{"axes", ops::Dims{1}}});
  };
  CHECK(ops_of(moves_of({f64({4, 6})}, {cut({{"data"}, {"model"}})}, body)) == Names{"pmax model"});
}

TEST_CASE("reshape keeps cuts of what it splits and merges from the outside") {
  const auto merged = [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{ops::sin(ops::reshape(x[0], Shape{8, 6}))};
  };
  CHECK(moves_of({f64({4, 2, 6})}, {cut({{"data"}, {}, {"model"}})}, merged).empty());
  CHECK(ops_of(moves_of({f64({4, 2, 6})}, {cut({{}, {"data"}, {}})}, merged)) == Names{"all_gather_invariant data"});
}

TEST_CASE("explicit layouts make a collective that nobody asked for an error that proposes a reshard") {
  const partition::Options options{.is_explicit = true, .input_names = {}, .output_names = {}};
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{ops::sin(matmul(x[0], x[1]))};
  };
  const std::vector<ValueLayout> in = {cut({{}, {"model"}}), cut({{"model"}, {}})};
  expect_error<MeshError>(
      [&] {
        moves_of({f64({4, 6}), f64({6, 2})}, in, body, {}, options);
      },
      "sin needs what dot_general made", "psum along \"model\" (64 bytes)",
      "write reshard(x, layout) with the layout [-, -] there");
  const auto asked = [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{ops::sin(ops::apply_one(ops::primitives::with_layout(), {matmul(x[0], x[1])},
                                               {{"layout", std::vector<std::string>{"", ""}}, {"both_ways", true}}))};
  };
  CHECK(ops_of(moves_of({f64({4, 6}), f64({6, 2})}, in, asked, {}, options)) == Names{"psum model"});
  // Where bits are to be the same on all meshes sums are reduced where they come to be: for those who ask, all the same.
  partition::Options blocks = options;
  blocks.contraction_blocks = 2;
  expect_error<MeshError>(
      [&] {
        moves_of({f64({4, 6}), f64({6, 2})}, in, body, {}, blocks);
      },
      "what reads it needs what dot_general made", "write reshard(x, layout) with the layout [-, -] there");
  CHECK(ops_of(moves_of({f64({4, 6}), f64({6, 2})}, in, asked, {}, blocks)) == Names{"psum model"});
}

TEST_CASE("explicit layouts: a maximum over a cut dimension is asked for by a reshard of it") {
  const partition::Options options{.is_explicit = true, .input_names = {}, .output_names = {}};
  const auto largest = [](bool is_asked) {
    return [is_asked](ir::Builder&, std::span<const ir::Value> x) {
      ir::Value y = ops::apply_one(ops::primitives::reduce_max(), {x[0]}, {{"axes", ops::Dims{1}}});
      if (is_asked) {
        y = ops::apply_one(ops::primitives::with_layout(), {y},
                           {{"layout", std::vector<std::string>{"data"}}, {"both_ways", true}});
      }
      return std::vector{ops::sin(y)};
    };
  };
  const std::vector<ValueLayout> in = {cut({{"data"}, {"model"}})};
  expect_error<MeshError>(
      [&] {
        moves_of({f64({4, 6})}, in, largest(false), {}, options);
      },
      "what reads it needs what reduce_max made",
      "laid out as [data], but it lies as [data] largest over model: that takes a pmax along \"model\"",
      "write reshard(x, layout) with the layout [data] there");
  CHECK(ops_of(moves_of({f64({4, 6})}, in, largest(true), {}, options)) == Names{"pmax model"});
}

TEST_CASE("explicit layouts: a sum that stays one along another axis is proposed whole") {
  const partition::Options options{.is_explicit = true, .input_names = {}, .output_names = {}};
  const auto body = [](ir::Builder&, std::span<const ir::Value> x) {
    const auto total = [](const ir::Value& v) {
      return ops::apply_one(ops::primitives::reduce_sum(), {v}, {{"axes", ops::Dims{0}}});
    };
    return std::vector{ops::sin(ops::add(total(x[0]), total(x[1])))};
  };
  expect_error<MeshError>(
      [&] {
        moves_of({f64({4, 3}), f64({4, 3})}, {cut({{"data", "model"}, {}}), cut({{"data"}, {}})}, body, {}, options);
      },
      "laid out as [-] summed over data", "write reshard(x, layout) with the layout [-] there");
}

TEST_CASE("explicit layouts: what a loop's body moves in each iteration has to be asked for, too") {
  const auto loop = [](bool is_asked) {
    return [is_asked](ir::Builder&, std::span<const ir::Value> x) {
      const auto body = [is_asked](ir::Builder&, std::span<const ir::Value> v) {
        ir::Value y = matmul(v[1], v[0]);
        if (is_asked) {
          y = ops::apply_one(ops::primitives::with_layout(), {y},
                             {{"layout", std::vector<std::string>{"", ""}}, {"both_ways", true}});
        }
        return std::vector{y};
      };
      ir::Scan scan;
      scan.body = make_function({x[0].type(), x[1].type()}, body);
      scan.consts = scan.carries = 1;
      scan.length = 2;
      return ops::apply(ops::primitives::scan(), x, scan.attrs());
    };
  };
  const partition::Options options{.is_explicit = true, .input_names = {}, .output_names = {}};
  const std::vector<ValueLayout> in = {cut({{"model"}, {}}), cut({{}, {}})};
  expect_error<MeshError>(
      [&] {
        moves_of({f64({6, 6}), f64({2, 6})}, in, loop(false), {}, options);
      },
      "scan needs what dot_general made", "write reshard(x, layout) with the layout [-, -] there");
  const std::vector<Move> moves = moves_of({f64({6, 6}), f64({2, 6})}, in, loop(true), {}, options);
  CHECK(ops_of(moves) == Names{"psum model"});
  CHECK(moves[0].times == 2);
}

}  // namespace
}  // namespace lockstep::tests
