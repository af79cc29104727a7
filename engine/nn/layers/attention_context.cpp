#include "engine/nn/layers/attention_context.h"

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep::nn {
namespace {

bool broadcasts(const Shape& from, const Shape& to) {
  const int missing = to.rank() - from.rank();
  if (missing < 0) return false;
  for (int i = 0; i < from.rank(); ++i) {
    if (from.dim(i) != 1 && from.dim(i) != to.dim(i + missing)) return false;
  }
  return true;
}

}  // namespace

void check_logit_operands(std::string_view name, const AttentionContext& context, const Shape& logits) {
  if (context.mask && context.mask->dtype() != bool_) {
    throw DtypeError(
        fmt::format("{} the mask is {}; give bool, true where a query sees a key. What is added to the logits is the "
                    "bias",
                    name, to_string(context.mask->type())));
  }
  if (context.bias && !is_float(context.bias->dtype()) && !is_integer(context.bias->dtype())) {
    throw DtypeError(
        fmt::format("{} the bias is {}; give floats, which are added to the logits. bool, true where a "
                    "query sees a key, is the mask",
                    name, to_string(context.bias->type())));
  }
  const auto check = [&](std::string_view what, const std::optional<Array>& given) {
    if (!given || broadcasts(given->shape(), logits)) return;
    throw ShapeError(fmt::format("{} the {} is {}; give what broadcasts to the logits, {}", name, what,
                                 to_string(given->type()), to_string(logits)));
  };
  check("mask", context.mask);
  check("bias", context.bias);
}

}  // namespace lockstep::nn
