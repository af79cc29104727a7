#include "engine/data/files/zip_archive.h"

#include <algorithm>
#include <set>

#include <zlib.h>

#include "engine/data/files/file_bytes.h"
#include "engine/files/utf8.h"

namespace lockstep::data {
namespace {

constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t long_end_signature = 0x06064b50;
constexpr std::uint32_t locator_signature = 0x07064b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint64_t end_size = 22;
constexpr std::uint64_t locator_size = 20;
constexpr std::uint64_t central_size = 46;
constexpr std::uint64_t local_size = 30;
constexpr std::uint32_t is_long = 0xFFFFFFFF;

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

/// The end record stands last, before a comment of at most 65535 bytes.
std::uint64_t end_record(const FileBytes& file) {
  if (file.size() < end_size) {
    file.fail(0, "the file has " + std::to_string(file.size()) + " bytes; a ZIP archive has 22 at least");
  }
  const std::uint64_t last = file.size() - end_size;
  for (std::uint64_t back = 0; back <= std::min<std::uint64_t>(last, 65535); ++back) {
    const std::uint64_t at = last - back;
    if (file.number<std::uint32_t>(at, "end record") == end_signature &&
        file.number<std::uint16_t>(at + 20, "end record") == back) {
      return at;
    }
  }
  file.fail(last, "no end record of a ZIP archive; the file is no .npz file or was cut off");
}

Directory find_directory(const FileBytes& file) {
  const std::uint64_t end = end_record(file);
  Directory directory{file.number<std::uint32_t>(end + 16, "end record"),
                      file.number<std::uint32_t>(end + 12, "end record"),
                      file.number<std::uint16_t>(end + 10, "end record")};
  if (file.number<std::uint32_t>(end + 4, "end record") != 0 ||
      file.number<std::uint16_t>(end + 8, "end record") != directory.entries) {
    file.fail(end + 4, "the archive is in several parts; give one whole file");
  }
  if (end >= locator_size &&
      file.number<std::uint32_t>(end - locator_size, "end record's locator") == locator_signature) {
    const auto at = file.number<std::uint64_t>(end - locator_size + 8, "end record's locator");
    if (file.part(at, 56, "long end record").empty() ||
        file.number<std::uint32_t>(at, "long end record") != long_end_signature) {
      file.fail(at, "no long end record where its locator points");
    }
    directory = {file.number<std::uint64_t>(at + 48, "long end record"),
                 file.number<std::uint64_t>(at + 40, "long end record"),
                 file.number<std::uint64_t>(at + 32, "long end record")};
  }
  file.part(directory.begin, directory.size, "directory");
  if (directory.begin + directory.size > end) file.fail(directory.begin, "the directory overlaps the end record");
  if (directory.entries > directory.size / central_size) {
    file.fail(end, std::to_string(directory.entries) + " entries in a directory of " + std::to_string(directory.size) +
                       " bytes; each takes 46 at least");
  }
  return directory;
}

/// Sizes of 32 bits that are all ones stand in the extra field of kind 1, in this order.
void read_long_sizes(const FileBytes& file, std::uint64_t at, std::uint64_t size, ZipEntry& entry,
                     std::uint64_t& local) {
  const std::uint64_t end = at + size;
  while (end - at >= 4) {
    const auto kind = file.number<std::uint16_t>(at, "extra field");
    const auto length = file.number<std::uint16_t>(at + 2, "extra field");
    at += 4;
    if (length > end - at) file.fail(at, "an extra field of " + std::to_string(length) + " bytes leaves its entry");
    if (kind == 1) {
      std::uint64_t place = at;
      for (std::uint64_t* value : {&entry.size, &entry.packed, &local}) {
        if (*value != is_long) continue;
        if (place + 8 > at + length) file.fail(place, "an entry's long size is missing");
        *value = file.number<std::uint64_t>(place, "extra field");
        place += 8;
      }
      return;
    }
    at += length;
  }
}

/// No sum guards the directory: a name stands in the entry's local header again, and must be the same there.
void check_local_header(const FileBytes& file, std::uint64_t local, const ZipEntry& entry) {
  file.part(local, local_size, "entry's local header");
  if (file.number<std::uint32_t>(local, "entry's local header") != local_signature) {
    file.fail(local, "no local header of entry " + shown(entry.name) + " begins here");
  }
  const auto size = file.number<std::uint16_t>(local + 26, "entry's local header");
  const auto bytes = file.part(local + local_size, size, "entry's name");
  const std::string_view name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (name != entry.name) {
    file.fail(local + local_size, "entry " + shown(entry.name) + " of the directory is called " + shown(name) +
                                      " in its local header; the file is damaged");
  }
}

/// The entry that stands at `at` of the directory; `at` moves behind it.
ZipEntry read_entry(const FileBytes& file, std::uint64_t& at) {
  file.part(at, central_size, "directory");
  if (file.number<std::uint32_t>(at, "directory") != central_signature) {
    file.fail(at, "no entry of the directory begins here");
  }
  const auto flags = file.number<std::uint16_t>(at + 8, "entry's flags");
  const auto method = file.number<std::uint16_t>(at + 10, "entry's method");
  ZipEntry entry;
  entry.crc = file.number<std::uint32_t>(at + 16, "entry's CRC-32");
  entry.packed = file.number<std::uint32_t>(at + 20, "entry's size");
  entry.size = file.number<std::uint32_t>(at + 24, "entry's size");
  const auto name_size = file.number<std::uint16_t>(at + 28, "entry's name");
  const auto extra_size = file.number<std::uint16_t>(at + 30, "entry's extra field");
  const auto comment_size = file.number<std::uint16_t>(at + 32, "entry's comment");
  std::uint64_t local = file.number<std::uint32_t>(at + 42, "entry's place");
  const auto name = file.part(at + central_size, name_size, "entry's name");
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  file.part(at + central_size + name_size, std::uint64_t{extra_size} + comment_size, "entry's extra field");
  if (entry.name.find('\0') != std::string::npos) file.fail(at + central_size, "NUL in an entry's name");
  if (!files::is_utf8(entry.name)) {
    file.fail(at + central_size,
              "an entry is called " + shown(entry.name) + ", which is no UTF-8; save it under another name");
  }
  if ((flags & 1) != 0) file.fail(at + 8, "entry " + shown(entry.name) + " is encrypted; save it without a password");
  if (method != 0 && method != 8) {
    file.fail(at + 10, "entry " + shown(entry.name) + " is packed by method " + std::to_string(method) +
                           "; expected 0 (stored) or 8 (deflated)");
  }
  entry.is_deflated = method == 8;
  read_long_sizes(file, at + central_size + name_size, extra_size, entry, local);

  check_local_header(file, local, entry);
  entry.begin = local + local_size + entry.name.size() + file.number<std::uint16_t>(local + 28, "entry's local header");
  file.part(entry.begin, entry.packed, "entry " + shown(entry.name));
  if (entry.is_deflated ? entry.size / largest_deflate_ratio > entry.packed : entry.size != entry.packed) {
    file.fail(at + 24, "entry " + shown(entry.name) + " says " + std::to_string(entry.size) + " bytes, which its " +
                           std::to_string(entry.packed) + " in the file cannot hold");
  }
  at += central_size + name_size + extra_size + comment_size;
  return entry;
}

struct Stream : z_stream {
  Stream() : z_stream{} {}
  ~Stream() { inflateEnd(this); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

}  // namespace

std::vector<ZipEntry> zip_entries(std::span<const std::byte> bytes, const std::string& name, const std::string& who) {
  const FileBytes file(bytes, name, who);
  const Directory directory = find_directory(file);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  std::uint64_t at = directory.begin;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const std::uint64_t begin = at;
    entries.push_back(read_entry(file, at));
    if (!names.insert(entries.back().name).second) {
      file.fail(begin, "two entries are called " + shown(entries.back().name));
    }
  }
  if (at != directory.begin + directory.size) {
    file.fail(at, std::to_string(directory.entries) + " entries end here, the directory at byte " +
                      std::to_string(directory.begin + directory.size) + "; the file is damaged");
  }
  // A few bytes that many entries unpack would take memory without end.
  std::vector<ZipEntry> sorted = entries;
  std::sort(sorted.begin(), sorted.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].begin - sorted[i - 1].begin < sorted[i - 1].packed) {
      file.fail(sorted[i].begin, "entries " + shown(sorted[i - 1].name) + " and " + shown(sorted[i].name) + " overlap");
    }
  }
  return entries;
}

