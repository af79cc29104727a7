#include "engine/cli/choices.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/models.h>
#include <lockstep/optim_contrib/optimizers.h>
#include <lockstep/optimizers.h>
#include <lockstep/schedules.h>
#include <lockstep/vision/models.h>

#include "engine/cli/entries.h"
#include "engine/cli/named_options.h"

namespace lockstep::cli {
namespace {

// ---- schedules

struct ScheduleEntry {
  std::string_view name;
  optim::LearningRate (*make)(double rate, std::int64_t steps, NamedOptions& options);
};

/// Where no number of stable steps is given, which are those that are left.
[[noreturn]] void refuse_long_phases(std::int64_t warmup, std::int64_t decay, std::int64_t steps) {
  throw ValueError(fmt::format(
      "schedule.warmup_steps {} and schedule.decay_steps {} are more than the {} steps of the training; give "
      "fewer of them, or schedule.stable_steps",
      warmup, decay, steps));
}

/// A rate of the schedule, or a share of one.
double rate_in(NamedOptions& options, const std::string& name, double otherwise) {
  const double value = options.number(name, otherwise);
  if (std::isfinite(value) && value >= 0) return value;
  throw ValueError(fmt::format("schedule.{} is {}; it must be finite and not negative", name, value));
}

constexpr ScheduleEntry schedule_entries[] = {
    {"constant", [](double rate, std::int64_t, NamedOptions&) { return optim::LearningRate(rate); }},
    {"cosine",
     [](double rate, std::int64_t steps, NamedOptions& o) {
       return optim::LearningRate(schedules::cosine(rate, o.integer("steps", steps), rate_in(o, "alpha", 0)));
     }},
    {"exponential",
     [](double rate, std::int64_t steps, NamedOptions& o) {
       return optim::LearningRate(
           schedules::exponential_decay(rate, o.integer("steps", steps), o.number("rate", 0.1),
                                        {.begin = o.integer("begin", 0), .staircase = o.flag("staircase", false)}));
     }},
    {"linear",
     [](double rate, std::int64_t steps, NamedOptions& o) {
       return optim::LearningRate(
           schedules::linear(rate, rate_in(o, "end", 0), o.integer("steps", steps), o.integer("begin", 0)));
     }},
    {"one_cycle",
     [](double rate, std::int64_t steps, NamedOptions& o) {
       return optim::LearningRate(
           schedules::cosine_onecycle(o.integer("steps", steps), rate, {.rise = o.number("rise", 0.3)}));
     }},
    {"polynomial",
     [](double rate, std::int64_t steps, NamedOptions& o) {
       return optim::LearningRate(schedules::polynomial(rate, rate_in(o, "end", 0), o.number("power", 2),
                                                        o.integer("steps", steps), o.integer("begin", 0)));
     }},
    {"warmup_cosine",
     [](double rate, std::int64_t steps, NamedOptions& o) {
       return optim::LearningRate(schedules::warmup_cosine(rate_in(o, "initial", 0), rate,
                                                           o.integer("warmup_steps", steps / 10),
                                                           o.integer("steps", steps), rate_in(o, "end", 0)));
     }},
    {"warmup_stable_decay",
     [](double rate, std::int64_t steps, NamedOptions& o) {
       const std::int64_t warmup = o.integer("warmup_steps", steps / 10);
       const std::int64_t decay = o.integer("decay_steps", std::max<std::int64_t>(steps / 5, 1));
       const std::int64_t rest = steps - warmup - decay;
       const std::int64_t stable = o.integer("stable_steps", std::max<std::int64_t>(rest, 0));
       if (rest < 0 && stable == 0) refuse_long_phases(warmup, decay, steps);
       return optim::LearningRate(schedules::warmup_stable_decay(rate, warmup, stable, decay, 0, rate_in(o, "end", 0)));
     }},
};

// ---- optimizers

using optim::GradientTransformation;
using optim::LearningRate;

struct OptimizerEntry {
  std::string_view name;
  GradientTransformation (*make)(const LearningRate& rate, NamedOptions& options);
};

/// For b1, b2 and epsilon, which so many have.
template <GradientTransformation (*make)(LearningRate, double, double, double)>
GradientTransformation of_moments(const LearningRate& rate, NamedOptions& o) {
  return make(rate, o.number("b1", 0.9), o.number("b2", 0.999), o.number("epsilon", 1e-8));
}

constexpr OptimizerEntry optimizer_entries[] = {
    {"adafactor",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::adafactor(rate,
                               {.momentum = o.number("momentum", 0), .weight_decay = o.number("weight_decay", 0)});
     }},
    {"adagrad",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::adagrad(rate, o.number("initial", 0.1), o.number("epsilon", 1e-7));
     }},
    {"adam", of_moments<optim::adam>},
    {"adamax", of_moments<optim::adamax>},
    {"adamw",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::adamw(rate, o.number("b1", 0.9), o.number("b2", 0.999), o.number("epsilon", 1e-8),
                           o.number("weight_decay", 1e-4));
     }},
    {"amsgrad", of_moments<optim::amsgrad>},
    {"lamb",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::lamb(rate, o.number("b1", 0.9), o.number("b2", 0.999), o.number("epsilon", 1e-6),
                          o.number("weight_decay", 0));
     }},
    {"lars",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::lars(rate, {.weight_decay = o.number("weight_decay", 0), .momentum = o.number("momentum", 0.9)});
     }},
    {"lion",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::lion(rate, o.number("b1", 0.9), o.number("b2", 0.99), o.number("weight_decay", 1e-3));
     }},
    {"muon",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::muon(rate, {.beta = o.number("beta", 0.95), .weight_decay = o.number("weight_decay", 0)});
     }},
    {"nadam", of_moments<optim::nadam>},
    {"rmsprop",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::rmsprop(rate, {.decay = o.number("decay", 0.9), .epsilon = o.number("epsilon", 1e-8)},
                             o.number("momentum", 0));
     }},
    {"sgd",
     [](const LearningRate& rate, NamedOptions& o) {
       const double momentum = o.number("momentum", 0);
       const bool is_nesterov = o.flag("nesterov", false);
       if (is_nesterov && momentum == 0) {
         throw ValueError(
             "optimizer.nesterov has no effect without momentum; give --set optimizer.momentum=0.9, or leave it out");
       }
       return optim::sgd(rate, momentum, is_nesterov);
     }},
    {"yogi",
     [](const LearningRate& rate, NamedOptions& o) {
       return optim::yogi(rate, o.number("b1", 0.9), o.number("b2", 0.999), o.number("epsilon", 1e-3));
     }},
};

