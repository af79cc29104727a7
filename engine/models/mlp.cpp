#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

Array mlp(const Scope& scope, const Array& x, std::int64_t classes) {
  const auto hidden = [&](std::string_view name, const Array& h) {
    return relu(dense(scope[name], h, {.units = 512, .kernel_initializer = initializers::he_normal()}));
  };
  const Array h = hidden("dense_1", hidden("dense_0", flatten(x)));
  return dense(scope["head"], h, {.units = classes});
}

}  // namespace lockstep::models
