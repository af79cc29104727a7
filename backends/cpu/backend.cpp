// The backend of plain loops: its kernels, its memory.

#include "backends/cpu/backend.h"

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/block_pool.h>
#include <lockstep/backend/reusable_memory.h>
#include <lockstep/error.h>

#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/float_control.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/large_blocks.h"

namespace lockstep::backend {

namespace cpu {

namespace {

/// Memory of the process' allocator.
class HeapBuffer final : public Buffer {
 public:
  HeapBuffer(std::size_t nbytes, Device device) : data_(allocate_aligned(nbytes)), nbytes_(nbytes), device_(device) {}
  HeapBuffer(const HeapBuffer&) = delete;
  HeapBuffer& operator=(const HeapBuffer&) = delete;
  ~HeapBuffer() override { free_aligned(data_); }
  void* data() const override { return data_; }
  std::size_t nbytes() const override { return nbytes_; }
  Device device() const override { return device_; }

 private:
  void* data_;
  std::size_t nbytes_;
  Device device_;
};

/// A small result in a block that is used again: asking the allocator would cost more than most that is done with it.
class BlockBuffer final : public Buffer {
 public:
  static constexpr std::size_t most_bytes = 4096;

  BlockBuffer(std::size_t nbytes, Device device) : data_(take_block(nbytes)), nbytes_(nbytes), device_(device) {}
  BlockBuffer(const BlockBuffer&) = delete;
  BlockBuffer& operator=(const BlockBuffer&) = delete;
  ~BlockBuffer() override { give_block(data_, nbytes_); }
  void* data() const override { return data_; }
  std::size_t nbytes() const override { return nbytes_; }
  Device device() const override { return device_; }

 private:
  void* data_;
  std::size_t nbytes_;
  Device device_;
};

class LargeBuffer final : public Buffer {
 public:
  LargeBuffer(std::shared_ptr<LargeBlocks> blocks, std::size_t nbytes, Device device)
      : blocks_(std::move(blocks)), block_(blocks_->take(nbytes)), nbytes_(nbytes), device_(device) {}
  LargeBuffer(const LargeBuffer&) = delete;
  LargeBuffer& operator=(const LargeBuffer&) = delete;
  ~LargeBuffer() override { blocks_->give(block_); }
  void* data() const override { return block_.data; }
  std::size_t nbytes() const override { return nbytes_; }
  Device device() const override { return device_; }

 private:
  std::shared_ptr<LargeBlocks> blocks_;
  LargeBlocks::Block block_;
  std::size_t nbytes_;
  Device device_;
};

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }

  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    if (!supports(request.device.kind)) return nullptr;
    if (const KernelMaker loops = cpu::find_maker(request.op)) {
      if (auto kernel = loops(request)) return kernel;
    }
    const KernelMaker maker = find_maker(request.op);
    return maker == nullptr ? nullptr : maker(request);
  }

  std::vector<std::unique_ptr<Kernel>> make_parts(const KernelRequest& /*request*/,
                                                  const Kernel& whole) const override {
    const auto* cut = dynamic_cast<const CutKernel*>(&whole);
    return cut == nullptr ? std::vector<std::unique_ptr<Kernel>>() : cut->parts();
  }

  std::shared_ptr<Buffer> allocate(std::size_t nbytes, Device device) const override {
    if (!supports(device.kind)) return nullptr;
    try {
      return make_buffer(nbytes, device);
    } catch (const std::bad_alloc&) {
      release_reusable_memory();
    }
    try {
      return make_buffer(nbytes, device);
    } catch (const std::bad_alloc& error) {
      refuse(nbytes, device, error.what());
    }
  }

  std::shared_ptr<void> enter_thread() const override {
    if (FloatControl::is_plain()) return nullptr;
    return std::allocate_shared<FloatControl>(BlockAllocator<FloatControl>());
  }

 private:
  std::shared_ptr<Buffer> make_buffer(std::size_t nbytes, Device device) const {
    if (nbytes <= BlockBuffer::most_bytes) {
      return std::allocate_shared<BlockBuffer>(BlockAllocator<BlockBuffer>(), nbytes, device);
    }
    if (nbytes >= LargeBlocks::fewest_bytes) {
      return std::allocate_shared<LargeBuffer>(BlockAllocator<LargeBuffer>(), large_blocks_, nbytes, device);
    }
    return std::allocate_shared<HeapBuffer>(BlockAllocator<HeapBuffer>(), nbytes, device);
  }

  [[noreturn]] static void refuse(std::size_t nbytes, Device device, const char* why) {
    throw BackendError("cpu backend: " + std::to_string(nbytes) + " bytes asked for on " + to_string(device) +
                       " are not to be had: " + why + "; use a smaller batch, more shards or checkpoint()");
  }

  std::shared_ptr<LargeBlocks> large_blocks_ = std::make_shared<LargeBlocks>();
};

}  // namespace

}  // namespace cpu

std::shared_ptr<const Backend> make_cpu_backend() { return std::make_shared<cpu::CpuBackend>(); }

}  // namespace lockstep::backend
