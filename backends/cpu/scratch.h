#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/round_up.h>

namespace lockstep::backend::cpu {

/// Room for something of that size in scratch, what lies behind it being aligned too.
constexpr std::size_t whole_lines(std::size_t nbytes) { return round_up<std::size_t>(nbytes, 64); }

/// Where in a kernel's scratch its arrays lie, one behind the other.
class Scratch {
 public:
  /// Elements of four bytes.
  std::size_t add(std::int64_t words) {
    const std::size_t at = bytes_;
    bytes_ += whole_lines(static_cast<std::size_t>(words) * sizeof(float));
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

template <class T = float>
T* at(const KernelArguments& arguments, std::size_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(arguments.scratch) + offset);
}

}  // namespace lockstep::backend::cpu
