#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>
#include <lockstep/trainer.h>

#include "engine/trainer/agreed_stop.h"
#include "engine/trainer/changes.h"
#include "engine/trainer/monitor.h"
#include "engine/trainer/saved_run.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using detail::Callbacks;
using detail::TrainedStep;

#ifdef NDEBUG
constexpr bool always_check = false;
#else
constexpr bool always_check = true;
#endif

constexpr const char* of_validation = "val_";
/// Among the metrics of a checkpoint: what was told of its step was told because the run ended there, within an epoch.
constexpr const char* ended_within = "ended_within_epoch";

void check(const TrainerOptions& o, const Callbacks& callbacks) {
  if (o.log_every < 1) throw ValueError(fmt::format("[fit] log_every is {}; it must be at least 1", o.log_every));
  if (o.steps < 0) {
    throw ValueError(fmt::format("[fit] steps is {}; it must be 0 or more, those made before included", o.steps));
  }
  if (o.steps == 0 && o.epochs == 0) {
    throw ValueError(
        "[fit] steps and epochs are both 0, so no step would be made; give TrainerOptions::steps or epochs");
  }
  if (o.epochs < 0) throw ValueError(fmt::format("[fit] epochs is {}; it must be 0 or more, in all", o.epochs));
  if (o.check_replicas_every < 0) {
    throw ValueError(fmt::format("[fit] check_replicas_every is {}; it must be a number of steps, or 0 for no check",
                                 o.check_replicas_every));
  }
  for (const auto& [name, every] : {std::pair{"validate_every", o.validate_every}, {"save_every", o.save_every}}) {
    if (every < 0) {
      throw ValueError(
          fmt::format("[fit] {} is {}; it must be a number of steps, or 0 for once an epoch", name, every));
    }
  }
  if (o.resume && o.checkpoints == nullptr) {
    throw ValueError("[fit] resume needs a folder of checkpoints; give TrainerOptions::checkpoints");
  }
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    if (callbacks[i] == nullptr) throw ValueError(fmt::format("[fit] callback {} is null; leave it out", i));
    const auto same = static_cast<std::size_t>(std::ranges::find(callbacks, callbacks[i]) - callbacks.begin());
    if (same == i) continue;
    throw ValueError(fmt::format("[fit] callback {} is callback {} once more; leave one of them out", i, same));
  }
  if (o.checkpoints != nullptr) trainer::check_names(callbacks);
  trainer::check_monitored(callbacks, o, std::nullopt);
}

double number_of(const std::string& name, const Tree& value) {
  if (value.is_leaf()) return value.array().item<double>();
  if (value.kind() == Tree::Kind::fixed && !std::holds_alternative<std::string>(value.fixed())) {
    return from_tree<double>(value);
  }
  throw StateError("[fit] the log '" + name + "' is no number; a step logs scalars by name");
}

std::map<std::string, double> on_host(const Tree& logs) {
  std::map<std::string, double> values;
  if (logs.kind() == Tree::Kind::none) return values;
  for (const auto& [name, value] : logs.entries()) values.emplace(name, number_of(name, value));
  return values;
}

std::vector<std::string> names_of(const Tree& logs) {
  std::vector<std::string> names;
  if (logs.kind() == Tree::Kind::none) return names;
  for (const auto& [name, value] : logs.entries()) names.push_back(name);
  return names;
}

/// Where a state counts its steps itself.
bool counts_steps(const Tree& state) {
  return state.kind() == Tree::Kind::dict && state.contains("step") && state.at("step").is_leaf() &&
         state.at("step").array().ndim() == 0 && is_integer(state.at("step").array().dtype());
}

std::int64_t rows_in(const Tree& batch) {
  for (const Array& leaf : batch.leaves()) {
    if (leaf.has_value() && leaf.ndim() > 0) return leaf.dim(0);
  }
  return 0;
}

/// One call of `fit`.
class Run {
  template <class F>
  auto timed(const F& work) {
    const auto start = Clock::now();
    auto result = work();
    report_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    return result;
  }

 public:
  Run(const TrainedStep& step, Tree state, const BatchSource& source, const TrainerOptions& options,
      const Callbacks& callbacks)
      : step_(step), state_(std::move(state)), source_(source), options_(options), callbacks_(callbacks) {
    for (const auto& callback : callbacks_) {
      judges_ = judges_ || callback->judges_steps();
      may_discard_ = may_discard_ || (callback->judges_steps() && callback->may_discard());
    }
  }

  Tree trained() {
    begin();
    while (!is_over() && !is_cut_off_) {
      std::optional<Tree> batch = timed([&] { return source_.next(); });
      if (!batch) break;
      one_step(*batch);
    }
    is_cut_off_ && !is_over() ? finish_saving() : end();
    return std::move(state_);
  }

