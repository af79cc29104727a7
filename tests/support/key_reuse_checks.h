#pragma once

#include <lockstep/random.h>

namespace lockstep::tests {

/// Keys are checked for being used twice while it lives.
class KeyReuseChecks {
 public:
  KeyReuseChecks() { random::set_key_reuse_checks(true); }
  ~KeyReuseChecks() { random::set_key_reuse_checks(before_); }
  KeyReuseChecks(const KeyReuseChecks&) = delete;
  KeyReuseChecks& operator=(const KeyReuseChecks&) = delete;

 private:
  bool before_ = random::key_reuse_checks();
};

}  // namespace lockstep::tests
