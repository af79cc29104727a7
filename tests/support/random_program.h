#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "tests/support/evaluate.h"

// Straight-line programs drawn from a seed, smooth almost everywhere, with values that stay small.
namespace lockstep::tests {

using ops::operator+;
using ops::operator-;
using ops::operator*;

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : bits_(seed) {}
  virtual ~RandomProgram() = default;

  /// Two or three float64 inputs; two float64 results, the first one a scalar.
  ir::FunctionPtr make(int equations) {
    std::vector<ArrayType> types;
    for (std::size_t i = 0, n = 2 + below(2); i < n; ++i) types.push_back({DType::float64, random_shape(), {}});
    return make_function(types, [&](ir::Builder& builder, std::span<const ir::Value> inputs) {
      start(builder, inputs);
      for (int i = 0; i < equations; ++i) pool_.push_back(step());
      const ir::Value last = pool_.back();
      return std::vector{to_scalar(ops::sin(last)), pick()};
    });
  }

 protected:
  using Value = ir::Value;

  void start(ir::Builder& builder, std::span<const Value> inputs) {
    builder_ = &builder;
    pool_.assign(inputs.begin(), inputs.end());
  }
  std::uint64_t next_seed() { return bits_(); }
  const std::vector<Value>& pool() const { return pool_; }
  void add(const Value& v) { pool_.push_back(v); }
  ir::Builder& builder() { return *builder_; }