 private:
  void begin() {
    if (counts_steps(state_)) report_.step = state_.at("step").array().item<std::int64_t>();
    for (const auto& callback : callbacks_) callback->reset();
    if (options_.checkpoints != nullptr) options_.checkpoints->open();
    const bool is_resumed = options_.resume && resume();
    if (options_.checkpoints != nullptr && !is_resumed) look_for_saved();
    report_.first_step = report_.step;
    report_.epoch = source_.position().epoch;
    report_.last_step = last_step();
    for (const auto& callback : callbacks_) callback->on_begin(report_, state_);
    if (options_.checkpoints != nullptr) options_.checkpoints->clean();  // by now nobody refuses the run
    if (!is_resumed) return;
    tell_resume();
    do_requests();
  }

  /// What a longer run would not have been told of the step is told to be so, where the run goes on.
  void tell_resume() {
    const bool is_mended = ended_within_ && !is_over();
    report_.logs = kept_logs_;
    report_.has_extra_validation = is_mended && !is_due(options_.validate_every);
    for (const auto& callback : callbacks_) {
      report_.is_extra = is_mended && !is_due(steps_between(*callback));
      callback->on_resume(report_, state_, requests_);
    }
    report_.is_extra = report_.has_extra_validation = false;
    report_.logs.clear();
  }

  /// Whether there was a run to go on with.
  bool resume() {
    auto resumed = trainer::resumed_run(state_, options_, callbacks_);
    if (!resumed) return false;
    state_ = std::move(resumed->state);
    report_.step = resumed->step;
    saved_step_ = resumed->step;
    is_saved_by_run_ = true;
    ended_within_ = resumed->metrics.erase(ended_within) > 0;
    for (const auto& [name, value] : resumed->metrics) {
      if (!name.starts_with(of_validation)) kept_logs_.emplace(name, value);
    }
    source_.seek(resumed->position);
    return true;
  }

  /// Whether the step that the run begins at is saved, of whatever state. Throws CheckpointError where checkpoints of another
  /// run would pass for the latest ones of this.
  void look_for_saved() {
    std::string found;
    if (world()->rank() == 0) {
      const std::optional<std::int64_t> latest = options_.checkpoints->latest();
      if (latest && *latest > report_.step) {
        throw CheckpointError(fmt::format(
            "[fit] {} is there already, and the run begins at step {}; set TrainerOptions::resume to go on from "
            "it, or give checkpoints another folder",
            options_.checkpoints->folder_of(*latest).string(), report_.step));
      }
      if (latest == report_.step) found = "some";
    }
    if (!world()->all_gather_text(found).front().empty()) saved_step_ = report_.step;
  }

  std::int64_t last_step() const {
    std::int64_t last = options_.steps;
    if (options_.epochs > 0 && source_.batches_per_epoch) {
      const std::int64_t by_epochs = options_.epochs * source_.batches_per_epoch();
      last = last == 0 ? by_epochs : std::min(last, by_epochs);
    }
    return last;
  }

  bool is_over() const {
    if (requests_.stop_reason()) return true;
    if (options_.epochs > 0 && source_.position().epoch >= options_.epochs) return true;
    return options_.steps > 0 || options_.epochs == 0 ? report_.step >= options_.steps : false;
  }

  void check_first(const Tree& batch) {
    if (std::exchange(is_checked_, true) || step_.one_meaning == nullptr) return;
    // Statistics of a microbatch, which a layer may have been asked for, are others where one shard has all rows.
    const bool checks_unasked =
        always_check && world()->size() == 1 && step_.one_meaning->parts().options.microbatches == 1;
    if (!options_.check_one_meaning && !checks_unasked) return;
    const auto state = from_tree<TrainState>(state_);
    check_one_meaning(*step_.one_meaning, state, batch);
    if (!options_.check_one_meaning) return;
    const std::vector<std::string> findings = lint(*step_.one_meaning, state, batch);
    for (const auto& callback : callbacks_) callback->on_check(findings);
  }

  void one_step(const Tree& batch) {
    check_first(batch);
    const Tree before = may_discard_ ? state_ : Tree();
    Tree logs = timed([&] {
      auto [next, step_logs] = step_.step(std::move(state_), batch);
      state_ = std::move(next);
      return std::move(step_logs);
    });
    is_ahead_of_saved_ = true;
    report_.rows += rows_in(batch);
    ++report_.step;
    const bool is_kept = accepted(logs, before);
    if (is_kept) {
      for (const auto& callback : callbacks_) callback->on_update(report_.step, state_);
      const bool is_first = report_.step == report_.first_step + 1;  // what callbacks read is known with its logs
      if (is_first) trainer::check_monitored(callbacks_, options_, names_of(logs));
    }
    if (is_kept && options_.check_replicas_every > 0 && report_.step % options_.check_replicas_every == 0) {
      check_replicas(fmt::format("the state after step {}", report_.step), state_);
    }
    is_cut_off_ = stop_.stops_after(report_.step);
    after_step(logs, is_kept);
  }

