#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // of the cryptography library

namespace lockstep::checkpoint {

/// SHA-256 of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  void add(const void* bytes, std::size_t count);
  void add(std::string_view text) { add(text.data(), text.size()); }
  /// The text and a zero byte.
  void add_terminated(std::string_view text);
  /// Eight bytes, little-endian.
  void add(std::uint64_t value);
  /// 64 digits; nothing may be added behind it.
  std::string hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace lockstep::checkpoint
