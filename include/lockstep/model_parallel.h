#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/layout_map.h>
#include <lockstep/optim.h>
#include <lockstep/out_of_line.h>
#include <lockstep/parallel.h>
#include <lockstep/partitioned.h>
#include <lockstep/train.h>

namespace lockstep {

extern template class LOCKSTEP_API detail::OutOfLine<std::optional<DimensionAxes>>;

/// How a model's step is partitioned over a mesh.
struct ModelParallelOptions {
  Mesh mesh = {};
  LayoutMap layouts = {};  ///< Of variables, trainable or not, by path. A variable's own layout goes before it.
  /// What cuts the batch's rows; nothing: the axis "data" or "batch", whichever the mesh has.
  detail::OutOfLine<std::optional<DimensionAxes>> batch = {};
  /// 1: optimizer slots are cut along the batch's axes as well, as far as their extents allow. 2: gradients too, which
  /// then are reduced into blocks. 3: parameters too, which are gathered where the loss reads them.
  int zero = 0;
  /// Of optimizer slots, by the path of their parameter; a slot without a rule lies as its parameter does, or as `zero`
  /// says.
  LayoutMap slots = {};
  bool strict = false;       ///< Rules that match no leaf are a MeshError.
  bool is_explicit = false;  ///< Collectives that nobody asked for are MeshErrors that propose a reshard.
  /// K, a power of two that is no less than what cuts any one dimension: as PartitionOptions::contraction_blocks. Then one
  /// fingerprint holds for all layouts, meshes and stages of zero.
  std::int64_t contraction_blocks = 0;
  /// The batch in that many parts, one after the other, gradients added, reduced once: as
  /// DataParallelOptions::microbatches, and as there the same step.
  std::int64_t microbatches = 1;
  DebugOptions debug = {};
  Precision precision = Precision::float32;
  RowWeights weight = "weight";
  std::optional<LossScale> loss_scale = {};  ///< Nothing: the loss as it is.
};

/// One training step of a model that is written for one device, as data_parallel's: forward, backward and optimizer are
/// traced on the whole batch and partitioned together. Same batches; rows are padded to what the batch's axes and the
/// microbatches divide. The
/// state that `init` makes and the step returns lies cut as its layouts say (`is_cut`); one that is whole or cut otherwise
/// is cut by the step it is given to, so that layouts which variables declare themselves hold from the first step on. Throws MeshError for an axis that the mesh has not; `init` and the step for rules that do not fit their
/// variable, naming path, dimension and axis.
LOCKSTEP_API TrainStep model_parallel(std::vector<Objective> objectives, ModelParallelOptions options);
/// The same of one loss and one optimizer.
LOCKSTEP_API TrainStep model_parallel(StepLoss loss, optim::GradientTransformation optimizer,
                                      ModelParallelOptions options);

/// Evaluates a loss of the parameters of such a step, as they lie: those of a TrainState that lies cut go in as they are,
/// whole ones are cut by it. The sums are those over the whole batch. Layouts, batch, microbatches, precision and weights
/// are those of the options; the rest says nothing here. Throws MeshError as model_parallel does.
LOCKSTEP_API EvaluateStep model_parallel_evaluation(StepLoss loss, ModelParallelOptions options);

/// Every collective that the step moves data with on such a state and batch, and rules that match nothing; nothing is run.
/// Throws ValueError for a step of data_parallel.
LOCKSTEP_API LayoutPlan layout_plan(const TrainStep& step, const TrainState& state, const Tree& batch);
template <class B>
LayoutPlan layout_plan(const TrainStep& step, const TrainState& state, const B& batch) {
  return layout_plan(step, state, to_tree(batch));
}

}  // namespace lockstep
