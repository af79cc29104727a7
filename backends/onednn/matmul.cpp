#include "backends/onednn/matmul.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep::backend::onednn {

dnnl::memory::desc matrices(dnnl::memory::data_type type, dnnl::memory::dims extents, dnnl::memory::dims strides) {
  const std::size_t inner = extents.size() - 1;
  const std::size_t outer = extents.size() - 2;
  if (extents[inner] == 1) strides[inner] = 1;
  if (extents[outer] == 1) strides[outer] = strides[inner] == 1 ? extents[inner] : 1;
  std::int64_t reach = std::max(extents[outer] * strides[outer], extents[inner] * strides[inner]);
  for (std::size_t d = outer; d-- > 0;) {
    if (extents[d] == 1) strides[d] = reach;
    reach = std::max(reach, extents[d] * strides[d]);
  }
  return {extents, type, strides};
}

std::unique_ptr<BoundPrimitive> make_matmul(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                            const dnnl::memory::desc& result, bool adds) {
  dnnl::primitive_attr how = attributes();
  if (adds) {
    dnnl::post_ops sum;
    sum.append_sum();
    how.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc description(cpu_engine(), a, b, result, how, true);
  if (!description || is_reference(description)) return nullptr;
  return std::make_unique<BoundPrimitive>(
      description, dnnl::matmul(description),
      std::vector<BoundPrimitive::Argument>{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, result}});
}

}  // namespace lockstep::backend::onednn
