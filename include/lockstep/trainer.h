#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/callbacks.h>
#include <lockstep/checkpoint_manager.h>
#include <lockstep/data.h>
#include <lockstep/export.h>
#include <lockstep/losses.h>
#include <lockstep/metrics.h>
#include <lockstep/model.h>
#include <lockstep/named.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/train.h>
#include <lockstep/tree.h>

namespace lockstep {

/// How long `fit` trains, what it checks, validates and saves.
struct TrainerOptions {
  /// The step number to stop at, those made before included; 0: none, where `epochs` are given.
  std::int64_t steps = 0;
  std::int64_t epochs = 0;     ///< Epochs in all; 0: `steps` say it. Where both are given, what comes first.
  std::int64_t log_every = 1;  ///< Logs are read on the host every so many steps.
  /// Checks for one meaning and lints first: a TrainStep, in one process. Debug builds check any without microbatches.
  bool check_one_meaning = false;
  /// Every so many steps the processes compare the state, leaf by leaf (check_replicas); 0: never.
  std::int64_t check_replicas_every = 0;

  /// Metrics of a state on other data, for the logs as "val_<name>": `evaluate` makes them.
  std::function<std::map<std::string, double>(const Tree& state)> validate = {};
  std::int64_t validate_every = 0;  ///< Steps; 0: at the end of each epoch.

