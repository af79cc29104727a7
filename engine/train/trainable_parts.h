#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/train.h>

// Which leaves of the trainable tree an objective trains, and where its optimizers keep their slots.
namespace lockstep::train {

/// Throws ValueError where there is no objective, where several have no name or the same, where one has no optimizer, and
/// where two of its parts overlap.
void check(const std::vector<Objective>& objectives);

/// Per leaf, whether a gradient is computed for it: one of the optimizers has it, and does not freeze it. Throws StateError
/// where a part is not in the tree.
std::vector<bool> trained_leaves(const Objective& objective, const Tree& trainable);
/// Throws DtypeError naming a leaf that is trained and has no gradient: neither float nor complex.
void check_trained_dtypes(const std::vector<Objective>& objectives, const Tree& trainable);
/// The tree with nothing in place of the leaves whose flag is not set.
Tree only(const Tree& tree, const std::vector<bool>& kept);
/// The whole tree with the leaves of `part`, which `only` made of it, in their places.
Tree with_part(const Tree& whole, const Tree& part, const std::vector<bool>& kept);

/// Slots of all optimizers for that trainable tree.
Tree initial_slots(const std::vector<Objective>& objectives, const Tree& trainable);
/// Whether an optimizer of the objective asks for its loss at other parameters.
bool needs_function(const Objective& objective);
/// What optimizers are given; `function` is of the trained part of the trainable tree, empty where none asks for it.
struct StepGradients {
  Tree gradients;
  Array loss;
  optim::ValueFunction function = {};
};
/// The updated part of the trainable tree, and all slots with those of the objective's optimizers renewed.
std::pair<Tree, Tree> updated(const std::vector<Objective>& objectives, const Objective& objective,
                              const StepGradients& given, const Tree& slots, const Tree& part);

}  // namespace lockstep::train
