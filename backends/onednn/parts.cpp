#include "backends/onednn/parts.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <random>

namespace lockstep::backends::onednn {

namespace {

/// Memory on a 64-byte boundary.
class Block {
 public:
  explicit Block(std::size_t nbytes) : bytes_(static_cast<std::byte*>(::operator new (nbytes, std::align_val_t{64}))) {}
  std::byte* data() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

/// Writes numbers of either sign, of size 0.5 to 1, drawn bit by bit.
template <class Bits>
void draw(std::byte* data, std::int64_t count, Bits exponent, Bits fraction, std::mt19937_64& random) {
  constexpr int sign = 8 * sizeof(Bits) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t drawn = random();
    const auto value = static_cast<Bits>(exponent | (drawn & fraction) | (drawn >> 63U) << sign);
    std::memcpy(data + i * static_cast<std::int64_t>(sizeof(Bits)), &value, sizeof(Bits));
  }
}

void draw(const ArrayType& type, std::byte* data, std::mt19937_64& random) {
  if (type.dtype == DType::float32) return draw<std::uint32_t>(data, type.size(), 0x3F000000, 0x7FFFFF, random);
  if (type.dtype == DType::bfloat16) return draw<std::uint16_t>(data, type.size(), 0x3F00, 0x7F, random);
  draw<std::uint16_t>(data, type.size(), 0x3800, 0x3FF, random);
}

}  // namespace

bool have_same_bits(const KernelRequest& request, const Kernel& whole,
                    const std::vector<std::unique_ptr<Kernel>>& parts) {
  std::mt19937_64 random(1);
  std::vector<Block> operands;
  std::vector<ArrayView> inputs;
  for (const ArrayType& type : request.inputs) {
    operands.emplace_back(static_cast<std::size_t>(type.nbytes()));
    draw(type, operands.back().data(), random);
    inputs.push_back(contiguous_view(operands.back().data(), type.dtype, type.shape));
  }
  std::size_t scratch_bytes = whole.scratch_bytes();
  for (const auto& part : parts) scratch_bytes = std::max(scratch_bytes, part->scratch_bytes());
  const Block scratch(scratch_bytes);
  const ArrayType& type = request.outputs[0];
  const auto bytes = static_cast<std::size_t>(type.nbytes());
  const Block expected(bytes), given(bytes);
  const ArrayView whole_result = contiguous_view(expected.data(), type.dtype, type.shape);
  const ArrayView parts_result = contiguous_view(given.data(), type.dtype, type.shape);
  whole.run({inputs, {&whole_result, 1}, scratch.data()});
  for (const auto& part : parts) part->run({inputs, {&parts_result, 1}, scratch.data()});
  return std::memcmp(expected.data(), given.data(), bytes) == 0;
}

}  // namespace lockstep::backends::onednn
