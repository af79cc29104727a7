// Makes a checkpoint's folder one whose sums agree, whatever was written into it.
#pragma once

#include <filesystem>
#include <fstream>

#include <lockstep/checkpoint.h>

#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

/// Writes SHA256SUMS anew, as the program sha256sum would.
inline void write_sums(const std::filesystem::path& folder) {
  std::ofstream sums(folder / "SHA256SUMS", std::ios::binary);
  for (const char* name : {"arrays.safetensors", "manifest.json"}) {
    if (std::filesystem::exists(folder / name)) sums << sha256(file_text(folder / name)) << "  " << name << "\n";
  }
}

}  // namespace lockstep::tests
