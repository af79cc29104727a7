#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "tests/support/evaluate.h"

// Functions whose one equation is a pmap: written as formulas for one shard, or drawn from a seed.
namespace lockstep::tests {

using ops::operator+;
using ops::operator-;
using ops::operator*;

using Layouts = std::vector<std::vector<std::string>>;
using ShardBody = std::function<std::vector<ir::Value>(ir::Builder&, std::span<const ir::Value>)>;

struct MapSpec {
  ir::AxisSizes mesh;
  int devices = 1;
  Layouts in;
  Layouts out;
};

inline std::vector<std::string> device_names(int count) {
  std::vector<std::string> names;
  for (int d = 0; d < count; ++d) names.push_back("cpu:" + std::to_string(d));
  return names;
}

inline ArrayType local_type(const ArrayType& whole, const std::vector<std::string>& layout, const ir::AxisSizes& mesh) {
  ArrayType local = whole;
  for (std::size_t d = 0; d < layout.size(); ++d) {
    const int dim = static_cast<int>(d);
    local.shape =
        local.shape.with(dim, whole.shape[dim] / ops::collective::blocks_of_dimension(layout[d], mesh, "test"));
    local.varying = local.varying.joined(AxisSet(ops::collective::axes_of_dimension(layout[d])));
  }
  return local;
}

/// One pmap equation on whole arrays.
inline std::vector<ir::Value> map(std::span<const ir::Value> inputs, const MapSpec& spec, const ShardBody& body) {
  std::vector<ArrayType> local;
  for (std::size_t i = 0; i < inputs.size(); ++i) local.push_back(local_type(inputs[i].type(), spec.in[i], spec.mesh));
  std::vector<std::string> axes;
  std::vector<std::int64_t> sizes;
  for (const auto& axis : spec.mesh.axes()) {
    axes.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  return ops::apply(ops::primitives::pmap(), inputs,
                    {{"body", std::shared_ptr<const AttrObject>(make_function(local, body, spec.mesh))},
                     {"axes", axes},
                     {"sizes", sizes},
                     {"devices", device_names(spec.devices)},
                     {"in", spec.in},
                     {"out", spec.out}});
}

/// A verified function of whole arrays that maps `body` over the shards.
inline ir::FunctionPtr mapped(const std::vector<ArrayType>& types, const MapSpec& spec, const ShardBody& body) {
  return make_function(types, [&](ir::Builder&, std::span<const ir::Value> inputs) { return map(inputs, spec, body); });
}

/// Draws shard bodies: element-wise ops, moves, reductions and collectives on varying and invariant float32 values.
class RandomBody {
 public:
  RandomBody(std::uint64_t seed, ir::AxisSizes mesh, int equations)
      : bits_(seed), mesh_(std::move(mesh)), equations_(equations) {}

  std::vector<ir::Value> operator()(ir::Builder& builder, std::span<const ir::Value> inputs) {
    builder_ = &builder;
    pool_.assign(inputs.begin(), inputs.end());
    for (int i = 0; i < equations_; ++i) pool_.push_back(step());
    std::vector<ir::Value> results;
    for (std::size_t i = pool_.size() - 3; i < pool_.size(); ++i) results.push_back(invariant(pool_[i]));
    results.push_back(fully_varying(pool_[pool_.size() - 4]));
    return results;
  }

 private:
  using Value = ir::Value;

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits_() % n); }
  Value pick() { return pool_[pool_.size() - 1 - below(std::min<std::size_t>(pool_.size(), 6))]; }
  AxisSet all_axes() const {
    AxisSet all;
    for (const auto& axis : mesh_.axes()) all = all.joined({axis.name});
    return all;
  }
  Value apply(const ir::Primitive& primitive, std::initializer_list<Value> inputs, Attrs attrs) {
    return ops::apply_one(primitive, inputs, std::move(attrs));
  }
  Value invariant(const Value& x) {
    const AxisSet& varying = x.type().varying;
    return varying.empty() ? x : ops::psum(x, varying);
  }
  /// A vector that varies along every axis.
  Value fully_varying(const Value& x) {
    const Value flat = ops::reshape(x, Shape{x.shape().size()});
    const AxisSet missing = all_axes().without(x.type().varying);
    return missing.empty() ? flat : ops::pvary(flat, missing);
  }
  Value like(const Value& a, const Value& b) {
    if (a.shape() == b.shape()) return b;
    ops::Dims axes;
    for (int i = 0; i < b.rank(); ++i) axes.push_back(i);
    const Value scalar = b.rank() == 0 ? b : ops::reduce_sum(b, axes);
    return ops::broadcast_in_dim(ops::sin(scalar), a.shape(), {});
  }

