#include "engine/optim/arguments.h"

#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep::optim {

void check_share(std::string_view function, std::string_view argument, double value) {
  if (value >= 0 && value < 1) return;
  throw ValueError(fmt::format("[{}] {} is {}; give a share of the old average in the new one, at least 0 and below 1",
                               function, argument, value));
}

void check_finite(std::string_view function, std::string_view argument, double value) {
  if (std::isfinite(value)) return;
  throw ValueError(fmt::format("[{}] {} is {}; it must be finite", function, argument, value));
}

void check_not_negative(std::string_view function, std::string_view argument, double value) {
  if (std::isfinite(value) && value >= 0) return;
  throw ValueError(fmt::format("[{}] {} is {}; it must be finite and not negative", function, argument, value));
}

void check_positive(std::string_view function, std::string_view argument, double value) {
  if (std::isfinite(value) && value > 0) return;
  throw ValueError(fmt::format("[{}] {} is {}; it must be finite and above 0", function, argument, value));
}

void check_count(std::string_view function, std::string_view argument, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw ValueError(fmt::format("[{}] {} is {}; it must be at least {}", function, argument, value, least));
}

void check_key(std::string_view function, const Array& key) {
  if (key.dtype() == DType::key && key.shape().rank() == 0) return;
  throw DtypeError(fmt::format("[{}] the key is {}; give one key, as random::key(7)", function, to_string(key.type())));
}

void check_real(std::string_view function, const Tree& params) {
  const std::vector<std::string> paths = params.paths();
  const std::vector<Array> leaves = params.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!is_complex(leaves[i].dtype())) continue;
    throw DtypeError(
        fmt::format("[{}] leaf '{}' is {}: it takes real leaves alone; keep real and imaginary part as leaves of their "
                    "own, or give "
                    "this leaf to another optimizer",
                    function, paths[i], to_string(leaves[i].type())));
  }
}

}  // namespace lockstep::optim
