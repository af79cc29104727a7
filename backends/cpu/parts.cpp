#include "backends/cpu/parts.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <utility>

#include <lockstep/backend/aligned_memory.h>

namespace lockstep::backend::cpu {

namespace {

/// Memory on a 64-byte boundary.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t nbytes) : bytes_(static_cast<std::byte*>(allocate_aligned(nbytes))) {}
  std::byte* data() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { free_aligned(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

/// Writes numbers of either sign, of size 0.5 to 1, drawn bit by bit.
template <class Bits>
void draw_operand(std::byte* data, std::int64_t count, Bits exponent, Bits fraction, std::mt19937_64& random) {
  constexpr int sign = 8 * sizeof(Bits) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t drawn = random();
    const auto value = static_cast<Bits>(exponent | (drawn & fraction) | (drawn >> 63U) << sign);
    std::memcpy(data + i * static_cast<std::int64_t>(sizeof(Bits)), &value, sizeof(Bits));
  }
}

void draw_operand(const ArrayType& type, std::byte* data, std::mt19937_64& random) {
  if (type.dtype == DType::float32) return draw_operand<std::uint32_t>(data, type.size(), 0x3F000000, 0x7FFFFF, random);
  if (type.dtype == DType::bfloat16) return draw_operand<std::uint16_t>(data, type.size(), 0x3F00, 0x7F, random);
  draw_operand<std::uint16_t>(data, type.size(), 0x3800, 0x3FF, random);
}

/// A kernel whose operands and result begin later than those given.
class ShiftedKernel final : public Kernel {
 public:
  ShiftedKernel(std::shared_ptr<const Kernel> kernel, const PartSteps& offsets)
      : kernel_(std::move(kernel)), offsets_(offsets) {}

  void run(const KernelArguments& arguments) const override {
    const auto moved = [](ArrayView view, std::size_t offset) {
      view.data = static_cast<std::byte*>(view.data) + offset;
      return view;
    };
    const std::array<ArrayView, 2> inputs = {moved(arguments.inputs[0], offsets_.inputs[0]),
                                             moved(arguments.inputs[1], offsets_.inputs[1])};
    const ArrayView output = moved(arguments.outputs[0], offsets_.result);
    kernel_->run({inputs, {&output, 1}, arguments.scratch});
  }

  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

 private:
  std::shared_ptr<const Kernel> kernel_;
  PartSteps offsets_;
};

}  // namespace

std::unique_ptr<Kernel> shifted(std::shared_ptr<const Kernel> kernel, const PartSteps& offsets) {
  return std::make_unique<ShiftedKernel>(std::move(kernel), offsets);
}

std::vector<std::unique_ptr<Kernel>> cut(std::int64_t extent, std::int64_t most, const PartSteps& steps,
                                         const std::function<std::shared_ptr<const Kernel>(std::int64_t)>& make) {
  std::vector<std::unique_ptr<Kernel>> parts;
  std::shared_ptr<const Kernel> kernel;
  for (std::int64_t first = 0; first < extent; first += most) {
    const std::int64_t count = std::min(most, extent - first);
    if (kernel == nullptr || count != most) kernel = make(count);
    if (kernel == nullptr) return {};
    const auto at = static_cast<std::size_t>(first);
    parts.push_back(shifted(kernel, {{at * steps.inputs[0], at * steps.inputs[1]}, at * steps.result}));
  }
  return parts;
}

bool have_same_bits(const KernelRequest& request, const Kernel& whole,
                    const std::vector<std::unique_ptr<Kernel>>& parts) {
  std::mt19937_64 random(1);
  std::vector<AlignedMemory> operands;
  std::vector<ArrayView> inputs;
  for (const ArrayType& type : request.inputs) {
    operands.emplace_back(static_cast<std::size_t>(type.nbytes()));
    draw_operand(type, operands.back().data(), random);
    inputs.push_back(contiguous_view(operands.back().data(), type.dtype, type.shape));
  }
  std::size_t scratch_bytes = whole.scratch_bytes();
  for (const auto& part : parts) scratch_bytes = std::max(scratch_bytes, part->scratch_bytes());
  const AlignedMemory scratch(scratch_bytes);
  const ArrayType& type = request.outputs[0];
  const auto bytes = static_cast<std::size_t>(type.nbytes());
  const AlignedMemory expected(bytes), given(bytes);
  const ArrayView whole_result = contiguous_view(expected.data(), type.dtype, type.shape);
  const ArrayView parts_result = contiguous_view(given.data(), type.dtype, type.shape);
  whole.run({inputs, {&whole_result, 1}, scratch.data()});
  for (const auto& part : parts) part->run({inputs, {&parts_result, 1}, scratch.data()});
  return std::memcmp(expected.data(), given.data(), bytes) == 0;
}

}  // namespace lockstep::backend::cpu