  /// Whether no callback discards the step; else the state is that before it.
  bool accepted(const Tree& logs, const Tree& before) {
    if (!judges_) return true;
    StepReport judged = report_;
    judged.logs = timed([&] { return on_host(logs); });
    bool is_accepted = true;
    for (const auto& callback : callbacks_) {
      if (callback->judges_steps()) is_accepted = callback->accepts(judged, requests_) && is_accepted;
    }
    if (is_common()) {
      world()->expect_same_later(fmt::format("whether callbacks accept step {}", report_.step), is_accepted ? 1 : 0);
    }
    if (is_accepted) {
      kept_logs_ = std::move(judged.logs);
      return true;
    }
    if (!may_discard_) {
      throw StateError("[fit] a callback did not accept a step, but none of them said that it may_discard()");
    }
    if (kept_logs_.empty()) kept_logs_ = std::move(judged.logs);  // there are none that could be told instead
    state_ = before;
    --report_.step;
    return false;
  }

  /// Whether the run is one of several processes, whose steps communicate.
  bool is_common() const { return world()->size() > 1 && world()->calls() > calls_before_; }

  bool is_due(std::int64_t every) const { return every > 0 && report_.step % every == 0; }
  std::int64_t steps_between(const Callback& c) const { return c.every() > 0 ? c.every() : options_.log_every; }

  /// Tells the callbacks, validates, does what was asked for, saves.
  void after_step(const Tree& logs, bool is_kept) {
    const std::int64_t epoch = source_.position().epoch;
    const bool is_last = is_over();
    const bool epoch_ends = epoch != report_.epoch || is_last;
    const bool validates =
        options_.validate && (options_.validate_every > 0 ? is_kept && is_due(options_.validate_every) : epoch_ends);
    const bool saves = options_.checkpoints != nullptr &&
                       (is_cut_off_ || (options_.save_every > 0 ? is_kept && is_due(options_.save_every) : epoch_ends));
    const auto is_told = [&](const Callback& c) { return is_due(steps_between(c)) || epoch_ends; };
    const bool anyone = std::ranges::any_of(callbacks_, [&](const auto& callback) { return is_told(*callback); });
    if (!is_kept) {
      report_.logs = kept_logs_;
    } else if (anyone || validates || saves) {
      report_.logs = timed([&] { return on_host(logs); });
    }
    if (validates) validate();
    const bool is_within = epoch == report_.epoch;
    ended_within_ = is_last && is_within && is_kept;
    if (is_kept) {
      for (const auto& callback : callbacks_) {
        report_.is_extra = ended_within_ && !is_due(steps_between(*callback));
        if (is_told(*callback)) callback->on_step(report_, state_, requests_);
      }
    }
    report_.is_extra = is_within && options_.validate_every == 0;
    if (validates) tell(&Callback::on_validation);
    report_.is_extra = is_within;
    if (epoch_ends) tell(&Callback::on_epoch);
    report_.is_extra = false;
    report_.epoch = is_last ? report_.epoch : epoch;
    do_requests();
    if ((saves || wants_save_) && !is_over()) save();
    if (options_.checkpoints != nullptr) static_cast<void>(options_.checkpoints->is_saving());
  }

  void validate() {
    for (const auto& [name, value] : options_.validate(state_)) report_.logs[of_validation + name] = value;
  }

  void tell(void (Callback::*event)(const StepReport&, const Tree&, Requests&)) {
    for (const auto& callback : callbacks_) ((*callback).*event)(report_, state_, requests_);
  }

  /// What was asked for, but for the end of the run.
  void do_requests() {
    const bool was_told = std::exchange(is_stop_compared_, requests_.stop_reason().has_value());
    const bool asks_more = requests_.is_save() || !requests_.replaced().empty() || !requests_.hyperparameters().empty();
    if (is_common() && (!was_told || asks_more)) trainer::check_requests(requests_, report_.step);
    is_changed_ = is_changed_ || !requests_.replaced().empty() || !requests_.hyperparameters().empty();
    state_ = trainer::changed(std::move(state_), requests_);
    wants_save_ = requests_.is_save();
    if (wants_save_ && options_.checkpoints == nullptr) {
      throw ValueError("[fit] a callback asked for a checkpoint; give TrainerOptions::checkpoints a folder for it");
    }
    Requests rest;
    if (requests_.stop_reason()) rest.stop(*requests_.stop_reason(), requests_.saves_at_end());
    requests_ = std::move(rest);
  }

