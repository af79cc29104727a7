#include <lockstep/attention.h>
#include <lockstep/error.h>
#include <lockstep/layers.h>

namespace lockstep {
namespace {

Array by_heads(const Array& x, std::int64_t heads) { return reshape(x, {x.dim(0), x.dim(1), heads, -1}); }

/// Queries, keys and values, [N, T, heads, features], by one product.
std::vector<Array> joint(const Scope& scope, const Array& x, DenseOptions projection, std::int64_t heads) {
  projection.units *= 3;
  return split(by_heads(dense(scope["qkv"], x, projection), 3 * heads), 3, 2);
}

/// By one for each.
std::vector<Array> apart(const Scope& scope, const Array& x, const DenseOptions& projection, std::int64_t heads) {
  std::vector<Array> parts;
  for (const char* name : {"query", "key", "value"}) {
    parts.push_back(by_heads(dense(scope[name], x, projection), heads));
  }
  return parts;
}

}  // namespace

Array multi_head_attention(const Scope& scope, const ArrayOperand& x, const MultiHeadAttentionOptions& options) {
  const NamedScope named = scope.named();
  if (x.ndim() != 3 || !is_float(x.dtype())) {
    throw ShapeError("[multi_head_attention '" + scope.path() + "'] the input is " + to_string(x.type()) +
                     "; give float sequences [N, T, features]");
  }
  const std::int64_t features = x.dim(-1);
  if (options.heads <= 0 || features % options.heads != 0) {
    throw ValueError("[multi_head_attention '" + scope.path() + "'] " + std::to_string(features) + " features, " +
                     std::to_string(options.heads) + " heads; heads is at least 1 and divides the features");
  }
  const DenseOptions projection{.units = features,
                                .use_bias = options.use_bias,
                                .kernel_initializer = options.kernel_initializer,
                                .aggregation = options.aggregation};
  const std::vector<Array> parts = options.joint_projection ? joint(scope, x, projection, options.heads)
                                                            : apart(scope, x, projection, options.heads);
  const Array heads = dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = options.is_causal});
  return dense(scope["out"], reshape(heads, {x.dim(0), x.dim(1), features}), projection);
}

}  // namespace lockstep
