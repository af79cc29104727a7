#include <string>

#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>
#include <lockstep/random.h>

namespace lockstep::models {

VaeResult vae(const Scope& scope, const Array& x, const VaeOptions& options) {
  const std::int64_t least = std::int64_t{1} << options.filters.size();
  if (x.ndim() != 4 || x.dim(1) % least != 0 || x.dim(2) % least != 0) {
    throw ShapeError(
        "[vae] the input is " + to_string(x.type()) + " and filters has " + std::to_string(options.filters.size()) +
        " numbers; give images [N, H, W, C] whose height and width are multiples of " + std::to_string(least));
  }
  const auto name = [](const char* what, std::size_t i) { return what + std::to_string(i); };
  Array h = x;
  for (std::size_t i = 0; i < options.filters.size(); ++i) {
    h = relu(conv2d(scope[name("encoder_", i)], h, {.filters = options.filters[i], .strides = {2, 2}}));
  }
  const std::vector<std::int64_t> smallest = {x.dim(0), h.dim(1), h.dim(2), h.dim(3)};
  h = relu(dense(scope["dense"], flatten(h), {.units = options.units}));
  const Array mean = dense(scope["mean"], h, {.units = options.code});
  const Array log_variance = dense(scope["log_variance"], h, {.units = options.code});
  if (!options.head) return {mean, mean, log_variance};
  Array code = mean;
  if (scope.training()) {
    const Array noise = random::normal(scope.next_key(x), mean.shape(), mean.dtype(), scope.over_batch(x));
    code = mean + exp(0.5 * log_variance) * noise;
  }
  h = relu(dense(scope["decoder"], code, {.units = smallest[1] * smallest[2] * smallest[3]}));
  h = reshape(h, smallest);
  for (std::size_t i = options.filters.size(); i-- > 0;) {
    h = relu(conv_transpose(scope[name("decoder_", i)], h,
                            {.filters = options.filters[i], .kernel = {3, 3}, .strides = {2, 2}}));
  }
  return {conv_transpose(scope["head"], h, {.filters = x.dim(-1), .kernel = {3, 3}, .strides = {1, 1}}), mean,
          log_variance};
}

Array vae_divergence(const VaeResult& r) {
  return mean(-0.5 * sum(1 + r.log_variance - square(r.mean) - exp(r.log_variance), Axes{1}));
}

}  // namespace lockstep::models
