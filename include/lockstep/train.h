#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/batches.h>
#include <lockstep/debug.h>
#include <lockstep/export.h>
#include <lockstep/function.h>
#include <lockstep/losses.h>
#include <lockstep/model.h>
#include <lockstep/named.h>
#include <lockstep/optim.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
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
  /// {"scale": float32, "finite_steps": int32} where the step scales its loss, else nothing.
  Tree loss_scale = {};
};
LOCKSTEP_TREE(TrainState, trainable, non_trainable, optimizer, step, loss_scale);
extern template class LOCKSTEP_API detail::StructTree<TrainState>;

/// Scalars of one step by name, in order of name: "loss", "grad_norm" and the metrics. "grad_norm" is the root of the sum
/// of plain squares, in at least float32: inf above 1e19, 0 below 1e-23, where optim::global_norm still has a value. Where
/// the loss is scaled, all of these are of the loss itself, and there are "loss_scale", the scale of this step, and
/// "gradients_finite", 1 or 0.
class LOCKSTEP_API Logs {
 public:
  using Entry = std::pair<const std::string&, const Array&>;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using reference = Entry;
    using pointer = void;

    explicit Iterator(TreeEntries::Iterator at) : at_(at) {}
    LOCKSTEP_API Entry operator*() const;  ///< A name and its value.
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    TreeEntries::Iterator at_;
  };

  Logs() = default;
  /// Throws StateError where that is no dict of arrays.
  explicit Logs(Tree values);

  std::size_t size() const { return entries().size(); }
  bool empty() const { return entries().empty(); }
  Iterator begin() const { return Iterator(entries().begin()); }
  Iterator end() const { return Iterator(entries().end()); }
  bool contains(std::string_view name) const { return entries().contains(name); }
  /// Throws StateError that lists what there is.
  const Array& at(std::string_view name) const;

 private:
  friend struct TreeTraits<Logs>;
  TreeEntries entries() const;

  Tree values_;  ///< None, or a dict of leaves.
};

template <>
struct TreeTraits<Logs> {
  LOCKSTEP_API static Tree to_tree(Logs logs);    ///< A dict of its values.
  LOCKSTEP_API static Logs from_tree(Tree tree);  ///< The logs of such a dict.
};

/// (trainable, non_trainable, batch) -> loss, new state and metrics, of one shard's rows.
using LossFunction = std::function<WithAux(const Tree& trainable, const Tree& non_trainable, const Batch& batch)>;

/// Any such function, of whatever trees it takes: `trainable`, `non_trainable` and `batch` may each be a Tree or a C++
/// type that is one (a struct with LOCKSTEP_TREE, Batch, std::map, ...). A function with `auto` parameters is given a
/// Batch. Steps keep a copy of the function, and so what it captures by value. It is called again for each new type of
/// batch: what it captures by reference must live as long as the step. Capture models by value, which is cheap.
class LOCKSTEP_API StepLoss {
 public:
  StepLoss(const StepLoss& other);
  StepLoss(StepLoss&& other) noexcept;
  StepLoss& operator=(const StepLoss& other);
  StepLoss& operator=(StepLoss&& other) noexcept;
  ~StepLoss();
  template <class L>
  requires(!std::is_same_v<std::remove_cvref_t<L>, StepLoss>) StepLoss(L loss)  // NOLINT: implicit by design
      : function_(on_trees(std::move(loss))) {}

  WithAux operator()(const Tree& trainable, const Tree& non_trainable, const Tree& batch) const;
  /// Whether there is a loss: not behind std::move, nor where an empty std::function was given.
  explicit operator bool() const;

 private:
  using Function = std::function<WithAux(const Tree&, const Tree&, const Tree&)>;

