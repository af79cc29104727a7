#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/model.h>

namespace lockstep::models {

/// Dense 512 - relu - dense 512 - relu - dense `classes` on flattened input.
LOCKSTEP_API Array mlp(Scope& scope, const Array& x, std::int64_t classes = 10);

struct CnnOptions {
  std::int64_t classes = 10;
  double dropout = 0.25;
};
/// conv 32 - BatchNorm - relu - pool - conv 64 - BatchNorm - relu - pool - dense 128 - relu - dropout - dense `classes`;
/// x[N, H, W, C]. No bias before BatchNorm.
LOCKSTEP_API Array cnn(Scope& scope, const Array& x, const CnnOptions& options = {});

/// Names `find` knows.
LOCKSTEP_API const std::vector<std::string_view>& names();
/// The model of that name with its defaults. Throws ValueError listing the names.
LOCKSTEP_API Model<Array, Array> find(std::string_view name);

}  // namespace lockstep::models
