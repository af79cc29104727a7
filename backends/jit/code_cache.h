#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <lockstep/backend/isa.h>

#include "backends/jit/code_record.h"
#include "backends/jit/generator.h"

namespace lockstep::backend::jit {

/// The machine code of the loops whose kernels live, and of the loops made last; shapes share it. Safe from any thread.
class CodeCache {
 public:
  /// Tries once whether code may be made here at all.
  explicit CodeCache(Isa isa, CodeRecord record = CodeRecord::of_environment());

  Isa isa() const { return isa_; }
  /// Whether the system allows no pages to be executed.
  bool is_refused() const { return refused_; }
  /// So many codes, a page or two each, live without a kernel.
  static constexpr std::size_t newest_kept = 256;

  /// Null where there is no more memory for code. The label, for profilers, is that of the first who asks.
  std::shared_ptr<const MachineCode> get(const Loop& loop, std::string_view label);
  /// Codes it knows of, those not yet missed included.
  std::size_t size();

 private:
  void purge();

  Isa isa_;
  bool refused_ = false;
  CodeRecord record_;
  std::mutex mutex_;
  /// By everything that the code is made from, constants too: kernels own their code.
  std::map<std::string, std::weak_ptr<const MachineCode>> codes_;
  std::size_t purge_at_ = 64;  ///< So many codes, and those that are gone are looked for.
  /// The newest codes, which live without a kernel, too: a function that is evaluated op by op makes one kernel after
  /// another of few loops.
  std::deque<std::shared_ptr<const MachineCode>> newest_;
};

}  // namespace lockstep::backend::jit
