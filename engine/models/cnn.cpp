#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

Array cnn(const Scope& scope, const Array& x, const CnnOptions& options) {
  const auto block = [&](std::string_view name, const Array& h, std::int64_t filters) {
    const Scope s = scope[name];
    const Array y =
        conv2d(s["conv"], h, {.filters = filters, .use_bias = false, .kernel_initializer = initializers::he_normal()});
    return max_pool2d(relu(batch_norm(s["norm"], y)), {2, 2});
  };
  Array h = flatten(block("block_1", block("block_0", x, 32), 64));
  h = relu(dense(scope["dense"], h, {.units = 128, .kernel_initializer = initializers::he_normal()}));
  h = dropout(scope["dropout"], h, options.dropout);
  return options.head ? dense(scope["head"], h, {.units = options.classes}) : h;
}

}  // namespace lockstep::models
