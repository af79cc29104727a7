#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "backends/cpu/cut_kernel.h"
#include "engine/ops/index/windows.h"
#include "engine/ops/rules/samples.h"
#include "tests/backends/aten/kernel_runs.h"

// The parts of a kernel, which several threads run, compute what the whole one does, bit for bit, in any order.
namespace lockstep::tests {

namespace {

using backend::cpu::CutKernel;
using Parts = std::vector<std::unique_ptr<backend::Kernel>>;

ir::Sample sample_of(DType dtype, const Shape& table, DType index, const Shape& indices, const Attrs& attrs) {
  return {{ops::samples::input(dtype, table, {-9, 9}), ops::samples::input(index, indices, {-20, 400})}, attrs, {}};
}

using Results = std::vector<std::vector<std::byte>>;

Results run_parts(const BoundOp& bound, Parts parts, const std::vector<Memory>& memory,
                  const std::vector<const Memory*>& results) {
  std::vector<ArrayView> views;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    views.push_back(contiguous_view(memory[i].data(), bound.inputs[i].dtype, bound.inputs[i].shape));
  }
  std::vector<ArrayView> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(contiguous_view(results[i]->data(), bound.outputs[i].dtype, bound.outputs[i].shape));
  }
  std::reverse(parts.begin(), parts.end());
  for (const std::unique_ptr<backend::Kernel>& part : parts) {
    const Memory scratch(part->scratch_bytes());
    part->run({views, outputs, scratch.data()});
  }
  Results bytes;
  for (const Memory* result : results) bytes.push_back(result->bytes());
  return bytes;
}

void check_parts_of_kernel(const BoundOp& bound, Parts parts, const ir::Sample& sample) {
  const std::vector<Memory> memory = draw_memory(sample, 11);
  const Results whole = bound.run(memory);
  for (int input = 0; input < static_cast<int>(memory.size()); ++input) {
    if (!parts[0]->accepts_in_place(input)) continue;
    std::vector<Memory> own = draw_memory(sample, 11);
    Parts again = dynamic_cast<const CutKernel&>(*bound.kernel).parts_of(1);
    CHECK(run_parts(bound, std::move(again), own, {&own[static_cast<std::size_t>(input)]}) == whole);
  }
  std::vector<Memory> results;
  std::vector<const Memory*> places;
  results.reserve(whole.size());
  for (const auto& bytes : whole) places.push_back(&results.emplace_back(bytes.size()));
  CHECK(run_parts(bound, std::move(parts), memory, places) == whole);
}

/// The results are the reference's, too.
void check_reference(const BoundOp& bound, const ir::Primitive& primitive, const ir::Sample& sample) {
  std::vector<ir::ReferenceArray> outputs = {ir::reference_zeros(bound.outputs[0])};
  primitive.reference({draw(sample, 11), bound.attrs, outputs});
  CHECK(bound.run(draw_memory(sample, 11))[0] == ir::reference_to_bytes(outputs[0]));
}

struct PartsCase {
  const ir::Primitive* op;
  ir::Sample sample;
  std::size_t parts;
};

/// Large enough to be cut; indices beyond both ends.
std::vector<PartsCase> parts_cases() {
  using ops::gather_attrs;
  std::vector<PartsCase> all;
  const Shape table{300, 96};
  for (const DType dtype : {DType::int32, DType::float32, DType::bfloat16, DType::float64}) {
    const std::size_t by_columns = (96 * size_of(dtype) + 127) / 128;
    const Attrs rows = {{"rows", std::int64_t{300}}};
    all.push_back({&ops::primitives::gather_rows(), sample_of(dtype, table, DType::int32, {40, 101}, {}), 0});
    ir::Sample added = sample_of(dtype, {40, 101, 96}, DType::int64, {40, 101}, rows);
    std::swap(added.inputs[0], added.inputs[1]);
    added.inputs[0].low = 0;
    all.push_back({&ops::primitives::scatter_add_rows(), added, by_columns});
    for (const std::string mode : {"fill", "clip"}) {
      const Attrs attrs = gather_attrs({1}, {0}, {0}, {1, 96}, mode);
      const ir::Sample gathered = sample_of(dtype, table, DType::int16, {4001, 1}, attrs);
      all.push_back({&ops::primitives::gather(), gathered, 0});
      ir::Sample scattered = gathered;
      scattered.attrs = ops::renamed(attrs, ops::gather_names, ops::scatter_names);
      scattered.inputs.push_back(ops::samples::input(dtype, {4001, 96}, {-9, 9}));
      for (const ir::Primitive* op : {&ops::primitives::scatter(), &ops::primitives::scatter_add(),
                                      &ops::primitives::scatter_mul(), &ops::primitives::scatter_max()}) {
        all.push_back({op, scattered, by_columns});
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("parts of one index, of every op that can be cut") {
  std::set<std::string> cut;
  for_each_sample([&](const ir::Primitive& primitive, const ir::Sample& sample) {
    const BoundOp bound(primitive, input_types(sample), sample.attrs);
    const auto* kernel = dynamic_cast<const CutKernel*>(bound.kernel.get());
    if (kernel == nullptr) return;
    Parts parts = kernel->parts_of(1);
    if (parts.empty()) return;
    CAPTURE(describe(primitive, sample));
    check_parts_of_kernel(bound, std::move(parts), sample);
    cut.insert(primitive.name);
  });
  CHECK(cut.contains("gather"));
  CHECK(cut.contains("gather_rows"));
  CHECK(cut.contains("scatter_add"));
  CHECK(cut.contains("scatter_add_rows"));
  CHECK(cut.contains("take_along_axis"));
  CHECK(cut.contains("triangular_solve"));
  CHECK(cut.contains("lu"));
}

TEST_CASE("what moves much is cut, and gives the reference's bits") {
  for (const PartsCase& c : parts_cases()) {
    const BoundOp bound(*c.op, input_types(c.sample), c.sample.attrs);
    CAPTURE(describe(*c.op, c.sample));
    Parts parts = aten().make_parts({bound.op, bound.attrs, bound.inputs, bound.outputs, {}}, *bound.kernel);
    CHECK(parts.size() > 1);
    CHECK(parts.size() <= 16);
    if (c.parts > 0) CHECK(parts.size() == c.parts);
    check_parts_of_kernel(bound, std::move(parts), c.sample);
    if (bound.outputs[0].dtype == DType::int32) check_reference(bound, *c.op, c.sample);
  }
}

TEST_CASE("what moves little stays whole") {
  const ir::Sample sample = sample_of(DType::float32, {300, 96}, DType::int32, {100}, {});
  const BoundOp bound(ops::primitives::gather_rows(), input_types(sample), {});
  CHECK(aten().make_parts({bound.op, bound.attrs, bound.inputs, bound.outputs, {}}, *bound.kernel).empty());
}

}  // namespace lockstep::tests