std::vector<std::byte> unpack_beginning(std::span<const std::byte> bytes, const ZipEntry& entry, std::uint64_t count) {
  const auto packed = bytes.subspan(static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(entry.packed));
  const auto size = static_cast<std::size_t>(std::min(count, entry.size));
  if (!entry.is_deflated) return {packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)};
  std::vector<std::byte> plain(size);
  Stream stream;
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return {};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(packed.size(), 1U << 30));
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(size);
  static_cast<void>(inflate(&stream, Z_SYNC_FLUSH));
  plain.resize(size - stream.avail_out);
  return plain;
}

namespace {

/// Inflates a deflated entry piece by piece; how many bytes that made.
template <class Put>
std::uint64_t inflate_entry(const FileBytes& file, std::span<const std::byte> packed, const ZipEntry& entry,
                            const Put& put) {
  Stream stream;
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) file.fail(entry.begin, "zlib cannot be started");
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(entry.size + 1, 1U << 20)));
  std::uint64_t made = 0;
  std::size_t taken = 0;
  int status = Z_OK;
  while (status == Z_OK && made <= entry.size) {
    if (stream.avail_in == 0) {
      const std::size_t next = std::min<std::size_t>(packed.size() - taken, 1U << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + taken));
      stream.avail_in = static_cast<uInt>(next);
      taken += next;
    }
    // One byte more than there should be, so that a surplus is seen.
    const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), entry.size + 1 - made));
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t got = room - stream.avail_out;
    put(std::span<const std::byte>(piece).first(got));
    made += got;
    if (status == Z_OK && got == 0 && stream.avail_in == 0 && taken == packed.size()) break;
  }
  if (status != Z_STREAM_END) {
    file.fail(entry.begin, "entry " + shown(entry.name) + " is damaged or longer than the " +
                               std::to_string(entry.size) + " bytes that the directory says");
  }
  if (const std::size_t rest = packed.size() - taken + stream.avail_in; rest > 0) {
    file.fail(entry.begin, "entry " + shown(entry.name) + " ends " + std::to_string(rest) + " bytes before the " +
                               std::to_string(entry.packed) + " that the directory says; the file is damaged");
  }
  return made;
}

