#include <cstdint>
#include <utility>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"
#include "engine/data/files/npy.h"
#include "engine/data/files/zip_archive.h"

namespace lockstep::data {

void NpzTables::fail(const std::string& name) const {
  if (const auto found = left_out_.find(name); found != left_out_.end()) throw DataError(found->second);
  constexpr std::size_t most_names = 16;
  std::string known;
  std::size_t count = 0;
  for (const auto& [there, table] : *this) {
    if (count++ == most_names) break;
    known += (known.empty() ? "" : ", ") + shown(there);
  }
  throw DataError("[read_npz] " + file_ + " has no array " + shown(name) +
                  (known.empty() ? "; there is none" : "; there are " + known));
}

HostTable& NpzTables::at(const std::string& name) {
  const auto found = find(name);
  if (found == end()) fail(name);
  return found->second;
}

const HostTable& NpzTables::at(const std::string& name) const {
  const auto found = find(name);
  if (found == end()) fail(name);
  return found->second;
}

NpzTables parse_npz(std::span<const std::byte> bytes, const std::string& file) {
  NpzTables tables;
  tables.file_ = file;
  for (const ZipEntry& entry : zip_entries(bytes, file, "read_npz")) {
    constexpr std::string_view ending = ".npy";
    if (!entry.name.ends_with(ending)) {
      throw DataError("[read_npz] " + file + ": entry '" + entry.name + "' is no array; expected names ending in .npy");
    }
    const std::string name = entry.name.substr(0, entry.name.size() - ending.size());
    const std::string place = file + ", entry '" + entry.name + "'";
    // What is packed well may be a thousand times as large as the file: its header says whether it is an array's.
    try {
      if (entry.size > longest_npy_header) {
        parse_npy_header(unpack_beginning(bytes, entry, longest_npy_header), place, "read_npz", entry.size);
      }
      tables.emplace(name, parse_npy(unpack(bytes, entry, file, "read_npz"), place, "read_npz"));
    } catch (const OtherElements& error) {
      check_packed(bytes, entry, file, "read_npz");
      tables.left_out_.emplace(name, error.what());
    }
  }
  return tables;
}

NpzTables read_npz(const std::filesystem::path& path) {
  const MappedFile file(path, "read_npz");
  return parse_npz(file.bytes(), file.name());
}

}  // namespace lockstep::data
