#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/model.h>
#include <lockstep/optim.h>

namespace lockstep::cli {

using GivenOptions = std::map<std::string, std::string>;

/// Names of the models of the core and of the component vision, sorted.
const std::vector<std::string_view>& model_names();
/// A model by name, with its own options "model.<name>". Throws ValueError listing the names, or the options it has.
Model<Array, Array> chosen_model(const std::string& name, std::int64_t classes, const GivenOptions& given);

/// An optimizer by name, with its own options "optimizer.<name>", at a rate or along a schedule ("schedule.<name>") that
/// ends with the run's last step. Throws as chosen_model.
optim::GradientTransformation chosen_optimizer(const std::string& name, double rate, const std::string& schedule,
                                               std::int64_t steps, const GivenOptions& given);

std::vector<std::string> optimizer_names();
std::vector<std::string> schedule_names();

}  // namespace lockstep::cli