  /// Its weights may be nothing.
  static Batch batch_of_arrays(const Tree& tree);
  template <class B>
  static B batch_of(const Tree& tree) {
    if constexpr (std::is_same_v<B, Batch>) {
      return batch_of_arrays(tree);
    } else {
      return from_tree<B>(tree);
    }
  }
  /// The tree itself where a loss takes it so.
  template <class T>
  static decltype(auto) argument_of(const Tree& tree) {
    if constexpr (std::is_same_v<T, const Tree&>) {
      return tree;
    } else {
      return from_tree<std::remove_cvref_t<T>>(tree);
    }
  }
  template <class T, class S, class B, class L>
  static Function converting(L loss) {
    using Result = std::invoke_result_t<L&, std::remove_cvref_t<T>, std::remove_cvref_t<S>, std::remove_cvref_t<B>>;
    constexpr bool with_aux = std::is_convertible_v<Result, WithAux>, alone = std::is_convertible_v<Result, Loss>;
    static_assert(
        with_aux || alone,
        "a loss must return a WithAux, a Loss or a Weighted: data_parallel has to know what is summed over the "
        "batch");
    return [loss = std::move(loss)](const Tree& trainable, const Tree& non_trainable,
                                    const Tree& batch) mutable -> WithAux {
      const auto value = [&] {
        return loss(argument_of<T>(trainable), argument_of<S>(non_trainable), batch_of<std::remove_cvref_t<B>>(batch));
      };
      if constexpr (with_aux) {
        return value();
      } else if constexpr (alone) {
        return {value(), {}, {}};
      } else {
        return {};
      }
    };
  }
  template <class L, class C, class R, class T, class S, class B>
  static Function by_signature(L loss, R (C::*)(T, S, B) const) {
    return converting<T, S, B>(std::move(loss));
  }
  template <class L, class C, class R, class T, class S, class B>
  static Function by_signature(L loss, R (C::*)(T, S, B)) {
    return converting<T, S, B>(std::move(loss));
  }
  template <class L, class Other>
  static Function by_signature(const L&, const Other&) {
    static_assert(
        std::is_same_v<Other, int>,
        "a loss must take (const Tree& trainable, const Tree& non_trainable, const Batch& batch), or types that "
        "are trees in their place");
    return {};
  }
  template <class R, class T, class S, class B>
  static Function on_trees(R (*loss)(T, S, B)) {
    return converting<T, S, B>(loss);
  }
  template <class L>
  static Function on_trees(L loss) {
    if constexpr (requires {
                    typename L::result_type;
                    loss == nullptr;
                  }) {  // a std::function may be empty
      if (loss == nullptr) return {};
    }
    if constexpr (requires { &L::operator(); }) {
      return by_signature(std::move(loss), &L::operator());
    } else {
      return converting<Tree, Tree, Batch>(std::move(loss));
    }
  }

  Function function_;
};

/// Where a batch keeps the weights of its rows: the path of a leaf, f32[rows] or another float, that is looked for in
/// every batch. A batch without such a leaf has none: all its rows count, and it cannot be padded.
class LOCKSTEP_API RowWeights {
 public:
  RowWeights(const RowWeights& other);
  RowWeights(RowWeights&& other) noexcept;
  RowWeights& operator=(const RowWeights& other);
  RowWeights& operator=(RowWeights&& other) noexcept;
  ~RowWeights();
  RowWeights(std::string path);  // NOLINT: implicit by design
  RowWeights(const char* path);  // NOLINT: implicit by design
  /// `&MyBatch::mask`.
  template <TreeStruct B, class M>
  RowWeights(M B::*member) {  // NOLINT: implicit by design
    B batch{};
    lockstep_visit_members(batch, [&](const char* name, auto& candidate) {
      if (static_cast<const void*>(&candidate) == static_cast<const void*>(&(batch.*member))) path_ = name;
    });
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};
/// No leaf of the batch is a weight of rows, whatever it is called.
LOCKSTEP_API extern const RowWeights no_row_weights;

/// Dynamic loss scaling, for gradients of float16: the loss is differentiated times a scale, so that small gradients do
/// not vanish, and gradients are divided by it, in at least float32, once they are reduced. Where one of them, of any
/// objective, is infinite or NaN, the step changes nothing but TrainState::step and the scale, which becomes smaller:
/// one decision for all replicas, from reduced gradients. After `growth_steps` steps in a row with finite gradients the
/// scale becomes larger. Micikevicius et al. 2018. (Keras' LossScaleOptimizer)
struct LossScale {
  double initial = 0x1p15;           ///< The first scale.
  std::int64_t growth_steps = 2000;  ///< Steps in a row with finite gradients until it grows.
  double growth = 2;                 ///< What it is multiplied by then; above 1.
  double backoff = 0.5;              ///< What it is multiplied by where gradients are not finite; in (0, 1).
  double minimum = 1;                ///< It falls no lower.
  double maximum = 0x1p60;           ///< It grows no larger.
};
/// The state of a scale before the first step, {"scale", "finite_steps"}: for a TrainState made without one. Throws
/// ValueError for options out of range.
LOCKSTEP_API Tree loss_scale_state(const LossScale& options);

extern template class LOCKSTEP_API detail::OutOfLine<std::vector<Device>>;
extern template class LOCKSTEP_API Named<Aggregation>;

/// How a step is spread over devices, and what it looks for.
struct DataParallelOptions {
  detail::OutOfLine<std::vector<Device>> devices =
      {};                   ///< Of this process; empty: the largest power of two of cores that divides the shards.
  std::int64_t shards = 0;  ///< V; 0: the largest power of two up to 8 not above the batch.
  /// Each shard's rows in that many equal parts, one after the other, gradients added, reduced once: the same step with
  /// the memory of one part. A layer that mixes rows (batch_norm) is an error unless it is told to do so per
  /// microbatch.
  std::int64_t microbatches = 1;
  DebugOptions debug = {};                   ///< NaNs that a step makes are errors that say where.
  Precision precision = Precision::float32;  ///< Of products and convolutions; weights stay as they are.
  RowWeights weight = "weight";
  std::optional<LossScale> loss_scale = {};  ///< Nothing: the loss as it is.
  /// For trainable leaves that no layer declares: at or below a path of the trainable tree, how replicas' gradients
  /// combine.
  Named<Aggregation> aggregations = {};
};

/// A loss and what it trains: parts of the trainable tree, by path ("": all of it), each with an optimizer. Leaves that
/// no optimizer has are constants of this loss.
struct Objective {
  std::string name;  ///< Its logs are "<name>.loss" and so on; empty where it is the only one.
  StepLoss loss;
  Named<optim::GradientTransformation> optimizers;
  /// false: it sees the parameters as they were before the step. true: as those before it in the list have updated
  /// them.
  bool sees_updates = false;
};

struct ModelParallelOptions;

namespace detail {

/// What `check_one_meaning` needs to build the step anew.
struct StepParts {
  std::vector<Objective> objectives;
  DataParallelOptions options;
  /// Of a step of model_parallel; `options` are then those of one shard.
  std::shared_ptr<const ModelParallelOptions> partitioned = nullptr;
};

}  // namespace detail

/// One training step over a mesh axis "batch": forward, backward, one reduction, optimizer; one compiled function. The
/// state is consumed: move it in and its buffers are updated in place. A batch is any tree whose leaves have one number
/// of rows, dimension 0; Batch{x, y, weight} is the usual one. A handle: copies share what is compiled. It holds
/// losses, optimizers and options, so that it may be returned from the function that made them (see StepLoss). A leaf of
/// the batch of rank 0, as a temperature, is the same for all rows: it goes to every shard and microbatch as it is.
class LOCKSTEP_API TrainStep {
 public:
  /// Throws ValueError for microbatches below 1, a loss scale out of range and for objectives whose names or parts are none or overlap.
  explicit TrainStep(detail::StepParts parts);

