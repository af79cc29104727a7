#include <chrono>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/processes.h>
#include <lockstep/train.h>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

#ifdef NDEBUG
constexpr bool always_check = false;
#else
constexpr bool always_check = true;
#endif

std::map<std::string, double> on_host(const Logs& logs) {
  std::map<std::string, double> values;
  for (const auto& [name, value] : logs) values.emplace(name, value.item<double>());
  return values;
}

using Callbacks = std::vector<std::shared_ptr<Callback>>;

void check(const TrainStep& step, const TrainState& state, const Tree& batch, const TrainerOptions& options,
           const Callbacks& callbacks) {
  if (options.check_one_meaning || always_check) check_one_meaning(step, state, batch);
  if (!options.check_one_meaning) return;
  const std::vector<std::string> findings = lint(step, state, batch);
  for (const auto& callback : callbacks) callback->on_check(findings);
}

void check(const TrainerOptions& options, const Callbacks& callbacks) {
  if (options.log_every < 1) {
    throw ValueError("[fit] log_every is " + std::to_string(options.log_every) + "; it must be at least 1");
  }
  if (options.steps < 0) {
    throw ValueError("[fit] steps is " + std::to_string(options.steps) +
                     "; it must be 0 or more, those made before included");
  }
  if (options.check_replicas_every < 0) {
    throw ValueError("[fit] check_replicas_every is " + std::to_string(options.check_replicas_every) +
                     "; it must be a number of steps, or 0 for no check");
  }
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    if (callbacks[i] == nullptr) {
      throw ValueError("[fit] callback " + std::to_string(i) + " is null; leave it out");
    }
  }
}

TrainState trained(const TrainStep& step, TrainState state, const detail::BatchSource& source,
                   const TrainerOptions& options, const Callbacks& callbacks) {
  StepReport report{.step = state.step.item<std::int64_t>(), .epoch = source.position().epoch, .logs = {}};
  bool is_first = true;
  auto since = Clock::now();
  while (report.step < options.steps) {
    const Tree batch = source.next();
    if (is_first) check(step, state, batch, options, callbacks);
    is_first = false;
    auto [next, logs] = step(std::move(state), batch);
    state = std::move(next);
    ++report.step;
    if (options.check_replicas_every > 0 && report.step % options.check_replicas_every == 0) {
      check_replicas("the state after step " + std::to_string(report.step), to_tree(state));
    }
    const data::Position position = source.position();
    const bool epoch_ends = position.epoch != report.epoch || report.step == options.steps;
    if (report.step % options.log_every == 0 || epoch_ends) {
      report.logs = on_host(logs);
      const auto now = Clock::now();
      report.seconds = std::chrono::duration<double>(now - since).count();
      since = now;
      for (const auto& callback : callbacks) callback->on_step(report, state);
    }
    if (epoch_ends) {
      for (const auto& callback : callbacks) callback->on_epoch(report, state);
      report.epoch = position.epoch;
      since = Clock::now();
    }
  }
  for (const auto& callback : callbacks) callback->on_end(report, state);
  return state;
}

}  // namespace

Callback::~Callback() = default;
void Callback::on_check(const std::vector<std::string>&) {}
void Callback::on_step(const StepReport&, const TrainState&) {}
void Callback::on_epoch(const StepReport&, const TrainState&) {}
void Callback::on_end(const StepReport&, const TrainState&) {}

TrainState detail::fit(const TrainStep& step, TrainState state, const BatchSource& source,
                       const TrainerOptions& options, const std::vector<std::shared_ptr<Callback>>& callbacks) {
  return tell_processes([&] {
    check(options, callbacks);
    return trained(step, std::move(state), source, options, callbacks);
  });
}

}  // namespace lockstep
