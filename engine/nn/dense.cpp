#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/layers.h>

namespace lockstep {
namespace {

void check_count(const Scope& scope, std::string_view what, std::int64_t value) {
  if (value > 0) return;
  throw ValueError("[" + scope.path() + "] " + std::string(what) + " is " + std::to_string(value) +
                   "; it must be at least 1");
}

}  // namespace

Array dense(const Scope& scope, const ArrayOperand& x, const DenseOptions& options) {
  const NamedScope named = scope.named();
  check_count(scope, "units", options.units);
  if (x.ndim() == 0 || !is_float(x.dtype())) {
    throw ShapeError("[dense '" + scope.path() + "'] the input is " + to_string(x.type()) +
                     "; give floats of shape [..., in]");
  }
  const std::int64_t in = x.dim(-1);
  const Array kernel = scope.trainable("kernel", {.shape = {in, options.units},
                                                  .dtype = x.dtype(),
                                                  .initializer = options.kernel_initializer,
                                                  .aggregation = options.aggregation});
  const Array y = dot_general(x, kernel, {{x.ndim() - 1}, {0}});
  if (!options.use_bias) return y;
  return y + scope.trainable("bias", {.shape = {options.units},
                                      .dtype = x.dtype(),
                                      .initializer = options.bias_initializer,
                                      .aggregation = options.aggregation});
}

Array embedding(const Scope& scope, const ArrayOperand& indices, const EmbeddingOptions& options) {
  const NamedScope named = scope.named();
  check_count(scope, "vocabulary", options.vocabulary);
  check_count(scope, "features", options.features);
  if (!is_integer(indices.dtype())) {
    throw DtypeError("[embedding '" + scope.path() + "'] the indices are " + to_string(indices.type()) +
                     "; give integers");
  }
  const Array table = scope.trainable("embeddings", {.shape = {options.vocabulary, options.features},
                                                     .initializer = options.initializer,
                                                     .aggregation = options.aggregation});
  return take_rows(table, indices);
}

Array dropout(const Scope& scope, const ArrayOperand& x, double rate) {
  const NamedScope named = scope.named();
  if (!(rate >= 0 && rate < 1)) {
    throw ValueError(fmt::format("[dropout '{}'] the rate is {}; give a probability in [0, 1)", scope.path(), rate));
  }
  const Array key = scope.next_key(x);
  if (!scope.training() || rate == 0) return x;
  const Array kept = random::bernoulli(key, 1.0 - rate, x.shape(), scope.over_batch(x));
  return where(kept, x * (1.0 / (1.0 - rate)), 0);
}

Array sequential(const Scope& scope, const ArrayOperand& x, const std::vector<Layer>& layers) {
  Array h = x;
  for (std::size_t i = 0; i < layers.size(); ++i) h = layers[i](scope[std::to_string(i)], h);
  return h;
}

}  // namespace lockstep
