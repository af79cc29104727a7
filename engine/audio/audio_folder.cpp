#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/audio/audio_files.h>
#include <lockstep/error.h>

#include "engine/data/files/class_folders.h"

namespace lockstep::data {
namespace {

/// The first `frames` of a sound, zeros behind what there is.
HostTable of_frames(const HostTable& sound, std::int64_t frames) {
  const std::int64_t channels = sound.type.shape[1];
  HostTable cut{{DType::float32, {frames, channels}, {}}, {}};
  cut.bytes.resize(static_cast<std::size_t>(cut.type.nbytes()));
  const std::size_t there = std::min(cut.bytes.size(), sound.bytes.size());
  if (there > 0) std::memcpy(cut.bytes.data(), sound.bytes.data(), there);
  return cut;
}

class AudioFolder final : public Source {
 public:
  AudioFolder(const std::filesystem::path& folder, const AudioFolderOptions& options)
      : options_(options), sounds_(labelled_files(folder, "audio_folder", {".wav"}, "sound")) {}
  std::int64_t rows() const override { return std::ssize(sounds_); }
  Row row(std::int64_t i, const RowKey&) const override {
    if (i < 0 || i >= rows()) throw DataError(fmt::format("[audio_folder] row {} of {} sounds", i, rows()));
    const auto& [path, label] = sounds_[static_cast<std::size_t>(i)];
    Audio sound = read_wav(path);
    if (options_.sampling_rate > 0 && sound.sampling_rate != options_.sampling_rate) {
      throw DataError(fmt::format("[audio_folder] {} has {} frames a second; expected {}", path.string(),
                                  sound.sampling_rate, options_.sampling_rate));
    }
    if (options_.frames > 0) sound.samples = of_frames(sound.samples, options_.frames);
    return {{"x", std::move(sound.samples)}, {"y", host_table(std::vector<std::int32_t>{label}, Shape{})}};
  }

 private:
  AudioFolderOptions options_;
  std::vector<std::pair<std::filesystem::path, std::int32_t>> sounds_;
};

}  // namespace

SourcePtr audio_folder(const std::filesystem::path& folder, const AudioFolderOptions& options) {
  if (options.frames < 0 || options.frames > (std::int64_t{1} << 32) || options.sampling_rate < 0) {
    throw ValueError(
        fmt::format("[audio_folder] frames is {}, sampling_rate {}; give 0 or more, of frames 2^32 at most",
                    options.frames, options.sampling_rate));
  }
  return std::make_shared<AudioFolder>(folder, options);
}

std::vector<std::string> audio_classes(const std::filesystem::path& folder) {
  return class_names(folder, "audio_folder");
}

}  // namespace lockstep::data
