#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/array.h>

#include "engine/ir/function.h"

// What arrays of keys remember of their uses, where random::key_reuse_checks() is on.
namespace lockstep {
class KeyElement;
}

namespace lockstep::api {

/// Throws KeyReuseError where the function by itself uses a key twice.
void check_keys(const ir::Function& function);

/// One call's uses of keys. The constructor marks those of the arguments and throws KeyReuseError where one was used
/// before; `mark` tells the results' keys what is known of them.
class TrackedCall {
 public:
  TrackedCall(const ir::Function& function, std::span<const Array> arguments);
  void mark(std::span<const Array> results) const;

 private:
  std::vector<std::vector<std::shared_ptr<KeyElement>>> outputs_;
};

}  // namespace lockstep::api