/// Hands an entry's bytes on, which must have the size and CRC-32 that the directory says.
template <class Put>
void put_checked(std::span<const std::byte> bytes, const ZipEntry& entry, const std::string& name,
                 const std::string& who, const Put& put) {
  const FileBytes file(bytes, name, who);
  const auto packed = file.part(entry.begin, entry.packed, "entry " + shown(entry.name));
  uLong crc = 0;
  std::uint64_t size = packed.size();
  const auto take = [&](std::span<const std::byte> part) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
    put(part);
  };
  if (entry.is_deflated) {
    size = inflate_entry(file, packed, entry, take);
  } else {
    take(packed);
  }
  if (size != entry.size) {
    file.fail(entry.begin, "entry " + shown(entry.name) + ": " + std::to_string(entry.size) + " bytes expected, " +
                               std::to_string(size) + " found");
  }
  if (static_cast<std::uint32_t>(crc) != entry.crc) {
    file.fail(entry.begin, "entry " + shown(entry.name) + " has CRC-32 " + std::to_string(crc) + ", expected " +
                               std::to_string(entry.crc) + "; the file is damaged");
  }
}

}  // namespace

std::vector<std::byte> unpack(std::span<const std::byte> bytes, const ZipEntry& entry, const std::string& name,
                              const std::string& who) {
  std::vector<std::byte> plain;
  put_checked(bytes, entry, name, who,
              [&](std::span<const std::byte> part) { plain.insert(plain.end(), part.begin(), part.end()); });
  return plain;
}

void check_packed(std::span<const std::byte> bytes, const ZipEntry& entry, const std::string& name,
                  const std::string& who) {
  put_checked(bytes, entry, name, who, [](std::span<const std::byte>) {});
}

}  // namespace lockstep::data