  /// Where checkpoints go: {"state", "data", "callbacks"}, beside them the step's logs as metrics, with "ended_within_epoch"
  /// where that is how the run ended; null: none.
  std::shared_ptr<checkpoint::Manager> checkpoints = nullptr;
  /// Steps; 0: at the end of each epoch. At the end of the run in any case: where its last step is saved already, and batches
  /// that were left out or requests of callbacks have come behind it, in that checkpoint's place.
  std::int64_t save_every = 0;
  /// Goes on from the latest checkpoint where there is one: state, place in the data and callbacks are those of the run
  /// that was cut off, and so are the bits of what follows.
  bool resume = false;
  /// What bits depend on beside the program, saved with each checkpoint: data set, seed of the model, machine_description().
  /// A resume under another value is refused. "shards" of a TrainStep, "batch" and "seed" of a loader are added where the
  /// manifest has no such entry.
  Named<std::string> manifest = {};
  /// Entries of the manifest that may be others; {"*"}: all.
  detail::OutOfLine<std::vector<std::string>> accept_changes = {};
  /// Asked behind each step, on the thread that steps: a signal has come, a scheduler wants the machine. Once it says so in
  /// one process, all of them end behind the same step and save it: a resume goes on as if the run had never stopped, and
  /// so callbacks are closed and not told of an end. Several processes ask each other a few times a second.
  std::function<bool()> stop_when = {};
};

/// Throws CheckpointError naming the first entry that differs between what a run was saved under and now, and how to go
/// on all the same. `accepted`: entries that may differ. `how` names what accepts one: "--accept-change".
LOCKSTEP_API void check_resumes(const Named<std::string>& saved, const Named<std::string>& now,
                                const std::vector<std::string>& accepted, const std::string& where,
                                const std::string& how = "TrainerOptions::accept_changes");

/// Where a training loop gets its batches.
struct BatchSource {
  std::function<std::optional<Tree>()> next;  ///< Nothing: there are no more, in this epoch or another.
  std::function<data::Position()> position;   ///< Behind what `next` gave.
  std::function<void(data::Position)> seek;
  std::function<std::int64_t()> batches_per_epoch = {};  ///< Where it is known.
  bool seeks_back = false;                               ///< To any place, those before its own too.
  /// Rows of a batch and the seed of their order where the loader has `options()`; nothing of other batches, and no seed of
  /// rows that are not shuffled.
  std::optional<std::int64_t> batch = {};
  std::optional<std::uint64_t> seed = {};
};

namespace detail {

template <class B>
concept IsLoader = requires(B& batches) {
  batches.next();
  { batches.position() } -> std::convertible_to<data::Position>;
};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class B>
concept IsGenerator = std::is_invocable_v<B&> && IsOptional<std::invoke_result_t<B&>>::value;
/// The ends of a range, by its members or by functions of its namespace.
namespace ends {
using std::begin;
using std::end;
template <class R>
auto first(R& range) -> decltype(begin(range)) {
  return begin(range);
}
template <class R>
auto last(R& range) -> decltype(end(range)) {
  return end(range);
}
}  // namespace ends
template <class R>
using IteratorOf = decltype(ends::first(std::declval<R&>()));
template <class B>
concept IsRange = requires(B& batches) {
  requires std::input_iterator<IteratorOf<B>>;
  ends::first(batches) == ends::last(batches);
};

template <class B>
auto batch_of(B& batches) {
  if constexpr (IsLoader<B>) {
    if constexpr (IsOptional<decltype(batches.next())>::value) {
      return *batches.next();
    } else {
      return batches.next();
    }
  } else if constexpr (IsGenerator<B>) {
    return *batches();
  } else {
    static_assert(
        IsRange<B>,
        "batches come from a loader with next() and position(), a function that returns a std::optional, or a "
        "range");
    return std::iter_value_t<IteratorOf<B>>(*ends::first(batches));
  }
}
template <class B>
using BatchOf = std::remove_cvref_t<decltype(batch_of(std::declval<B&>()))>;

/// What a function takes as its last argument, by its signature.
template <class Signature>
struct LastParameter {};
template <class R, class... A>
requires(sizeof...(A) > 0) struct LastParameter<R (*)(A...)> {
  using Type = std::remove_cvref_t<std::tuple_element_t<sizeof...(A) - 1, std::tuple<A...>>>;
};
template <class R, class C, class... A>
struct LastParameter<R (C::*)(A...) const> : LastParameter<R (*)(A...)> {};
template <class R, class C, class... A>
struct LastParameter<R (C::*)(A...)> : LastParameter<R (*)(A...)> {};

/// The type in which a function of (..., batch) is given batches that come as B: B, or, where it takes another type, that.
template <class F, class B, class... Before>
struct BatchFor {
  using Type = typename LastParameter<typename CallOperator<F>::Type>::Type;
};
template <class F, class B, class... Before>
requires std::is_invocable_v<const F&, Before..., const B&>
struct BatchFor<F, B, Before...> {
  using Type = B;
};

/// A batch, or one that may be nothing.
template <class B>
auto maybe_tree(B batch) {
  if constexpr (IsOptional<B>::value) {
    return batch ? std::optional(to_tree(std::move(*batch))) : std::nullopt;
  } else {
    return std::optional(to_tree(std::move(batch)));
  }
}

/// Makes `seek` go on to a place in batches that can only be drawn one after the other. It throws DataError where they end
/// before.
LOCKSTEP_API void seek_by_drawing(BatchSource& source);

template <IsLoader B>
BatchSource source_of(B& batches) {
  BatchSource source;
  source.next = [&batches] { return maybe_tree(batches.next()); };
  source.position = [&batches]() -> data::Position { return batches.position(); };
  if constexpr (requires { batches.seek(data::Position{}); }) {
    source.seek = [&batches](data::Position at) { batches.seek(at); };
    source.seeks_back = true;
  } else {
    seek_by_drawing(source);
  }
  if constexpr (requires { batches.batches_per_epoch(); }) {
    source.batches_per_epoch = [&batches] { return static_cast<std::int64_t>(batches.batches_per_epoch()); };
  }
  if constexpr (requires { batches.options().shuffle; }) {
    source.batch = batches.options().batch;
    if (batches.options().shuffle) source.seed = batches.options().seed;
  }
  return source;
}

/// Batches that are drawn, nothing at the end of each epoch. One is known ahead: whether an epoch is over is known when the
/// next one is asked for.
LOCKSTEP_API BatchSource drawn_batches(std::function<std::optional<Tree>()> draw);

template <class B>
requires(IsGenerator<B> && !IsLoader<B>) BatchSource source_of(B& batches) {
  return drawn_batches([&batches] { return maybe_tree(batches()); });
}

/// A place in a range.
struct RangeSteps {
  std::function<void()> start;
  std::function<bool()> is_at_end;
  std::function<Tree()> batch;
  std::function<void()> advance;
  bool starts_anew = false;  ///< Whether it can be gone through more than once.
};
/// A range's batches, epoch by epoch; of one that can be gone through only once, one epoch.
LOCKSTEP_API BatchSource batches_of_range(RangeSteps steps);

template <class B>
requires(IsRange<B> && !IsLoader<B> && !IsGenerator<B>) BatchSource source_of(B& batches) {
  const auto at = std::make_shared<IteratorOf<B>>();
  BatchSource source = batches_of_range({.start = [&batches, at] { *at = ends::first(batches); },
                                         .is_at_end = [&batches, at] { return *at == ends::last(batches); },
                                         .batch = [at] { return to_tree(BatchOf<B>(**at)); },
                                         .advance = [at] { ++*at; },
                                         .starts_anew = std::forward_iterator<IteratorOf<B>>});
  if constexpr (requires { std::size(batches); }) {
    source.batches_per_epoch = [&batches] { return static_cast<std::int64_t>(std::size(batches)); };
  }
  return source;
}

/// A step on trees.
struct TrainedStep {
  std::function<std::pair<Tree, Tree>(Tree state, const Tree& batch)> step;  ///< New state, logs.
  const TrainStep* one_meaning = nullptr;                                    ///< What can be checked for it.
};

template <class S, class B, class Step>
TrainedStep step_on_trees(const Step& step) {
  const auto as_trees = [](auto result) {
    return std::pair(to_tree(std::move(result.first)), to_tree(std::move(result.second)));
  };
  TrainedStep made;
  if constexpr (std::is_same_v<Step, TrainStep>) {
    static_assert(std::is_same_v<S, TrainState>, "a TrainStep trains a TrainState");
    made.one_meaning = &step;
    made.step = [&step, as_trees](Tree state, const Tree& batch) {
      return as_trees(step(from_tree<TrainState>(std::move(state)), batch));
    };
  } else {
    using Given = typename BatchFor<Step, B, S>::Type;
    static_assert(
        std::is_invocable_v<const Step&, S, const Given&>,
        "a step must take (state, batch), the state of the type that fit is given, and return a pair of state "
        "and logs");
    made.step = [&step, as_trees](Tree state, const Tree& batch) {
      return as_trees(step(from_tree<S>(std::move(state)), from_tree<Given>(batch)));
    };
  }
  return made;
}

using Callbacks = std::vector<std::shared_ptr<Callback>>;
/// Throws ValueError for counts below 0, log_every below 1, and a callback that is null or stands there twice.
LOCKSTEP_API Tree fit(const TrainedStep& step, Tree state, const BatchSource& source, const TrainerOptions& options,
                      const Callbacks& callbacks);

/// One pass: to the end of the epoch that begins, or of all batches. A source that can is put to its beginning, and back to
/// where it stood in the end.
LOCKSTEP_API void for_one_epoch(const BatchSource& source, const std::function<void(const Tree& batch)>& visit);

/// Means over batches, by name.
class LOCKSTEP_API Means {
 public:
  Means();
  ~Means();
  void add(const std::map<std::string, Weighted>& sums);
  void add(const Tree& values, double weight);
  std::map<std::string, double> results() const;

