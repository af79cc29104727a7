#include "backends/onednn/strided_places.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/cpu/scratch.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"

namespace lockstep::backend::onednn {

namespace {

class StridedPlaces final : public Kernel {
 public:
  StridedPlaces(const cpu::ConvolutionGeometry& geometry, const ArrayType& places, std::unique_ptr<Kernel> dense)
      : images_(geometry.x[0]), places_(places), dense_(std::move(dense)) {
    const int first = 3 - geometry.spatial_rank();
    for (int d = 0; d < geometry.spatial_rank(); ++d) sides_[static_cast<std::size_t>(first + d)] = geometry.side(d);
    place_bytes_ = geometry.x.dim(-1) * static_cast<std::int64_t>(size_of(places.dtype));
    dense_scratch_ = cpu::whole_lines(static_cast<std::size_t>(places.nbytes()));
  }

  void run(const KernelArguments& arguments) const override {
    auto* scratch = static_cast<std::byte*>(arguments.scratch);
    gather(static_cast<const std::byte*>(arguments.inputs[0].data), scratch);
    const std::array<ArrayView, 2> inputs = {contiguous_view(scratch, places_.dtype, places_.shape),
                                             arguments.inputs[1]};
    dense_->run({inputs, arguments.outputs, scratch + dense_scratch_});
  }

  std::size_t scratch_bytes() const override { return dense_scratch_ + dense_->scratch_bytes(); }

 private:
  void gather(const std::byte* x, std::byte* to) const {
    const auto& [outer, middle, inner] = sides_;
    for (std::int64_t n = 0; n < images_; ++n) {
      for (std::int64_t i = 0; i < outer.y; ++i) {
        for (std::int64_t j = 0; j < middle.y; ++j) {
          const std::int64_t plane = met(outer, i), row = met(middle, j);
          const bool is_padding = plane < 0 || row < 0;
          const std::byte* from =
              is_padding ? nullptr : x + ((n * outer.x + plane) * middle.x + row) * inner.x * place_bytes_;
          to = gather_row(from, to);
        }
      }
    }
  }

  /// `from` is null for a row of padding.
  std::byte* gather_row(const std::byte* from, std::byte* to) const {
    const cpu::Side& side = sides_[2];
    for (std::int64_t k = 0; k < side.y; ++k, to += place_bytes_) {
      const std::int64_t at = met(side, k);
      if (from == nullptr || at < 0) {
        std::memset(to, 0, static_cast<std::size_t>(place_bytes_));
      } else {
        std::memcpy(to, from + at * place_bytes_, static_cast<std::size_t>(place_bytes_));
      }
    }
    return to;
  }

  /// The index in x that index `i` of y meets, or -1 in the padding.
  static std::int64_t met(const cpu::Side& side, std::int64_t i) {
    const std::int64_t at = i * side.stride - side.low;
    return at < side.x ? at : -1;
  }

  std::int64_t images_, place_bytes_ = 0;
  std::array<cpu::Side, 3> sides_;
  ArrayType places_;
  std::unique_ptr<Kernel> dense_;
  std::size_t dense_scratch_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_strided_places(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
  if (request.op != "conv_kernel_grad" || geometry.window_size() != 1 || !geometry.is_strided()) return nullptr;
  const auto spatial = static_cast<std::size_t>(geometry.spatial_rank());
  std::array<ArrayType, 2> inputs = {request.inputs[0], request.inputs[1]};
  for (int d = 1; d <= geometry.spatial_rank(); ++d) inputs[0].shape = inputs[0].shape.with(d, geometry.y[d]);
  const std::vector<std::int64_t> ones(spatial, 1);
  const Attrs attrs =
      request.attrs.with("strides", ones).with("padding", std::vector<std::vector<std::int64_t>>(spatial, {0, 0}));
  auto kernel = make_convolution({request.op, attrs, inputs, request.outputs, request.device});
  if (kernel == nullptr) return nullptr;
  return std::make_unique<StridedPlaces>(geometry, inputs[0], std::move(kernel));
}

}  // namespace lockstep::backend::onednn
