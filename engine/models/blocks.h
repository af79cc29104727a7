#pragma once

#include <functional>
#include <string>

#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

/// What a block does with its normalised input; the scope is the block's.
using Attend = std::function<Array(const Scope&, const Array&)>;

/// Throws ValueError, naming the model and its option, for a number of layers below 0: a loop would take it for none.
void check_depth(const std::string& model, const std::string& option, std::int64_t depth);
/// Of the layers of vit and gpt.
Array block_norm(const Scope& scope, const Array& x);
MultiHeadAttentionOptions attention_of(const TransformerOptions& options, bool is_causal);
/// x + attention(norm(x)), then that plus two dense layers of its norm, the first four times as wide.
Array transformer_block(const Scope& scope, const Array& x, const Attend& attend);
/// Blocks one after the other and a norm, all attending as `attention_of` says.
Array transformer(const Scope& scope, Array x, const TransformerOptions& options, bool is_causal);
/// Images [N, H, W, C] cut into patches, [N, places, width]: layer "patches". Throws ShapeError naming the model where
/// they do not fit.
Array patches_of(const Scope& scope, const Array& x, std::int64_t patch, std::int64_t width, const std::string& model);
/// The variable "positions", a row for each position.
Array position_table(const Scope& scope, std::int64_t positions, std::int64_t width, DType dtype);

}  // namespace lockstep::models
