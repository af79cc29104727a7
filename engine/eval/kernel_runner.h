#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/backend.h>

namespace lockstep::eval {

using namespace backend;

using BufferPtr = std::shared_ptr<Buffer>;

/// A kernel together with the types of its operands and results.
class BoundKernel {
 public:
  /// Throws BackendError naming op and types where the backend has no kernel.
  BoundKernel(const Backend& backend, std::string_view op, const Attrs& attrs, std::vector<ArrayType> inputs,
              std::vector<ArrayType> outputs);

  /// Results in new memory.
  std::vector<BufferPtr> run(std::span<const BufferPtr> inputs) const;

 private:
  const Backend& backend_;
  std::vector<ArrayType> inputs_;
  std::vector<ArrayType> outputs_;
  std::unique_ptr<Kernel> kernel_;
};

/// Memory on the CPU for an array. Throws BackendError where the backend owns none.
BufferPtr allocate(const Backend& backend, const ArrayType& type);

}  // namespace lockstep::eval
