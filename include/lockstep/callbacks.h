#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/tree.h>

namespace lockstep {

extern template class LOCKSTEP_API detail::OutOfLine<std::map<std::string, double>>;
extern template class LOCKSTEP_API detail::OutOfLine<std::map<std::string, Tree>>;

/// What a callback is told of a run.
struct StepReport {
  std::int64_t step = 0;   ///< Steps made in all, those before this `fit` included.
  std::int64_t epoch = 0;  ///< That the step belongs to, from 0.
  /// Of the step, by name; where a validation was made behind it, "val_<name>" too. Of on_resume: those that were saved,
  /// without validation.
  detail::OutOfLine<std::map<std::string, double>> logs = {};
  double seconds = 0;     ///< Spent on batches and steps since this `fit` began, without validation and callbacks.
  std::int64_t rows = 0;  ///< Of all batches since this `fit` began.
  std::int64_t first_step = 0;   ///< Steps made before this `fit`.
  std::int64_t last_step = 0;    ///< The step it will end with; 0 where nobody knows.
  std::string stop_reason = {};  ///< At the end: why it was stopped before.
  /// Told because the run ends here, within an epoch; a longer run would not be told. Of on_resume: so it was told of the
  /// step, and the run goes on.
  bool is_extra = false;
  /// Of on_resume: the step was told with a validation that was made because the run ended there, and the run goes on.
  bool has_extra_validation = false;
};

/// What a callback may ask for. It is done when all callbacks of the step were told of it.
class LOCKSTEP_API Requests {
 public:
  /// The run ends behind this step; `save`: with a last checkpoint. The first reason stands.
  void stop(std::string reason, bool save = true);
  /// A checkpoint of this step.
  void save() { save_ = true; }
  /// A hyper-parameter that stands in the optimizer's state (optim::inject_hyperparams): the next steps take it, without
  /// a new trace.
  void set_hyperparameter(std::string name, double value);
  /// Leaves of the state at or below a path ("trainable") take these values, whose paths and types must be the same.
  void replace(std::string path, Tree values);

  std::optional<std::string> stop_reason() const;
  bool saves_at_end() const { return saves_at_end_; }
  bool is_save() const { return save_; }
  const std::map<std::string, double>& hyperparameters() const { return hyperparameters_; }
  const std::map<std::string, Tree>& replaced() const { return replaced_; }

 private:
  std::string stop_;
  bool is_stop_ = false;
  bool saves_at_end_ = true;
  bool save_ = false;
  std::map<std::string, double> hyperparameters_;
  std::map<std::string, Tree> replaced_;
};

/// Watches a run. A state is a constant for it, {"trainable", "non_trainable", "optimizer", "step", "loss_scale"} where it
/// is a TrainState: it cannot make or change variables, but ask for what `Requests` has. What it throws ends the run. In a
/// run of several processes each has its own callbacks, which must ask for the same.
class LOCKSTEP_API Callback {
 public:
  virtual ~Callback();
  /// Before anything else of each `fit`, that of a resumed run too: what an earlier one has left of counts and bests is
  /// forgotten. (What Keras' callbacks do in on_train_begin)
  virtual void reset();
  /// Where the trainer was asked to check, before the first step: what `lint` found.
  virtual void on_check(const std::vector<std::string>& findings);
  /// Before the first step; of a resumed run, with the state and step that it goes on from.
  virtual void on_begin(const StepReport& report, const Tree& state);
  /// Behind that, of a resumed run alone: where the one that was saved had come to its end, this one may be stopped before
  /// it makes a step.
  virtual void on_resume(const StepReport& report, const Tree& state, Requests& requests);
  /// After each step that is accepted, before validation and everything below. It has no logs.
  virtual void on_update(std::int64_t step, const Tree& state);
  /// Every `every()` steps, at the end of each epoch and at the last step.
  virtual void on_step(const StepReport& report, const Tree& state, Requests& requests);
  /// Behind each validation.
  virtual void on_validation(const StepReport& report, const Tree& state, Requests& requests);
  virtual void on_epoch(const StepReport& report, const Tree& state, Requests& requests);
  virtual void on_end(const StepReport& report, const Tree& state, Requests& requests);
  /// Last of all, also where something has thrown; files are closed.
  virtual void close();

