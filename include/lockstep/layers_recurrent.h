#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/initializers.h>
#include <lockstep/layers_convolution.h>
#include <lockstep/model.h>
#include <lockstep/out_of_line.h>
#include <lockstep/tree.h>

// Recurrent layers: one loop over T of sequences [N, T, features], or of images.
namespace lockstep {

/// How a recurrent layer goes over its sequences. Layers throw ShapeError for what does not fit, DtypeError for lengths
/// that are no integers, a mask that is not of bool, and complex states.
template <class State>
struct SequenceOptions {
  std::optional<State> initial = {};  ///< Zeros.
  std::optional<Array> lengths = {};  ///< int[N]: what is behind changes no state and gives 0.
  std::optional<Array> mask = {};     ///< bool[N, T]: places that are not held, likewise.
  bool reverse = false;               ///< From the last place to the first; results stay at their places.
};

/// Options of `lstm`.
struct LstmOptions {
  std::int64_t units = 0;  ///< Of the hidden state; must be given.
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::glorot_uniform();
  Aggregation aggregation = Aggregation::none;  ///< Of both kernels and the bias.
};
/// x[N, T, features] -> the hidden states [N, T, units], from zeros. Variables kernel [features, 4 units],
/// recurrent_kernel [units, 4 units], bias [4 units]; gates in the order input, forget, cell, output. Hochreiter and
/// Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000.
LOCKSTEP_API Array lstm(const Scope& scope, const ArrayOperand& x, const LstmOptions& options);

/// Hidden and cell state, [N, units] each.
struct LstmState {
  Array h;
  Array c;
};
LOCKSTEP_TREE(LstmState, h, c);
namespace detail {
LOCKSTEP_API extern const SequenceOptions<Array> no_sequence;           ///< The defaults.
LOCKSTEP_API extern const SequenceOptions<LstmState> no_lstm_sequence;  ///< The defaults.
}  // namespace detail
/// With the final state.
LOCKSTEP_API std::pair<Array, LstmState> lstm(const Scope& scope, const ArrayOperand& x, const LstmOptions& options,
                                              const SequenceOptions<LstmState>& sequence);

/// Options of `gru` and `simple_rnn`.
struct RecurrentOptions {
  std::int64_t units = 0;  ///< Of the hidden state; must be given.
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Aggregation aggregation = Aggregation::none;  ///< Of both kernels and the biases.
};
/// x[N, T, features] -> the hidden states [N, T, units] and the last one: h' = z h + (1 - z) tanh(n), n = x W + b + r
/// (h U + d), gates r and z sigmoids likewise. Variables kernel [features, 3 units], recurrent_kernel [units, 3 units],
/// bias and recurrent_bias [3 units]; gates in the order update z, reset r, new n (Keras', with reset_after). Cho et
/// al. 2014.
LOCKSTEP_API std::pair<Array, Array> gru(const Scope& scope, const ArrayOperand& x, const RecurrentOptions& options,
                                         const SequenceOptions<Array>& sequence = detail::no_sequence);
/// h' = tanh(x W + h U + b): the hidden states and the last one. Variables kernel [features, units], recurrent_kernel
/// [units, units], bias [units]. Elman 1990.
LOCKSTEP_API std::pair<Array, Array> simple_rnn(const Scope& scope, const ArrayOperand& x,
                                                const RecurrentOptions& options,
                                                const SequenceOptions<Array>& sequence = detail::no_sequence);
/// Options of `mgu`.
struct MguOptions {
  std::int64_t units = 0;  ///< Of the hidden state; must be given.
  bool reset_gate = true;  ///< Whether the gate counts in the new state; false: n = x W + b + h U, without d.
  Initializer kernel_initializer = initializers::lecun_normal();
  Initializer recurrent_initializer = initializers::orthogonal();
  Aggregation aggregation = Aggregation::none;  ///< Of both kernels and the biases.
};
/// The minimal gated unit: h' = f h + (1 - f) tanh(n), n = x W + b + f (h U + d), the gate f a sigmoid of x V + c + h S.
/// Variables kernel [features, 2 units], recurrent_kernel [units, 2 units] and bias [2 units] in the order forget f
/// (whose bias is 1 at first), new n; recurrent_bias [units], which is d. Zhou, Wu, Zhang and Zhou 2016. (Flax' MGUCell)
LOCKSTEP_API std::pair<Array, Array> mgu(const Scope& scope, const ArrayOperand& x, const MguOptions& options,
                                         const SequenceOptions<Array>& sequence = detail::no_sequence);

/// Options of `conv_lstm`; lists have one entry for each spatial dimension, or one for all.
struct ConvLstmOptions {
  std::int64_t filters = 0;              ///< Channels of the hidden state; must be given.
  detail::OutOfLine<Axes> kernel = {3};  ///< Of both convolutions.
  detail::OutOfLine<Axes> strides = {
      1};  ///< Of the one of the input, as padding and dilation: that of the state is same.
  Padding padding = Padding::same;
  detail::OutOfLine<Axes> dilation = {1};
  bool use_bias = true;
  bool unit_forget_bias = true;  ///< The forget gate's bias is 1 at first; false: 0. Jozefowicz et al. 2015.
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Aggregation aggregation = Aggregation::none;  ///< Of both kernels and the bias.
};
/// lstm whose products are convolutions, over one to three spatial dimensions: x[N, T, spatial..., C] -> the hidden
/// states [N, T, spatial'..., filters] and the last ones; states, lengths and masks as of lstm. Variables kernel
/// [window..., C, 4 filters], recurrent_kernel [window..., filters, 4 filters], bias [4 filters]; gates in the order
/// input, forget, cell, output. Throws ShapeError and ValueError for inputs and options that do not fit. Shi et al.
/// 2015. (Keras' ConvLSTM1D, ConvLSTM2D, ConvLSTM3D; return_sequences = false is the last h)
LOCKSTEP_API std::pair<Array, LstmState> conv_lstm(
    const Scope& scope, const ArrayOperand& x, const ConvLstmOptions& options,
    const SequenceOptions<LstmState>& sequence = detail::no_lstm_sequence);

/// layer(scope["forward"], x, false) and layer(scope["backward"], x, true), joined along the last dimension; the bool
/// is the layer's `reverse`. Schuster and Paliwal 1997.
LOCKSTEP_API Array bidirectional(const Scope& scope, const ArrayOperand& x,
                                 const std::function<Array(const Scope&, const Array&, bool reverse)>& layer);

}  // namespace lockstep
