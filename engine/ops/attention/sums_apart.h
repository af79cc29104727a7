#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/ops/values.h"

namespace lockstep::ops {

/// attention_grad for keys and values of one head for each head of queries, and a bias that is spread over batch and
/// heads: what it adds up then, over the heads that share a key and over what the bias was spread over, are sums behind it,
/// whose order can be given. Nothing where it has no such sum. `is_bias_read`: whether somebody reads the bias's gradient.
std::optional<std::vector<Value>> attention_grad_with_sums_apart(std::span<const Value> inputs, const Attrs& attrs,
                                                                 bool is_bias_read);

}  // namespace lockstep::ops