  Value step() {
    const Value x = pick();
    switch (below(11)) {
      case 0:
        return ops::sin(x);
      case 1:
        return ops::add(x, like(x, pick()));
      case 2:
        return ops::sub(x, like(x, pick()));
      case 3:
        return ops::mul(ops::sin(x), like(x, pick()));
      case 4:
        return x * 0.5;
      case 5:
        return turned(x);
      case 6:
        return shrunk(x);
      case 7:
        return ops::add(x, ops::broadcast_in_dim(coordinate(), x.shape(), {}));
      default:
        return collective(x);
    }
  }
  Value coordinate() {
    const auto& axis = mesh_.axes()[below(mesh_.axes().size())];
    const ir::Var index =
        builder_->apply(ops::primitives::axis_index(), std::span<const ir::Var>{}, {{"axis", axis.name}}).front();
    return ops::convert({*builder_, index}, DType::float32);
  }
  Value turned(const Value& x) {
    if (x.rank() < 2) return -x;
    ops::Dims permutation;
    for (int i = x.rank(); i-- > 0;) permutation.push_back(i);
    return ops::transpose(x, permutation);
  }
  Value shrunk(const Value& x) {
    if (x.rank() == 0) return ops::cos(x);
    if (below(2) == 0) return ops::broadcast_reduced(ops::reduce_sum(x, {0}), x.shape(), {0});
    ops::Dims start(static_cast<std::size_t>(x.rank())), ones(start.size(), 1);
    ops::Dims limit = x.shape().to_vector();
    if (limit[0] > 1) start[0] = 1;
    const Value part = ops::slice(x, start, limit, ones);
    return ops::add(ops::broadcast_reduced(ops::reduce_sum(part, {0}), x.shape(), {0}), x);
  }
  Value collective(const Value& x) {
    const AxisSet& varying = x.type().varying;
    if (varying.empty()) return ops::sin(x);
    const std::string axis = varying.names()[below(varying.size())];
    switch (below(8)) {
      case 6:
        return exchanged(x, axis);
      case 7:
        return permuted(x, axis);
      case 0:
        return ops::psum(x, varying) * 0.125;
      case 1:
        return ops::psum(x, {axis}) * 0.25;
      case 2:
        return apply(ops::primitives::pmax(), {x}, {{"axes", std::vector<std::string>{axis}}});
      case 3:
        return apply(ops::primitives::pmin(), {x}, {{"axes", varying.names()}});
      case 4:
        return gathered(x, axis);
      default:
        return scattered(x, axis);
    }
  }
  Value gathered(const Value& x, const std::string& axis) {
    if (x.rank() == 0 || x.shape().size() > 100) return ops::psum(x, {axis}) * 0.25;
    const auto& op = below(2) == 0 ? ops::primitives::all_gather() : ops::primitives::all_gather_invariant();
    return apply(op, {x},
                 {{"axis", axis}, {"dim", static_cast<std::int64_t>(below(static_cast<std::size_t>(x.rank())))}});
  }
  /// Whole rows of blocks change hands, along any two dimensions.
  Value exchanged(const Value& x, const std::string& axis) {
    for (int d = 0; d < x.rank(); ++d) {
      if (x.shape()[d] % mesh_.size(axis, "test") != 0) continue;
      const auto concat = static_cast<std::int64_t>(below(static_cast<std::size_t>(x.rank())));
      return apply(ops::primitives::all_to_all(), {x},
                   {{"axis", axis}, {"split", std::int64_t{d}}, {"concat", concat}});
    }
    return permuted(x, axis);
  }
  /// Some replicas send to their successor; the others' successors get zeros.
  Value permuted(const Value& x, const std::string& axis) {
    std::vector<std::vector<std::int64_t>> pairs;
    const std::int64_t size = mesh_.size(axis, "test");
    for (std::int64_t i = 0; i < size; ++i) {
      if (below(4) != 0) pairs.push_back({i, (i + 1) % size});
    }
    return apply(ops::primitives::ppermute(), {x}, {{"axis", axis}, {"pairs", pairs}});
  }
  Value scattered(const Value& x, const std::string& axis) {
    for (int d = 0; d < x.rank(); ++d) {
      if (x.shape()[d] % mesh_.size(axis, "test") != 0) continue;
      return apply(ops::primitives::psum_scatter(), {x}, {{"axis", axis}, {"dim", std::int64_t{d}}}) * 0.25;
    }
    return ops::psum(x, {axis}) * 0.25;
  }

  std::mt19937_64 bits_;
  ir::AxisSizes mesh_;
  int equations_;
  ir::Builder* builder_ = nullptr;
  std::vector<Value> pool_;
};

/// A random body over four shards on two devices, of an array cut along its rows and a whole one; the last result is cut.
inline ir::FunctionPtr random_mapped(std::uint64_t seed) {
  MapSpec spec{ir::AxisSizes({{"batch", 4}}), 2, {{"batch", ""}, {"", ""}}, {{}, {}, {}, {"batch"}}};
  const std::vector<ArrayType> types = {{DType::float32, Shape{8, 24}, {}}, {DType::float32, Shape{3, 8}, {}}};
  const auto body = [&](ir::Builder& b, std::span<const ir::Value> x) {
    std::vector<ir::Value> results = RandomBody(seed, spec.mesh, 16)(b, x);
    for (std::size_t i = 0; i < 3; ++i) spec.out[i].assign(static_cast<std::size_t>(results[i].rank()), "");
    return results;
  };
  make_function({local_type(types[0], spec.in[0], spec.mesh), types[1]}, body, spec.mesh);
  return mapped(types, spec, body);
}

}  // namespace lockstep::tests
