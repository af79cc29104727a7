#pragma once

#include <cstdlib>
#include <string>

namespace lockstep::tests {

/// LOCKSTEP_MAX_ISA set to a value, and back at the end. Empty: all that the processor has.
class MaxIsa {
 public:
  explicit MaxIsa(const std::string& value) {
    if (const char* was = std::getenv("LOCKSTEP_MAX_ISA"); was != nullptr) was_ = was;
    setenv("LOCKSTEP_MAX_ISA", value.c_str(), 1);
  }
  ~MaxIsa() {
    if (was_.empty()) {
      unsetenv("LOCKSTEP_MAX_ISA");
    } else {
      setenv("LOCKSTEP_MAX_ISA", was_.c_str(), 1);
    }
  }
  MaxIsa(const MaxIsa&) = delete;
  MaxIsa& operator=(const MaxIsa&) = delete;

 private:
  std::string was_;
};

}  // namespace lockstep::tests
