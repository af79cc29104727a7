#include "engine/api/inspection/non_finite.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/parallel.h>
#include <lockstep/processes.h>

#include "engine/api/inspection/lint.h"
#include "engine/api/transforms/runtime.h"
#include "engine/eval/eval.h"
#include "engine/ir/primitive.h"

namespace lockstep {

NonFiniteError::~NonFiniteError() = default;

namespace api {

namespace {

/// What an array of floats holds.
struct Contents {
  std::int64_t nans = 0;
  std::int64_t infs = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  std::optional<std::int64_t> first_nan, first_inf;  ///< Places in row-major order.

  void add(std::int64_t at, double x) {
    if (std::isnan(x) && !first_nan) first_nan = at;
    if (std::isinf(x) && !first_inf) first_inf = at;
    nans += std::isnan(x) ? 1 : 0;
    infs += std::isinf(x) ? 1 : 0;
    if (std::isnan(x)) return;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  bool has(const DebugOptions& wanted) const { return (wanted.nans && nans > 0) || (wanted.infs && infs > 0); }
};

Contents contents_of(const eval::HostArray& array) {
  Contents contents;
  const ir::ReferenceArray values = ir::reference_from_bytes(array.type, eval::host_bytes(array));
  std::int64_t at = 0;
  if (is_float(array.type.dtype)) {
    for (const double x : values.floats()) contents.add(at++, x);
  } else if (is_inexact(array.type.dtype)) {
    for (const std::complex<double>& z : values.complexes()) {
      contents.add(at, z.real());
      contents.add(at++, z.imag());
    }
  } else if (array.type.dtype != DType::key) {
    for (const std::int64_t x : values.integers()) contents.add(at++, static_cast<double>(x));
  }
  return contents;
}

bool holds_wanted(const eval::HostArray& array, const DebugOptions& wanted) {
  return is_inexact(array.type.dtype) && contents_of(array).has(wanted);
}

/// Of what lies cut, in this process' blocks.
bool holds_wanted(const Array& array, const DebugOptions& wanted) {
  if (!is_cut(array)) return holds_wanted(host_array(array), wanted);
  return std::ranges::any_of(local_blocks(array),
                             [&](const ArrayBlock& block) { return holds_wanted(host_array(block.values), wanted); });
}

/// Whether a process has found something: where results lie cut, each has others, and all search together.
bool found_by_any(bool found, std::span<const Array> results) {
  const std::shared_ptr<Processes>& processes = world();
  if (processes->size() == 1 || std::ranges::none_of(results, is_cut)) return found;
  const std::array<std::byte, 1> own = {std::byte{found}};
  std::vector<std::byte> all(static_cast<std::size_t>(processes->size()));
  processes->all_gather(own, all, {"search for NaN"});
  return std::ranges::find(all, std::byte{1}) != all.end();
}

/// "2 NaN (first at [3,0])": row 3, where the first dimension is a batch's.
std::string count_of(const Contents& contents, const Shape& shape, const DebugOptions& wanted) {
  const bool nans = wanted.nans && contents.nans > 0;
  std::string text = nans ? fmt::format("{} NaN", contents.nans) : fmt::format("{} infinite", contents.infs);
  if (shape.rank() == 0) return text;
  std::int64_t at = nans ? *contents.first_nan : *contents.first_inf;
  std::vector<std::int64_t> place(static_cast<std::size_t>(shape.rank()));
  for (std::size_t d = place.size(); d-- > 0;) {
    const std::int64_t extent = shape.dim(static_cast<int>(d));
    place[d] = at % extent;
    at /= extent;
  }
  return text + fmt::format(" (first at [{}])", fmt::join(place, ","));
}

std::string place_of_run(const eval::EquationRun& run) {
  const ir::Provenance& from = run.equation.provenance;
  std::string text = from.backward ? "backward" : "forward";
  if (from.scope != nullptr && !from.scope->empty()) text += fmt::format(", layer '{}'", *from.scope);
  if (run.replicas > 1) text += fmt::format(", replica {} of {}", run.replica, run.replicas);
  for (const std::int64_t i : run.iterations) text += fmt::format(", iteration {}", i);
  return text;
}

std::string operands_of(const eval::EquationRun& run) {
  std::string text;
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const Contents contents = contents_of(run.inputs[i]);
    text += fmt::format("{}operand {}, {}, lies in [{}, {}]", i == 0 ? "; " : ", ", i, to_string(run.inputs[i].type),
                        contents.low, contents.high);
  }
  return text;
}

std::string known_traps(const ir::FunctionPtr& function) {
  std::string text;
  for (const std::string& trap : lint(function, function->inputs().size())) text += "; " + trap;
  return text;
}

}  // namespace

void check_finite(const ir::FunctionPtr& function, const std::vector<Array>& arguments, std::span<const Array> results,
                  const DebugOptions& options) {
  const auto found = [&](const Array& array) { return holds_wanted(array, options); };
  if (!found_by_any(std::ranges::any_of(results, found), results)) return;
  std::vector<eval::HostArray> inputs;
  for (const Array& argument : arguments) {
    inputs.push_back(host_array(is_cut(argument) ? gather(argument) : argument));
  }
  const auto observer = [&](const eval::EquationRun& run) {
    const auto held = [&](const eval::HostArray& array) { return holds_wanted(array, options); };
    if (std::ranges::any_of(run.inputs, held)) return;
    const auto made = std::ranges::find_if(run.outputs, held);
    if (made == run.outputs.end()) return;
    const detail::CallSite op(run.equation.provenance.at);  // the error names its line and not the step's
    throw NonFiniteError(fmt::format("{} ({}) gave {} in {}{}{}", run.equation.primitive->name, place_of_run(run),
                                     count_of(contents_of(*made), made->type.shape, options), to_string(made->type),
                                     operands_of(run), run.equation.provenance.backward ? known_traps(function) : ""));
  };
  eval::eval(*function, inputs, plain_backend(), observer);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!holds_wanted(inputs[i], options)) continue;
    throw NonFiniteError(fmt::format("the input {} {} holds {}; no op made one", i, to_string(inputs[i].type),
                                     count_of(contents_of(inputs[i]), inputs[i].type.shape, options)));
  }
}

}  // namespace api

}  // namespace lockstep
