#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/backend/backend.h>

#include "engine/ir/primitive.h"
#include "tests/support/samples.h"

// Kernels of a backend, made from requests and run on arrays of plain memory.
namespace lockstep::tests {

/// Bytes on a 64-byte boundary.
class Memory {
 public:
  explicit Memory(std::size_t nbytes) : bytes_(allocate(nbytes), Free{}), nbytes_(nbytes) {
    if (nbytes_ > 0) std::memset(bytes_.get(), 0xA5, nbytes_);  // What a kernel forgets to write shows.
  }
  explicit Memory(std::span<const std::byte> bytes) : Memory(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }

  std::byte* data() const { return bytes_.get(); }
  std::vector<std::byte> bytes() const { return {data(), data() + nbytes_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{64}); }
  };
  static std::byte* allocate(std::size_t nbytes) {
    return static_cast<std::byte*>(::operator new (nbytes, std::align_val_t{64}));
  }

  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t nbytes_;
};

/// An op bound to types and attributes, with a backend's kernel, null where it has none. Keeps what a request refers to.
struct BackendOp {
  std::string op;
  Attrs attrs;
  std::vector<ArrayType> inputs;
  std::vector<ArrayType> outputs;
  std::unique_ptr<backend::Kernel> kernel;

  BackendOp(const backend::Backend& backend, const ir::Primitive& primitive, std::vector<ArrayType> input_types,
            Attrs attributes)
      : op(primitive.name),
        attrs(std::move(attributes)),
        inputs(std::move(input_types)),
        outputs(ir::infer_types(primitive, inputs, attrs, {})),
        kernel(backend.make_kernel({op, attrs, inputs, outputs, {}})) {}

  /// The results' bytes, outputs in memory of their own.
  std::vector<std::vector<std::byte>> run(std::span<const ArrayView> views) const {
    std::vector<Memory> memory;
    for (const ArrayType& type : outputs) memory.emplace_back(static_cast<std::size_t>(type.nbytes()));
    run_into(views, memory);
    std::vector<std::vector<std::byte>> results;
    for (const Memory& result : memory) results.push_back(result.bytes());
    return results;
  }

  void run_into(std::span<const ArrayView> views, std::span<const Memory> results) const {
    std::vector<ArrayView> out;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      out.push_back(contiguous_view(results[i].data(), outputs[i].dtype, outputs[i].shape));
    }
    const Memory scratch(kernel->scratch_bytes());
    kernel->run({views, out, scratch.data()});
  }

  std::vector<std::vector<std::byte>> run(std::span<const Memory> memory) const {
    std::vector<ArrayView> views;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      views.push_back(contiguous_view(memory[i].data(), inputs[i].dtype, inputs[i].shape));
    }
    return run(std::span<const ArrayView>(views));
  }
};

inline std::vector<ArrayType> input_types(const ir::Sample& sample) {
  std::vector<ArrayType> types;
  for (const ir::SampleInput& input : sample.inputs) types.push_back(input.type);
  return types;
}

/// A sample's operands, drawn and laid out row-major.
inline std::vector<Memory> draw_memory(const ir::Sample& sample, std::uint64_t seed) {
  std::vector<Memory> memory;
  for (const ir::ReferenceArray& array : draw(sample, seed)) memory.emplace_back(ir::reference_to_bytes(array));
  return memory;
}

inline std::string describe(const ir::Primitive& primitive, const ir::Sample& sample) {
  std::string text = primitive.name + "(";
  for (const ir::SampleInput& input : sample.inputs) text += " " + to_string(input.type);
  return text + " ) " + to_string(sample.attrs);
}

}  // namespace lockstep::tests
