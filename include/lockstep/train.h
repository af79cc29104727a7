#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/block_pool.h>
#include <lockstep/data.h>
#include <lockstep/debug.h>
#include <lockstep/export.h>
#include <lockstep/losses.h>
#include <lockstep/model.h>
#include <lockstep/optim.h>
#include <lockstep/parallel.h>
#include <lockstep/precision.h>
#include <lockstep/tree.h>

namespace lockstep {

/// Everything a step changes.
struct TrainState {
  Tree trainable;
  Tree non_trainable;
  Tree optimizer;
  Array step;  ///< int64 scalar.
};
LOCKSTEP_TREE(TrainState, trainable, non_trainable, optimizer, step);

/// Scalars of one step: "loss", "grad_norm" and the metrics.
using Logs = std::map<std::string, Array, std::less<std::string>, BlockAllocator<std::pair<const std::string, Array>>>;

/// (trainable, non_trainable, batch) -> loss, new state and metrics, of one shard's rows.
using LossFunction = std::function<WithAux(const Tree& trainable, const Tree& non_trainable, const Batch& batch)>;

struct DataParallelOptions {
  std::vector<Device> devices =
      {};                   ///< Of this process; empty: the largest power of two of cores that divides the shards.
  std::int64_t shards = 0;  ///< V; 0: the largest power of two up to 8 not above the batch.
  std::int64_t microbatches = 1;  ///< Each shard's rows in that many equal parts, gradients added, reduced once.
  DebugOptions debug = {};        ///< NaNs that a step makes are errors that say where.
  Precision precision = Precision::float32;  ///< Of products and convolutions; weights stay as they are.
};

namespace detail {

/// What `check_one_meaning` needs to build the step anew.
struct StepParts {
  ModelFunction model;
  LossFunction loss;
  optim::GradientTransformation optimizer;
  DataParallelOptions options;
};

}  // namespace detail

/// One training step over a mesh axis "batch": forward, backward, one reduction, optimizer; one compiled function. The
/// state is consumed: move it in and its buffers are updated in place.
class LOCKSTEP_API TrainStep {
 public:
  explicit TrainStep(detail::StepParts parts);

  [[nodiscard]] std::pair<TrainState, Logs> operator()(TrainState state, const Batch& batch) const;
  /// A fresh state: optimizer slots of `trainable`, step 0.
  TrainState init(Tree trainable, Tree non_trainable) const;
  const detail::StepParts& parts() const;
  std::size_t traces() const;
  /// The mesh for a batch of that many rows.
  Mesh mesh(std::int64_t rows) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// `loss` may be any callable of (const Tree&, const Tree&, const Batch&) -> WithAux.
template <class X, class Y, class L>
TrainStep data_parallel(const Model<X, Y>& model, L loss, optim::GradientTransformation optimizer,
                        DataParallelOptions options = {}) {
  return TrainStep({model.function(), LossFunction(std::move(loss)), std::move(optimizer), std::move(options)});
}

/// Evaluates a loss with training = false semantics of the caller's function, sharded like the step: returns each term's
/// and metric's sums over the whole batch. Same options.
class LOCKSTEP_API EvaluateStep {
 public:
  EvaluateStep(LossFunction loss, DataParallelOptions options);
  /// "loss" and the metrics as Weighted sums over the batch.
  [[nodiscard]] std::map<std::string, Weighted> operator()(const Tree& trainable, const Tree& non_trainable,
                                                           const Batch& batch) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Runs the step once with V = 1 and once with its V, in float64, from copies of the state, and throws AggregationError
/// naming the first leaf that differs by more than `tolerance` relative, with both values. What types cannot see (a batch
/// mean in a custom layer, a penalty added per shard) shows here.
LOCKSTEP_API void check_one_meaning(const TrainStep& step, const TrainState& state, const Batch& batch,
                                    double tolerance = 1e-7);

/// What will make a NaN of a gradient although the loss is finite: `Function::lint` of the step's loss as a function of the
/// trainable variables.
LOCKSTEP_API std::vector<std::string> lint(const TrainStep& step, const TrainState& state, const Batch& batch);

// ---- a training loop -------------------------------------------------------------------------------------------------

struct StepReport {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::map<std::string, double> logs;
  double seconds = 0;
};

/// Called by the Trainer; a callback sees states as constants: it cannot make or change variables.
class LOCKSTEP_API Callback {
 public:
  virtual ~Callback();
  /// Where the trainer was asked to check, before the first step: what `lint` found.
  virtual void on_check(const std::vector<std::string>& findings);
  virtual void on_step(const StepReport& report, const TrainState& state);
  virtual void on_epoch(const StepReport& report, const TrainState& state);
  virtual void on_end(const StepReport& report, const TrainState& state);
};

struct TrainerOptions {
  std::int64_t steps = 0;
  std::int64_t log_every = 1;  ///< Logs are read on the host every so many steps.
  /// Checks for one meaning, and lints, before the first step. Debug builds always check for one meaning.
  bool check_one_meaning = false;
};

/// Pulls batches, steps, reports. Returns the final state.
LOCKSTEP_API TrainState fit(const TrainStep& step, TrainState state, data::Loader& loader,
                            const TrainerOptions& options, const std::vector<std::shared_ptr<Callback>>& callbacks);

}  // namespace lockstep
