#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/lockstep.h>

// The training steps that are timed, here and in peers/.
namespace lockstep::benches {

/// A model with its input, its rows a step and its optimizer.
struct Workload {
  std::string name;
  Model<Array, Array> model;
  ArrayType x;          ///< Of one batch.
  std::int64_t labels;  ///< Of a row's label: 0 to labels - 1.
  bool adamw;           ///< Else SGD with momentum.

  std::int64_t rows() const { return x.shape[0]; }
  /// As x without features where every position has a label, else one a row.
  Shape label_shape() const;
  optim::GradientTransformation optimizer() const;
};

/// The step of a workload: cross entropy, its gradient and the update.
TrainStep train_step(const Workload& workload, DataParallelOptions options);

/// The workload in a precision by name: of products and convolutions (float32, bfloat16), which goes into the options, or
/// of the model (mixed_bfloat16 and the other policies), whose step of float16 has a loss scale.
Workload in_precision(Workload workload, const std::string& name, DataParallelOptions& options);

/// Throws ValueError listing the names.
Workload find_workload(std::string_view name);
const std::vector<std::string_view>& workload_names();

/// A ring of batches, drawn from a seed: x [ring, rows, ...], y [ring, rows, ...].
Tree draw_batches(const Workload& workload, std::uint64_t seed, std::int64_t ring);

}  // namespace lockstep::benches
