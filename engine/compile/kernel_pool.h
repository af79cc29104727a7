#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <lockstep/backend/backend.h>

namespace lockstep::compile {

using namespace backend;

/// The kernels of one executable: for each request the first backend that has one; equal requests share one kernel.
class KernelPool {
 public:
  explicit KernelPool(std::vector<std::shared_ptr<const Backend>> backends) : backends_(std::move(backends)) {}

  /// Null where no backend has it.
  const Kernel* find(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                     std::span<const ArrayType> outputs);
  /// Throws BackendError where no backend has it. `varying` of the types is ignored.
  const Kernel* get(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                    std::span<const ArrayType> outputs);
  /// The parts of what `find` gave for the request, to be run on several devices; empty where it stays whole.
  std::vector<const Kernel*> parts(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                                   std::span<const ArrayType> outputs);
  /// Whose a kernel is, and its arithmetic operations.
  struct Note {
    std::string backend = "engine";
    double flops = 0;
  };
  Note note(const Kernel* kernel) const;
  /// Keeps a kernel of the engine's own.
  const Kernel* adopt(std::unique_ptr<Kernel> kernel) { return adopt(std::move(kernel), Note()); }
  const Kernel* adopt(std::unique_ptr<Kernel> kernel, Note note);

  const std::vector<std::shared_ptr<const Backend>>& backends() const { return backends_; }
  /// Those whose settings a thread needs to run the kernels: all of them where the engine has kernels of its own.
  std::vector<std::shared_ptr<const Backend>> entered() const;
  std::vector<std::shared_ptr<const Kernel>> kernels() const { return kernels_; }

 private:
  struct Entry {
    std::string op;
    Attrs attrs;
    std::vector<ArrayType> types;
    const Kernel* kernel;
    const Backend* backend;                           ///< Null for what a custom op brings along.
    std::optional<std::vector<const Kernel*>> parts;  ///< What `parts` gave.
  };

  Entry* find_entry(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                    std::span<const ArrayType> outputs);

  std::vector<std::shared_ptr<const Backend>> backends_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
  std::unordered_multimap<std::uint64_t, Entry> entries_;
  std::unordered_map<const Kernel*, Note> notes_;
};

}  // namespace lockstep::compile
