#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>

// Readers of audio files, and folders of them. They throw DataError as those of data_files.h do.
namespace lockstep::data {

/// Sound, as numbers.
struct Audio {
  HostTable samples;               ///< float32 [frames, channels], whole numbers of n bits divided by 2^(n - 1).
  std::int64_t sampling_rate = 0;  ///< Frames a second.
};
/// A WAV file (RIFF) of whole numbers of 8, 16, 24 or 32 bits, or of float32. Throws DataError for other formats.
LOCKSTEP_API Audio read_wav(const std::filesystem::path& path);
/// One of bytes; `file` is what errors call it.
LOCKSTEP_API Audio parse_wav(std::span<const std::byte> bytes, const std::string& file);
/// Options of `audio_folder`.
struct AudioFolderOptions {
  std::int64_t frames = 0;         ///< Of each file: cut, or zeros behind it; 0: each as it is.
  std::int64_t sampling_rate = 0;  ///< That all must have; 0: any.
};
/// The WAV files of a folder with one folder for each class, as image_folder: "x" float32 [frames, channels], "y" int32[].
LOCKSTEP_API SourcePtr audio_folder(const std::filesystem::path& folder, const AudioFolderOptions& options = {});
/// Names of these classes.
LOCKSTEP_API std::vector<std::string> audio_classes(const std::filesystem::path& folder);

}  // namespace lockstep::data
