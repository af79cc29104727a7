#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/layers.h>

namespace lockstep {

Array lstm(const Scope& scope, const ArrayOperand& x, const LstmOptions& options) {
  const NamedScope named = scope.named();
  if (x.ndim() != 3 || !is_float(x.dtype())) {
    throw ShapeError("[lstm '" + scope.path() + "'] the input is " + to_string(x.type()) +
                     "; give float sequences [N, T, features]");
  }
  if (options.units <= 0) {
    throw ValueError("[lstm '" + scope.path() + "'] units is " + std::to_string(options.units) +
                     "; it must be at least 1");
  }
  const Array kernel = scope.trainable("kernel", {.shape = {x.dim(-1), 4 * options.units},
                                                  .dtype = x.dtype(),
                                                  .initializer = options.kernel_initializer,
                                                  .aggregation = options.aggregation});
  const Array recurrent = scope.trainable("recurrent_kernel", {.shape = {options.units, 4 * options.units},
                                                               .dtype = x.dtype(),
                                                               .initializer = options.recurrent_initializer,
                                                               .aggregation = options.aggregation});
  const Array bias =
      scope.trainable("bias", {.shape = {4 * options.units}, .dtype = x.dtype(), .aggregation = options.aggregation});

  // One product for all steps; the loop has the recurrent one alone. x is moved, not what is four times as wide.
  const Array inputs = dot_general(swapaxes(x, 0, 1), kernel, {{2}, {0}}) + bias;
  using State = std::pair<Array, Array>;
  const auto step = [&](const State& state, const Array& input) {
    const auto& [h, c] = state;
    const std::vector<Array> of_input = split(input, 4, 1), of_state = split(matmul(h, recurrent), 4, 1);
    const auto gate = [&](std::size_t i) { return of_input[i] + of_state[i]; };
    const Array next_c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * tanh(gate(2));
    const Array next_h = sigmoid(gate(3)) * tanh(next_c);
    return std::pair(State(next_h, next_c), next_h);
  };
  const Array start = zeros({x.dim(0), options.units}, x.dtype());
  return swapaxes(scan(step, State(start, start), inputs).second, 0, 1);
}

}  // namespace lockstep
