#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/layers_dense.h>

namespace lockstep {
namespace {

void check_count(const Scope& scope, std::string_view what, std::int64_t value) {
  if (value > 0) return;
  throw ValueError("[" + scope.path() + "] " + std::string(what) + " is " + std::to_string(value) +
                   "; it must be at least 1");
}

}  // namespace

Array dense(const Scope& scope, const ArrayOperand& given, const DenseOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  check_count(scope, "units", options.units);
  if (x.ndim() == 0 || !is_float(x.dtype())) {
    throw ShapeError("[dense '" + scope.path() + "'] the input is " + to_string(x.type()) +
                     "; give floats of shape [..., in]");
  }
  const std::int64_t in = x.dim(-1);
  Array kernel = scope.trainable("kernel", {.shape = {in, options.units},
                                            .dtype = x.dtype(),
                                            .initializer = options.kernel_initializer,
                                            .aggregation = options.aggregation});
  if (options.kernel_function) kernel = options.kernel_function(scope, kernel);
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
                                                     .dtype = options.dtype,
                                                     .initializer = options.initializer,
                                                     .aggregation = options.aggregation,
                                                     .cast = false});
  // Rows are rounded, not the table: backward, they are added up in the table's dtype.
  return scope.in_compute_dtype(take_rows(table, indices));
}

Array gated_dense(const Scope& scope, const ArrayOperand& x, const GatedDenseOptions& options) {
  const Array both = dense(scope, x,
                           {.units = 2 * options.units,
                            .use_bias = options.use_bias,
                            .kernel_initializer = options.kernel_initializer,
                            .aggregation = options.aggregation});
  const std::vector<Array> halves = split(both, 2, -1);
  return options.gate(halves[0]) * halves[1];
}

Array prelu(const Scope& scope, const ArrayOperand& given, const PreluOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  if (x.ndim() == 0 || !is_float(x.dtype())) {
    throw ShapeError("[prelu '" + scope.path() + "'] the input is " + to_string(x.type()) +
                     "; give floats of shape [..., C]");
  }
  const Array alpha = scope.trainable("alpha", {.shape = options.per_channel ? Shape{x.dim(-1)} : Shape{},
                                                .dtype = x.dtype(),
                                                .initializer = initializers::constant(options.slope),
                                                .aggregation = options.aggregation});
  return where(x >= 0, x, alpha * x);
}

Array sequential(const Scope& scope, const ArrayOperand& x, const std::vector<Layer>& layers) {
  Array h = x;
  for (std::size_t i = 0; i < layers.size(); ++i) h = layers[i](scope[std::to_string(i)], h);
  return h;
}

std::function<Array(const ArrayOperand&)> detail::silu_gate() {
  return [](const ArrayOperand& x) { return silu(x); };
}

}  // namespace lockstep
