#include <doctest/doctest.h>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/transform/transforms.h"
#include "tests/support/derivative_checks.h"
#include "tests/transform/bodies.h"

// Gradients of whole models against differences.
namespace lockstep::tests {

namespace {

using Pairs = std::vector<std::vector<std::int64_t>>;

ArrayType f64(const Shape& shape) { return {DType::float64, shape, {}}; }

ir::Value matmul(const ir::Value& a, const ir::Value& b) {
  return ops::apply_one(ops::primitives::dot_general(), {a, b},
                        {{"contract", Pairs{{1}, {0}}}, {"batch", Pairs{{}, {}}}});
}

ir::Value bias_added(const ir::Value& x, const ir::Value& bias) {
  return ops::add(x, ops::broadcast_in_dim(bias, x.shape(), {x.rank() - 1}));
}

ir::Value relu(const ir::Value& x) { return ops::maximum(x, ops::full_like(x, 0)); }

/// Mean over rows of logsumexp(logits) - logit of the label.
ir::Value cross_entropy(const ir::Value& logits, const ir::Value& labels) {
  const Shape& shape = logits.shape();
  const ir::Value largest = ops::apply_one(ops::primitives::reduce_max(), {logits}, {{"axes", ops::Dims{1}}});
  const ir::Value shifted = ops::sub(logits, ops::broadcast_reduced(ops::stop_gradient(largest), shape, {1}));
  const ir::Value picked =
      ops::apply_one(ops::primitives::take_along_axis(), {shifted, ops::reshape(labels, Shape{shape[0], 1})},
                     {{"axis", std::int64_t{1}}});
  const ir::Value losses = ops::sub(ops::log(ops::reduce_sum(ops::exp(shifted), {1})), ops::reduce_sum(picked, {1}));
  return ops::mul(ops::reduce_sum(losses, {0}),
                  ops::full(logits.builder(), DType::float64, Shape{}, 1.0 / static_cast<double>(shape[0])));
}

/// The gradient of the first result with respect to the float inputs, in one random direction, against differences.
void check_gradient(const ir::FunctionPtr& f, const std::vector<Elements>& x) {
  std::vector<bool> active;
  for (const ArrayType& type : f->input_types()) active.push_back(is_float(type.dtype));
  std::vector<Elements> dx = random_arrays(f->input_types(), 77);
  std::vector<Elements> direction;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    if (active[i]) {
      direction.push_back(dx[i]);
    } else {
      dx[i].assign(dx[i].size(), 0);
    }
  }
  const auto results = evaluate(transform::value_and_grad(f, active), x);
  const std::vector<Elements> gradient(results.end() - static_cast<std::ptrdiff_t>(direction.size()), results.end());
  const double slope = central_difference(f, x, dx, 1e-4)[0][0];
  CHECK(inner_product(gradient, direction) == doctest::Approx(slope).epsilon(1e-8));
  CHECK(std::abs(slope) > 1e-3);
}

}  // namespace

TEST_CASE("an MLP with softmax cross-entropy") {
  const auto f =
      make_function({f64({5, 4}), f64({4, 6}), f64({6}), f64({6, 3}), f64({3}), {DType::int32, Shape{5}, {}}},
                    [](ir::Builder&, Inputs x) {
                      const ir::Value hidden = ops::tanh(bias_added(matmul(x[0], x[1]), x[2]));
                      return Results{cross_entropy(bias_added(matmul(hidden, x[3]), x[4]), x[5])};
                    });
  std::vector<Elements> x = random_arrays(f->input_types(), 5);
  x[5] = {0, 2, 1, 1, 0};
  check_gradient(f, x);
}

TEST_CASE("a convolutional network with max and mean pooling") {
  const auto f = make_function(
      {f64({2, 6, 6, 2}), f64({3, 3, 2, 4}), f64({4}), f64({12, 3}), {DType::int32, Shape{2}, {}}},
      [](ir::Builder&, Inputs x) {
        const Attrs conv{{"strides", ops::Dims{1, 1}},
                         {"padding", Pairs{{1, 1}, {1, 1}}},
                         {"dilation", ops::Dims{1, 1}},
                         {"groups", std::int64_t{1}}};
        const Attrs window{
            {"window", ops::Dims{2, 2}}, {"strides", ops::Dims{2, 2}}, {"padding", Pairs{{0, 0}, {0, 0}}}};
        ir::Value h = relu(bias_added(ops::apply_one(ops::primitives::conv(), {x[0], x[1]}, conv), x[2]));
        h = ops::apply(ops::primitives::window_max(), std::vector{h}, window)[0];
        const Attrs row{{"window", ops::Dims{3, 1}}, {"strides", ops::Dims{1, 1}}, {"padding", Pairs{{0, 0}, {0, 0}}}};
        h = ops::apply_one(ops::primitives::window_sum(), {h}, row);
        return Results{cross_entropy(matmul(ops::reshape(h, Shape{2, 12}), x[3]), x[4])};
      });
  std::vector<Elements> x = random_arrays(f->input_types(), 6);
  x[4] = {2, 0};
  check_gradient(f, x);
}

TEST_CASE("layer normalisation") {
  const auto f = make_function({f64({4, 8}), f64({8}), f64({8})}, [](ir::Builder& builder, Inputs x) {
    const auto mean = [&](const ir::Value& v) {
      const ir::Value sum = ops::reduce_sum(v, {1});
      return ops::broadcast_reduced(ops::mul(sum, ops::full_like(sum, 1.0 / 8)), v.shape(), {1});
    };
    const ir::Value centred = ops::sub(x[0], mean(x[0]));
    const ir::Value variance = mean(ops::mul(centred, centred));
    const ir::Value normal = ops::mul(centred, ops::rsqrt(ops::add(variance, ops::full_like(variance, 1e-5))));
    const ir::Value y = bias_added(ops::mul(normal, ops::broadcast_in_dim(x[1], normal.shape(), {1})), x[2]);
    const ir::Value probe = ops::sin(ops::convert(ops::iota(builder, DType::int32, Shape{4, 8}, 1), DType::float64));
    return Results{ops::reduce_sum(ops::mul(ops::tanh(y), probe), {0, 1})};
  });
  check_gradient(f, random_arrays(f->input_types(), 7));
}

}  // namespace lockstep::tests
