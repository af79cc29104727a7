#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/values.h"
#include "tests/support/evaluate.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

using ir::Builder;
using ir::Value;
using ops::operator+;
using ops::operator*;
using Layouts = std::vector<std::vector<std::string>>;
using Body = std::function<std::vector<Value>(Builder&, std::span<const Value>)>;

const ir::AxisSizes four({{"batch", 4}});

/// A function of whole arrays that maps `body` over the mesh.
ir::FunctionPtr mapped(const ir::AxisSizes& mesh, const std::vector<ArrayType>& whole, const Layouts& in,
                       const Layouts& out, const Body& body) {
  std::vector<ArrayType> local = whole;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (std::size_t d = 0; d < in[i].size(); ++d) {
      if (in[i][d].empty()) continue;
      const int dim = static_cast<int>(d);
      local[i].shape = local[i].shape.with(dim, local[i].shape[dim] / mesh.size(in[i][d], "test"));
      local[i].varying = local[i].varying.joined({in[i][d]});
    }
  }
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (const auto& axis : mesh.axes()) {
    names.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  const Attrs attrs = {{"body", std::shared_ptr<const AttrObject>(make_function(local, body, mesh))},
                       {"axes", names},
                       {"sizes", sizes},
                       {"in", in},
                       {"out", out}};
  return make_function(whole, [&](Builder&, std::span<const Value> inputs) {
    return ops::apply(ops::primitives::pmap(), inputs, attrs);
  });
}

Value collective(const ir::Primitive& primitive, const Value& x, Attrs attrs) {
  return ops::apply_one(primitive, {x}, std::move(attrs));
}

Attrs over_axis(std::string axis, std::int64_t dim = 0) { return {{"axis", std::move(axis)}, {"dim", dim}}; }

Value axis_index(Builder& builder, const std::string& axis) {
  return {builder, builder.apply(ops::primitives::axis_index(), std::span<const ir::Var>{}, {{"axis", axis}}).front()};
}

/// The cotangent a linear collective hands to its operand.
ir::FunctionPtr transposed(const ir::Primitive& primitive, const ArrayType& x, const ArrayType& y, const Attrs& attrs) {
  return make_function(
      {y},
      [&](Builder& builder, std::span<const Value> inputs) {
        const std::vector<ir::Tangent> operands = {std::nullopt};
        const std::vector<ir::Tangent> cotangents = {inputs[0]};
        const std::vector<ArrayType> x_types = {x}, y_types = {y};
        return std::vector{
            *primitive.derivative.transpose({builder, attrs, operands, x_types, y_types, cotangents})[0]};
      },
      four);
}

const Attrs batch_axes = {{"axes", std::vector<std::string>{"batch"}}};

}  // namespace

TEST_CASE("psum adds halves first, float32 partial sums rounded to float32") {
  const auto sum = [](DType dtype, const std::vector<double>& values) {
    return run_collective("psum", 4, {reference_array({dtype, {4, 1}, {}}, values)}, {{dtype, {1}, {}}}, batch_axes)[0];
  };
  // From left to right it would be 1, exactly 2.
  CHECK(sum(float32, {1e8, 1, -1e8, 1}).floats() == std::vector<double>{0, 0, 0, 0});
  CHECK(sum(float64, {1e8, 1, -1e8, 1}).floats() == std::vector<double>{2, 2, 2, 2});
  // Rounded to bfloat16 after each addition it would be 256 + 1 = 256, then 256 + 1.
  CHECK(sum(bfloat16, {256, 1, 0, 1}).floats() == std::vector<double>{258, 258, 258, 258});
  CHECK(sum(uint8, {200, 100, 0, 1}).integers() == std::vector<std::int64_t>{45, 45, 45, 45});
}

TEST_CASE("a sum over two axes is the sum over all replicas") {
  const ir::AxisSizes mesh({{"batch", 2}, {"model", 2}});
  const auto f = mapped(mesh, {{float64, {2, 2}, {}}}, {{"batch", "model"}}, {{"", ""}, {"batch", ""}},
                        [](Builder&, std::span<const Value> x) {
                          return std::vector{ops::psum(x[0], {"batch", "model"}), ops::psum(x[0], {"model"})};
                        });
  CHECK(evaluate(f, {{1, 10, 100, 1000}}) == std::vector<Elements>{{1111}, {11, 1100}});
}

TEST_CASE("psum_scatter of an n x n plane gives replica i the sum of column i") {
  const auto f =
      mapped(four, {{float64, {4, 4}, {}}}, {{"batch", ""}}, {{"", "batch"}}, [](Builder&, std::span<const Value> x) {
        return std::vector{collective(ops::primitives::psum_scatter(), x[0], over_axis("batch", 1))};
      });
  Elements plane(16);
  for (std::size_t i = 0; i < 16; ++i) plane[i] = static_cast<double>(i);
  CHECK(evaluate(f, {plane}) == std::vector<Elements>{{24, 28, 32, 36}});
}

TEST_CASE("gathers join blocks in replica order along any dimension") {
  const auto f =
      mapped(four, {{float64, {2, 4}, {}}}, {{"", "batch"}}, {{"", ""}, {"", "batch"}},
             [](Builder&, std::span<const Value> x) {
               return std::vector{collective(ops::primitives::all_gather_invariant(), x[0], over_axis("batch", 1)),
                                  collective(ops::primitives::all_gather(), x[0], over_axis("batch", 0))};
             });
  const Elements x = {1, 2, 3, 4, 5, 6, 7, 8};
  // Every replica holds the column [1,5,2,6,3,7,4,8]; four of them side by side.
  Elements columns;
  for (const double row : {1, 5, 2, 6, 3, 7, 4, 8}) columns.insert(columns.end(), 4, row);
  CHECK(evaluate(f, {x}) == std::vector<Elements>{x, columns});
}

