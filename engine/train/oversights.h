#pragma once

#include <string>
#include <vector>

#include <lockstep/train.h>

// What a step takes without an error and is hardly meant: texts for `lint`. `rows` is a whole batch with its weights.
namespace lockstep::train {

/// Terms and metrics whose weight stays what it is when a row's weight becomes 0.
std::vector<std::string> ignored_weights(const detail::StepParts& parts, const TrainState& state, const Tree& rows);

/// State leaves that a loss returns as it was given them although a training call has a new value.
std::vector<std::string> ignored_state(const detail::StepParts& parts, const TrainState& state, const Tree& rows);

/// State leaves whose new value depends on what rows of weight 0 hold.
std::vector<std::string> padded_state(const detail::StepParts& parts, const TrainState& state, const Tree& rows);

/// Masks of the optimizers that take no leaf.
std::vector<std::string> idle_masks(const std::vector<Objective>& objectives, const Tree& trainable);

}  // namespace lockstep::train
