#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array_view.h>
#include <lockstep/attrs.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

namespace lockstep::backend {

/// Owned memory on a device, 64-byte aligned, freed with its last owner.
class LOCKSTEP_API Buffer {
 public:
  virtual ~Buffer();
  virtual void* data() const = 0;
  virtual std::size_t nbytes() const = 0;
  virtual Device device() const = 0;
  /// Whether results may be written into it once nothing else reads it. False for memory of somebody else.
  virtual bool writable() const { return true; }

  /// Whether all processes are known to hold the same here: it was compared, or all of them made it alike.
  bool is_agreed() const { return is_agreed_.load(std::memory_order_relaxed); }
  void set_agreed(bool agreed) const { is_agreed_.store(agreed, std::memory_order_relaxed); }

 private:
  mutable std::atomic<bool> is_agreed_{false};
};

/// What a kernel is asked for: an op, its attributes, its operand and result types.
struct KernelRequest {
  std::string_view op;
  const Attrs& attrs;
  std::span<const ArrayType> inputs;
  std::span<const ArrayType> outputs;
  Device device;
};

/// What a kernel gets at each run.
struct KernelArguments {
  std::span<const ArrayView> inputs;
  std::span<const ArrayView> outputs;  ///< Always contiguous.
  void* scratch = nullptr;             ///< `scratch_bytes()` bytes, 64-byte aligned, dead after the run.
};

/// One op bound to types and attributes; may be run by several threads at once on other arguments.
class LOCKSTEP_API Kernel {
 public:
  virtual ~Kernel();
  virtual void run(const KernelArguments& arguments) const = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Whether inputs may have any strides. Only where the bits of the result do not depend on them.
  virtual bool accepts_strided() const { return false; }
  /// Whether output 0 may share memory with the given input (same type, contiguous).
  virtual bool accepts_in_place(int /*input*/) const { return false; }
  /// Whether any output may share memory with the given input. Several outputs never share one input's memory.
  virtual bool may_share(int input, int output) const { return output == 0 && accepts_in_place(input); }
  /// Of a sum over all elements, or a loop all of whose sums are: how many neighbouring ones, times any power of two, may
  /// be summed apart by kernels of the same op. Their sums, joined in pairs as the digits of a binary counter are carried, have this one's bits. 0
  /// where they may not.
  virtual std::int64_t summed_apart() const { return 0; }
};

/// A source of kernels and memory. For an equation the first backend of the list that returns a kernel is taken.
/// Every kernel runs on the calling thread alone.
class LOCKSTEP_API Backend {
 public:
  virtual ~Backend();
  virtual std::string_view name() const = 0;
  /// Version of the library behind it, as far as bits depend on it.
  virtual std::string version() const { return {}; }
  /// What a program should tell its user once: that there is less here than elsewhere, and why. Empty where there is not.
  virtual std::string notice() const { return {}; }
  virtual bool supports(DeviceKind kind) const = 0;
  /// The kernel for a request, or null where the table has none. Never throws for want of a kernel.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const = 0;
  /// The work of `whole`, which `make_kernel` returned for the request, cut for several threads by its shape alone:
  /// kernels that, each given all operands and results, compute what that one does, bit for bit, in any order; where all
  /// may share memory, in shared memory. Empty where cutting gains nothing.
  virtual std::vector<std::unique_ptr<Kernel>> make_parts(const KernelRequest& /*request*/,
                                                          const Kernel& /*whole*/) const {
    return {};
  }
  /// Whether it has kernels of `fused`: loops of element-wise ops (element_loop.h).
  virtual bool fuses() const { return false; }
  /// Null where this backend owns no memory (then another one of the list does).
  virtual std::shared_ptr<Buffer> allocate(std::size_t nbytes, Device device) const = 0;
  /// Called once on each worker thread before its first kernel: libraries are told to use one thread. Returns a token
  /// whose destruction restores the thread's settings.
  virtual std::shared_ptr<void> enter_thread() const { return nullptr; }
};

/// The backends this build has, in order of preference, anew: they are held to what LOCKSTEP_MAX_ISA says now. Written by
/// CMake.
LOCKSTEP_API std::vector<std::shared_ptr<const Backend>> make_backends();
/// Those of this process.
LOCKSTEP_API const std::vector<std::shared_ptr<const Backend>>& built_backends();

}  // namespace lockstep::backend
