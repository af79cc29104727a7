#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include <lockstep/layers_recurrent.h>

// The loop that recurrent layers have in common.
namespace lockstep::nn {

/// Throws ShapeError or ValueError unless x are float sequences and there are units.
void check_sequences(std::string_view layer, const Scope& scope, const Array& x, std::int64_t units);

/// The bias of so many gates, 1 of one of them and 0 of the others.
Initializer ones_in_gate(std::int64_t gate, std::int64_t gates);

/// Which places count, and from where.
struct Places {
  std::vector<Array> initial;  ///< One or two states [N, ..., units].
  Array held;                  ///< bool[T, N]; empty: all.
  bool reverse = false;
};

/// bool[T, N] of lengths and mask; empty where there are neither. Throws ShapeError for others than [N] and [N, T],
/// DtypeError for lengths that are no integers and a mask that is not of bool.
Array held_places(std::string_view layer, const Scope& scope, const Array& x, const std::optional<Array>& lengths,
                  const std::optional<Array>& mask);

/// x [N, T, ...] with zeros at places that are not held: what lies there, NaN too, must not come into gradients of
/// kernels, as 0 times it.
Array held_inputs(const Array& x, const Array& held);

using RecurrentStep = std::function<std::vector<Array>(const std::vector<Array>& state, const Array& input)>;
/// Hidden states [N, T, ..., units], 0 at places that are not held, and the final states: `step` makes the states of an
/// input [N, ...], of which there are T; the first state is the hidden one.
std::pair<Array, std::vector<Array>> recurrence(const RecurrentStep& step, const Array& inputs, const Places& places);

}  // namespace lockstep::nn
