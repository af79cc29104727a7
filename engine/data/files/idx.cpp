#include <algorithm>
#include <array>
#include <string>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/gzip_file.h"

namespace lockstep::data {
namespace {

[[noreturn]] void fail_at_byte(const GzipFile& file, std::uint64_t offset, const std::string& what) {
  throw DataError("[read_idx] " + file.name() + ", byte " + std::to_string(offset) + ": " + what);
}

void read_exactly(GzipFile& file, std::span<std::byte> bytes, std::uint64_t offset, const std::string& field) {
  const std::size_t got = file.read(bytes);
  if (got == bytes.size()) return;
  fail_at_byte(file, offset + got,
               "the file ends in the " + field + ": " + std::to_string(bytes.size()) + " bytes expected, " +
                   std::to_string(got) + " found");
}

DType element_type(const GzipFile& file, unsigned code) {
  switch (code) {
    case 0x08:
      return DType::uint8;
    case 0x09:
      return DType::int8;
    case 0x0B:
      return DType::int16;
    case 0x0C:
      return DType::int32;
    case 0x0D:
      return DType::float32;
    case 0x0E:
      return DType::float64;
    default:
      break;
  }
  fail_at_byte(file, 2,
               "unknown element type " + std::to_string(code) +
                   "; IDX knows 8 (uint8), 9 (int8), 11 (int16), 12 (int32), 13 "
                   "(float32), 14 (float64)");
}

Shape read_extents(GzipFile& file, int rank) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < rank; ++i) {
    const std::uint64_t offset = 4 + 4 * static_cast<std::uint64_t>(i);
    std::array<std::byte, 4> bytes{};
    read_exactly(file, bytes, offset, "extent of dimension " + std::to_string(i));
    std::uint64_t extent = 0;
    for (const std::byte b : bytes) extent = extent << 8 | std::to_integer<std::uint64_t>(b);
    if (extent == 0)
      fail_at_byte(file, offset, "dimension " + std::to_string(i) + " has extent 0; expected at least 1");
    extents.push_back(static_cast<std::int64_t>(extent));
  }
  return Shape(extents);
}

/// Bytes of the body; an extent product the file cannot hold fails before it can overflow.
std::uint64_t body_bytes(const GzipFile& file, const Shape& shape, DType dtype) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (bytes > file.longest() / static_cast<std::uint64_t>(extent)) {
      fail_at_byte(file, 4,
                   "extents " + to_string(shape) + " of " + std::string(name(dtype)) +
                       " need more bytes than the file can hold (" + std::to_string(file.longest()) + " at most)");
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

/// Read piece by piece, so that memory grows only with what really arrives.
std::vector<std::byte> read_body(GzipFile& file, std::uint64_t bytes, std::uint64_t offset) {
  constexpr std::uint64_t piece = 1U << 20;
  std::vector<std::byte> body;
  while (bytes - body.size() > piece) {
    const std::uint64_t start = body.size();
    body.resize(static_cast<std::size_t>(start + piece));
    read_exactly(file, std::span(body).subspan(static_cast<std::size_t>(start)), offset + start, "body");
  }
  // One byte more is asked for in the last read: zlib then looks for the stream's end, and finds what it lacks of it.
  const std::uint64_t start = body.size();
  body.resize(static_cast<std::size_t>(bytes + 1));
  const std::size_t got = file.read(std::span(body).subspan(static_cast<std::size_t>(start)));
  body.pop_back();
  if (got < bytes - start) {
    fail_at_byte(file, offset + start + got,
                 "the file ends in the body: " + std::to_string(bytes) + " bytes expected, " +
                     std::to_string(start + got) + " found");
  }
  if (got > bytes - start) {
    fail_at_byte(file, offset + bytes, "bytes follow the body; the header says that the file ends here");
  }
  return body;
}

void to_little_endian(std::vector<std::byte>& bytes, std::size_t width) {
  if (width == 1) return;
  for (auto at = bytes.begin(); at != bytes.end(); at += static_cast<std::ptrdiff_t>(width)) {
    std::reverse(at, at + static_cast<std::ptrdiff_t>(width));
  }
}

}  // namespace

HostTable read_idx(const std::filesystem::path& path) {
  GzipFile file(path);
  std::array<std::byte, 4> magic{};
  read_exactly(file, magic, 0, "magic number");
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    fail_at_byte(file, 0, "the first two bytes are not 0; this is no IDX file");
  }
  const DType dtype = element_type(file, std::to_integer<unsigned>(magic[2]));
  const int rank = std::to_integer<int>(magic[3]);
  if (rank < 1 || rank > Shape::max_rank) {
    fail_at_byte(file, 3, "rank " + std::to_string(rank) + "; expected 1 to " + std::to_string(Shape::max_rank));
  }
  const Shape shape = read_extents(file, rank);
  const std::uint64_t header = 4 + 4 * static_cast<std::uint64_t>(rank);
  HostTable table{{dtype, shape, {}}, read_body(file, body_bytes(file, shape, dtype), header)};
  to_little_endian(table.bytes, size_of(dtype));
  return table;
}

}  // namespace lockstep::data