  /// Throws DataError for leaves of different numbers of rows and for rows to be padded without weights,
  /// AggregationError for declarations that contradict each other, StateError for a state without a loss scale where
  /// the step has one, and whatever the loss throws.
  [[nodiscard]] std::pair<TrainState, Logs> operator()(TrainState state, const Batch& batch) const;
  template <class B>
  [[nodiscard]] std::pair<TrainState, Logs> operator()(TrainState state, const B& batch) const {
    return run(std::move(state), to_tree(batch));
  }
  /// A fresh state: optimizer slots of `trainable`, step 0. Slots of several parts or objectives are a dict by name and
  /// path. Throws DtypeError naming a trained leaf that is neither float nor complex, StateError for an optimizer's
  /// part that the tree has not.
  TrainState init(Tree trainable, Tree non_trainable) const;
  /// The step on such a state and batch as a program, to be read: its text, its plan, its collectives.
  template <class B>
  Function program(const TrainState& state, const B& batch) const {
    return traced(state, to_tree(batch));
  }
  const detail::StepParts& parts() const;
  std::size_t traces() const;
  /// The mesh for a batch of that many rows.
  Mesh mesh(std::int64_t rows) const;

 private:
  struct Impl;
  std::pair<TrainState, Logs> run(TrainState state, Tree batch) const;
  Function traced(const TrainState& state, const Tree& batch) const;