  /// In the middle of the run: what has come behind a step that is saved already comes again behind a resume.
  void save() {
    wants_save_ = false;
    if (report_.step != saved_step_) write(&checkpoint::Manager::save, report_.logs);
  }

  /// At its end, so that a resume makes nothing again.
  void save_last() {
    if (report_.step != saved_step_) return write(&checkpoint::Manager::save, report_.logs);
    if (is_saved_by_run_ && !is_ahead_of_saved_ && !is_changed_) return;
    const bool is_same = trainer::is_saved(state_, *options_.checkpoints, report_.step);
    if (!is_same && !is_saved_by_run_) {
      throw CheckpointError(fmt::format(
          "[fit] {} is there already, with another state than this run has at that step; set TrainerOptions::resume to "
          "go on from it, or give checkpoints another folder",
          options_.checkpoints->folder_of(report_.step).string()));
    }
    if (is_same && !is_ahead_of_saved_) return;
    std::map<std::string, double> metrics = report_.logs;
    metrics.merge(options_.checkpoints->metrics(report_.step));
    metrics.erase(ended_within);
    write(&checkpoint::Manager::replace, std::move(metrics));
  }

  using Write = void (checkpoint::Manager::*)(std::int64_t, const Tree&, const Named<double>&,
                                              const Named<std::string>&);
  void write(Write by, std::map<std::string, double> metrics) {
    if (ended_within_) metrics.emplace(ended_within, 1);
    ((*options_.checkpoints).*by)(report_.step, trainer::saved_run(state_, source_.position(), callbacks_), metrics,
                                  options_.manifest);
    saved_step_ = report_.step;
    is_saved_by_run_ = true;
    is_ahead_of_saved_ = is_changed_ = false;
  }

  void end() {
    if (requests_.stop_reason()) report_.stop_reason = *requests_.stop_reason();
    tell(&Callback::on_end);
    const bool saves = options_.checkpoints != nullptr && requests_.saves_at_end();
    do_requests();
    if (saves) save_last();
    finish_saving();
    if (is_common()) world()->barrier();  // a last request that not all processes have is seen here
  }

  void finish_saving() {
    if (options_.checkpoints != nullptr) options_.checkpoints->wait();
  }

  const TrainedStep& step_;
  Tree state_;
  const BatchSource& source_;
  const TrainerOptions& options_;
  const Callbacks& callbacks_;
  StepReport report_ = {};
  /// Of the latest step that was kept, where steps are judged; of the first one where none was.
  std::map<std::string, double> kept_logs_ = {};
  Requests requests_ = {};
  std::int64_t saved_step_ = -1;
  bool is_saved_by_run_ = false;    ///< Else it was there before, of whatever state.
  bool is_ahead_of_saved_ = false;  ///< Batches have come since.
  bool is_changed_ = false;         ///< By callbacks, since.
  bool judges_ = false;
  bool may_discard_ = false;
  bool is_checked_ = false;
  bool ended_within_ = false;  ///< The latest step is told of, or saved, because the run ends there within an epoch.
  bool wants_save_ = false;
  std::uint64_t calls_before_ = world()->size() > 1 ? world()->calls() : 0;
  bool is_stop_compared_ = false;  ///< With the other processes.
  bool is_cut_off_ = false;        ///< By `stop_when`, behind the latest step.
  trainer::AgreedStop stop_{options_.stop_when};
};

/// Closes all of them, whatever each throws; the first error is thrown.
void close_all(const Callbacks& callbacks) {
  std::exception_ptr first;
  for (const auto& callback : callbacks) {
    try {
      callback->close();
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

/// The options with what step and batches say of a run in its manifest.
TrainerOptions with_known_entries(TrainerOptions options, const TrainedStep& step, const BatchSource& source) {
  Named<std::string>::Map entries = options.manifest;
  if (source.batch) entries.emplace("batch", std::to_string(*source.batch));
  if (source.seed) entries.emplace("seed", std::to_string(*source.seed));
  if (source.batch && step.one_meaning != nullptr) {
    entries.emplace("shards", std::to_string(step.one_meaning->mesh(*source.batch).shards()));
  }
  options.manifest = std::move(entries);
  return options;
}

}  // namespace

Tree detail::fit(const TrainedStep& step, Tree state, const BatchSource& source, const TrainerOptions& options,
                 const Callbacks& callbacks) {
  return tell_processes([&] {
    check(options, callbacks);
    const TrainerOptions known = with_known_entries(options, step, source);
    Tree trained;
    try {
      trained = Run(step, std::move(state), source, known, callbacks).trained();
    } catch (...) {
      try {
        close_all(callbacks);
      } catch (...) {  // what ended the run is what is thrown
      }
      throw;
    }
    close_all(callbacks);
    return trained;
  });
}

}  // namespace lockstep
