#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/sequential_map.h>
#include <lockstep/transforms.h>

#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ir/control_flow.h"
#include "engine/ir/rewrite.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/trace/trace.h"
#include "engine/transform/in_turn.h"

namespace lockstep {

const std::string microbatch_axis = "microbatch";

namespace detail {

namespace {

/// What of a leaf is cut, or was: a leaf of rank 0 is the same for all parts.
bool has_rows(const Array& leaf) { return leaf.ndim() > 0; }

std::vector<Array> leaves_with_rows(const api::FlatArguments& flat) {
  std::vector<Array> leaves;
  std::ranges::copy_if(flat.leaves(), std::back_inserter(leaves), has_rows);
  return leaves;
}

void check_parts_of_rows(const api::FlatArguments& rows, const SequentialMapOptions& options) {
  if (options.axis.empty()) {
    throw ValueError("sequential_map: the axis has no name; give one, {.axis = \"part\"} say, for psum and axis_index");
  }
  if (options.parts < 1) {
    throw ValueError(fmt::format("sequential_map: parts is {}; it must be at least 1", options.parts));
  }
  const auto rows_of = [&](const Array& leaf) {
    if (!options.stacked) return leaf.dim(0) % options.parts == 0 ? leaf.dim(0) : -1;
    return leaf.ndim() > 1 && leaf.dim(0) == options.parts ? leaf.dim(1) : -1;
  };
  const std::vector<Array> cut = leaves_with_rows(rows);
  const std::string expected =
      options.stacked ? fmt::format("[{}, rows, ...] with one number of rows", options.parts)
                      : fmt::format("one number of rows (dimension 0) that {} parts share equally", options.parts);
  if (cut.empty()) {
    throw ShapeError(fmt::format("sequential_map: no leaf of the argument has rows; expected leaves of {}", expected));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Array& leaf = rows.leaves()[i];
    if (!has_rows(leaf) || (rows_of(leaf) >= 0 && rows_of(leaf) == rows_of(cut[0]))) continue;
    throw ShapeError(
        fmt::format("sequential_map: {} is {}; expected leaves of {}", rows.path(i), to_string(leaf.type()), expected));
  }
}

/// [parts * n, ...] as [parts, n, ...].
Array stacked(const Array& x, const SequentialMapOptions& options) {
  if (options.stacked) return x;
  const Shape shape = x.shape().with(0, x.dim(0) / options.parts).insert(0, options.parts);
  return reshape(x, shape.to_vector());
}

/// The part's number and its rows.
std::vector<ArrayType> types_of_part(const std::vector<Array>& operands, const SequentialMapOptions& options) {
  std::vector<ArrayType> types = {{DType::int32, {}, {options.axis}}};
  for (const Array& operand : operands) {
    ArrayType type = operand.type();
    type.shape = type.shape.erase(0);
    type.varying = type.varying.joined({options.axis});
    types.push_back(std::move(type));
  }
  return types;
}

constexpr std::size_t most_body_equations = 16;
constexpr std::int64_t most_elements = 4096, most_parts = 16;

bool is_little(const ir::Scan& scan) {
  const ir::Function& body = *scan.body;
  const bool is_short = scan.length <= most_parts && body.equations().size() <= most_body_equations;
  const auto is_small = [](const ArrayType& type) { return type.size() <= most_elements; };
  const auto is_plain = [](const ir::Equation& equation) { return ir::sub_functions(equation.attrs).empty(); };
  return is_short && std::ranges::all_of(body.types(), is_small) && std::ranges::all_of(body.equations(), is_plain);
}

/// Without the loop where there is little to compute: sums of rows' weights then are what every process makes for itself,
/// and a step meets once.
ir::FunctionPtr written_out(const ir::FunctionPtr& function) {
  const auto rule = [](ir::Builder& builder, const ir::Equation& equation,
                       std::span<const ir::Var> inputs) -> std::optional<std::vector<ir::Var>> {
    if (equation.primitive != &ops::primitives::scan()) return std::nullopt;
    ir::Scan scan = ir::Scan::of(equation.attrs);
    if (!is_little(scan)) return std::nullopt;
    scan.unroll = scan.length;
    return builder.apply(*equation.primitive, inputs, scan.attrs());
  };
  return ir::rewrite(*function, rule);
}

}  // namespace

Tree sequential_map(const std::function<Tree(const Tree&)>& function, const Tree& rows,
                    const SequentialMapOptions& options) {
  const api::FlatArguments flat({rows});
  check_parts_of_rows(flat, options);
  std::vector<Array> operands = leaves_with_rows(flat);
  for (Array& operand : operands) operand = stacked(operand, options);
  const std::size_t count = operands.size();
  const std::vector<ArrayType> types = types_of_part(operands, options);
  Tree result;
  const auto body = [&](std::span<const Array> inputs) {
    tracing::set_axis_index(options.axis, inputs[0]);
    std::vector<Array> leaves;
    std::size_t next = 1;
    for (const Array& leaf : flat.leaves()) leaves.push_back(has_rows(leaf) ? inputs[next++] : leaf);
    result = function(flat.rebuild(leaves)[0]);
    return result.leaves();
  };
  const tracing::Traced traced = tracing::trace(body, types, ir::AxisSizes({{options.axis, options.parts}}));
  using namespace ops::control_flow;
  const ir::Function& all = *traced.function;
  const ir::FunctionPtr needed = pick(all, places(0, all.inputs().size()), places(0, all.outputs().size()),
                                      options.effects ? Effects::kept : Effects::left_out);
  ir::FunctionPtr in_turn = transform::in_turn(needed, count, options.axis);
  if (!options.effects) in_turn = written_out(in_turn);
  return api::skeleton(result).unflatten(api::call(in_turn, api::joined(std::move(operands), traced.captured)));
}

}  // namespace detail
}  // namespace lockstep
