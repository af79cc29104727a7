#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/initializers.h>
#include <lockstep/model.h>
#include <lockstep/ops.h>

namespace lockstep {

/// Options of `dense`.
struct DenseOptions {
  std::int64_t units = 0;  ///< Features of the result; must be given.
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Aggregation aggregation = Aggregation::none;  ///< Of kernel and bias.
};
/// x[..., in] -> [..., units]: x kernel + bias. Variables kernel [in, units], bias [units].
LOCKSTEP_API Array dense(const Scope& scope, const ArrayOperand& x, const DenseOptions& options);

/// valid: none. same: as many results as windows start inside the image, the smaller half of the padding in front
/// (Keras, TensorFlow). half: half a window on every side, whatever the stride (PyTorch's padding = kernel / 2).
enum class Padding : std::uint8_t { same, valid, half };

/// Options of `conv2d`; pairs are (height, width).
struct Conv2dOptions {
  std::int64_t filters = 0;  ///< Output channels; must be given.
  std::pair<std::int64_t, std::int64_t> kernel = {3, 3};
  std::pair<std::int64_t, std::int64_t> strides = {1, 1};
  Padding padding = Padding::same;
  std::pair<std::int64_t, std::int64_t> dilation = {1, 1};
  std::int64_t groups = 1;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Aggregation aggregation = Aggregation::none;  ///< Of kernel and bias.
};
/// x[N, H, W, C] -> [N, H', W', filters]. Variables kernel [h, w, C/groups, filters], bias [filters].
LOCKSTEP_API Array conv2d(const Scope& scope, const ArrayOperand& x, const Conv2dOptions& options);

/// Options of `batch_norm`.
struct BatchNormOptions {
  double momentum = 0.99;  ///< Share of the old moving statistics in the new ones.
  double epsilon = 1e-3;
  bool center = true;  ///< Whether there is a beta,
  bool scale = true;   ///< and a gamma.
  /// Statistics over the whole batch, all shards together. false: per shard, moving statistics averaged over shards
  /// that have rows; a different model.
  bool synchronized = true;
  bool trainable = true;  ///< false: the moving statistics normalise even in training, and stay.
  /// Where a training step has microbatches: statistics of each microbatch alone, over all shards or one as said above,
  /// moving statistics averaged over microbatches that have rows; a different model. false: then a MeshError.
  bool per_microbatch = false;
  Aggregation aggregation = Aggregation::none;  ///< Of gamma and beta; that of the statistics follows from the above.
};
/// Normalises every channel (last dimension) over all others. Rows of weight 0 count in no statistic. Variables gamma,
/// beta [C]; state moving_mean, moving_variance [C] (at least float32), new = momentum * old + (1 - momentum) * batch,
/// biased variance. A training call without a single real row normalises to 0 and keeps the state. Ioffe and Szegedy
/// 2015.
LOCKSTEP_API Array batch_norm(const Scope& scope, const ArrayOperand& x, const BatchNormOptions& options = {});

/// Options of `layer_norm`.
struct LayerNormOptions {
  double epsilon = 1e-3;
  bool center = true;                           ///< Whether there is a beta,
  bool scale = true;                            ///< and a gamma.
  Aggregation aggregation = Aggregation::none;  ///< Of gamma and beta.
};
/// Normalises over the last dimension. Variables gamma, beta. Ba, Kiros and Hinton 2016.
LOCKSTEP_API Array layer_norm(const Scope& scope, const ArrayOperand& x, const LayerNormOptions& options = {});

/// Options of `rms_norm`.
struct RmsNormOptions {
  double epsilon = 1e-6;
  bool scale = true;                            ///< Whether there is a gamma.
  Aggregation aggregation = Aggregation::none;  ///< Of gamma.
};
/// x / sqrt(mean(x^2) + epsilon) over the last dimension, times gamma: floats [..., C], computed in at least float32 and
/// rounded once; large numbers, whose squares overflow, too. Variable gamma. Zhang and Sennrich 2019.
LOCKSTEP_API Array rms_norm(const Scope& scope, const ArrayOperand& x, const RmsNormOptions& options = {});

/// In training each element is 0 with probability `rate`, else scaled by 1 / (1 - rate); the mask of a row does not
/// depend on how the batch is cut. Identity in evaluation. State rng. Throws ValueError for a rate outside [0, 1) or
/// NaN.
LOCKSTEP_API Array dropout(const Scope& scope, const ArrayOperand& x, double rate);

/// Options of `embedding`.
struct EmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< Rows of the table; must be given.
  std::int64_t features = 0;    ///< Of a row; must be given.
  Initializer initializer = initializers::uniform();
  Aggregation aggregation = Aggregation::none;  ///< Of the embeddings.
};
/// Integer indices [...] -> [..., features]. Variable embeddings [vocabulary, features]. Indices mean what they mean
/// everywhere (indexing.h): negative ones count from the end, those outside the vocabulary give NaN and train nothing.
LOCKSTEP_API Array embedding(const Scope& scope, const ArrayOperand& indices, const EmbeddingOptions& options);

/// Options of the poolings; pairs are (height, width).
struct Pool2dOptions {
  std::pair<std::int64_t, std::int64_t> window = {2, 2};
  std::pair<std::int64_t, std::int64_t> strides = {0, 0};  ///< 0: the window.
  Padding padding = Padding::valid;
};
/// The largest element of windows that do not overlap, x[N, H, W, C] -> [N, H', W', C]; what fills no window is left
/// out.
LOCKSTEP_API Array max_pool2d(const ArrayOperand& x, std::pair<std::int64_t, std::int64_t> window);
/// With strides and padding; padding is never the largest.
LOCKSTEP_API Array max_pool2d(const ArrayOperand& x, const Pool2dOptions& options);
/// The mean of windows that do not overlap. Elements outside the image count in neither sum nor divisor, here and
/// below.
LOCKSTEP_API Array avg_pool2d(const ArrayOperand& x, std::pair<std::int64_t, std::int64_t> window);
/// With strides and padding.
LOCKSTEP_API Array avg_pool2d(const ArrayOperand& x, const Pool2dOptions& options);
/// [N, H, W, C] -> [N, C].
LOCKSTEP_API Array global_avg_pool2d(const ArrayOperand& x);

/// Options of `multi_head_attention`.
struct MultiHeadAttentionOptions {
  std::int64_t heads = 1;  ///< Divides the features.
  bool is_causal = false;  ///< Position t sees positions 0 to t.
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Aggregation aggregation = Aggregation::none;  ///< Of all kernels and biases.
  /// false: three layers, "query", "key" and "value", in place of "qkv": what cuts their kernels' columns cuts heads.
  bool joint_projection = true;
};
/// Self-attention, x[N, T, features] -> [N, T, features]: queries, keys and values by one dense layer "qkv", the heads'
/// results joined by another, "out". Vaswani et al. 2017.
LOCKSTEP_API Array multi_head_attention(const Scope& scope, const ArrayOperand& x,
                                        const MultiHeadAttentionOptions& options);

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

using Layer = std::function<Array(const Scope&, const Array&)>;
/// Layers one after the other, in scopes "0", "1", ...
LOCKSTEP_API Array sequential(const Scope& scope, const ArrayOperand& x, const std::vector<Layer>& layers);

}  // namespace lockstep
