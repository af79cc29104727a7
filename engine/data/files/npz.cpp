#include "engine/data/files/npz.h"

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/mapped_file.h"
#include "engine/data/files/npy.h"
#include "engine/data/files/zip_archive.h"

namespace lockstep::data {

std::map<std::string, HostTable> parse_npz(std::span<const std::byte> bytes, const std::string& file) {
  std::map<std::string, HostTable> tables;
  for (const ZipEntry& entry : zip_entries(bytes, file, "read_npz")) {
    constexpr std::string_view ending = ".npy";
    if (!entry.name.ends_with(ending)) {
      throw DataError("[read_npz] " + file + ": entry '" + entry.name + "' is no array; expected names ending in .npy");
    }
    const std::string name = entry.name.substr(0, entry.name.size() - ending.size());
    const std::string shown = file + ", entry '" + entry.name + "'";
    // What is packed well may be a thousand times as large as the file: its header says whether it is an array's.
    if (entry.size > longest_npy_header) {
      parse_npy_header(unpack_beginning(bytes, entry, longest_npy_header), shown, "read_npz", entry.size);
    }
    tables.emplace(name, parse_npy(unpack(bytes, entry, file, "read_npz"), shown, "read_npz"));
  }
  return tables;
}

std::map<std::string, HostTable> read_npz(const std::filesystem::path& path) {
  const MappedFile file(path, "read_npz");
  return parse_npz(file.bytes(), file.name());
}

}  // namespace lockstep::data
