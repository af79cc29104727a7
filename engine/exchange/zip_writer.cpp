#include "engine/exchange/zip_writer.h"

#include <zlib.h>

#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/files/utf8.h"

namespace lockstep::exchange {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t local_size = 30;
constexpr std::uint64_t largest_archive = 0xFFFFFFFFU;
constexpr std::uint16_t most_entries = 0xFFFF;
constexpr std::uint16_t padding_kind = 0x4246;  // "FB", as in PyTorch's archives
constexpr std::uint16_t zip_version = 20;       // of the format, which who reads it must know
constexpr std::uint16_t first_day = 0x21;       // 1980-01-01: the bytes are the same on every day

void put(std::vector<std::byte>& bytes, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void put(std::vector<std::byte>& bytes, std::string_view text) {
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
}

}  // namespace

void check_name(const std::string& who, const std::string& file, std::string_view name) {
  constexpr std::size_t most_bytes = 0xFFFF;
  if (files::is_name(name) && name.size() <= most_bytes) return;
  throw ValueError("[" + who + "] " + file + ": a tensor is called " +
                   data::shown(name.size() > most_bytes ? name.substr(0, 40) : name) + ", of " +
                   std::to_string(name.size()) + " bytes; expected a name of UTF-8 without NUL, of 1 to 65535 bytes");
}

void ZipWriter::check_size(std::size_t more) const {
  if (archive_.size() + directory_.size() + more < largest_archive && entries_ < most_entries) return;
  throw DataError(
      "[" + who_ + "] " + file_ +
      ": the archive would be 4 GiB or larger, or have more than 65535 entries; save to a .safetensors file");
}

void ZipWriter::add(std::string_view name, std::span<const std::byte> bytes) {
  check_name(who_, file_, name);
  check_size(bytes.size() + 2 * name.size() + 256);
  const std::size_t local = archive_.size();
  const std::size_t header = local + local_size + name.size();
  std::size_t extra = (alignment - header % alignment) % alignment;
  if (extra > 0 && extra < 4) extra += alignment;
  const auto crc = static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  const auto size = static_cast<std::uint32_t>(bytes.size());
  const auto put_common = [&](std::vector<std::byte>& to, std::size_t extra_size) {
    put(to, zip_version, 2);
    put(to, 1U << 11, 2);  // names are UTF-8
    put(to, 0, 2);         // stored
    put(to, 0, 2);
    put(to, first_day, 2);
    put(to, crc, 4);
    put(to, size, 4);
    put(to, size, 4);
    put(to, static_cast<std::uint32_t>(name.size()), 2);
    put(to, static_cast<std::uint32_t>(extra_size), 2);
  };
  put(archive_, 0x04034b50, 4);
  put_common(archive_, extra);
  put(archive_, name);
  if (extra > 0) {
    put(archive_, padding_kind, 2);
    put(archive_, static_cast<std::uint32_t>(extra - 4), 2);
    archive_.resize(archive_.size() + extra - 4, std::byte{'Z'});
  }
  archive_.insert(archive_.end(), bytes.begin(), bytes.end());

  put(directory_, 0x02014b50, 4);
  put(directory_, zip_version, 2);
  put_common(directory_, 0);
  put(directory_, 0, 2);  // comment
  put(directory_, 0, 2);  // disk
  put(directory_, 0, 2);  // attributes
  put(directory_, 0, 4);
  put(directory_, static_cast<std::uint32_t>(local), 4);
  put(directory_, name);
  ++entries_;
}

void ZipWriter::add(std::string_view name, std::string_view text) {
  add(name, std::as_bytes(std::span(text.data(), text.size())));
}

std::vector<std::byte> ZipWriter::finish() && {
  check_size(0);
  const auto begin = static_cast<std::uint32_t>(archive_.size());
  const auto size = static_cast<std::uint32_t>(directory_.size());
  archive_.insert(archive_.end(), directory_.begin(), directory_.end());
  put(archive_, 0x06054b50, 4);
  put(archive_, 0, 4);
  put(archive_, entries_, 2);
  put(archive_, entries_, 2);
  put(archive_, size, 4);
  put(archive_, begin, 4);
  put(archive_, 0, 2);
  return std::move(archive_);
}

}  // namespace lockstep::exchange
