#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <lockstep/isa.h>

#include "backends/jit/code_record.h"
#include "backends/jit/generator.h"

namespace lockstep::backends::jit {

/// The machine code of every loop asked for so far; shapes share it. Safe from any thread.
class CodeCache {
 public:
  /// Tries once whether code may be made here at all.
  explicit CodeCache(Isa isa, CodeRecord record = CodeRecord::of_environment());

  Isa isa() const { return isa_; }
  /// Whether the system allows no pages to be executed.
  bool is_refused() const { return refused_; }
  /// Null where there is no more memory for code. The label, for profilers, is that of the first who asks.
  std::shared_ptr<const MachineCode> get(const Loop& loop, std::string_view label);

 private:
  Isa isa_;
  bool refused_ = false;
  CodeRecord record_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const MachineCode>> codes_;  // by everything that the code is made from
};

}  // namespace lockstep::backends::jit