 private:
  struct Lists;
  Owned<Lists> lists_;
};
/// The rows that count.
LOCKSTEP_API double rows_of(const Tree& batch);

/// Results of batches as one: rows behind each other, without those that a last batch is padded with.
LOCKSTEP_API Tree joined_rows(const std::vector<Tree>& results);
/// A result without the rows that its batch is padded with.
LOCKSTEP_API Tree without_padding(const Tree& result, const Tree& batch);

}  // namespace detail

/// Pulls batches, steps, validates, reports, saves. Returns the final state.
///  - `step` is a TrainStep, of data_parallel or model_parallel, or any callable (state, batch) -> pair of state and logs.
///    The state is any type that is a tree; where it has a leaf "step", as a TrainState has, that is its number of steps.
///    Logs are `Logs` or a map of numbers or of scalars by name.
///  - `batches` is a loader (data::Loader, data::TreeLoader, or anything whose `next()` is a batch and whose `position()` a
///    data::Position), a function that returns a std::optional of a batch, nothing at the end of each epoch and twice
///    nothing at the end of all, or a range, each pass through which is an epoch. A batch is any tree. A function is asked
///    one batch ahead, since only so it says whether an epoch is over: where a run ends within one, that batch is gone.
/// One that makes no step leaves a checkpoint of its step that is there as it is, and one of another state is an error.
/// What is thrown here, a callback's error too, ends the other processes with its text; all callbacks are closed, and a
/// checkpoint that is being saved is finished. Throws ValueError for options and callbacks that make no sense, StateError for
/// a request that the state cannot meet, CheckpointError for a resume that is refused.
template <class Step, class S, class B>
S fit(const Step& step, S state, B&& batches, const TrainerOptions& options,
      const std::vector<std::shared_ptr<Callback>>& callbacks = {}) {
  using Batches = std::remove_reference_t<B>;
  return from_tree<S>(detail::fit(detail::step_on_trees<S, detail::BatchOf<Batches>>(step), to_tree(std::move(state)),
                                  detail::source_of<Batches>(batches), options, callbacks));
}

/// Means of losses and metrics over one epoch of batches, by name. `step` is an EvaluateStep, or a callable (state, batch)
/// -> map of Weighted, or of scalars, which then count by rows; the state may also be a TrainState's tree, as callbacks and
/// TrainerOptions::validate are given it. A loader begins anew each time, and one with `seek` stands behind it where it stood
/// before: that of the training may be given, too.
template <class Step, class S, class B>
std::map<std::string, double> evaluate(const Step& step, const S& state, B&& batches) {
  using Batches = std::remove_reference_t<B>;
  using Row = detail::BatchOf<Batches>;
  detail::Means means;
  const auto on = [&](const Tree& tree) {
    if constexpr (std::is_same_v<Step, EvaluateStep> && std::is_same_v<S, Tree>) {
      means.add(step(state.at("trainable"), state.at("non_trainable"), tree));
    } else if constexpr (std::is_same_v<Step, EvaluateStep>) {
      means.add(step(state.trainable, state.non_trainable, tree));
    } else {
      const auto result = step(state, from_tree<typename detail::BatchFor<Step, Row, const S&>::Type>(tree));
      if constexpr (std::is_convertible_v<decltype(result), std::map<std::string, Weighted>>) {
        means.add(result);
      } else {
        means.add(to_tree(result), detail::rows_of(tree));
      }
    }
  };
  detail::for_one_epoch(detail::source_of<Batches>(batches), on);
  return means.results();
}

/// What `function(batch)` gives for each batch of one epoch, as one tree of arrays with all rows, without those that a
/// batch is padded with (rows of weight 0 at its end). A loader begins anew, as for `evaluate`. Throws DataError where
/// there is no batch.
template <class F, class B>
auto predict(const F& function, B&& batches) {
  using Batches = std::remove_reference_t<B>;
  using Row = typename detail::BatchFor<F, detail::BatchOf<Batches>>::Type;
  using Y = std::remove_cvref_t<std::invoke_result_t<const F&, const Row&>>;
  std::vector<Tree> results;
  detail::for_one_epoch(detail::source_of<Batches>(batches), [&](const Tree& batch) {
    results.push_back(detail::without_padding(to_tree(function(from_tree<Row>(batch))), batch));
  });
  return from_tree<Y>(detail::joined_rows(results));
}

}  // namespace lockstep
