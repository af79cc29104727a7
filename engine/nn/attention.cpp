#include <lockstep/attention.h>
#include <lockstep/error.h>
#include <lockstep/layers.h>

namespace lockstep {

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
  DenseOptions joint = projection;
  joint.units = 3 * features;
  const Array all = reshape(dense(scope["qkv"], x, joint), {x.dim(0), x.dim(1), 3 * options.heads, -1});
  const std::vector<Array> parts = split(all, 3, 2);
  const Array heads = dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = options.is_causal});
  return dense(scope["out"], reshape(heads, {x.dim(0), x.dim(1), features}), projection);
}

}  // namespace lockstep