TEST_CASE("axis_index counts replicas along its axis") {
  const ir::AxisSizes mesh({{"batch", 2}, {"model", 4}});
  const auto f = mapped(mesh, {{int32, {2, 4}, {}}}, {{"batch", "model"}}, {{"batch", "model"}},
                        [](Builder& builder, std::span<const Value> x) {
                          const Value index = axis_index(builder, "batch") * 10.0 + axis_index(builder, "model");
                          return std::vector{x[0] + ops::reshape(index, {1, 1})};
                        });
  CHECK(evaluate(f, {Elements(8, 0)}) == std::vector<Elements>{{0, 1, 2, 3, 10, 11, 12, 13}});
}

TEST_CASE("replicas that tie share the tangent of pmax and pmin") {
  const auto f = mapped(four, {{float64, {12}, {}}, {float64, {12}, {}}}, {{"batch"}, {"batch"}}, {{""}, {""}},
                        [](Builder& builder, std::span<const Value> inputs) {
                          std::vector<Value> results;
                          for (const ir::Primitive* op : {&ops::primitives::pmax(), &ops::primitives::pmin()}) {
                            const std::vector<Value> x = {inputs[0]};
                            const std::vector<Value> y = {ops::apply(*op, x, batch_axes)};
                            const std::vector<ir::Tangent> dx = {inputs[1]};
                            results.push_back(*op->derivative.jvp({builder, batch_axes, x, y, dx})[0]);
                          }
                          return results;
                        });
  const Elements x = {5, 1, 2, /**/ 3, 1, 7, /**/ 5, 1, 7, /**/ 4, 1, 7};
  const Elements dx = {1, 4, 100, /**/ 10, 8, 3, /**/ 7, 16, 6, /**/ 20, 32, 30};
  CHECK(evaluate(f, {x, dx}) == std::vector<Elements>{{4, 15, 13}, {10, 15, 100}});
}

TEST_CASE("the transpose of pvary is one psum, that of psum none") {
  const ArrayType invariant{float64, {3}, {}};
  const ArrayType varying{float64, {3}, {"batch"}};
  const auto of_pvary = transposed(ops::primitives::pvary(), invariant, varying, batch_axes);
  CHECK(count(*of_pvary, "psum") == 1);
  CHECK(of_pvary->equations().size() == 1);
  const auto of_psum = transposed(ops::primitives::psum(), varying, invariant, batch_axes);
  CHECK(count(*of_psum, "pvary") == 1);
  CHECK(of_psum->equations().size() == 1);
}

TEST_CASE("gathers and psum_scatter transpose to each other, all_gather_invariant to the own slice") {
  const ArrayType part{float64, {2, 3}, {"batch"}};
  const ArrayType whole{float64, {8, 3}, {"batch"}};
  const ArrayType same{float64, {8, 3}, {}};
  CHECK(count(*transposed(ops::primitives::all_gather(), part, whole, over_axis("batch")), "psum_scatter") == 1);
  CHECK(count(*transposed(ops::primitives::psum_scatter(), whole, part, over_axis("batch")), "all_gather") == 1);
  const auto slice = transposed(ops::primitives::all_gather_invariant(), part, same, over_axis("batch"));
  CHECK(slice->output_types()[0] == part);
  for (const ir::Equation& equation : slice->equations()) CHECK_FALSE(equation.primitive->traits.collective);
  const auto f =
      mapped(four, {{float64, {4}, {}}}, {{""}}, {{"batch"}}, [](Builder& builder, std::span<const Value> ct) {
        const std::vector<ir::Tangent> operands = {std::nullopt}, cotangents = {ct[0]};
        const std::vector<ArrayType> x = {{float64, {1}, {"batch"}}}, y = {{float64, {4}, {}}};
        const Attrs attrs = over_axis("batch");
        return std::vector{*ops::primitives::all_gather_invariant().derivative.transpose(
            {builder, attrs, operands, x, y, cotangents})[0]};
      });
  CHECK(evaluate(f, {{3, 1, 4, 1.5}}) == std::vector<Elements>{{3, 1, 4, 1.5}});
}

TEST_CASE("a wait is the collective it completes") {
  const auto f = mapped(
      four, {{float64, {16}, {}}}, {{"batch"}}, {{""}, {""}, {""}, {"batch"}}, [](Builder&, std::span<const Value> x) {
        const Value started = ops::apply_one(ops::primitives::collective_start(), {x[0]});
        const auto wait = [&](const std::string& op, const Attrs& attrs) {
          return collective(ops::primitives::collective_wait(), started, attrs.with("op", op));
        };
        return std::vector{wait("psum", batch_axes), wait("pmin", batch_axes),
                           wait("all_gather_invariant", over_axis("batch")), wait("psum_scatter", over_axis("batch"))};
      });
  const Elements x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const Elements sum = {28, 32, 36, 40};
  CHECK(evaluate(f, {x}) == std::vector<Elements>{sum, {1, 2, 3, 4}, x, sum});
}

TEST_CASE("what a wait's derivatives emit is the collective itself") {
  const ArrayType varying{float64, {3}, {"batch"}};
  const Attrs attrs = batch_axes.with("op", std::string("psum"));
  const auto f = transposed(ops::primitives::collective_wait(), varying, {float64, {3}, {}}, attrs);
  CHECK(count(*f, "pvary") == 1);
  CHECK_THROWS_WITH_AS(transposed(ops::primitives::collective_wait(), varying, {float64, {3}, {}},
                                  attrs.with("op", std::string("pmax"))),
                       doctest::Contains("pmax is not linear"), TraceError);
}

}  // namespace lockstep::tests
