#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/block_pool.h>

namespace lockstep::ir {

using namespace backend;

/// Several backends as one that evaluates what they compile: each kernel from the first that has one, as in a compiled
/// function, memory from the first that owns any. Entering a thread enters all of them; leaving goes backwards.
std::shared_ptr<const Backend> backend_chain(std::vector<std::shared_ptr<const Backend>> backends);

/// Enters each backend in turn, and leaves them last first, since each restores what it found.
class EnteredThread {
 public:
  explicit EnteredThread(std::span<const std::shared_ptr<const Backend>> backends);
  EnteredThread(const EnteredThread&) = delete;
  EnteredThread& operator=(const EnteredThread&) = delete;
  ~EnteredThread();

 private:
  std::vector<std::shared_ptr<void>, BlockAllocator<std::shared_ptr<void>>> tokens_;
};

}  // namespace lockstep::ir
