#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/convolutions/convolution_geometry.h"
#include "backends/cpu/parts.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/widened.h"

namespace lockstep::backend::onednn {

namespace {

using Parts = std::vector<std::unique_ptr<Kernel>>;
using PaddingPair = std::vector<std::vector<std::int64_t>>;

std::size_t bytes_each(const ArrayType& type, std::int64_t count) {
  return static_cast<std::size_t>(type.nbytes() / count);
}

cpu::PartSteps steps_of_images(const KernelRequest& request, std::int64_t images) {
  return {{bytes_each(request.inputs[0], images), 0}, bytes_each(request.outputs[0], images)};
}

/// Some of the kernel's own blocks each, which have its bits without a trial. Empty where these are fewer than cores may be.
Parts cut_blocks(const KernelRequest& request, const Kernel& whole, std::int64_t images, std::int64_t count) {
  constexpr std::int64_t least_blocks = 8;
  const auto* blocks = dynamic_cast<const cpu::ImageKernel*>(&whole);
  if (blocks == nullptr) return {};
  const std::int64_t at_once = blocks->images_at_once();
  const std::int64_t most = std::min(count, ceil_div(images, at_once));
  if (most < std::min(count, least_blocks)) return {};
  const std::int64_t each = round_up(ceil_div(images, most), at_once);
  return cpu::cut(images, each, steps_of_images(request, images),
                  [&](std::int64_t extent) { return blocks->of_images(extent); });
}

/// Some images each.
Parts cut_images(const KernelRequest& request, std::int64_t images, std::int64_t count) {
  std::array<ArrayType, 2> inputs = {request.inputs[0], request.inputs[1]};
  ArrayType output = request.outputs[0];
  const cpu::PartSteps steps = steps_of_images(request, images);
  return cpu::cut(images, ceil_div(images, count), steps, [&](std::int64_t extent) {
    inputs[0].shape = inputs[0].shape.with(0, extent);
    output.shape = output.shape.with(0, extent);
    return make_convolution({request.op, request.attrs, inputs, {&output, 1}, request.device});
  });
}

/// Rows of the result: indices of the first spatial dimension that has several, and the rows of x that they are made of.
struct RowRange {
  std::int64_t first = 0, count = 0, x_first = 0, x_count = 0, low = 0, high = 0;

  bool has_shape_of(const RowRange& other) const {
    return count == other.count && x_count == other.x_count && low == other.low && high == other.high;
  }
};

RowRange rows_from(std::int64_t first, std::int64_t count, const cpu::Side& side) {
  const std::int64_t begin = first * side.stride - side.low;
  const std::int64_t end = begin + (count - 1) * side.stride + side.reach() + 1;
  const std::int64_t x_first = std::max<std::int64_t>(begin, 0), x_end = std::min(end, side.x);
  return {first, count, x_first, x_end - x_first, x_first - begin, end - x_end};
}

/// Some rows of one image each.
class RowsOfImages {
 public:
  RowsOfImages(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry)
      : request_(request), geometry_(geometry) {
    while (dim_ + 1 < geometry.spatial_rank() && geometry.x[dim_ + 1] == 1 && geometry.y[dim_ + 1] == 1) ++dim_;
  }

  /// Of `blocks` blocks an image, rows of tiles together. Empty where there are too few rows.
  Parts cut(std::int64_t blocks) {
    constexpr std::int64_t tile_rows = 4;
    const cpu::Side side = geometry_.side(dim_);
    const std::int64_t rows = round_up<std::int64_t>(ceil_div(side.y, blocks), tile_rows);
    Parts parts;
    for (std::int64_t image = 0; image < geometry_.x[0]; ++image) {
      for (std::int64_t first = 0; first < side.y; first += rows) {
        const RowRange block = rows_from(first, std::min(rows, side.y - first), side);
        const std::shared_ptr<const Kernel> kernel = block.x_count < 1 ? nullptr : kernel_of(block);
        if (kernel == nullptr) return {};
        parts.push_back(cpu::shifted(kernel, {{offset(request_.inputs[0], image, block.x_first), 0},
                                              offset(request_.outputs[0], image, block.first)}));
      }
    }
    return parts;
  }

 private:
  std::size_t offset(const ArrayType& type, std::int64_t image, std::int64_t row) const {
    const std::int64_t images = type.shape[0];
    return bytes_each(type, images) * static_cast<std::size_t>(image) +
           bytes_each(type, images * type.shape[dim_ + 1]) * static_cast<std::size_t>(row);
  }

  std::shared_ptr<const Kernel> kernel_of(const RowRange& rows) {
    for (const auto& [known, kernel] : made_) {
      if (known.has_shape_of(rows)) return kernel;
    }
    std::array<ArrayType, 2> inputs = {request_.inputs[0], request_.inputs[1]};
    ArrayType output = request_.outputs[0];
    inputs[0].shape = inputs[0].shape.with(0, 1).with(dim_ + 1, rows.x_count);
    output.shape = output.shape.with(0, 1).with(dim_ + 1, rows.count);
    auto padding = request_.attrs.get<PaddingPair>("padding");
    padding[static_cast<std::size_t>(dim_)] = {rows.low, rows.high};
    const Attrs attrs = request_.attrs.with("padding", padding);
    return made_.emplace_back(rows, make_convolution({request_.op, attrs, inputs, {&output, 1}, request_.device}))
        .second;
  }

  const KernelRequest& request_;
  const cpu::ConvolutionGeometry& geometry_;
  int dim_ = 0;
  std::vector<std::pair<RowRange, std::shared_ptr<const Kernel>>> made_;
};

/// Few images in blocks of their rows, each large enough to make up for bringing the kernel to its layout once more.
Parts cut_rows(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry, std::int64_t count) {
  constexpr std::int64_t least_places = 512;
  const std::int64_t images = geometry.y[0];
  const std::int64_t places = geometry.y.size() / geometry.y.dim(-1) / images;
  const std::int64_t most = std::min(count / images, places / least_places);
  if (request.op != "conv" || most < 2) return {};
  return RowsOfImages(request, geometry)
      .cut(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most))));
}

}  // namespace

Parts make_convolution_parts(const KernelRequest& request, const Kernel& whole) {
  if (is_widened(request)) return {};
  const cpu::ConvolutionGeometry geometry(request);
  const std::int64_t images = geometry.x[0];
  const std::int64_t size = geometry.y.size() * (geometry.kernel.size() / geometry.kernel.dim(-1));
  const std::int64_t count = std::min(cpu::most_parts, size / cpu::least_part);
  if (count < 2) return {};
  const auto same = [&](Parts parts) {
    return cpu::have_same_bits(request, whole, parts) ? std::move(parts) : Parts{};
  };
  if (Parts rows = cut_rows(request, geometry, count); !rows.empty()) {
    if (rows = same(std::move(rows)); !rows.empty()) return rows;
  }
  if (images < 2) return {};
  if (Parts blocks = cut_blocks(request, whole, images, std::min(count, images)); !blocks.empty()) return blocks;
  Parts parts = cut_images(request, images, std::min(count, images));
  return parts.empty() ? Parts{} : same(std::move(parts));
}

}  // namespace lockstep::backend::onednn
