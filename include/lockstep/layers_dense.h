#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/initializers.h>
#include <lockstep/model.h>
#include <lockstep/ops.h>
#include <lockstep/out_of_line.h>

// Layers of products with a kernel; they take vectors along the last dimension.
namespace lockstep {

/// What a layer makes of its kernel before it multiplies by it, with variables of its own in the layer's scope:
/// spectral_norm, weight_norm, lora, or one's own.
using KernelFunction = std::function<Array(const Scope&, const Array& kernel)>;

/// Options of `dense`.
struct DenseOptions {
  std::int64_t units = 0;  ///< Features of the result; must be given.
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Aggregation aggregation = Aggregation::none;  ///< Of kernel and bias.
  KernelFunction kernel_function = {};          ///< Nothing: the kernel as it is.
};
/// x[..., in] -> [..., units]: x kernel + bias. Variables kernel [in, units], bias [units].
LOCKSTEP_API Array dense(const Scope& scope, const ArrayOperand& x, const DenseOptions& options);

extern template class LOCKSTEP_API detail::OutOfLine<std::map<char, std::int64_t>>;

/// Options of `einsum_dense`.
struct EinsumDenseOptions {
  std::string equation;  ///< "...x,kernel->result", as einsum's: "btf,fhd->bthd".
  detail::OutOfLine<std::map<char, std::int64_t>> extents = {};  ///< Of the kernel's letters that x has not.
  std::string bias_axes = {};  ///< Letters of the result that a bias has; empty: no bias.
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Aggregation aggregation = Aggregation::none;  ///< Of kernel and bias.
  KernelFunction kernel_function = {};          ///< Nothing: the kernel as it is.
};
/// einsum of x and a kernel. Variables kernel, bias, with the extents of their letters in the order of the equation
/// (the bias: of the result). Throws ValueError for an equation without two operands and a result, and for letters
/// without an extent, ShapeError where x does not fit. (Keras' EinsumDense, Flax' DenseGeneral)
LOCKSTEP_API Array einsum_dense(const Scope& scope, const ArrayOperand& x, const EinsumDenseOptions& options);

/// Options of `embedding`.
struct EmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< Rows of the table; must be given.
  std::int64_t features = 0;    ///< Of a row; must be given.
  DType dtype = float32;        ///< A float.
  Initializer initializer = initializers::uniform();
  Aggregation aggregation = Aggregation::none;  ///< Of the embeddings.
};
/// Integer indices [...] -> [..., features]. Variable embeddings [vocabulary, features]. Indices mean what they mean
/// everywhere (indexing.h): negative ones count from the end, those outside the vocabulary give NaN and train nothing.
LOCKSTEP_API Array embedding(const Scope& scope, const ArrayOperand& indices, const EmbeddingOptions& options);

namespace detail {
/// `silu` as a gate.
LOCKSTEP_API std::function<Array(const ArrayOperand&)> silu_gate();
}  // namespace detail

/// Options of `gated_dense`.
struct GatedDenseOptions {
  std::int64_t units = 0;  ///< Features of the result; must be given.
  std::function<Array(const ArrayOperand&)> gate = detail::silu_gate();
  bool use_bias = false;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Aggregation aggregation = Aggregation::none;  ///< Of kernel and bias.
};
/// gate(x W) (x V), W and V the halves of one kernel [in, 2 units]: with silu SwiGLU, with gelu GEGLU, with relu ReGLU,
/// with sigmoid GLU. Variables as of dense. Shazeer 2020.
LOCKSTEP_API Array gated_dense(const Scope& scope, const ArrayOperand& x, const GatedDenseOptions& options);

/// Options of `prelu`.
struct PreluOptions {
  bool per_channel = true;  ///< A slope for each of the last dimension; false: one.
  double slope = 0.25;      ///< The first one.
  Aggregation aggregation = Aggregation::none;
};
/// x from 0 on, else alpha x. Variable alpha [C] or []. He et al. 2015.
LOCKSTEP_API Array prelu(const Scope& scope, const ArrayOperand& x, const PreluOptions& options = {});

/// Options of `lora`.
struct LoraOptions {
  std::int64_t rank = 4;                        ///< At least 1.
  double alpha = 4;                             ///< The product counts alpha / rank.
  Aggregation aggregation = Aggregation::none;  ///< Of lora_a and lora_b.
};
/// A kernel [..., out] as a constant, plus alpha / rank A B: variables lora_a [all but the last merged, rank], lora_b
/// [rank, out], which is 0 at first. A layer's `kernel_function`. Freeze the kernel in the optimizer too
/// (optim::freeze), or its decay goes on. Throws ValueError for a rank below 1, ShapeError for a kernel below rank 2.
/// Hu et al. 2022.
LOCKSTEP_API Array lora(const Scope& scope, const ArrayOperand& kernel, const LoraOptions& options = {});

using Layer = std::function<Array(const Scope&, const Array&)>;
/// Layers one after the other, in scopes "0", "1", ...
LOCKSTEP_API Array sequential(const Scope& scope, const ArrayOperand& x, const std::vector<Layer>& layers);

}  // namespace lockstep
