#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include <openssl/evp.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/parallel.h>

namespace lockstep {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* bytes, std::size_t count) { check(EVP_DigestUpdate(context_.get(), bytes, count) == 1); }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add_terminated(std::string_view text) {
    add(text);
    add("\0", 1);
  }
  void add(std::uint64_t value) {
    std::array<unsigned char, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
    add(bytes.data(), bytes.size());
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1);
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (unsigned i = 0; i < length; ++i) {
      text += digits[digest[i] >> 4];
      text += digits[digest[i] & 15U];
    }
    return text;
  }

 private:
  static void check(bool ok) {
    if (!ok) throw CheckpointError("[sha256] the cryptography library refused SHA-256; its installation is damaged");
  }

  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string fingerprint(const Tree& tree) {
  Sha256 hash;
  const std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  // By the path's bytes, whether its parts are list indices or keys: what is restored as dicts hashes alike.
  std::map<std::string_view, const Array*> by_path;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].has_value()) {
      throw StateError("[fingerprint] leaf '" + paths[i] +
                       "' holds nothing; expected arrays that still have their value");
    }
    by_path.emplace(paths[i], &leaves[i]);
  }
  if (leaves.empty()) {
    throw StateError(
        "[fingerprint] the tree has no leaf, as one has that std::move took away; expected at least one array");
  }
  for (const auto& [path, leaf] : by_path) {
    hash.add_terminated(path);
    hash.add_terminated(name(leaf->dtype()));
    hash.add(static_cast<std::uint64_t>(leaf->ndim()));
    for (const std::int64_t extent : leaf->shape()) hash.add(static_cast<std::uint64_t>(extent));
    const std::vector<std::byte> bytes = gather(*leaf).to_bytes();
    hash.add(bytes.data(), bytes.size());
  }
  return hash.hex();
}

}  // namespace lockstep
