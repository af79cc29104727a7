#include <string>

#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

Array autoencoder(const Scope& scope, const Array& x, const AutoencoderOptions& options) {
  Array h = flatten(x);
  const std::int64_t inputs = h.dim(1);
  const auto layer = [&](const std::string& name, std::size_t i, const Array& v) {
    return sigmoid(dense(scope[name + "_" + std::to_string(i)], v, {.units = options.units[i]}));
  };
  for (std::size_t i = 0; i < options.units.size(); ++i) h = layer("encoder", i, h);
  h = dense(scope["code"], h, {.units = options.code});
  if (!options.head) return h;
  for (std::size_t i = options.units.size(); i-- > 0;) h = layer("decoder", i, h);
  return reshape(dense(scope["head"], h, {.units = inputs}), Axes(x.shape().begin(), x.shape().end()));
}

}  // namespace lockstep::models
