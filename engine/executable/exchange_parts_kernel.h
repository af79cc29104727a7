#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>

namespace lockstep::executable {

using namespace backend;

/// A box of elements that goes from one process's part of an array to another's: where it begins in either, and its shape.
struct MovedBox {
  Shape from;
  Shape to;
  Shape shape;
};

/// This process's part of an array from the parts that all processes have of it in another layout. Only what each needs is
/// sent. Runs on the thread that owns the communicator.
class ExchangeParts final : public Kernel {
 public:
  /// `sent[r]` go to process r, `received[r]` come from it; `most` elements go from any process to any other.
  ExchangeParts(std::shared_ptr<Processes> processes, std::vector<std::vector<MovedBox>> sent,
                std::vector<std::vector<MovedBox>> received, std::int64_t most, DType dtype);
  void run(const KernelArguments& arguments) const override;
  std::size_t scratch_bytes() const override;

 private:
  std::size_t block_bytes() const { return static_cast<std::size_t>(most_) * size_of(dtype_); }

  std::shared_ptr<Processes> processes_;
  std::vector<std::vector<MovedBox>> sent_;
  std::vector<std::vector<MovedBox>> received_;
  std::int64_t most_;
  DType dtype_;
};

}  // namespace lockstep::executable
