#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <lockstep/backend/communicator.h>
#include <lockstep/error.h>
#include <lockstep/processes.h>

namespace lockstep {
namespace {

/// Seconds from the environment, or `otherwise`.
double time_limit(double otherwise) {
  constexpr const char* name = "LOCKSTEP_COLLECTIVE_TIMEOUT";
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return otherwise;
  double seconds = 0;
  const char* end = value + std::strlen(value);
  const auto [last, error] = std::from_chars(value, end, seconds);
  if (error == std::errc() && last == end && seconds > 0) return seconds;
  throw ValueError(fmt::format("{}={} is no positive number of seconds; write 30, or unset it", name, value));
}

/// For as many seconds others are waited for at the start, at least: a launcher takes its time.
constexpr double shortest_start = 10;

/// The compiler and what it was asked for: two builds of one version may have other bits.
std::string build() {
#ifdef NDEBUG
  constexpr std::string_view kind = "release";
#else
  constexpr std::string_view kind = "debug";
#endif
  return fmt::format("{}, compiler {}", kind, __VERSION__);
}

std::atomic<bool>& is_connected() {
  static std::atomic<bool> connected{false};
  return connected;
}

std::shared_ptr<Processes> connect() {
  ProcessOptions options;
  options.time_limit = time_limit(options.time_limit);
  options.description.emplace_back("the build", build());
  for (auto& [key, value] : machine_description()) options.description.emplace_back("'" + key + "'", value);
  const double start_limit = std::max(options.time_limit, shortest_start);
  auto processes = std::make_shared<Processes>(backend::connect_processes(start_limit), std::move(options));
  is_connected() = true;
  return processes;
}

}  // namespace

const std::shared_ptr<Processes>& world() {
  // Who has not met the others cannot begin again: the error stays.
  struct Outcome {
    std::shared_ptr<Processes> processes;
    std::exception_ptr error;
  };
  static const Outcome outcome = [] {
    try {
      return Outcome{connect(), nullptr};
    } catch (const CommunicatorError&) {
      return Outcome{nullptr, std::current_exception()};
    }
  }();
  if (outcome.error != nullptr) std::rethrow_exception(outcome.error);
  return outcome.processes;
}

void abort_processes(std::string_view text) noexcept {
  if (is_connected()) world()->fail(text);  // else nobody waits for this process but its launcher
}

}  // namespace lockstep
