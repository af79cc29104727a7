#include "engine/eval/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <lockstep/error.h>

#include "engine/core/fold_tree.h"
#include "engine/eval/blocks.h"
#include "engine/ir/exchange.h"

namespace lockstep::eval {

namespace {

using ir::PerShard;

std::size_t unsigned_index(std::int64_t i) { return static_cast<std::size_t>(i); }

class Exchanger {
 public:
  Exchanger(const CollectiveCall& call, const Shards& shards, const Backend& backend)
      : call_(call),
        exchange_(call.primitive.collective),
        shards_(shards),
        backend_(backend),
        type_{call.input.dtype, call.input.shape, {}} {}

  // Folds over one axis after the other; afterwards the values vary along what is left.
  PerShard fold(const AxisSet& axes, PerShard values) const {
    const BoundKernel kernel(backend_, exchange_.combine().name, {}, {type_, type_}, {type_});
    const auto combine = [&](const BufferPtr& a, const BufferPtr& b, TreeNode) {
      return kernel.run(std::array{a, b}).front();
    };
    AxisSet varying = call_.input.varying;
    const std::vector<ir::AxisSizes::Axis>& mesh = shards_.axes().axes();
    for (auto axis = mesh.rbegin(); axis != mesh.rend(); ++axis) {
      if (!axes.contains(axis->name)) continue;
      varying = varying.without({axis->name});
      values = shards_.share<BufferPtr>(varying, [&](std::int64_t shard) {
        PerShard members;
        for (const std::int64_t member : shards_.group(shard, axis->name))
          members.push_back(values[unsigned_index(member)]);
        return fold_tree<BufferPtr>(
            0, std::ssize(members), [&](std::int64_t i, TreeNode) { return members[unsigned_index(i)]; }, combine);
      });
    }
    return values;
  }

  PerShard convert(const PerShard& values, const AxisSet& varying, DType from, DType to) const {
    if (from == to) return values;
    const BoundKernel kernel(backend_, exchange_.convert().name, Attrs{{"dtype", to}},
                             {ArrayType{from, type_.shape, {}}}, {ArrayType{to, type_.shape, {}}});
    return shards_.share<BufferPtr>(
        varying, [&](std::int64_t shard) { return kernel.run(std::span(&values[unsigned_index(shard)], 1)).front(); });
  }

  PerShard reduce(const AxisSet& axes, const PerShard& operands) {
    const DType dtype = call_.input.dtype;
    const DType wide = exchange_.convert == nullptr ? dtype : ir::accumulation_dtype(dtype);
    PerShard values = convert(operands, call_.input.varying, dtype, wide);
    type_.dtype = wide;
    values = fold(axes, std::move(values));
    type_.dtype = dtype;
    return convert(values, call_.input.varying.without(axes), wide, dtype);
  }

  PerShard gather(const std::string& axis, int dim, const PerShard& operands) const {
    return shards_.share<BufferPtr>(call_.input.varying.without({axis}), [&](std::int64_t shard) {
      BufferPtr result = allocate(backend_, call_.output);
      for (const std::int64_t member : shards_.group(shard, axis)) {
        place_block(block(call_.output.shape, type_.shape, dim, shards_.coordinate(member, axis)),
                    operands[unsigned_index(member)]->data(), result->data());
      }
      return result;
    });
  }

  PerShard scatter(const std::string& axis, int dim, const PerShard& sums) const {
    return shards_.share<BufferPtr>(call_.output.varying, [&](std::int64_t shard) {
      BufferPtr result = allocate(backend_, call_.output);
      cut_block(block(type_.shape, call_.output.shape, dim, shards_.coordinate(shard, axis)),
                sums[unsigned_index(shard)]->data(), result->data());
      return result;
    });
  }

