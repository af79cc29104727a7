#include <cstdint>
#include <limits>

#include <lockstep/backend/samplers.h>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

using samplers::Key;

bool log_space(const KernelRequest& request) { return request.attrs.get<bool>("log_space"); }

template <class T, bool log>
std::unique_ptr<Kernel> make_gamma(const KernelRequest& request) {
  return make_map<T, Key, T>(
      request, [](Key key, T a) { return static_cast<T>(samplers::gamma(key, static_cast<Wide<T>>(a), log)); });
}

template <class T, bool log>
std::unique_ptr<Kernel> make_gamma_grad(const KernelRequest& request) {
  return make_map<T, T, T>(request, [](T a, T sample) {
    return static_cast<T>(
        static_cast<Wide<T>>(samplers::gamma_grad(static_cast<double>(a), static_cast<double>(sample), log)));
  });
}

/// Counts above the largest Out become that.
template <class Out, class T>
std::unique_ptr<Kernel> make_poisson(const KernelRequest& request) {
  return make_map<Out, Key, T>(request, [](Key key, T rate) {
    constexpr Out most = std::numeric_limits<Out>::max();
    const double k = samplers::poisson(key, static_cast<double>(rate));
    return k < static_cast<double>(most) ? static_cast<Out>(k) : most;
  });
}

}  // namespace

std::unique_ptr<Kernel> random_gamma(const KernelRequest& request) {
  return with_float(request.outputs[0].dtype, [&]<class T>() {
    return log_space(request) ? make_gamma<T, true>(request) : make_gamma<T, false>(request);
  });
}

std::unique_ptr<Kernel> random_gamma_grad(const KernelRequest& request) {
  return with_float(request.outputs[0].dtype, [&]<class T>() {
    return log_space(request) ? make_gamma_grad<T, true>(request) : make_gamma_grad<T, false>(request);
  });
}

std::unique_ptr<Kernel> random_poisson(const KernelRequest& request) {
  return with_float(request.inputs[1].dtype, [&]<class T>() {
    return request.outputs[0].dtype == DType::int64 ? make_poisson<std::int64_t, T>(request)
                                                    : make_poisson<std::int32_t, T>(request);
  });
}

std::unique_ptr<Kernel> random_binomial(const KernelRequest& request) {
  return with_float(request.outputs[0].dtype, [&]<class T>() {
    return make_map<T, Key, T, T>(request, [](Key key, T n, T p) {
      return static_cast<T>(
          static_cast<Wide<T>>(samplers::binomial(key, static_cast<double>(n), static_cast<double>(p))));
    });
  });
}

}  // namespace lockstep::backend::cpu::kernels
