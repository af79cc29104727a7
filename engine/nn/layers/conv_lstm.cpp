#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/layers_recurrent.h>
#include <lockstep/ops.h>

#include "engine/nn/layers/recurrence.h"
#include "engine/nn/layers/windows.h"

namespace lockstep {
namespace {

constexpr std::int64_t gates = 4;

/// Spatial dimensions of x [N, T, spatial..., C].
int spatial_dimensions(const Scope& scope, const Array& x) {
  if (x.ndim() >= 4 && x.ndim() <= 6 && is_float(x.dtype())) return x.ndim() - 3;
  throw ShapeError(fmt::format(
      "[conv_lstm '{}'] the input is {}; give float sequences [N, T, spatial..., C] of one to three spatial dimensions",
      scope.path(), to_string(x.type())));
}

Array lstm_kernel(const Scope& scope, const char* name, const Axes& window, const Array& x, std::int64_t channels,
                  const ConvLstmOptions& options, const Initializer& initializer) {
  std::vector<std::int64_t> shape = window;
  shape.push_back(channels);
  shape.push_back(gates * options.filters);
  return scope.trainable(
      name,
      {.shape = Shape(shape), .dtype = x.dtype(), .initializer = initializer, .aggregation = options.aggregation});
}

/// The convolution of all steps at once, [T, N, spatial'..., gates filters]: the loop has that of the state alone.
Array convolutions_of_inputs(const Scope& scope, const Array& x, const Axes& window, const ConvLstmOptions& options) {
  const std::string name = fmt::format("conv_lstm '{}'", scope.path());
  const auto dimensions = static_cast<int>(window.size());
  const Axes strides = nn::for_each_dimension(name, "strides", options.strides, dimensions);
  const Axes dilation = nn::for_each_dimension(name, "dilation", options.dilation, dimensions);
  std::vector<std::int64_t> shape(x.shape().begin(), x.shape().end());
  shape.erase(shape.begin());
  shape[0] = x.dim(0) * x.dim(1);
  const Array steps = reshape(x, shape);
  const Array kernel = lstm_kernel(scope, "kernel", window, x, x.dim(-1), options, options.kernel_initializer);
  Array y = conv(steps, kernel,
                 {.strides = strides,
                  .padding = nn::padding_of(options.padding, steps, window, strides, dilation),
                  .dilation = dilation});
  if (options.use_bias) {
    y = y + scope.trainable(
                "bias", {.shape = {gates * options.filters},
                         .dtype = x.dtype(),
                         .initializer = options.unit_forget_bias ? nn::ones_in_gate(1, gates) : initializers::zeros(),
                         .aggregation = options.aggregation});
  }
  shape.assign(y.shape().begin(), y.shape().end());
  shape[0] = x.dim(1);
  shape.insert(shape.begin(), x.dim(0));
  return swapaxes(reshape(y, shape), 0, 1);
}

/// The given state, or zeros.
Array conv_lstm_start(const Scope& scope, const Shape& shape, DType dtype, const Array& given) {
  if (!given.has_value()) return zeros(shape, dtype);
  if (given.shape() == shape) return convert(given, dtype);
  throw ShapeError(fmt::format("[conv_lstm '{}'] the initial state is {}; give {}", scope.path(),
                               to_string(given.type()), to_string(shape)));
}

}  // namespace

std::pair<Array, LstmState> conv_lstm(const Scope& scope, const ArrayOperand& given, const ConvLstmOptions& options,
                                      const SequenceOptions<LstmState>& sequence) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const int dimensions = spatial_dimensions(scope, x);
  if (options.filters <= 0) {
    throw ValueError(
        fmt::format("[conv_lstm '{}'] filters is {}; it must be at least 1", scope.path(), options.filters));
  }
  const Axes window =
      nn::for_each_dimension(fmt::format("conv_lstm '{}'", scope.path()), "kernel", options.kernel, dimensions);
  const Array held = nn::held_places("conv_lstm", scope, x, sequence.lengths, sequence.mask);
  const Array inputs = convolutions_of_inputs(scope, nn::held_inputs(x, held), window, options);
  const Array recurrent =
      lstm_kernel(scope, "recurrent_kernel", window, x, options.filters, options, options.recurrent_initializer);
  const Axes ones(window.size(), 1);
  const auto step = [&](const std::vector<Array>& state, const Array& input) {
    const Array of_state =
        conv(state[0], recurrent, {.padding = nn::padding_of(Padding::same, state[0], window, ones, ones)});
    const std::vector<Array> gate = split(input + of_state, gates, -1);
    const Array c = sigmoid(gate[1]) * state[1] + sigmoid(gate[0]) * tanh(gate[2]);
    return std::vector<Array>{sigmoid(gate[3]) * tanh(c), c};
  };
  const Shape shape = inputs.shape().erase(0).with(inputs.ndim() - 2, options.filters);
  const LstmState start = sequence.initial.value_or(LstmState{});
  const nn::Places places{
      {conv_lstm_start(scope, shape, x.dtype(), start.h), conv_lstm_start(scope, shape, x.dtype(), start.c)},
      held,
      sequence.reverse};
  const auto [ys, last] = nn::recurrence(step, inputs, places);
  return {ys, {last[0], last[1]}};
}

}  // namespace lockstep
