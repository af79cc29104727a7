#include "engine/ir/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <lockstep/error.h>

#include "engine/ir/blocks.h"

namespace lockstep::ir {

namespace {

using PerShard = std::vector<BufferPtr>;

constexpr std::array<std::string_view, 10> names = {
    "psum",         "pmax",       "pmin",     "all_gather", "all_gather_invariant",
    "psum_scatter", "all_to_all", "ppermute", "axis_index", "collective_wait"};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

class Collective {
 public:
  Collective(const CollectiveCall& call, const Shards& shards, const Backend& backend)
      : call_(call), shards_(shards), backend_(backend), type_{call.input.dtype, call.input.shape, {}} {}

  // Folds over one axis after the other; afterwards the values vary along what is left.
  PerShard reduce(std::string_view kernel_name, const AxisSet& axes, PerShard values) const {
    const BoundKernel kernel(backend_, kernel_name, {}, {type_, type_}, {type_});
    const auto combine = [&](const BufferPtr& a, const BufferPtr& b) { return kernel.run(std::array{a, b}).front(); };
    AxisSet varying = call_.input.varying;
    const std::vector<AxisSizes::Axis>& mesh = shards_.axes().axes();
    for (auto axis = mesh.rbegin(); axis != mesh.rend(); ++axis) {
      if (!axes.contains(axis->name)) continue;
      varying = varying.without({axis->name});
      values = shards_.share<BufferPtr>(varying, [&](std::int64_t shard) {
        PerShard members;
        for (const std::int64_t member : shards_.group(shard, axis->name)) members.push_back(values[index(member)]);
        return fold_tree(std::span<const BufferPtr>(members), combine);
      });
    }
    return values;
  }

  PerShard convert(const PerShard& values, const AxisSet& varying, DType from, DType to) const {
    if (from == to) return values;
    const BoundKernel kernel(backend_, "convert", Attrs{{"dtype", to}}, {ArrayType{from, type_.shape, {}}},
                             {ArrayType{to, type_.shape, {}}});
    return shards_.share<BufferPtr>(
        varying, [&](std::int64_t shard) { return kernel.run(std::span(&values[index(shard)], 1)).front(); });
  }

  PerShard sum(const AxisSet& axes, const PerShard& operands) {
    const DType dtype = call_.input.dtype;
    const DType wide = accumulation_dtype(dtype);
    PerShard values = convert(operands, call_.input.varying, dtype, wide);
    type_.dtype = wide;
    values = reduce("add", axes, std::move(values));
    type_.dtype = dtype;
    return convert(values, call_.input.varying.without(axes), wide, dtype);
  }

  PerShard gather(const std::string& axis, int dim, const PerShard& operands) const {
    return shards_.share<BufferPtr>(call_.input.varying.without({axis}), [&](std::int64_t shard) {
      BufferPtr result = allocate(backend_, call_.output);
      for (const std::int64_t member : shards_.group(shard, axis)) {
        place_block(block(call_.output.shape, type_.shape, dim, shards_.coordinate(member, axis)),
                    operands[index(member)]->data(), result->data());
      }
      return result;
    });
  }

  PerShard scatter(const std::string& axis, int dim, const PerShard& sums) const {
    return shards_.share<BufferPtr>(call_.output.varying, [&](std::int64_t shard) {
      BufferPtr result = allocate(backend_, call_.output);
      cut_block(block(type_.shape, call_.output.shape, dim, shards_.coordinate(shard, axis)),
                sums[index(shard)]->data(), result->data());
      return result;
    });
  }

  PerShard all_to_all(const std::string& axis, int split, int concat, const PerShard& operands) const {
    const std::int64_t size = shards_.axes().size(axis, call_.op);
    const Shape part = type_.shape.with(split, type_.shape[split] / size);
    return shards_.share<BufferPtr>(call_.output.varying, [&](std::int64_t shard) {
      BufferPtr result = allocate(backend_, call_.output);
      const BufferPtr piece = allocate(backend_, {type_.dtype, part, {}});
      for (const std::int64_t member : shards_.group(shard, axis)) {
        cut_block(block(type_.shape, part, split, shards_.coordinate(shard, axis)), operands[index(member)]->data(),
                  piece->data());
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
      if (pair != pairs.end()) return operands[index(shards_.group(shard, axis)[index(pair->at(0))])];
      BufferPtr zeros = allocate(backend_, call_.output);
      std::memset(zeros->data(), 0, index(call_.output.nbytes()));
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
    Shape offset(std::vector<std::int64_t>(index(whole.rank())));
    return {whole, part, offset.with(dim, number * part[dim]), size_of(type_.dtype)};
  }

  const CollectiveCall& call_;
  const Shards& shards_;
  const Backend& backend_;
  ArrayType type_;
};

AxisSet axes_of(const Attrs& attrs) { return AxisSet(attrs.get<std::vector<std::string>>("axes")); }

}  // namespace

DType accumulation_dtype(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype;
}

bool is_collective(std::string_view op) { return std::ranges::find(names, op) != names.end(); }

std::vector<BufferPtr> run_collective(const CollectiveCall& call, const Shards& shards,
                                      std::span<const BufferPtr> operands, const Backend& backend) {
  const std::string_view op = call.op;
  if (op == "collective_wait") {
    const std::string started = call.attrs.get<std::string>("op");
    const Attrs attrs = call.attrs.without("op");
    return run_collective({started, attrs, call.input, call.output}, shards, operands, backend);
  }
  Collective collective(call, shards, backend);
  const PerShard values(operands.begin(), operands.end());
  if (op == "psum") return collective.sum(axes_of(call.attrs), values);
  if (op == "pmax") return collective.reduce("maximum", axes_of(call.attrs), values);
  if (op == "pmin") return collective.reduce("minimum", axes_of(call.attrs), values);
  if (!is_collective(op)) throw IrError("run_collective: " + std::string(op) + " is no collective");
  const auto& axis = call.attrs.get<std::string>("axis");
  if (op == "axis_index") return collective.axis_index(axis);
  if (op == "ppermute") {
    return collective.permute(axis, call.attrs.get<std::vector<std::vector<std::int64_t>>>("pairs"), values);
  }
  if (op == "all_to_all") {
    return collective.all_to_all(axis, static_cast<int>(call.attrs.get<std::int64_t>("split")),
                                 static_cast<int>(call.attrs.get<std::int64_t>("concat")), values);
  }
  const int dim = normalize_axis(call.attrs.get<std::int64_t>("dim"), call.input.shape.rank(), op);
  if (op == "psum_scatter") return collective.scatter(axis, dim, collective.sum({axis}, values));
  return collective.gather(axis, dim, values);
}

}  // namespace lockstep::ir
