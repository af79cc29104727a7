#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/optim.h>

namespace lockstep::optim {

/// (gradients, state, params, loss) -> (updates, state'); nothing is known of the loss where no inner transformation asks.
using UpdateWithLoss = std::function<std::pair<Tree, Tree>(const Tree& gradients, const Tree& state, const Tree& params,
                                                           const KnownLoss& loss)>;

/// A transformation made of others: it needs the loss where one of them does, freezes what one of them freezes, and has the
/// selections of all. It is not linear.
LOCKSTEP_API GradientTransformation wrapping(const std::vector<GradientTransformation>& inner,
                                             std::function<Tree(const Tree&)> init, UpdateWithLoss update);

/// A transformation that needs the loss; its `update` throws a StateError that says so.
LOCKSTEP_API GradientTransformation needing_loss(std::function<Tree(const Tree&)> init, UpdateWithLoss update);

/// A transformation that needs the loss at other parameters too.
LOCKSTEP_API GradientTransformation needing_function(std::function<Tree(const Tree&)> init, UpdateWithLoss update);

/// Throws ValueError where the inner transformation asks for the loss at other parameters, for the reason given.
LOCKSTEP_API void refuse_function(std::string_view function, std::string_view reason,
                                  const GradientTransformation& inner);

/// A transformation without state that maps each leaf alone, in at least float32.
GradientTransformation leafwise(std::function<Array(const Array& update, const Array& param)> rule);

/// `chosen` where the scalar holds, else `otherwise`, leaf by leaf.
LOCKSTEP_API Tree choose(const Array& predicate, const Tree& chosen, const Tree& otherwise);
/// The updates where the scalar holds, else -0, which added leaves every bit.
Tree updates_where(const Array& predicate, const Tree& updates);

}  // namespace lockstep::optim
