#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/dims.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/moves/moves.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// The operand's elements in row-major order under another shape or dtype.
std::unique_ptr<Kernel> make_relabelling(const KernelRequest& request) {
  return make_function_kernel(
      [](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        const ArrayView& out = arguments.outputs[0];
        if (!x.is_contiguous()) return copy_elements(contiguous_view(out.data, x.dtype, x.shape), x, x.data, x.strides);
        const auto nbytes = static_cast<std::size_t>(x.shape.size()) * size_of(x.dtype);
        if (nbytes > 0 && out.data != x.data) std::memcpy(out.data, x.data, nbytes);
      },
      {.strided = true, .in_place = request.inputs[0].dtype == request.outputs[0].dtype ? 1U : 0U});
}

}  // namespace

std::unique_ptr<Kernel> stop_gradient(const KernelRequest& request) { return make_relabelling(request); }
std::unique_ptr<Kernel> checkpoint_name(const KernelRequest& request) { return make_relabelling(request); }
std::unique_ptr<Kernel> with_layout(const KernelRequest& request) { return make_relabelling(request); }
std::unique_ptr<Kernel> reshape(const KernelRequest& request) { return make_relabelling(request); }
std::unique_ptr<Kernel> bitcast_convert(const KernelRequest& request) { return make_relabelling(request); }

std::unique_ptr<Kernel> transpose(const KernelRequest& request) {
  return make_function_kernel(
      [permutation = request.attrs.get<Dims>("permutation")](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        Strides strides{};
        for (std::size_t d = 0; d < permutation.size(); ++d) {
          strides[d] = x.strides[static_cast<std::size_t>(permutation[d])];
        }
        copy_elements(arguments.outputs[0], x, x.data, strides);
      },
      {.strided = true});
}

std::unique_ptr<Kernel> broadcast_in_dim(const KernelRequest& request) {
  return make_function_kernel(
      [dims = request.attrs.get<Dims>("dims")](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        Strides strides{};
        for (std::size_t d = 0; d < dims.size(); ++d) {
          if (x.shape[static_cast<int>(d)] != 1) strides[static_cast<std::size_t>(dims[d])] = x.strides[d];
        }
        copy_elements(arguments.outputs[0], x, x.data, strides);
      },
      {.strided = true});
}

std::unique_ptr<Kernel> slice(const KernelRequest& request) {
  return make_function_kernel(
      [start = request.attrs.get<Dims>("start"),
       steps = request.attrs.get<Dims>("strides")](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        Strides strides{};
        for (std::size_t d = 0; d < start.size(); ++d) strides[d] = x.strides[d] * steps[d];
        copy_elements(arguments.outputs[0], x, element_at(x, start), strides);
      },
      {.strided = true});
}

std::unique_ptr<Kernel> dynamic_slice(const KernelRequest& /*request*/) {
  return make_function_kernel(
      [](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        const ArrayView& out = arguments.outputs[0];
        const Index start = clamped_start(arguments.inputs.subspan(1), x.shape, out.shape);
        copy_elements(out, x, element_at(x, start), x.strides);
      },
      {.strided = true});
}

std::unique_ptr<Kernel> dynamic_update_slice(const KernelRequest& request) {
  return make_function_kernel(
      [](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        const ArrayView& update = arguments.inputs[1];
        const ArrayView& out = arguments.outputs[0];
        if (out.data != x.data) copy_elements(out, x, x.data, x.strides);
        const Index start = clamped_start(arguments.inputs.subspan(2), x.shape, update.shape);
        const ArrayView target{element_at(out, start), out.dtype, update.shape, out.strides};
        copy_elements(target, update, update.data, update.strides);
      },
      {.strided = true, .in_place = in_place_inputs(request) & 1U});
}

std::unique_ptr<Kernel> concatenate(const KernelRequest& request) {
  return make_function_kernel(
      [dim = static_cast<std::size_t>(request.attrs.get<std::int64_t>("dim"))](const KernelArguments& arguments) {
        const ArrayView& out = arguments.outputs[0];
        Index start{};
        for (const ArrayView& x : arguments.inputs) {
          const ArrayView block{element_at(out, start), out.dtype, x.shape, out.strides};
          copy_elements(block, x, x.data, x.strides);
          start[dim] += x.shape[static_cast<int>(dim)];
        }
      },
      {.strided = true});
}

std::unique_ptr<Kernel> split(const KernelRequest& request) {
  return make_function_kernel(
      [dim = static_cast<std::size_t>(request.attrs.get<std::int64_t>("dim"))](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        Index start{};
        for (const ArrayView& part : arguments.outputs) {
          copy_elements(part, x, element_at(x, start), x.strides);
          start[dim] += part.shape[static_cast<int>(dim)];
        }
      },
      {.strided = true});
}

std::unique_ptr<Kernel> reverse(const KernelRequest& request) {
  return make_function_kernel(
      [dims = request.attrs.get<Dims>("dims")](const KernelArguments& arguments) {
        const ArrayView& x = arguments.inputs[0];
        const ArrayView& out = arguments.outputs[0];
        if (x.shape.size() == 0) return;
        Index last{};
        Strides strides = x.strides;
        for (const std::int64_t d : dims) {
          last[static_cast<std::size_t>(d)] = x.shape[static_cast<int>(d)] - 1;
          strides[static_cast<std::size_t>(d)] *= -1;
        }
        with_moved(x.dtype, [&]<class T>() {
          const LoopNest<2> nest(x.shape, {out.strides.data(), strides.data()});
          const T* from = static_cast<const T*>(element_at(x, last));
          nest.for_each_row([&](const auto& offsets, std::int64_t n, const auto& steps) {
            T* row = static_cast<T*>(out.data) + offsets[0];
            for (std::int64_t i = 0; i < n; ++i) row[i] = from[offsets[1] + i * steps[1]];
          });
        });
      },
      {.strided = true});
}

std::unique_ptr<Kernel> pad(const KernelRequest& request) {
  const Dims& low = request.attrs.get<Dims>("low");
  const Dims& interior = request.attrs.get<Dims>("interior");
  const Shape& x = request.inputs[0].shape;
  const Shape& out = request.outputs[0].shape;
  // Element i of dimension d goes to low + i * step; those in [first, first + kept) land inside of the result.
  Dims first, kept, target;
  for (std::size_t d = 0; d < low.size(); ++d) {
    const auto at = static_cast<int>(d);
    const std::int64_t step = interior[d] + 1;
    const std::int64_t begin = low[d] >= 0 ? 0 : ceil_div(-low[d], step);
    const std::int64_t inside = low[d] >= out[at] ? 0 : (out[at] - 1 - low[d]) / step + 1;
    first.push_back(begin);
    kept.push_back(std::max<std::int64_t>(0, std::min(x[at], inside) - begin));
    target.push_back(low[d] + begin * step);
  }
  const bool any = Shape(kept).size() > 0;
  return make_function_kernel(
      [=](const KernelArguments& arguments) {
        const ArrayView& source = arguments.inputs[0];
        const ArrayView& result = arguments.outputs[0];
        fill_elements(result, arguments.inputs[1].data);
        if (!any) return;
        ArrayView block{element_at(result, target), result.dtype, Shape(kept), result.strides};
        for (std::size_t d = 0; d < interior.size(); ++d) block.strides[d] *= interior[d] + 1;
        copy_elements(block, source, element_at(source, first), source.strides);
      },
      {.strided = true});
}

}  // namespace lockstep::backend::cpu::kernels