  detail::SharedObject<const Impl> impl_;
};

namespace detail {
/// What data_parallel makes; all is moved out of the arguments.
LOCKSTEP_API TrainStep step_of(StepLoss&& loss, optim::GradientTransformation& optimizer, DataParallelOptions& options);
}  // namespace detail

/// `loss` is any callable of (trainable, non_trainable, batch) -> WithAux. Aggregations that layers declare are found
/// where the loss calls their model.
LOCKSTEP_API TrainStep data_parallel(StepLoss loss, optim::GradientTransformation optimizer,
                                     DataParallelOptions options = {});
/// Several losses in one step, and several optimizers: each gradient is reduced once. State goes from one loss to the
/// next.
LOCKSTEP_API TrainStep data_parallel(std::vector<Objective> objectives, DataParallelOptions options = {});
/// A loss of the model's output and the batch, (y, batch) -> a term, or a sum of terms and penalties: the step holds
/// the model and calls it on batch.x, in training, with the batch's weights. Nothing has to be captured.
template <class Y, class X, class L>
requires std::is_invocable_v<const L&, const Y&, const Batch&> TrainStep data_parallel(
    const Model<X, Y>& model, L loss, optim::GradientTransformation optimizer, DataParallelOptions options = {}) {
  auto of_model = [model, loss = std::move(loss)](const Tree& trainable, const Tree& non_trainable,
                                                  const Batch& batch) {
    auto [y, next] =
        model.stateless_call(trainable, non_trainable, from_tree<X>(Tree(batch.x)), true, {.rows = batch.weight});
    return WithAux{loss(y, batch), std::move(next), {}};
  };
  return detail::step_of(StepLoss(std::move(of_model)), optimizer, options);
}
/// The same step: what the model declares is found in the loss.
template <class X, class Y, class L>
requires(!std::is_invocable_v<const L&, const Y&, const Batch&>) TrainStep
    data_parallel(const Model<X, Y>&, L loss, optim::GradientTransformation optimizer,
                  DataParallelOptions options = {}) {
  return detail::step_of(StepLoss(std::move(loss)), optimizer, options);
}

/// Evaluates a loss with training = false semantics of the caller's function, sharded like the step: returns each
/// term's and metric's sums over the whole batch. Same options and batches. Of a state that lies cut:
/// model_parallel_evaluation.
class LOCKSTEP_API EvaluateStep {
 public:
  EvaluateStep(StepLoss loss, DataParallelOptions options);
  /// What factories make it of: one objective without optimizers.
  explicit EvaluateStep(detail::StepParts parts);
  /// "loss" and the metrics as Weighted sums over the batch.
  [[nodiscard]] std::map<std::string, Weighted> operator()(const Tree& trainable, const Tree& non_trainable,
                                                           const Batch& batch) const;
  template <class B>
  [[nodiscard]] std::map<std::string, Weighted> operator()(const Tree& trainable, const Tree& non_trainable,
                                                           const B& batch) const {
    return run(trainable, non_trainable, to_tree(batch));
  }

 private:
  struct Impl;
  std::map<std::string, Weighted> run(const Tree& trainable, const Tree& non_trainable, Tree batch) const;

  detail::SharedObject<const Impl> impl_;
};

/// Runs the step once with V = 1 and one microbatch and once as it is, in float64, from copies of the state, and throws
/// AggregationError naming the first leaf of loss, gradients, state and metrics that differs by more than `tolerance`
/// relative (1e-5 where the loss has made it narrower), with both values. Where the batch has weights of rows, it compares
/// again with the last rows padding, in part of the last shard and in all of it. A step that cannot run in float64 is
/// compared in its own dtypes, to 1e-3. What types cannot see (a batch mean in a custom layer, a penalty added per shard)
/// shows here. MeshError in one of several processes.
LOCKSTEP_API void check_one_meaning(const TrainStep& step, const TrainState& state, const Tree& batch,
                                    double tolerance = 1e-7);
/// The same of a Batch.
LOCKSTEP_API void check_one_meaning(const TrainStep& step, const TrainState& state, const Batch& batch,
                                    double tolerance = 1e-7);
template <class B>
requires(!std::is_same_v<B, Tree>) void check_one_meaning(const TrainStep& step, const TrainState& state,
                                                          const B& batch, double tolerance = 1e-7) {
  check_one_meaning(step, state, to_tree(batch), tolerance);
}

/// What is hardly meant, one text each; nothing of it changes anything:
///  - what will make a NaN of a gradient although the loss is finite: `Function::lint` of the losses as functions of the
///    trainable variables;
///  - terms and metrics that count a row as before when its weight becomes 0, though the batch has weights of rows;
///  - state that a loss returns as it was given, although a training call of a model has a new value for it;
///  - state whose new value depends on rows of weight 0, which pad a batch;
///  - masks of the optimizers (freeze, masked) that select no leaf of the state, where they are not `optional`.
/// Paths in `aggregations` that name no leaf are errors of the step itself.
LOCKSTEP_API std::vector<std::string> lint(const TrainStep& step, const TrainState& state, const Tree& batch);
/// The same of a Batch.
LOCKSTEP_API std::vector<std::string> lint(const TrainStep& step, const TrainState& state, const Batch& batch);
template <class B>
requires(!std::is_same_v<B, Tree>) std::vector<std::string> lint(const TrainStep& step, const TrainState& state,
                                                                 const B& batch) {
  return lint(step, state, to_tree(batch));
}

}  // namespace lockstep
