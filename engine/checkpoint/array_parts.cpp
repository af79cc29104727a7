#include "engine/checkpoint/array_parts.h"

#include <algorithm>
#include <vector>

#include <lockstep/dlpack.h>

namespace lockstep::checkpoint {

void for_each_part(const Array& array, const std::function<void(std::span<const std::byte>)>& take) {
  constexpr std::size_t part = std::size_t{1} << 17;
  dlpack::Managed lent;
  std::vector<std::byte> copied;
  std::span<const std::byte> bytes;
  if (array.dtype() == DType::key) {  // DLPack knows none
    copied = array.to_bytes();
    bytes = copied;
  } else {
    lent = to_dlpack(array);
    const dlpack::Tensor& tensor = lent->tensor;
    bytes = {static_cast<const std::byte*>(tensor.data) + tensor.byte_offset,
             static_cast<std::size_t>(array.type().nbytes())};
  }
  for (std::size_t at = 0; at < bytes.size(); at += part) take(bytes.subspan(at, std::min(part, bytes.size() - at)));
}

}  // namespace lockstep::checkpoint
