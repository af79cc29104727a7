#include "backends/onednn/widened.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/backend/isa.h>

#include "backends/cpu/add_floats.h"
#include "backends/cpu/products/bfloat16_arrays.h"
#include "backends/cpu/scratch.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/library.h"

namespace lockstep::backend::onednn {

namespace {

/// What an array is to blocks of images.
enum class Part {
  whole,  ///< Every block reads it all.
  cut,    ///< Each block has its own images.
  summed  ///< Every block adds to it.
};

/// An operand or result.
struct WidenedPlace {
  ArrayType type;
  Part part = Part::whole;
  std::int64_t size = 0;   ///< Of what a block has.
  std::size_t offset = 0;  ///< Of its float32 form in scratch, where it has one.
  bool is_narrow() const { return type.dtype == DType::bfloat16; }
};

std::array<Part, 3> parts_of(std::string_view op) {
  if (op == "conv_kernel_grad") return {Part::cut, Part::cut, Part::summed};
  return {Part::cut, Part::whole, Part::cut};
}

/// As many images as half a second-level cache holds of float32; a divisor of them all.
std::int64_t images_at_once(const KernelRequest& request, const std::array<Part, 3>& parts) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 20;
  const std::int64_t images = request.inputs[0].shape[0];
  std::int64_t elements = 0;
  const std::array<const ArrayType*, 3> types = {&request.inputs[0], &request.inputs[1], &request.outputs[0]};
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (parts[i] == Part::cut) elements += types[i]->size();
  }
  const std::int64_t bytes_an_image = elements / images * 4;
  std::int64_t count = std::clamp<std::int64_t>(most_bytes / std::max<std::int64_t>(bytes_an_image, 1), 1, images);
  while (images % count != 0) --count;
  return count;
}

class Widened final : public Kernel {
 public:
  /// False where there is no kernel for float32.
  bool prepare(const KernelRequest& request, const MakeKernel& make) {
    const bool is_conv = request.op.starts_with("conv") && request.inputs[0].size() > 0;
    const std::array<Part, 3> parts = is_conv ? parts_of(request.op) : std::array<Part, 3>{};
    const std::int64_t at_once = is_conv ? images_at_once(request, parts) : 1;
    blocks_ = is_conv ? request.inputs[0].shape[0] / at_once : 1;
    std::vector<ArrayType> inputs, outputs;
    for (const auto& [types, list] : {std::pair{request.inputs, &inputs}, std::pair{request.outputs, &outputs}}) {
      for (const ArrayType& type : types) {
        WidenedPlace place{type, is_conv ? parts[places_.size()] : Part::whole, 0, 0};
        ArrayType block = type;
        if (place.part == Part::cut) block.shape = block.shape.with(0, at_once);
        place.size = block.size();
        if (place.is_narrow()) block.dtype = DType::float32;
        if (place.is_narrow()) place.offset = reserve(block);
        if (place.part == Part::summed && blocks_ > 1) sum_ = reserve(block);
        list->push_back(block);
        places_.push_back(std::move(place));
      }
    }
    operands_ = inputs.size();
    KernelRequest wide = request;
    wide.inputs = inputs;
    wide.outputs = outputs;
    kernel_ = places_.size() <= most_arrays ? make(wide) : nullptr;
    return kernel_ != nullptr;
  }

  std::size_t scratch_bytes() const override { return reserved_ + kernel_->scratch_bytes(); }