  virtual Value step() {
    switch (below(4)) {
      case 0:
        return unary(pick());
      case 1:
        return binary();
      case 2:
        return moving(pick());
      default:
        return reducing(pick());
    }
  }

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits_() % n); }
  Shape random_shape() {
    Shape shape;
    for (std::size_t i = 0, n = below(4); i < n; ++i) shape.append(static_cast<std::int64_t>(1 + below(3)));
    return shape;
  }
  /// A value, recent ones more often.
  Value pick() {
    const std::size_t n = pool_.size();
    return below(2) == 0 ? pool_[below(n)] : pool_[n - 1 - below(std::min<std::size_t>(n, 3))];
  }
  Value to_scalar(const Value& x) {
    ops::Dims axes;
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
    return axes.empty() ? x : ops::reduce_sum(x, axes);
  }
  /// A value of a given shape: one of the pool, or the sum of one, broadcast.
  Value pick_like(const Shape& shape) {
    const Value x = pick();
    if (x.shape() == shape) return x;
    for (const Value& v : pool_) {
      if (v.shape() == shape && below(2) == 0) return v;
    }
    return ops::broadcast_in_dim(ops::tanh(to_scalar(x)), shape, {});
  }
  Value apply(const ir::Primitive& primitive, std::initializer_list<Value> inputs, Attrs attrs) {
    return ops::apply_one(primitive, inputs, std::move(attrs));
  }

 private:
  Value unary(const Value& x) {
    switch (below(12)) {
      case 0:
        return ops::sin(x);
      case 1:
        return ops::cos(x);
      case 2:
        return ops::tanh(x);
      case 3:
        return ops::logistic(x);
      case 4:
        return ops::erf(x);
      case 5:
        return -x;
      case 6:
        return ops::exp(ops::sin(x));
      case 7:
        return ops::log(ops::sin(x) + 2.0);
      case 8:
        return ops::sqrt(ops::cos(x) + 1.5);
      case 9:
        return ops::rsqrt(ops::sin(x) + 1.5);
      case 10:
        return ops::expm1(ops::tanh(x));
      default:
        return ops::log1p(ops::tanh(x) * 0.5);
    }
  }

  Value binary() {
    const Value a = pick();
    const Value b = pick_like(a.shape());
    switch (below(8)) {
      case 0:
        return ops::sin(ops::add(a, b));
      case 1:
        return ops::sub(a, ops::tanh(b));
      case 2:
        return ops::sin(ops::mul(a, b));
      case 3:
        return ops::div(ops::sin(a), ops::cos(b) + 2.0);
      case 4:
        return ops::maximum(a, b);
      case 5:
        return ops::minimum(ops::sin(a), b);
      case 6:
        return ops::pow(ops::sin(a) + 2.0, ops::tanh(b));
      default:
        return ops::select(ops::greater(a, b), ops::sin(a), ops::sin(b));
    }
  }

  Value moving(const Value& x) {
    const int rank = x.rank();
    if (rank == 0) return ops::broadcast_in_dim(x, Shape{2, 2}, {});
    const std::size_t dim = below(static_cast<std::size_t>(rank));
    ops::Dims low(static_cast<std::size_t>(rank)), limit = x.shape().to_vector(), ones(low.size(), 1);
    switch (below(7)) {
      case 0:
        return ops::reshape(x, Shape{x.shape().size()});
      case 1: {
        ops::Dims permutation;
        for (int i = rank; i-- > 0;) permutation.push_back(i);
        for (int i = rank; i-- > 1;)
          std::swap(permutation[static_cast<std::size_t>(i)], permutation[below(static_cast<std::size_t>(i) + 1)]);
        return ops::transpose(x, permutation);
      }
      case 2:
        limit[dim] = std::max<std::int64_t>(1, limit[dim] - 1);
        return ops::slice(x, low, limit, ones);
      case 3: {
        ops::Dims high = low, interior = low;
        high[dim] = 1;
        interior[dim] = static_cast<std::int64_t>(below(2));
        return x.shape().size() > 32 ? -x : ops::pad(x, 0.25, low, high, interior);
      }
      case 4: {
        const std::vector<Value> both{x, pick_like(x.shape())};
        return x.shape().size() > 32 ? ops::sin(x) : ops::concatenate(both, static_cast<int>(dim));
      }
      case 5:
        return apply(ops::primitives::reverse(), {x}, {{"dims", ops::Dims{static_cast<std::int64_t>(dim)}}});
      default: {
        const Value rows = ops::iota(*builder_, DType::int32, Shape{2}, 0);
        return apply(ops::primitives::gather_rows(), {x, rows}, {});
      }
    }
  }

  Value reducing(const Value& x) {
    const int rank = x.rank();
    if (rank == 0) return unary(x);
    const auto dim = static_cast<std::int64_t>(below(static_cast<std::size_t>(rank)));
    switch (below(4)) {
      case 0:
        return ops::sin(ops::reduce_sum(x, {dim}));
      case 1:
        return apply(ops::primitives::reduce_max(), {x}, {{"axes", ops::Dims{dim}}});
      case 2:
        return ops::tanh(apply(ops::primitives::reduce_prod(), {x}, {{"axes", ops::Dims{dim}}}));
      default:
        return product(x, dim);
    }
  }

  /// x contracted with a value that has a dimension of the same extent (with itself at the least).
  Value product(const Value& x, std::int64_t dim) {
    using Pairs = std::vector<std::vector<std::int64_t>>;
    for (int tries = 0; tries < 8; ++tries) {
      const Value y = pick();
      for (int i = 0; i < y.rank(); ++i) {
        if (y.shape()[i] != x.shape()[static_cast<int>(dim)] || x.rank() + y.rank() > 5) continue;
        return ops::sin(
            apply(ops::primitives::dot_general(), {x, y}, {{"contract", Pairs{{dim}, {i}}}, {"batch", Pairs{{}, {}}}}));
      }
    }
    return ops::sin(apply(ops::primitives::dot_general(), {x, x},
                          {{"contract", Pairs{{dim}, {dim}}}, {"batch", all_but(x.rank(), dim)}}));
  }
  static std::vector<std::vector<std::int64_t>> all_but(int rank, std::int64_t dim) {
    ops::Dims rest;
    for (int i = 0; i < rank; ++i) {
      if (i != dim) rest.push_back(i);
    }
    return {rest, rest};
  }

  std::mt19937_64 bits_;
  ir::Builder* builder_ = nullptr;
  std::vector<Value> pool_;
};

inline ir::FunctionPtr random_program(std::uint64_t seed, int equations = 12) {
  return RandomProgram(seed).make(equations);
}

}  // namespace lockstep::tests
