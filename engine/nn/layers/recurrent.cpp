#include <lockstep/error.h>
#include <lockstep/layers_recurrent.h>
#include <lockstep/ops.h>

#include "engine/nn/layers/recurrence.h"

namespace lockstep {
namespace {

/// What a recurrent layer declares.
struct Kernels {
  Array input, recurrent, bias;
};

template <class Options>
Kernels declared(const Scope& scope, const Array& x, const Options& options, std::int64_t gates,
                 const Initializer& bias = initializers::zeros()) {
  const std::int64_t width = gates * options.units;
  return {scope.trainable("kernel", {.shape = {x.dim(-1), width},
                                     .dtype = x.dtype(),
                                     .initializer = options.kernel_initializer,
                                     .aggregation = options.aggregation}),
          scope.trainable("recurrent_kernel", {.shape = {options.units, width},
                                               .dtype = x.dtype(),
                                               .initializer = options.recurrent_initializer,
                                               .aggregation = options.aggregation}),
          scope.trainable(
              "bias", {.shape = {width}, .dtype = x.dtype(), .initializer = bias, .aggregation = options.aggregation})};
}

/// One product for all steps; the loop has the recurrent one alone. x is moved, not what is several times as wide.
Array products_of_inputs(const Array& x, const Kernels& kernels, const nn::Places& places) {
  return dot_general(swapaxes(nn::held_inputs(x, places.held), 0, 1), kernels.input, {{2}, {0}}) + kernels.bias;
}

/// The given state, or zeros. Throws ShapeError for another shape, DtypeError for complex numbers.
Array recurrent_start(std::string_view layer, const Scope& scope, const Array& x, std::int64_t units,
                      const Array& given) {
  if (!given.has_value()) return zeros({x.dim(0), units}, x.dtype());
  const std::string text =
      "[" + std::string(layer) + " '" + scope.path() + "'] the initial state is " + to_string(given.type()) + "; give ";
  if (is_complex(given.dtype())) throw DtypeError(text + "real numbers");
  if (given.shape() == Shape{x.dim(0), units}) return convert(given, x.dtype());
  throw ShapeError(text + "[" + std::to_string(x.dim(0)) + "," + std::to_string(units) + "]");
}

template <class State>
nn::Places places_of(std::string_view layer, const Scope& scope, const Array& x, const SequenceOptions<State>& options,
                     std::vector<Array> initial) {
  return {std::move(initial), nn::held_places(layer, scope, x, options.lengths, options.mask), options.reverse};
}

}  // namespace

std::pair<Array, LstmState> lstm(const Scope& scope, const ArrayOperand& given, const LstmOptions& options,
                                 const SequenceOptions<LstmState>& sequence) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  nn::check_sequences("lstm", scope, x, options.units);
  const Kernels kernels = declared(scope, x, options, 4);
  const auto step = [&](const std::vector<Array>& state, const Array& input) {
    const std::vector<Array> of_input = split(input, 4, 1), of_state = split(matmul(state[0], kernels.recurrent), 4, 1);
    const auto gate = [&](std::size_t i) { return of_input[i] + of_state[i]; };
    const Array c = sigmoid(gate(1)) * state[1] + sigmoid(gate(0)) * tanh(gate(2));
    return std::vector<Array>{sigmoid(gate(3)) * tanh(c), c};
  };
  const LstmState start = sequence.initial.value_or(LstmState{});
  const auto places = places_of("lstm", scope, x, sequence,
                                {recurrent_start("lstm", scope, x, options.units, start.h),
                                 recurrent_start("lstm", scope, x, options.units, start.c)});
  const auto [ys, last] = nn::recurrence(step, products_of_inputs(x, kernels, places), places);
  return {ys, {last[0], last[1]}};
}

Array lstm(const Scope& scope, const ArrayOperand& x, const LstmOptions& options) {
  return lstm(scope, x, options, {}).first;
}

