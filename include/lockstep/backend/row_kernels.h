#pragma once

#include <cstdint>

#include <lockstep/backend/backend.h>
#include <lockstep/export.h>

// Kernels that can be run one behind the other some rows at a time, so that the second one finds in the cache what the
// first one has written. An array's rows run along its last dimension.
namespace lockstep::backend {

/// Told which rows of a result are there, each once, in ascending order.
class LOCKSTEP_API RowReader {
 public:
  virtual ~RowReader();
  virtual void read(std::int64_t first, std::int64_t count) = 0;
};

/// A kernel of one result, which it can give out some rows at a time, with the bits of a run.
class LOCKSTEP_API RowWriter : public Kernel {
 public:
  void run(const KernelArguments& arguments) const override { run_for(arguments, nullptr); }
  /// As `run`; where `reader` is not null, it is told of all rows, and may overwrite those that it was told of.
  virtual void run_for(const KernelArguments& arguments, RowReader* reader) const = 0;
};

/// An element-wise loop that can be run on some rows of its shape at a time, with the bits of a run.
class LOCKSTEP_API RowLoop : public Kernel {
 public:
  /// The rows of its shape, 0 where operands or results of these shapes are not made of rows that lie one behind the other.
  virtual std::int64_t rows() const = 0;
  /// Whether operands of these strides are (those of a row-major array are).
  virtual bool lie_in_rows(const KernelArguments& /*arguments*/) const { return true; }
  /// What comes before all rows, then all rows in ascending order, then what comes behind them; one run's calls have the
  /// same arguments.
  virtual void begin(const KernelArguments& /*arguments*/) const {}
  virtual void run_rows(const KernelArguments& arguments, std::int64_t first, std::int64_t count) const = 0;
  virtual void finish(const KernelArguments& /*arguments*/) const {}
};

}  // namespace lockstep::backend
