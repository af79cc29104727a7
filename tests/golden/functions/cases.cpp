#include "tests/golden/functions/cases.h"

#include <algorithm>
#include <map>

#include <doctest/doctest.h>

#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "engine/core/stable_hash.h"
#include "tests/support/samples.h"

namespace lockstep::tests::functions {
namespace {

constexpr std::uint64_t line_operand_seed = 101;
constexpr std::uint64_t line_cotangent_seed = 307;

/// As doubles; integers too large for one are given by their distance from the end.
std::vector<double> edge_values(DType dtype) {
  if (dtype == bool_) return {0, 1};
  if (is_integer(dtype)) return {0, 1, 2, 3, 7, -1, -2, -3, -7, 100, 127, -128, 2147483647, -2147483648};
  return {nan, inf, -inf, 0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -3.5, 7, 1e-30, -1e30, 1e30};
}

/// The numbers of an operand, and for integers their extremes.
ir::ReferenceArray drawn_numbers(const Input& input, const ArrayType& type, std::uint64_t seed) {
  if (!input.edges && input.values.empty()) {
    return draw(ir::SampleInput{type, input.low, input.high, input.distinct}, {}, seed);
  }
  const std::vector<double> values = input.edges ? edge_values(type.dtype) : input.values;
  ir::ReferenceArray array = ir::reference_zeros(type);
  REQUIRE(static_cast<std::size_t>(type.size()) % std::max<std::size_t>(values.size(), 1) == 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(type.size()); ++i) {
    const double value = values[i % values.size()];
    if (is_float(type.dtype)) {
      array.floats()[i] = value;
    } else if (is_complex(type.dtype)) {
      array.complexes()[i] = {value, values[(i * 7 + 3) % values.size()]};
    } else {
      array.integers()[i] = static_cast<std::int64_t>(value);
    }
  }
  return array;
}

Array operand(const Input& input, DType dtype, bool batched, std::uint64_t seed) {
  ArrayType type{input.dtype.value_or(dtype), input.shape, {}};
  if (input.edges) {
    const auto count = static_cast<std::int64_t>(edge_values(type.dtype).size());
    type.shape = input.shape.rank() == 2 ? Shape{count, 1} : Shape{count};
  }
  if (batched) type.shape = type.shape.insert(0, batch_size);
  return from_bytes(type, ir::reference_to_bytes(drawn_numbers(input, type, seed)));
}

Arrays operands(const Line& line, DType dtype, bool batched) {
  Arrays arrays;
  std::uint64_t seed = line_operand_seed + (batched ? 1 : 0);
  for (const Input& input : line.inputs) arrays.push_back(operand(input, dtype, batched, seed++ * 7919));
  return arrays;
}

Arrays inexact_arrays(const Arrays& arrays) {
  Arrays chosen;
  std::ranges::copy_if(arrays, std::back_inserter(chosen), [](A array) { return is_inexact(array.dtype()); });
  return chosen;
}

Run forward(const Line& line, DType dtype) {
  Run run{Way::forward, operands(line, dtype, false), {}};
  run.results = line.call(run.inputs);
  return run;
}

Run vjp_run(const Case& c, const Run& forward) {
  Run run{Way::vjp, forward.inputs, {}};
  std::uint64_t seed = line_cotangent_seed;
  for (const Array& result : inexact_arrays(forward.results)) {
    run.inputs.push_back(operand(drawn(result.shape(), -1, 1), result.dtype(), false, seed++ * 7919));
  }
  const auto count = static_cast<std::ptrdiff_t>(forward.inputs.size());
  run.results = jit([&](const Arrays& all) {
    const Arrays x(all.begin(), all.begin() + count), cotangents(all.begin() + count, all.end());
    Arrays moving;
    for (const std::size_t i : c.active) moving.push_back(x[i]);
    const auto of_active = [&](const Arrays& active) {
      Arrays given = x;
      for (std::size_t i = 0; i < active.size(); ++i) given[c.active[i]] = active[i];
      return inexact_arrays(c.line->call(given));
    };
    return std::get<0>(vjp(of_active, moving).second(cotangents));
  })(run.inputs);
  return run;
}

Run vmap_run(const Line& line, DType dtype) {
  Run run{Way::vmap, operands(line, dtype, true), {}};
  run.results = jit(vmap([&](const Arrays& x) { return line.call(x); }))(run.inputs);
  return run;
}

}  // namespace

std::string_view name(Way way) { return way == Way::forward ? "forward" : way == Way::vjp ? "vjp" : "vmap"; }

std::uint64_t Case::hash() const {
  StableHash hash;
  hash.add(std::string_view(line->jax));
  for (const Run& run : runs) {
    hash.add(functions::name(run.way));
    for (const Array& input : run.inputs) {
      hash.add(to_string(input.type()));
      const std::vector<std::byte> bytes = input.to_bytes();
      hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    for (const Array& result : run.results) hash.add(to_string(result.type()));
  }
  return hash.value();
}

Case case_of(const Place& place) {
  const auto& [held, number, dtype] = place;
  const Line& line = *held;
  Case c{&line, dtype, std::string(line.function) + "/" + std::to_string(number), {}, {}};
  if (!line.inputs.empty()) c.name += "/" + std::string(lockstep::name(dtype));
  c.runs.push_back(forward(line, dtype));
  bool on_edges = false;
  for (std::size_t i = 0; i < line.inputs.size(); ++i) {
    on_edges = on_edges || line.inputs[i].edges;
    const auto& none = line.options.underived;
    if (is_inexact(c.runs[0].inputs[i].dtype()) && std::ranges::find(none, i) == none.end()) c.active.push_back(i);
  }
  const bool moves = !c.active.empty() && !inexact_arrays(c.runs[0].results).empty();
  if (moves && !on_edges && line.options.no_derivative.empty()) {
    c.runs.push_back(vjp_run(c, c.runs[0]));
  }
  // How a function batches depends on no dtype.
  if (!line.inputs.empty() && dtype == line.options.dtypes[0] && line.options.no_vmap.empty()) {
    c.runs.push_back(vmap_run(line, dtype));
  }
  return c;
}

std::vector<Place> places() {
  std::map<std::string_view, std::size_t> counts;
  std::vector<Place> all;
  for (const Line& line : table()) {
    const std::size_t number = counts[line.function]++;
    const std::vector<DType> dtypes = line.inputs.empty() ? std::vector<DType>{float32} : line.options.dtypes;
    for (const DType dtype : dtypes) all.push_back({&line, number, dtype});
  }
  return all;
}

}  // namespace lockstep::tests::functions