  /// The log that it reads, "" for none: a run whose logs have no such one is an error from the start.
  virtual std::string monitored() const;
  /// Steps between calls of on_step; 0: TrainerOptions::log_every.
  virtual std::int64_t every() const;
  /// Whether `accepts` is asked behind each step, before anybody else is told of it. Logs are then read each step.
  virtual bool judges_steps() const;
  /// Whether `accepts` may say no. Then states before a step are kept until it is accepted, which takes their memory twice.
  virtual bool may_discard() const;
  /// false: the state stays what it was before the step, and the batch is left out. `report.step` is that of this step.
  virtual bool accepts(const StepReport& report, Requests& requests);

  /// Under which its state is saved with checkpoints, unlike others'; "": it has none.
  virtual std::string name() const;
  /// What it has to keep over a resume, as arrays; before the run, anything of the same types.
  virtual Tree saved_state(const Tree& state) const;
  /// Before on_begin.
  virtual void restore(const Tree& saved);
};

/// The hyper-parameters that stand in a state (optim::inject_hyperparams), by name. One that stands there several times
/// has its path before it.
LOCKSTEP_API std::map<std::string, double> hyperparameters(const Tree& state);

namespace detail {
class LogFile;
class EventFile;
}  // namespace detail

namespace callbacks {

/// Which way a monitored metric gets better. `automatic`: larger for names that end in "acc", "accuracy" or "auc".
enum class Mode : std::uint8_t { automatic, min, max };

/// The best value of a metric so far.
struct BestValue {
  double value = std::numeric_limits<double>::quiet_NaN();  ///< NaN before the first look.
  bool is_known = false;
  /// Whether a value is better by more than `min_delta`; the first one is better than none, and any than NaN.
  LOCKSTEP_API bool is_beaten_by(double other, bool is_maximised, double min_delta) const;
};

/// What to look at, and how long to wait.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";  ///< "val_...": looked at behind each validation, else at the end of each epoch.
  double min_delta = 0;              ///< What is less is no improvement.
  std::int64_t patience = 0;         ///< Looks without improvement until it stops.
  Mode mode = Mode::automatic;
  std::optional<double> baseline = {};  ///< Improvements count once they are better than that.
  bool restore_best_weights = false;    ///< In the end, trainable and non-trainable variables are the best look's.
  std::int64_t start_from_epoch = 0;
  std::string name = {};  ///< Under which its state is saved; empty: "early_stopping <monitor>". Two need two names.
};
/// Ends the run where a metric gets no better. (Keras' EarlyStopping) One that it has ended is over when it is resumed, too,
/// but with more patience: then it goes on from the weights that it had, whatever was restored, as if it had not ended. What
/// is told because a run ends within an epoch counts for no look, here and below.
class LOCKSTEP_API EarlyStopping final : public Callback {
 public:
  /// Throws ValueError for counts below 0.
  explicit EarlyStopping(EarlyStoppingOptions options);
  ~EarlyStopping() override;
  void reset() override;
  void on_resume(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_validation(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_epoch(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_end(const StepReport& report, const Tree& state, Requests& requests) override;
  void close() override;
  std::string monitored() const override;
  std::string name() const override;
  Tree saved_state(const Tree& state) const override;
  void restore(const Tree& saved) override;

  std::int64_t best_step() const { return best_step_; }
  std::int64_t stopped_step() const { return stopped_step_; }  ///< 0: it has not stopped.
  double best() const { return best_.value; }

 private:
  void look(const StepReport& report, const Tree& state, Requests& requests);
  void stop(Requests& requests) const;

  EarlyStoppingOptions options_;
  BestValue best_;
  std::int64_t wait_ = 0;
  std::int64_t looks_ = 0;
  std::int64_t best_step_ = 0;
  std::int64_t stopped_step_ = 0;
  std::map<std::string, Tree> best_weights_;  // by path in the state
  std::map<std::string, Tree> last_weights_;  // where the best ones have taken their place at the end
};

/// What to look at, and what to do to which rate.
struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  std::int64_t patience = 10;
  Mode mode = Mode::automatic;
  double min_delta = 1e-4;
  std::int64_t cooldown = 0;
  double min_lr = 0;
  std::string hyperparameter = "learning_rate";  ///< Its name among those of optim::inject_hyperparams.
  /// Under which its state is saved; empty: "reduce_lr_on_plateau <monitor>". Two need two names.
  std::string name = {};
};
/// Makes a learning rate smaller where a metric gets no better. (Keras' ReduceLROnPlateau)
class LOCKSTEP_API ReduceLROnPlateau final : public Callback {
 public:
  /// Throws ValueError for a factor that is not in (0, 1) and counts below 0.
  explicit ReduceLROnPlateau(ReduceLROnPlateauOptions options);
  ~ReduceLROnPlateau() override;
  void reset() override;
  void on_validation(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_epoch(const StepReport& report, const Tree& state, Requests& requests) override;
  std::string monitored() const override;
  std::string name() const override;
  Tree saved_state(const Tree& state) const override;
  void restore(const Tree& saved) override;

 private:
  void look(const StepReport& report, const Tree& state, Requests& requests);

  ReduceLROnPlateauOptions options_;
  BestValue best_;
  std::int64_t wait_ = 0;
  std::int64_t cooldown_ = 0;
};

/// When to ask for a checkpoint.
struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  bool save_best_only = false;
  Mode mode = Mode::automatic;
  std::int64_t save_freq = 0;  ///< Steps; 0: at the end of each epoch. Not where only the best are saved.
};
/// Asks for checkpoints, in the folder of TrainerOptions::checkpoints. (Keras' ModelCheckpoint)
class LOCKSTEP_API ModelCheckpoint final : public Callback {
 public:
  /// Throws ValueError for a save_freq below 0.
  explicit ModelCheckpoint(ModelCheckpointOptions options);
  ~ModelCheckpoint() override;
  void reset() override;
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_validation(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_epoch(const StepReport& report, const Tree& state, Requests& requests) override;
  std::int64_t every() const override { return options_.save_freq; }
  std::string monitored() const override;
  std::string name() const override;
  Tree saved_state(const Tree& state) const override;
  void restore(const Tree& saved) override;

 private:
  void look(const StepReport& report, Requests& requests);

  ModelCheckpointOptions options_;
  BestValue best_;
};

/// What becomes of a step whose loss or gradients are infinite or NaN.
enum class OnNan : std::uint8_t {
  stop,    ///< The run ends, without a checkpoint: its state is spoilt. (Keras' TerminateOnNaN)
  skip,    ///< The step did not happen: the state stays, the next batch comes.
  report,  ///< Nothing but what `on_found` does.
};
/// What to look at, and what to do then.
struct NanGuardOptions {
  OnNan action = OnNan::stop;
  /// Logs; those that a step does not have are passed over, and norms of gradients where a LossScale has answered them by
  /// becoming smaller.
  detail::OutOfLine<std::vector<std::string>> watched = {"loss", "grad_norm"};
  std::int64_t most_skips = 10;  ///< More than so many in a row end the run.
  std::function<void(const StepReport& report, const std::string& text)> on_found = {};
};
/// Looks at each step's logs for NaN and infinity. What it has counted is saved with checkpoints: a run that it has ended by
/// its skips is over when it is resumed, too, but with more of them.
class LOCKSTEP_API NanGuard final : public Callback {
 public:
  explicit NanGuard(NanGuardOptions options = {});
  ~NanGuard() override;
  void reset() override;
  bool judges_steps() const override { return true; }
  bool may_discard() const override { return options_.action == OnNan::skip; }
  bool accepts(const StepReport& report, Requests& requests) override;
  void on_resume(const StepReport& report, const Tree& state, Requests& requests) override;
  std::string name() const override;
  Tree saved_state(const Tree& state) const override;
  void restore(const Tree& saved) override;
  std::int64_t skipped() const { return skipped_; }
  std::int64_t found() const { return found_; }

 private:
  std::string found_in(const StepReport& report, bool is_answered) const;

  NanGuardOptions options_;
  std::int64_t skipped_ = 0;
  std::int64_t in_a_row_ = 0;
  std::int64_t found_ = 0;
  double overflowed_at_ = 0;  ///< The scale of the loss at the last accepted step, where that has overflowed; else 0.
};

/// Of the log "grad_norm".
struct GradientNormsOptions {
  std::int64_t every = 1;    ///< Steps between looks.
  std::size_t window = 100;  ///< Of the latest norms.
  /// A norm so many times the window's mean is one, once the window is full; and what is not finite.
  double spike = 10;
  std::function<void(const StepReport& report, double norm, double mean)> on_spike = {};
};
/// Watches the norm of the gradients. Its window, of norms that are finite, is saved with checkpoints.
class LOCKSTEP_API GradientNorms final : public Callback {
 public:
  /// Throws ValueError for a window or `every` below 1.
  explicit GradientNorms(GradientNormsOptions options = {});
  ~GradientNorms() override;
  void reset() override;
  /// Throws StateError where the step logs no "grad_norm".
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  std::int64_t every() const override { return options_.every; }
  std::string monitored() const override;
  std::string name() const override;
  Tree saved_state(const Tree& state) const override;
  void restore(const Tree& saved) override;
  double mean() const;  ///< Of the window; 0 of an empty one.
  double largest() const { return largest_; }
  const std::vector<std::int64_t>& spikes() const { return spikes_; }  ///< Steps, the latest thousand.

 private:
  GradientNormsOptions options_;
  std::vector<double> norms_;
  double largest_ = 0;
  std::vector<std::int64_t> spikes_;
};

/// Of which weights, and how slowly.
struct AveragedWeightsOptions {
  double momentum = 0.99;
  std::int64_t every = 1;
  std::string path = "trainable";  ///< Of the state.
  std::string name = {};           ///< Under which it is saved; empty: "averaged_weights <path>". Two need two names.
};
/// An exponential moving average of the weights, average = momentum * average + (1 - momentum) * weights after every
/// `every` steps, from the weights at the beginning on; a validation of the same step sees it. Of weights that lie cut it lies
/// as they do, and nothing is sent. (Keras' use_ema;
/// inside of a step, optim::average_parameters) A `fit` that begins at the step where the last one ended goes on with its
/// average, any other begins anew.
class LOCKSTEP_API AveragedWeights final : public Callback {
 public:
  /// Throws ValueError for a momentum that is not in [0, 1) and `every` below 1.
  explicit AveragedWeights(AveragedWeightsOptions options = {});
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;
  ~AveragedWeights() override;
  void on_begin(const StepReport& report, const Tree& state) override;
  void on_update(std::int64_t step, const Tree& state) override;
  void on_end(const StepReport& report, const Tree& state, Requests& requests) override;
  std::string name() const override;
  Tree saved_state(const Tree& state) const override;
  void restore(const Tree& saved) override;
  /// The average, in the structure of the weights.
  const Tree& weights() const { return average_; }

 private:
  struct Update;

  AveragedWeightsOptions options_;
  Tree average_;
  std::int64_t last_step_ = 0;  ///< Where the last fit has ended.
  bool is_restored_ = false;    ///< By what comes before the fit's beginning.
  detail::Owned<Update> update_;
};

/// How progress is shown.
struct ProgressBarOptions {
  bool terminal = false;   ///< One line that is written over; else a line each time.
  int width = 30;          ///< Of the bar, in characters.
  std::int64_t every = 0;  ///< Steps; 0: TrainerOptions::log_every.
};
/// Writes epoch, step, logs, rows a second and the time left to a stream, which must live as long. Of process 0 alone.
class LOCKSTEP_API ProgressBar final : public Callback {
 public:
  explicit ProgressBar(std::ostream& out, ProgressBarOptions options = {});
  void on_begin(const StepReport& report, const Tree& state) override;
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_end(const StepReport& report, const Tree& state, Requests& requests) override;
  std::int64_t every() const override { return options_.every; }

 private:
  std::ostream& out_;
  ProgressBarOptions options_;
  double seconds_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t last_printed_ = -1;
};

/// Which columns a table has.
struct CsvLoggerOptions {
  /// In this order; empty: step, epoch and then the logs as they first appear. A name that a row does not have is an empty
  /// cell.
  detail::OutOfLine<std::vector<std::string>> columns = {};
  std::string rate = {};   ///< The name of a column with rows a second since the last row; empty: none.
  std::int64_t every = 0;  ///< Steps; 0: TrainerOptions::log_every.
};
/// Writes a row a report to a file (Keras' CSVLogger). A resumed run takes away the rows behind the step it goes on from, and
/// what was written because a run ended within an epoch, so that each step stands there once and the file is that of a run
/// without interruption. Of process 0 alone. Numbers are
/// the shortest that read back as they were. Throws CheckpointError naming file and system error.
class LOCKSTEP_API CsvLogger final : public Callback {
 public:
  /// Throws ValueError for `every` below 0; here and below.
  explicit CsvLogger(std::filesystem::path file, CsvLoggerOptions options = {});
  CsvLogger(const CsvLogger&) = delete;
  CsvLogger& operator=(const CsvLogger&) = delete;
  ~CsvLogger() override;
  void on_begin(const StepReport& report, const Tree& state) override;
  void on_resume(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  void close() override;
  std::int64_t every() const override { return options_.every; }

 private:
  /// A header comes with the first row.
  void begin_without_rows();

  std::filesystem::path path_;
  CsvLoggerOptions options_;
  std::vector<std::string> columns_;
  detail::Owned<detail::LogFile> file_;
  double seconds_ = 0;
  std::int64_t rows_ = 0;
};

/// Writes the SHA-256 of each array of the state behind each step: "step,variable,sha256". Of two such files the first line
/// that differs says which step and variable it was. Resumed as a CsvLogger. In a run of several processes each must have
/// one; process 0 writes.
class LOCKSTEP_API BitTrace final : public Callback {
 public:
  explicit BitTrace(std::filesystem::path file, std::int64_t every = 1);
  BitTrace(const BitTrace&) = delete;
  BitTrace& operator=(const BitTrace&) = delete;
  ~BitTrace() override;
  void on_begin(const StepReport& report, const Tree& state) override;
  void on_resume(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  void close() override;
  std::int64_t every() const override { return every_; }

 private:
  std::filesystem::path path_;
  std::int64_t every_;
  detail::Owned<detail::LogFile> file_;
};

/// Writes a JSON object a report, one a line: {"epoch": 0, "loss": 0.5, "step": 1}. Resumed as a CsvLogger. Numbers that
/// JSON does not have are texts: "nan", "inf", "-inf".
class LOCKSTEP_API JsonLinesLogger final : public Callback {
 public:
  explicit JsonLinesLogger(std::filesystem::path file, std::int64_t every = 0);
  JsonLinesLogger(const JsonLinesLogger&) = delete;
  JsonLinesLogger& operator=(const JsonLinesLogger&) = delete;
  ~JsonLinesLogger() override;
  void on_begin(const StepReport& report, const Tree& state) override;
  void on_resume(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  void close() override;
  std::int64_t every() const override { return every_; }

 private:
  std::filesystem::path path_;
  std::int64_t every_;
  detail::Owned<detail::LogFile> file_;
};

/// Writes event files that TensorBoard reads, a new one each run: logs, and hyper-parameters that stand in the state, as
/// scalars. What a killed run has written behind the step that is gone on from, and what was written because a run
/// ended within an epoch, TensorBoard leaves out. Of process 0 alone.
class LOCKSTEP_API TensorBoard final : public Callback {
 public:
  explicit TensorBoard(std::filesystem::path folder, std::int64_t every = 0);
  TensorBoard(const TensorBoard&) = delete;
  TensorBoard& operator=(const TensorBoard&) = delete;
  ~TensorBoard() override;
  void on_begin(const StepReport& report, const Tree& state) override;
  void on_resume(const StepReport& report, const Tree& state, Requests& requests) override;
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override;
  void close() override;
  std::int64_t every() const override { return every_; }
  /// For a program's own, while a run goes on. Throws StateError outside of one.
  void scalar(const std::string& tag, double value, std::int64_t step);
  void text(const std::string& tag, const std::string& text, std::int64_t step);

 private:
  detail::EventFile* file(const char* what);
  void write(const StepReport& report, const Tree& state);

  std::filesystem::path folder_;
  std::int64_t every_;
  bool is_open_ = false;
  detail::Owned<detail::EventFile> file_;
};

}  // namespace callbacks
}  // namespace lockstep
