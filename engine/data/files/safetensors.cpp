#include <lockstep/checkpoint.h>
#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/mapped_file.h"

namespace lockstep::data {

std::map<std::string, HostTable> read_safetensors(const std::filesystem::path& path) {
  // Whether it is a file that can be opened is said in a data reader's words.
  const MappedFile file(path, "read_safetensors");
  try {
    std::map<std::string, HostTable> tables;
    for (const auto& [name, array] : checkpoint::load_safetensors(path)) {
      tables.emplace(name, HostTable{{array.dtype(), array.shape(), {}}, array.to_bytes()});
    }
    return tables;
  } catch (const CheckpointError& error) {
    throw DataError("[read_safetensors] " + std::string(error.what()));
  }
}

}  // namespace lockstep::data