  void run(const KernelArguments& arguments) const override {
    std::byte* const scratch = static_cast<std::byte*>(arguments.scratch);
    const auto view_of = [&](std::size_t k) {
      return k < operands_ ? arguments.inputs[k] : arguments.outputs[k - operands_];
    };
    std::array<ArrayView, most_arrays> views;
    for (std::size_t k = 0; k < places_.size(); ++k) {
      ArrayView view = view_of(k);
      if (places_[k].is_narrow()) view = contiguous_view(scratch + places_[k].offset, DType::float32, view.shape);
      if (places_[k].part == Part::cut) view.shape = view.shape.with(0, view.shape[0] / blocks_);
      views[k] = view;
    }
    const std::span<const ArrayView> all = std::span<const ArrayView>(views).first(places_.size());
    for (std::int64_t b = 0; b < blocks_; ++b) {
      for (std::size_t k = 0; k < places_.size(); ++k) {
        const WidenedPlace& place = places_[k];
        if (place.part == Part::cut && !place.is_narrow()) views[k].data = block(view_of(k), place, b);
        if (k < operands_ && place.is_narrow() && (b == 0 || place.part == Part::cut)) {
          cpu::widen(block(view_of(k), place, b), place.size, views[k].data);
        }
      }
      void* const total = views[places_.size() - 1].data;
      if (b > 0 && is_summed()) views[places_.size() - 1].data = scratch + sum_;
      kernel_->run({all.first(operands_), all.subspan(operands_), scratch + reserved_});
      if (b > 0 && is_summed()) {
        cpu::add_floats(static_cast<const float*>(views[places_.size() - 1].data), places_.back().size,
                        static_cast<float*>(total));
        views[places_.size() - 1].data = total;
      }
      for (std::size_t k = operands_; k < places_.size(); ++k) {
        if (places_[k].is_narrow() && (places_[k].part == Part::cut || b + 1 == blocks_)) {
          cpu::narrow(views[k].data, places_[k].size, block(view_of(k), places_[k], b));
        }
      }
    }
  }

 private:
  static constexpr std::size_t most_arrays = 16;

  std::size_t reserve(const ArrayType& type) {
    return std::exchange(reserved_, reserved_ + cpu::whole_lines(static_cast<std::size_t>(type.nbytes())));
  }
  bool is_summed() const { return places_.back().part == Part::summed; }
  static std::byte* block(const ArrayView& view, const WidenedPlace& place, std::int64_t b) {
    const std::int64_t first = place.part == Part::cut ? b * place.size : 0;
    return static_cast<std::byte*>(view.data) + first * static_cast<std::int64_t>(size_of(place.type.dtype));
  }

  std::vector<WidenedPlace> places_;  // operands, then results
  std::size_t operands_ = 0;
  std::int64_t blocks_ = 1;
  std::unique_ptr<Kernel> kernel_;
  std::size_t reserved_ = 0;
  std::size_t sum_ = 0;  // where in scratch what is added to a result is made
};

}  // namespace

cpu::Bfloat16Products bfloat16_products() {
#if defined(__x86_64__)
  static const cpu::Bfloat16Products products = [] {
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
    if (isa == dnnl::cpu_isa::avx512_core_amx || isa == dnnl::cpu_isa::avx512_core_amx_fp16) {
      return cpu::Bfloat16Products::tiles;
    }
    const bool has_pairs = isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_fp16;
    // Measured (Emerald Rapids): a core multiplies 89 GFLOP/s of bfloat16 by vdpbf16ps, and 179 of float32.
    __builtin_cpu_init();
    const bool is_slow = __builtin_cpu_is("intel") != 0;
    return usable_isa() == Isa::avx512 && has_pairs && !is_slow ? cpu::Bfloat16Products::pairs
                                                                : cpu::Bfloat16Products::floats;
  }();
  return products;
#else
  return cpu::Bfloat16Products::floats;
#endif
}

bool is_widened(const KernelRequest& request) {
  return request.inputs[0].dtype == DType::bfloat16 && bfloat16_products() == cpu::Bfloat16Products::floats;
}

std::unique_ptr<Kernel> make_widened(const KernelRequest& request, const MakeKernel& make) {
  auto kernel = std::make_unique<Widened>();
  if (!kernel->prepare(request, make)) return nullptr;
  return kernel;
}

}  // namespace lockstep::backend::onednn
