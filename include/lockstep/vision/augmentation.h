#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>

/// Changes of one image, [height, width, channels] of uint8 or float32, for map_rows. What is drawn comes from the key,
/// so from seed, epoch and row; where several are applied, each takes its own: key.fold_in(0), key.fold_in(1).
/// Colours, geometry and mixtures of changes have headers of their own (vision/augmentation_colors.h and the like). All throw
/// ShapeError for another rank, DtypeError for another dtype.
namespace lockstep::data {

/// The window [top, top + height) x [left, left + width), zeros where it lies outside. Throws ValueError for extents
/// below 1.
LOCKSTEP_API HostTable crop(const HostTable& image, std::int64_t top, std::int64_t left, std::int64_t height,
                            std::int64_t width);
/// A window of that size at a random place of the image with `padding` zeros around it. Throws ValueError for a window
/// larger than that.
LOCKSTEP_API HostTable random_crop(const HostTable& image, std::int64_t height, std::int64_t width,
                                   std::int64_t padding, const RowKey& key);
/// Mirrored left to right with probability p.
LOCKSTEP_API HostTable random_flip(HostTable image, const RowKey& key, double p = 0.5);
/// Moved by up to `most` pixels along both dimensions, with zeros behind it. Throws ValueError for most < 0.
LOCKSTEP_API HostTable random_shift(const HostTable& image, std::int64_t most, const RowKey& key);
/// A square of `size` pixels set to zero, its middle at a random pixel. DeVries, Taylor, "Improved regularization of
/// convolutional neural networks with cutout", 2017. Throws ValueError for size < 0.
LOCKSTEP_API HostTable cutout(HostTable image, std::int64_t size, const RowKey& key);
/// float32 (value - mean) * (1 / deviation) for each channel; of uint8, value is times 1 / 255. Throws ShapeError unless there is
/// one mean and one deviation a channel, ValueError for a deviation of 0.
LOCKSTEP_API HostTable normalize(const HostTable& image, const std::vector<float>& mean,
                                 const std::vector<float>& deviation);
/// Of another size, bilinearly, pixels being squares around their middles (as JAX's resize without antialiasing). Throws
/// ValueError for extents below 1.
LOCKSTEP_API HostTable resize(const HostTable& image, std::int64_t height, std::int64_t width);

/// The first `most` boxes, float32 [n, 4], and labels, [n] of int32 or float32, of an image that
/// has any number of them; where there are fewer, -1 stands for what is missing, so that rows have one form. Throws
/// ShapeError for other shapes, DtypeError for other dtypes, ValueError for most < 0. (keras.layers.MaxNumBoundingBoxes)
LOCKSTEP_API std::pair<HostTable, HostTable> limit_boxes(const HostTable& boxes, const HostTable& labels,
                                                         std::int64_t most);

}  // namespace lockstep::data
