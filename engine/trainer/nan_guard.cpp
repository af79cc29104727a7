#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/array.h>
#include <lockstep/callbacks.h>

#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {

NanGuard::NanGuard(NanGuardOptions options) : options_(std::move(options)) {
  trainer::check_count("nan_guard", "most_skips", options_.most_skips);
}

bool NanGuard::accepts(const StepReport& report, Requests& requests) {
  std::string text;
  for (const std::string& name : options_.watched) {
    const auto log = report.logs.find(name);
    if (log == report.logs.end() || std::isfinite(log->second)) continue;
    text = fmt::format("nan_guard: {} is {} at step {}", name, log->second, report.step);
    break;
  }
  if (text.empty()) {
    in_a_row_ = 0;
    return true;
  }
  ++found_;
  if (options_.on_found) options_.on_found(report, text);
  switch (options_.action) {
    case OnNan::report:
      return true;
    case OnNan::stop:
      requests.stop(text, false);
      return true;
    case OnNan::skip:
      break;
  }
  ++skipped_;
  if (++in_a_row_ > options_.most_skips) {
    requests.stop(fmt::format("{}, behind {} batches that were left out, one after the other", text, in_a_row_ - 1));
  }
  return false;
}

void NanGuard::on_resume(const StepReport& report, const Tree&, Requests& requests) {
  if (options_.action != OnNan::skip || in_a_row_ <= options_.most_skips) return;
  requests.stop(fmt::format("nan_guard: behind step {}, {} batches were left out, one after the other", report.step,
                            in_a_row_ - 1));
}

std::string NanGuard::name() const {
  constexpr const char* actions[] = {"stop", "skip", "report"};
  return fmt::format("nan_guard {} {}", actions[static_cast<std::size_t>(options_.action)],
                     fmt::join(options_.watched, ","));
}

Tree NanGuard::saved_state(const Tree&) const {
  return Tree::dict(
      {{"skipped", Tree(array(skipped_))}, {"in_a_row", Tree(array(in_a_row_))}, {"found", Tree(array(found_))}});
}

void NanGuard::restore(const Tree& saved) {
  skipped_ = saved.at("skipped").array().item<std::int64_t>();
  in_a_row_ = saved.at("in_a_row").array().item<std::int64_t>();
  found_ = saved.at("found").array().item<std::int64_t>();
}

}  // namespace lockstep::callbacks