  PerShard all_to_all(const ir::AllToAll& attrs, const PerShard& operands) const {
    const std::string& axis = attrs.axis;
    const int split = static_cast<int>(attrs.split), concat = static_cast<int>(attrs.concat);
    const std::int64_t size = shards_.axes().size(axis, call_.primitive.name);
    const Shape part = type_.shape.with(split, type_.shape[split] / size);
    return shards_.share<BufferPtr>(call_.output.varying, [&](std::int64_t shard) {
      BufferPtr result = allocate(backend_, call_.output);
      const BufferPtr piece = allocate(backend_, {type_.dtype, part, {}});
      for (const std::int64_t member : shards_.group(shard, axis)) {
        cut_block(block(type_.shape, part, split, shards_.coordinate(shard, axis)),
                  operands[unsigned_index(member)]->data(), piece->data());
        place_block(block(call_.output.shape, part, concat, shards_.coordinate(member, axis)), piece->data(),
                    result->data());
      }
      return result;
    });
  }

  PerShard permute(const std::string& axis, const std::vector<std::vector<std::int64_t>>& pairs,
                   const PerShard& operands) const {
    return shards_.share<BufferPtr>(call_.output.varying, [&](std::int64_t shard) {
      const std::int64_t receiver = shards_.coordinate(shard, axis);
      const auto pair = std::ranges::find_if(pairs, [&](const auto& p) { return p.at(1) == receiver; });
      if (pair != pairs.end()) return operands[unsigned_index(shards_.group(shard, axis)[unsigned_index(pair->at(0))])];
      BufferPtr zeros = allocate(backend_, call_.output);
      std::memset(zeros->data(), 0, unsigned_index(call_.output.nbytes()));
      return zeros;
    });
  }

  PerShard axis_index(const std::string& axis) const {
    return shards_.share<BufferPtr>({axis}, [&](std::int64_t shard) {
      BufferPtr result = allocate(backend_, call_.output);
      const auto value = static_cast<std::int32_t>(shards_.coordinate(shard, axis));
      std::memcpy(result->data(), &value, sizeof(value));
      return result;
    });
  }

 private:
  Block block(const Shape& whole, const Shape& part, int dim, std::int64_t number) const {
    Shape offset(std::vector<std::int64_t>(unsigned_index(whole.rank())));
    return {whole, part, offset.with(dim, number * part[dim]), size_of(type_.dtype)};
  }

  const CollectiveCall& call_;
  const ir::Collective& exchange_;
  const Shards& shards_;
  const Backend& backend_;
  ArrayType type_;
};

}  // namespace

std::vector<BufferPtr> run_collective(const CollectiveCall& call, const Shards& shards,
                                      std::span<const BufferPtr> operands, const Backend& backend) {
  const ir::Primitive& exchanged = ir::exchanged_by(call.primitive, call.attrs);
  if (&exchanged != &call.primitive) {
    const Attrs attrs = call.attrs.without("op");
    return run_collective({exchanged, attrs, call.input, call.output}, shards, operands, backend);
  }
  Exchanger exchanger(call, shards, backend);
  const PerShard values(operands.begin(), operands.end());
  const auto axis = [&] { return call.attrs.get<std::string>("axis"); };
  const auto dim = [&] {
    return normalize_axis(call.attrs.get<std::int64_t>("dim"), call.input.shape.rank(), exchanged.name);
  };
  switch (exchanged.collective.exchange) {
    case ir::Exchange::reduce:
      return exchanger.reduce(AxisSet(call.attrs.get<std::vector<std::string>>("axes")), values);
    case ir::Exchange::reduce_scatter:
      return exchanger.scatter(axis(), dim(), exchanger.reduce({axis()}, values));
    case ir::Exchange::gather:
      return exchanger.gather(axis(), dim(), values);
    case ir::Exchange::all_to_all:
      return exchanger.all_to_all(ir::AllToAll::of(call.attrs), values);
    case ir::Exchange::permute:
      return exchanger.permute(axis(), call.attrs.get<std::vector<std::vector<std::int64_t>>>("pairs"), values);
    case ir::Exchange::index:
      return exchanger.axis_index(axis());
    case ir::Exchange::none:
      break;
  }
  throw IrError("run_collective: " + exchanged.name + " is no collective");
}

}  // namespace lockstep::eval
