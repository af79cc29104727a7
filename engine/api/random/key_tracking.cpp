#include "engine/api/random/key_tracking.h"

#include <atomic>
#include <mutex>

#include <lockstep/random.h>

#include "engine/core/environment.h"
#include "engine/trace/array_state.h"
#include "engine/trace/key_reuse.h"

namespace lockstep {

namespace {

bool checks_by_default() {
#ifdef NDEBUG
  constexpr bool otherwise = false;
#else
  constexpr bool otherwise = true;
#endif
  return environment_flag("LOCKSTEP_CHECK_KEYS", otherwise);
}

std::atomic<bool>& checks() {
  static std::atomic<bool> enabled{checks_by_default()};
  return enabled;
}

/// Keys are marked by one call at a time.
std::mutex& marks() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void random::set_key_reuse_checks(bool enabled) { checks() = enabled; }
bool random::key_reuse_checks() { return checks(); }

namespace api {

void check_keys(const ir::Function& function) { tracing::check_key_reuse(function); }

TrackedCall::TrackedCall(const ir::Function& function, std::span<const Array> arguments) {
  const std::lock_guard lock(marks());
  std::vector<tracing::KeyElements> inputs;
  for (const Array& argument : arguments) {
    tracing::KeyElements& keys = argument.state()->keys;
    if (keys.empty()) keys = ir::new_keys(argument.type());
    inputs.push_back(keys);
  }
  outputs_ = tracing::follow_keys(function, inputs);
}

void TrackedCall::mark(std::span<const Array> results) const {
  const std::lock_guard lock(marks());
  for (std::size_t i = 0; i < results.size(); ++i) results[i].state()->keys = outputs_[i];
}

}  // namespace api

}  // namespace lockstep