/// A model of the core or a classifier of the component vision.
Model<Array, Array> find_model(const std::string& name, std::int64_t classes, models::OptionsByName& options) {
  const auto is_in = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
  if (is_in(models::names())) return models::find(name, classes, options);
  if (is_in(models::image_classifier_names())) return models::find_image_classifier(name, classes, options);
  throw ValueError(fmt::format("[models] no model '{}'; known are {}", name, fmt::join(model_names(), ", ")));
}

}  // namespace

const std::vector<std::string_view>& model_names() {
  static const std::vector<std::string_view> list = [] {
    std::vector<std::string_view> all = models::names();
    const std::vector<std::string_view>& classifiers = models::image_classifier_names();
    all.insert(all.end(), classifiers.begin(), classifiers.end());
    std::ranges::sort(all);
    return all;
  }();
  return list;
}

Model<Array, Array> chosen_model(const std::string& name, std::int64_t classes, const GivenOptions& given) {
  NamedOptions options("model", given);
  Model<Array, Array> model = find_model(name, classes, options);
  options.check_all_taken("the model '" + name + "'");
  return model;
}

GradientTransformation chosen_optimizer(const std::string& name, double rate, const std::string& schedule,
                                        std::int64_t steps, const GivenOptions& given) {
  static_cast<void>(LearningRate(rate));  // a schedule's is none otherwise than a constant one's
  NamedOptions of_schedule("schedule", given), of_optimizer("optimizer", given);
  const LearningRate along = entry_of(schedule_entries, "schedule", schedule).make(rate, steps, of_schedule);
  of_schedule.check_all_taken("the schedule '" + schedule + "'");
  GradientTransformation optimizer = entry_of(optimizer_entries, "optimizer", name).make(along, of_optimizer);
  of_optimizer.check_all_taken("the optimizer '" + name + "'");
  return optimizer;
}

std::vector<std::string> optimizer_names() { return names_of(optimizer_entries); }
std::vector<std::string> schedule_names() { return names_of(schedule_entries); }

}  // namespace lockstep::cli