std::pair<Array, Array> gru(const Scope& scope, const ArrayOperand& given, const RecurrentOptions& options,
                            const SequenceOptions<Array>& sequence) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  nn::check_sequences("gru", scope, x, options.units);
  const Kernels kernels = declared(scope, x, options, 3);
  const Array bias = scope.trainable(
      "recurrent_bias", {.shape = {3 * options.units}, .dtype = x.dtype(), .aggregation = options.aggregation});
  const auto step = [&](const std::vector<Array>& state, const Array& input) {
    const Array& h = state[0];
    const std::vector<Array> of_input = split(input, 3, 1), of_state = split(matmul(h, kernels.recurrent) + bias, 3, 1);
    const Array update = sigmoid(of_input[0] + of_state[0]), reset = sigmoid(of_input[1] + of_state[1]);
    const Array candidate = tanh(of_input[2] + reset * of_state[2]);
    return std::vector<Array>{update * h + (1 - update) * candidate};
  };
  const Array start = recurrent_start("gru", scope, x, options.units, sequence.initial.value_or(Array()));
  const nn::Places places = places_of("gru", scope, x, sequence, {start});
  const auto [ys, last] = nn::recurrence(step, products_of_inputs(x, kernels, places), places);
  return {ys, last[0]};
}

std::pair<Array, Array> simple_rnn(const Scope& scope, const ArrayOperand& given, const RecurrentOptions& options,
                                   const SequenceOptions<Array>& sequence) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  nn::check_sequences("simple_rnn", scope, x, options.units);
  const Kernels kernels = declared(scope, x, options, 1);
  const auto step = [&](const std::vector<Array>& state, const Array& input) {
    return std::vector<Array>{tanh(input + matmul(state[0], kernels.recurrent))};
  };
  const Array start = recurrent_start("simple_rnn", scope, x, options.units, sequence.initial.value_or(Array()));
  const nn::Places places = places_of("simple_rnn", scope, x, sequence, {start});
  const auto [ys, last] = nn::recurrence(step, products_of_inputs(x, kernels, places), places);
  return {ys, last[0]};
}

std::pair<Array, Array> mgu(const Scope& scope, const ArrayOperand& given, const MguOptions& options,
                            const SequenceOptions<Array>& sequence) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  nn::check_sequences("mgu", scope, x, options.units);
  const Kernels kernels = declared(scope, x, options, 2, nn::ones_in_gate(0, 2));
  const Array bias =
      options.reset_gate
          ? scope.trainable("recurrent_bias",
                            {.shape = {options.units}, .dtype = x.dtype(), .aggregation = options.aggregation})
          : Array();
  const auto step = [&](const std::vector<Array>& state, const Array& input) {
    const Array& h = state[0];
    const std::vector<Array> of_input = split(input, 2, 1), of_state = split(matmul(h, kernels.recurrent), 2, 1);
    const Array forget = sigmoid(of_input[0] + of_state[0]);
    const Array candidate = tanh(of_input[1] + (options.reset_gate ? forget * (of_state[1] + bias) : of_state[1]));
    return std::vector<Array>{forget * h + (1 - forget) * candidate};
  };
  const Array start = recurrent_start("mgu", scope, x, options.units, sequence.initial.value_or(Array()));
  const nn::Places places = places_of("mgu", scope, x, sequence, {start});
  const auto [ys, last] = nn::recurrence(step, products_of_inputs(x, kernels, places), places);
  return {ys, last[0]};
}

Array bidirectional(const Scope& scope, const ArrayOperand& x,
                    const std::function<Array(const Scope&, const Array&, bool reverse)>& layer) {
  return concatenate({layer(scope["forward"], x, false), layer(scope["backward"], x, true)}, -1);
}

const SequenceOptions<Array> detail::no_sequence;
const SequenceOptions<LstmState> detail::no_lstm_sequence;

}  // namespace lockstep
