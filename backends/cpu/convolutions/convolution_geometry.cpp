#include "backends/cpu/convolutions/convolution_geometry.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::backend::cpu {

ConvolutionGeometry::ConvolutionGeometry(const KernelRequest& request)
    : strides(request.attrs.get<std::vector<std::int64_t>>("strides")),
      dilation(request.attrs.get<std::vector<std::int64_t>>("dilation")),
      groups(request.attrs.get<std::int64_t>("groups")) {
  const Shape& first = request.inputs[0].shape;
  const Shape& second = request.inputs[1].shape;
  const Shape& result = request.outputs[0].shape;
  x = request.op == "conv_input_grad" ? result : first;
  kernel = request.op == "conv_kernel_grad" ? result : second;
  y = request.op == "conv" ? result : request.op == "conv_input_grad" ? first : second;
  for (const std::vector<std::int64_t>& pair : request.attrs.get<std::vector<std::vector<std::int64_t>>>("padding")) {
    low.push_back(pair[0]);
    high.push_back(pair[1]);
  }
}

Side ConvolutionGeometry::side(int dim) const {
  if (dim < 0) return {};
  const auto at = static_cast<std::size_t>(dim);
  return {x[dim + 1], y[dim + 1], kernel[dim], strides[at], dilation[at], low[at]};
}

bool ConvolutionGeometry::is_strided() const {
  return std::any_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride != 1; });
}

}  // namespace lockstep::backend::cpu
