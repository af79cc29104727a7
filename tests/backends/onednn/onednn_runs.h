#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/isa.h>

#include "backends/onednn/backend.h"
#include "backends/onednn/widened.h"
#include "engine/ops/primitives.h"
#include "tests/support/backend_op.h"
#include "tests/support/skip.h"

// Kernels of the oneDNN backend against the references of the ops.
namespace lockstep::tests {

inline const backend::Backend& onednn() {
  static const std::shared_ptr<const backend::Backend> backend = backend::make_onednn_backend();
  return *backend;
}

/// An op bound to this backend's kernel, null where it leaves the op to others.
struct BoundOp : BackendOp {
  BoundOp(const ir::Primitive& primitive, std::vector<ArrayType> input_types, Attrs attributes)
      : BackendOp(onednn(), primitive, std::move(input_types), std::move(attributes)) {}
  BoundOp(const ir::Primitive& primitive, const ir::Sample& sample)
      : BoundOp(primitive, input_types(sample), sample.attrs) {}
};

/// Whether the environment lets this backend offer anything here.
inline bool offers() { return backend::usable_isa() != backend::Isa::none; }
inline constexpr const char* not_offered = "oneDNN offers nothing without vector instructions";

/// Whether convolutions of bfloat16 may be made in Winograd's tiles: not where whole tiles of matrices are multiplied.
inline bool offers_bfloat16_tiles() {
  return offers() && backend::onednn::bfloat16_products() != backend::cpu::Bfloat16Products::tiles;
}

/// Attributes of a product that contracts a dimension of either operand.
inline Attrs contraction(std::int64_t of_first, std::int64_t of_second) {
  using Dims = std::vector<std::int64_t>;
  return {{"contract", std::vector<Dims>{{of_first}, {of_second}}}, {"batch", std::vector<Dims>{{}, {}}}};
}

/// Numbers of -1 to 1.
inline std::vector<Memory> draw_operands(const BackendOp& bound, std::uint64_t seed) {
  ir::Sample sample;
  for (const ArrayType& type : bound.inputs) sample.inputs.push_back({type, -1, 1, false});
  return draw_memory(sample, seed);
}

/// Sums of many products of either sign: the error is relative to their sizes, not to their sum. 16-bit floats are
/// rounded once, at the end.
inline void check_against_reference(const ir::Primitive& primitive, const ir::Sample& sample, const BoundOp& bound,
                                    const std::string& name) {
  REQUIRE_MESSAGE(bound.kernel != nullptr, name << ": " << describe(primitive, sample));
  const std::vector<ir::ReferenceArray> inputs = draw(sample, 71);
  std::vector<ir::ReferenceArray> expected;
  for (const ArrayType& type : bound.outputs) expected.push_back(ir::reference_zeros(type));
  primitive.reference({inputs, sample.attrs, expected});
  const std::vector<std::vector<std::byte>> results = bound.run(draw_memory(sample, 71));
  const DType dtype = sample.inputs[0].type.dtype;
  const double room = dtype == bfloat16 ? 0.01 : 20 * tolerance(dtype);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::ReferenceArray result = ir::reference_from_bytes(bound.outputs[i], results[i]);
    CHECK_MESSAGE(first_difference(result, expected[i], room) == -1,
                  name << ", result " << i << ": " << describe(primitive, sample));
  }
}

/// Checks that what the kernel makes of two operands lies within `room` of the reference's result.
inline void check_on(const std::vector<Memory>& operands, const ir::Primitive& primitive, const BoundOp& bound,
                     double room, const std::string& name) {
  std::vector<ir::ReferenceArray> inputs;
  for (std::size_t i = 0; i < 2; ++i) {
    inputs.push_back(ir::reference_from_bytes(bound.inputs[i], operands[i].bytes()));
  }
  std::vector<ir::ReferenceArray> expected = {ir::reference_zeros(bound.outputs[0])};
  primitive.reference({inputs, bound.attrs, expected});
  const ir::ReferenceArray result = ir::reference_from_bytes(bound.outputs[0], bound.run(operands)[0]);
  CHECK_MESSAGE(first_difference(result, expected[0], room) == -1, primitive.name << ", " << name);
}

inline void check_against_reference(const ir::Primitive& primitive, const ir::Sample& sample, const std::string& name) {
  check_against_reference(primitive, sample, BoundOp(primitive, sample), name);
}

}  // namespace lockstep::tests
