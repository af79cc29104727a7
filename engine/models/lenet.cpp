#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

Array lenet(const Scope& scope, const Array& x, const LenetOptions& options) {
  const auto block = [&](std::string_view name, const Array& h, std::int64_t filters, Padding padding) {
    const Array y = conv2d(scope[name], h, {.filters = filters, .kernel = {5, 5}, .padding = padding});
    return avg_pool2d(tanh(y), {2, 2});
  };
  Array h = flatten(block("conv_1", block("conv_0", x, 6, Padding::same), 16, Padding::valid));
  h = tanh(dense(scope["dense_0"], h, {.units = 120}));
  h = tanh(dense(scope["dense_1"], h, {.units = 84}));
  return options.head ? dense(scope["head"], h, {.units = options.classes}) : h;
}

}  // namespace lockstep::models
