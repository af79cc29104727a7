#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/array.h>
#include <lockstep/callbacks.h>

#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {

namespace {

/// Of a step whose gradients were not finite, so that the step itself has changed nothing but its LossScale; else 0.
double overflowed_scale(const StepReport& report) {
  const auto finite = report.logs.find("gradients_finite"), scale = report.logs.find("loss_scale");
  if (finite == report.logs.end() || scale == report.logs.end() || finite->second != 0) return 0;
  return scale->second;
}

}  // namespace

NanGuard::NanGuard(NanGuardOptions options) : options_(std::move(options)) {
  trainer::check_count("nan_guard", "most_skips", options_.most_skips);
}

void NanGuard::reset() {
  skipped_ = in_a_row_ = found_ = 0;
  overflowed_at_ = 0;
}

std::string NanGuard::found_in(const StepReport& report, bool is_answered) const {
  for (const std::string& name : options_.watched) {
    if (is_answered && (name == "grad_norm" || name.ends_with(".grad_norm"))) continue;
    const auto log = report.logs.find(name);
    if (log == report.logs.end() || std::isfinite(log->second)) continue;
    return fmt::format("nan_guard: {} is {} at step {}", name, log->second, report.step);
  }
  return {};
}

bool NanGuard::accepts(const StepReport& report, Requests& requests) {
  const double scale = overflowed_scale(report);
  // A step that is discarded would leave the scale as large as it was; one that is at its smallest answers nothing more.
  const std::string text = found_in(report, scale != 0 && scale != overflowed_at_);
  if (text.empty()) {
    overflowed_at_ = scale;
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
  return Tree::dict({{"skipped", Tree(array(skipped_))},
                     {"in_a_row", Tree(array(in_a_row_))},
                     {"found", Tree(array(found_))},
                     {"overflowed_at", Tree(array(overflowed_at_))}});
}

void NanGuard::restore(const Tree& saved) {
  skipped_ = saved.at("skipped").array().item<std::int64_t>();
  in_a_row_ = saved.at("in_a_row").array().item<std::int64_t>();
  found_ = saved.at("found").array().item<std::int64_t>();
  overflowed_at_ =
      saved.contains("overflowed_at") ? saved.at("overflowed_at").array().item<double>() : 0;  // earlier runs
}

NanGuard::~NanGuard() = default;

}  // namespace lockstep::callbacks
