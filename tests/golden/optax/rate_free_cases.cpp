#include <lockstep/optim_contrib.h>

#include "tests/golden/optax/cases.h"

// Optimizers that find their rate.
namespace lockstep::tests::optax {

namespace {

Schedule ramp_of_ten() { return schedules::linear(1.0, 0.1, 8); }

}  // namespace

std::vector<Case> rate_free_cases() {
  using namespace optim;
  return {
      {"dog", {"optim::dog", "optim::scale_by_dog"}, dog(1.0, {.value = 0.01, .weight_decay = 0.1})},
      {"dog_distance", {"optim::dog"}, dog(ramp_of_ten(), {.start = DogStart::distance, .value = 0.02})},
      {"dog_rate", {"optim::dog"}, dog(1.0, {.start = DogStart::rate, .value = 0.05, .epsilon = 1e-4})},
      {"distance_over_gradients",
       {"optim::scale_by_distance_over_gradients"},
       chain(scale_by_distance_over_gradients(0.01), scale(-1))},
      {"dowg", {"optim::dowg", "optim::scale_by_dowg"}, dowg(1.0, {.weight_decay = 0.1})},
      {"dowg_squared", {"optim::dowg"}, dowg(0.5, {.epsilon = 1e-3, .squared_distance = 0.04})},
      {"cocob", {"optim::cocob", "optim::scale_by_cocob"}, cocob(0.5, {.alpha = 3, .weight_decay = 0.1}), false, false},
      {"dadapt_adamw",
       {"optim::dadapt_adamw"},
       dadapt_adamw(1.0, {.first_estimate = 0.01, .weight_decay = 0.01}),
       false,
       false},
      {"dadapt_adamw_ramp",
       {"optim::dadapt_adamw"},
       dadapt_adamw(ramp_of_ten(), {.b1 = 0.8, .b2 = 0.9, .first_estimate = 0.1}),
       false,
       false},
      {"momo", {"optim::momo"}, momo(1.0, 0.9, {.least_loss = 0.1, .weight_decay = 0.01}), false, false},
      {"momo_adapts", {"optim::momo"}, momo(ramp_of_ten(), 0.8, {.least_loss = -3, .adapts = true}), false, false},
      {"momo_adam", {"optim::momo_adam"}, momo_adam(0.3, 0.9, 0.99, 1e-8, {.weight_decay = 0.01}), false, false},
      {"momo_adam_adapts",
       {"optim::momo_adam"},
       momo_adam(0.1, 0.8, 0.9, 1e-6, {.least_loss = -3, .adapts = true}),
       false,
       false},
      {"mechanize", {"optim::mechanize"}, mechanize(adam(0.1), {.first_scale = 0.01}), false, false},
      {"mechanize_three",
       {"optim::mechanize"},
       mechanize(sgd(1.0, 0.9), {.weight_decay = 0, .first_scale = 0.1, .estimates = 3}),
       false,
       false},
  };
}

}  // namespace lockstep::tests::optax
