#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/data.h>
#include <lockstep/model.h>
#include <lockstep/train.h>

#include "engine/cli/commands.h"
#include "engine/cli/run_folder.h"

namespace lockstep::cli {

/// What is trained on what, as the arguments say.
struct DataSets {
  data::Dataset train, test;
  std::string digest = {};  ///< Of what is trained on, in the dtype it was read in.
};
std::vector<std::string> data_names();
/// Throws ValueError listing the names, DataError for files.
DataSets load(const TrainArguments& arguments);

Model<Array, Array> model_of(const TrainArguments& arguments, const data::Dataset& set);
DataParallelOptions parallel_options(const TrainArguments& arguments);
/// Cross-entropy and accuracy.
LossFunction loss_of(const Model<Array, Array>& model, bool training);
/// Means over a data set, for `fit`.
std::function<std::map<std::string, double>(const Tree&)> validation_of(const Model<Array, Array>& model,
                                                                        const DataParallelOptions& options,
                                                                        std::shared_ptr<const data::Dataset> test,
                                                                        std::int64_t batch);
std::int64_t steps_of(const TrainArguments& arguments, std::int64_t batches_per_epoch);
TrainStep step_of(const TrainArguments& arguments, const Model<Array, Array>& model, std::int64_t steps,
                  const DataParallelOptions& options);
/// Throws ValueError for a batch above the rows.
data::Loader training_loader(const TrainArguments& arguments, const std::shared_ptr<const data::Dataset>& train);
TrainState initial_state(const Model<Array, Array>& model, const TrainStep& step, const TrainArguments& arguments,
                         const data::Dataset& train);

std::string digest_of(const data::HostTable& table);
/// What bits depend on of that which was asked for.
Manifest asked_entries(const TrainArguments& arguments);
/// What bits depend on.
Manifest manifest_of(const TrainArguments& arguments, std::int64_t steps, std::int64_t shards,
                     const data::Dataset& train, const std::string& digest);
/// What of a data set a model is made for: a row's shape and the number of classes, as the manifest has them.
Manifest shape_of(const data::Dataset& set);
/// What was asked for, by long name without the dashes.
std::map<std::string, std::string> flags_of(const TrainArguments& arguments);

}  // namespace lockstep::cli
