#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/backend.h>
#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "tests/golden/ops/differences.h"
#include "tests/support/max_isa.h"

// docs/ops.md: one row per op, made from the ops themselves.
namespace lockstep::tests::golden {
namespace {

const std::filesystem::path docs = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "../docs";

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// ---- dtypes

using Dtypes = std::set<DType>;

/// Whether the op's rule takes the sample with another dtype for all operands of the dtype of operand `i`.
bool takes(const ir::Primitive& op, const ir::Sample& sample, std::size_t i, DType dtype) {
  std::vector<ArrayType> types;
  for (const ir::SampleInput& input : sample.inputs) {
    types.push_back(input.type);
    if (input.type.dtype == sample.inputs[i].type.dtype) types.back().dtype = dtype;
  }
  try {
    ir::infer_types(op, types, sample.attrs, sample.axes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// "float complex int uint bool key", and what does not fill a kind by name.
std::string kinds(Dtypes dtypes) {
  static const std::vector<std::pair<std::string, Dtypes>> table = {
      {"float", {DType::float16, DType::bfloat16, DType::float32, DType::float64}},
      {"complex", {DType::complex64, DType::complex128}},
      {"int", {DType::int8, DType::int16, DType::int32, DType::int64}},
      {"uint", {DType::uint8, DType::uint16, DType::uint32, DType::uint64}},
      {"bool", {DType::bool_}},
      {"key", {DType::key}}};
  std::string text;
  for (const auto& [kind, members] : table) {
    const bool full = std::ranges::includes(dtypes, members);
    if (full) text += (text.empty() ? "" : " ") + kind;
    for (const DType dtype : members) {
      if (!full && dtypes.contains(dtype)) text += (text.empty() ? "" : " ") + std::string(name(dtype));
    }
  }
  return text;
}

/// What each operand may be; operands beyond the fourth are as the last of these.
std::string dtypes_of(const ir::Primitive& op) {
  std::vector<Dtypes> operands;
  for (const ir::Sample& sample : op.samples()) {
    for (std::size_t i = 0; i < std::min<std::size_t>(sample.inputs.size(), 4); ++i) {
      if (operands.size() <= i) operands.emplace_back();
      operands[i].insert(sample.inputs[i].type.dtype);
      for (int d = 0; d <= static_cast<int>(DType::key); ++d) {
        const auto dtype = static_cast<DType>(d);
        if (!operands[i].contains(dtype) && takes(op, sample, i, dtype)) operands[i].insert(dtype);
      }
    }
  }
  if (operands.empty()) return "no operand";
  if (std::ranges::all_of(operands, [&](const Dtypes& each) { return each == operands[0]; })) {
    return kinds(operands[0]);
  }
  std::vector<std::string> texts;
  for (const Dtypes& each : operands) texts.push_back(kinds(each));
  return listed(texts);
}

// ---- rules

std::string indices_text(const std::vector<int>& list) {
  std::string text;
  for (const int i : list) text += (text.empty() ? "" : ", ") + std::to_string(i);
  return text;
}

std::string derivative_of(const ir::Derivative& derivative) {
  using Kind = ir::Derivative::Kind;
  const std::string operands = derivative.linear_in.empty() ? "" : " in " + indices_text(derivative.linear_in);
  switch (derivative.kind) {
    case Kind::zero:
      return "zero";
    case Kind::linear:
      return "linear" + operands + ", transpose";
    case Kind::bilinear:
      return "bilinear, transpose";
    case Kind::joint:
      return "of its functions";
    default:
      return derivative.transpose ? "jvp, transpose" + operands : "jvp";
  }
}

using Backends = std::vector<std::shared_ptr<const backend::Backend>>;

/// The backends that have kernels for the samples; said where for some only.
std::string kernels_of(const ir::Primitive& op, const Backends& backends) {
  std::vector<std::string> texts;
  const std::vector<ir::Sample> samples = op.samples();
  for (const auto& backend : backends) {
    std::size_t made = 0;
    for (const ir::Sample& sample : samples) {
      std::vector<ArrayType> inputs;
      for (const ir::SampleInput& input : sample.inputs) inputs.push_back(input.type);
      const std::vector<ArrayType> outputs = ir::infer_types(op, inputs, sample.attrs, sample.axes);
      made += backend->make_kernel({op.name, sample.attrs, inputs, outputs, {}}) != nullptr ? 1 : 0;
    }
    std::string text(backend->name());
    if (made > 0 && made < samples.size()) {
      text += " in part";
    }
    if (made > 0) texts.push_back(text);
  }
  return texts.empty() ? "the executor" : listed(texts);
}

std::string comparison_of(std::string_view op) {
  std::string text = compares_any(op) ? "compared" : "not compared";
  for (const Difference& difference : differences()) {
    if (difference.op != op) continue;
    std::vector<std::string> without;
    for (const Way way : difference.ways) without.emplace_back(name(way));
    if (!difference.operands.empty()) without.push_back("derivatives in " + indices_text(difference.operands));
    if (difference.where != nullptr) text += "; not some samples";
    if (!without.empty()) text += "; without " + listed(without);
    text += ": " + std::string(difference.reason);
  }
  return text;
}

// ---- the page

constexpr const char* tail_mark = "## What is left out\n";

constexpr const char* head = R"(# Ops

Every op of `include/lockstep/ops.def`, which says what each computes. This table is made from the ops themselves: their
type rules, derivatives, batching rules, kernels and samples.

- **dtypes**: what the type rule takes, by operand where they differ. float: float16, bfloat16, float32, float64;
  complex: complex64, complex128; int, uint: 8 to 64 bits.
- **derivative**: zero, linear (its jvp is the op itself), bilinear, or by a jvp rule. transpose: with a transpose rule,
  in those operands; reverse mode is linearize and transpose, so whatever has a jvp has a vjp.
- **vmap**: whether there is a batching rule.
- **kernels**: the backends that have some, the first that takes a type and shape being asked. The executor runs collectives and control flow itself.
- **JAX**: samples, their jvp, vjp, vmap and vmap of the vjp are held against JAX 0.10.2 (`tests/golden/ops`), to
  |a - b| <= t (1 + |b|), integers, bool and keys exactly. t is 1e-12 for float64 (derivatives: 1e-10), 1e-6 (1e-5) for
  float32, 1e-3 (1e-2) for float16 and 1e-2 (1e-1) for bfloat16.

)";

std::string generated() {
  const tests::MaxIsa all("");  // the page is of what is built, not of what this run is held to
  const Backends backends = backend::make_backends();
  std::vector<std::string> names;
  for (const auto& backend : backends) names.emplace_back(backend->name());
  std::string text = std::string(head) + "Backends of this build: " + listed(names) + ".\n\n";
  text += "| op | dtypes | derivative | vmap | kernels | JAX |\n|---|---|---|---|---|---|\n";
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& op = get();
    text += "| `" + op.name + "` | " + dtypes_of(op) + " | " + derivative_of(op.derivative) + " | " +
            (op.batch ? "yes" : "no") + " | " + kernels_of(op, backends) + " | " + comparison_of(op.name) + " |\n";
  }
  return text + "\n### Looser bounds\n\n| op | dtype | values | derivatives | reason |\n|---|---|---|---|---|\n" +
         rooms_table() + "\n";
}

/// What stands below the table: docs/left_out.md as long as there is one, its `name | reason` lines as tables.
std::string tail(const std::string& page) {
  std::istringstream written(read_text(docs / "left_out.md"));
  std::string text, line;
  std::getline(written, line);
  if (!written) {
    const std::size_t mark = page.find(tail_mark);
    return mark == std::string::npos ? tail_mark : page.substr(mark);
  }
  bool in_table = false;
  while (std::getline(written, line)) {
    if (line.find("`name | reason`") != std::string::npos) continue;
    const bool row = line.find(" | ") != std::string::npos;
    if (row && !in_table) text += "| name | reason |\n|---|---|\n";
    in_table = row;
    text += (line.starts_with("#") ? "#" : "") + (row ? "| " + line + " |" : line) + "\n";
  }
  return tail_mark + text;
}

}  // namespace

TEST_CASE("docs/ops.md is what the ops say") {
  const std::string page = read_text(docs / "ops.md");
  const std::string now = generated();
  const std::string backends = now.substr(now.find("Backends of this build"), 80);
  REQUIRE_MESSAGE(!page.empty(), "docs/ops.md is not there");
  if (page.find(backends.substr(0, backends.find('\n'))) == std::string::npos) {
    MESSAGE("not compared: the page is of a build with other backends");
    return;
  }
  const bool current = page.substr(0, page.find(tail_mark)) == now;
  CHECK_MESSAGE(current, "docs/ops.md is stale: regenerate with tests_golden --no-skip -tc=\"write docs/ops.md\"");
}

TEST_CASE("write docs/ops.md" * doctest::skip()) {
  const std::string page = read_text(docs / "ops.md");
  std::ofstream file(docs / "ops.md");
  file << generated() << tail(page);
  REQUIRE(file.good());
}

}  // namespace lockstep::tests::golden
