#include "engine/checkpoint/sha256.h"

#include <array>

#include <openssl/evp.h>

#include <lockstep/error.h>

namespace lockstep::checkpoint {
namespace {

void check_hashed(bool ok) {
  if (!ok) throw CheckpointError("[sha256] the cryptography library refused SHA-256; its installation is damaged");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check_hashed(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(const void* bytes, std::size_t count) {
  check_hashed(EVP_DigestUpdate(context_.get(), bytes, count) == 1);
}

void Sha256::add_terminated(std::string_view text) {
  add(text);
  add("\0", 1);
}

void Sha256::add(std::uint64_t value) {
  std::array<unsigned char, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
  add(bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  check_hashed(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15U];
  }
  return text;
}

}  // namespace lockstep::checkpoint
