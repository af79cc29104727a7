#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/aten/kernel_runs.h"

namespace lockstep::tests {

namespace {

/// Whether the value is defined to the last bit: integers, moves, comparisons, and what IEEE 754 rounds correctly.
bool is_exact(const std::string& op, DType dtype) {
  if (!is_inexact(dtype)) return true;
  if (is_complex(dtype) && op == "sign") return false;
  static const std::set<std::string> moves = {"abs",
                                              "neg",
                                              "floor",
                                              "ceil",
                                              "round",
                                              "sign",
                                              "stop_gradient",
                                              "maximum",
                                              "minimum",
                                              "nextafter",
                                              "select",
                                              "convert",
                                              "bitcast_convert",
                                              "full",
                                              "iota",
                                              "reshape",
                                              "transpose",
                                              "broadcast_in_dim",
                                              "slice",
                                              "dynamic_slice",
                                              "dynamic_update_slice",
                                              "pad",
                                              "concatenate",
                                              "reverse",
                                              "reduce_max",
                                              "reduce_min",
                                              "top_k",
                                              "gather_rows",
                                              "take_along_axis",
                                              "gather",
                                              "scatter",
                                              "scatter_min",
                                              "scatter_max",
                                              "window_max",
                                              "window_gather",
                                              "real",
                                              "imag",
                                              "conj",
                                              "complex",
                                              "cummax",
                                              "cummin",
                                              "sort",
                                              "reduce_precision"};
  static const std::set<std::string> rounded = {"add", "sub", "mul", "div", "sqrt", "fma", "rem"};
  return moves.contains(op) || (is_float(dtype) && rounded.contains(op));
}

}  // namespace

TEST_CASE("every op but the executor's own has a kernel for each of its samples") {
  for_each_sample([](const ir::Primitive& primitive, const ir::Sample& sample) {
    const BoundOp bound(primitive, input_types(sample), sample.attrs);
    CHECK_MESSAGE(bound.kernel != nullptr, describe(primitive, sample));
  });
}

TEST_CASE("every kernel computes what the reference does") {
  for_each_sample([](const ir::Primitive& primitive, const ir::Sample& sample) {
    const BoundOp bound(primitive, input_types(sample), sample.attrs);
    REQUIRE_MESSAGE(bound.kernel != nullptr, describe(primitive, sample));
    for (const std::uint64_t seed : {11U, 12U}) {
      const std::vector<ir::ReferenceArray> inputs = draw(sample, seed);
      std::vector<ir::ReferenceArray> expected;
      for (const ArrayType& type : bound.outputs) expected.push_back(ir::reference_zeros(type));
      primitive.reference({inputs, sample.attrs, expected});
      const auto results = bound.run(draw_memory(sample, seed));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const ArrayType& type = expected[i].type;
        const ir::ReferenceArray rounded = ir::reference_from_bytes(type, ir::reference_to_bytes(expected[i]));
        const ir::ReferenceArray result = ir::reference_from_bytes(type, results[i]);
        const std::int64_t at = is_exact(primitive.name, type.dtype) ? first_difference(result, rounded, 0)
                                                                     : first_difference(result, rounded);
        CHECK_MESSAGE(at == -1, describe(primitive, sample) << " result " << i << " differs at element " << at);
      }
    }
  });
}

