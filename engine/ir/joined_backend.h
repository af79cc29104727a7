#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend.h>

namespace lockstep::ir {

/// Several backends as one that evaluates what they compile: each kernel from the first that has one, as in a compiled
/// function, memory from the first that owns any. Entering a thread enters all of them; leaving goes backwards.
std::shared_ptr<const Backend> joined(std::vector<std::shared_ptr<const Backend>> backends);

/// Enters each backend in turn, and leaves them last first, since each restores what it found.
class EnteredThread {
 public:
  explicit EnteredThread(std::span<const std::shared_ptr<const Backend>> backends);
  EnteredThread(const EnteredThread&) = delete;
  EnteredThread& operator=(const EnteredThread&) = delete;
  ~EnteredThread();

 private:
  static constexpr std::size_t few = 8;
  std::array<std::shared_ptr<void>, few> tokens_;
  std::size_t count_ = 0;
  std::vector<std::shared_ptr<void>> more_;  ///< Of backends behind the first few.
};

}  // namespace lockstep::ir
