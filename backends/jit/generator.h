#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/backend/isa.h>

#include "backends/jit/code.h"

namespace lockstep::backend::jit {

/// Machine code of a loop over rows: a function of numbers that it also counts in, in this order: elements of a row,
/// rows (both at least 1), the address of each operand and result, and how many bytes that moves from row to row.
class MachineCode {
 public:
  virtual ~MachineCode() = default;
  virtual void run(std::int64_t* numbers) const = 0;
  /// Whether a result may lie where an operand of its type lies: nothing is written before the operand is read.
  virtual bool may_share(std::size_t operand, std::size_t result) const = 0;
  virtual std::span<const std::byte> code() const = 0;
};

/// Throws Xbyak::Error where there is no memory, or none that may be executed. Its pages are never writable and
/// executable at once.
std::shared_ptr<const MachineCode> generate(const Loop& loop, Isa isa);

}  // namespace lockstep::backend::jit