TEST_CASE("a kernel that takes strides has the bits of the row-major operands") {
  int checked = 0;
  for_each_sample([&](const ir::Primitive& primitive, const ir::Sample& sample) {
    const BoundOp bound(primitive, input_types(sample), sample.attrs);
    if (!bound.kernel->accepts_strided()) return;
    const std::vector<Memory> memory = draw_memory(sample, 21);
    const auto expected = bound.run(memory);
    // Column-major, and every second element only.
    std::vector<Memory> spread;
    std::vector<ArrayView> views;
    for (std::size_t i = 0; i < bound.inputs.size(); ++i) {
      const ArrayType& type = bound.inputs[i];
      const std::size_t width = size_of(type.dtype);
      ArrayView view{nullptr, type.dtype, type.shape, {}};
      std::int64_t stride = 2;
      for (int d = 0; d < type.shape.rank(); ++d) {
        view.strides[static_cast<std::size_t>(d)] = stride;
        stride *= type.shape[d];
      }
      spread.emplace_back(static_cast<std::size_t>(type.size()) * width * 2 + width);
      view.data = spread.back().data();
      const std::vector<std::int64_t> row_major = row_major_strides(type.shape);
      for (std::int64_t element = 0; element < type.size(); ++element) {
        std::int64_t to = 0;
        for (std::size_t d = 0; d < row_major.size(); ++d) {
          to += element / row_major[d] % type.shape[static_cast<int>(d)] * view.strides[d];
        }
        std::memcpy(spread.back().data() + static_cast<std::size_t>(to) * width,
                    memory[i].data() + static_cast<std::size_t>(element) * width, width);
      }
      views.push_back(view);
    }
    CHECK_MESSAGE(bound.run(std::span<const ArrayView>(views)) == expected, describe(primitive, sample));
    ++checked;
  });
  CHECK(checked > 500);
}

TEST_CASE("a pointwise kernel that takes strides takes broadcast operands") {
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& primitive = get();
    if (has_no_kernel(primitive) || !primitive.traits.pointwise) continue;
    std::set<DType> seen;
    for (ir::Sample sample : primitive.samples()) {
      if (!seen.insert(sample.inputs.at(0).type.dtype).second) continue;
      for (ir::SampleInput& input : sample.inputs) input.type.shape = {3, 5};
      const BoundOp bound(primitive, input_types(sample), sample.attrs);
      if (!bound.kernel->accepts_strided()) continue;
      const std::vector<Memory> memory = draw_memory(sample, 31);
      for (std::size_t broadcast = 0; broadcast < bound.inputs.size(); ++broadcast) {
        std::vector<Memory> full;
        std::vector<ArrayView> views;
        for (std::size_t i = 0; i < bound.inputs.size(); ++i) {
          const std::size_t width = size_of(bound.inputs[i].dtype);
          full.emplace_back(memory[i].bytes());
          views.push_back(contiguous_view(full.back().data(), bound.inputs[i].dtype, {3, 5}));
          if (i != broadcast) continue;
          views.back().strides = {1, 0};  // Rows begin with elements 0, 1, 2 and repeat them.
          for (std::size_t e = 0; e < 15; ++e) {
            std::memcpy(full.back().data() + e * width, memory[i].data() + e / 5 * width, width);
          }
        }
        const auto expected = bound.run(full);
        views[broadcast].data = memory[broadcast].data();
        CHECK_MESSAGE(bound.run(std::span<const ArrayView>(views)) == expected, describe(primitive, sample));
      }
    }
  }
}

TEST_CASE("a kernel that works in place has the bits of the one that does not") {
  std::set<std::string> in_place;
  for_each_sample([&](const ir::Primitive& primitive, const ir::Sample& sample) {
    const BoundOp bound(primitive, input_types(sample), sample.attrs);
    for (std::size_t i = 0; i < bound.inputs.size(); ++i) {
      if (!bound.kernel->accepts_in_place(static_cast<int>(i))) continue;
      REQUIRE(bound.inputs[i].nbytes() == bound.outputs[0].nbytes());
      const std::vector<Memory> memory = draw_memory(sample, 41);
      const auto expected = bound.run(memory);
      std::vector<ArrayView> views;
      for (std::size_t k = 0; k < bound.inputs.size(); ++k) {
        views.push_back(contiguous_view(memory[k].data(), bound.inputs[k].dtype, bound.inputs[k].shape));
      }
      bound.run_into(views, std::span(memory).subspan(i, 1));
      CHECK_MESSAGE(memory[i].bytes() == expected[0], describe(primitive, sample));
      in_place.insert(primitive.name);
    }
  });
  for (const char* op : {"add", "mul", "exp", "tanh", "logistic", "select", "maximum", "fma", "dynamic_update_slice"}) {
    CHECK_MESSAGE(in_place.contains(op), op);
  }
}

}  // namespace lockstep::tests
