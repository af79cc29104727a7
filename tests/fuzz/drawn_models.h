#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/support/layer_transforms.h"

namespace lockstep::tests {

/// A layer that keeps the shape of its input, rows first.
struct DrawnLayer {
  std::string name;
  LayerFunction layer;
};

/// A transform and, where there is one, the code that means the same without it.
struct DrawnTransform {
  std::string name;
  LayerTransform lifted;
  LayerTransform plain;
  bool draws_alike = true;  ///< Random streams are those of the plain form.
  /// Values are the same sums in the same order. A loop over one layer adds up its iterations' rows at once, and a
  /// derivative inside has the layer's own rule behind it.
  bool sums_alike = true;
};

/// What mixes rows or draws, behind a layer.
enum class Between : std::uint8_t { nothing, dropout, batch_norm };

/// A training step that differs from its plain form by transforms and by how it is cut.
struct DrawnModel {
  std::string text;  ///< Says what was drawn.
  std::vector<DrawnLayer> layers;
  std::vector<DrawnTransform> transforms;  ///< One for each layer.
  bool has_batch_norm = false;
  bool per_microbatch = false;  ///< What its batch_norm is told.
  DType dtype = float32;
  std::int64_t shards = 1, microbatches = 1;
  Batch batch;    ///< With NaN and infinity in rows of weight 0.
  Batch cleaned;  ///< Zeros there.

  /// Output f[rows, 1].
  Model<Array, Array> lifted() const;
  Model<Array, Array> plain() const;
  bool draws_alike() const;
  bool sums_alike() const;
};

/// The model of that seed.
DrawnModel draw_model(std::uint64_t seed);

}  // namespace lockstep::tests
