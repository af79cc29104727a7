#include <cmath>
#include <cstring>
#include <optional>

#include <lockstep/audio/audio_files.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"

// RIFF WAVE: chunks of a name, a length and so many bytes, of which "fmt " says what "data" has.
namespace lockstep::data {
namespace {

constexpr std::uint16_t whole_numbers = 1, floats = 3, extensible = 0xFFFE;

struct Format {
  std::uint16_t kind = 0, channels = 0, bits = 0;
  std::uint32_t rate = 0;
  std::uint64_t frame_bytes() const { return std::uint64_t{channels} * (bits / 8); }
};

Format format_of(const FileBytes& file, std::uint64_t at, std::uint64_t size) {
  if (size < 16) file.fail(at, "the format has " + std::to_string(size) + " bytes; expected at least 16");
  Format f{.kind = file.number<std::uint16_t>(at, "format"),
           .channels = file.number<std::uint16_t>(at + 2, "channels"),
           .bits = file.number<std::uint16_t>(at + 14, "bits of a sample"),
           .rate = file.number<std::uint32_t>(at + 4, "sampling rate")};
  if (f.kind == extensible && size >= 40) f.kind = file.number<std::uint16_t>(at + 24, "format");
  const bool whole = f.kind == whole_numbers && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32);
  if (!whole && !(f.kind == floats && f.bits == 32)) {
    file.fail(at, "format " + std::to_string(f.kind) + " of " + std::to_string(f.bits) +
                      " bits; expected 1 (whole numbers) of 8, 16, 24 or 32 bits, or 3 (floats) of 32");
  }
  if (f.channels == 0 || f.rate == 0) {
    file.fail(at, std::to_string(f.channels) + " channels, " + std::to_string(f.rate) +
                      " frames a second; expected at least 1 of either");
  }
  const auto said = file.number<std::uint16_t>(at + 12, "bytes of a frame");
  if (said != f.frame_bytes()) {
    file.fail(at + 12, "a frame has " + std::to_string(said) + " bytes; " + std::to_string(f.channels) +
                           " channels of " + std::to_string(f.bits) + " bits have " + std::to_string(f.frame_bytes()));
  }
  return f;
}

/// A little-endian whole number of 1 to 4 bytes, of which one is without a sign.
float sample_of(const std::byte* at, unsigned bytes) {
  if (bytes == 1) return static_cast<float>(std::to_integer<int>(*at) - 128) / 128;
  std::uint32_t value = 0;
  std::memcpy(reinterpret_cast<std::byte*>(&value) + 4 - bytes, at, bytes);  // the sign is the uppermost bit
  return static_cast<float>(static_cast<std::int32_t>(value)) * 0x1p-31F;
}

HostTable samples_of(const FileBytes& file, const Format& f, std::uint64_t at, std::uint64_t size) {
  const std::span<const std::byte> bytes = file.part(at, size, "samples");
  if (size % f.frame_bytes() != 0) {
    file.fail(at, std::to_string(size) + " bytes of samples; expected whole frames of " +
                      std::to_string(f.frame_bytes()) + " bytes");
  }
  const auto frames = static_cast<std::int64_t>(size / f.frame_bytes());
  const unsigned wide = f.bits / 8;
  std::vector<float> samples(bytes.size() / wide);
  if (f.kind == floats) {
    if (!bytes.empty()) std::memcpy(samples.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = sample_of(bytes.data() + i * wide, wide);
  }
  return host_table(samples, {frames, f.channels});
}

}  // namespace

Audio parse_wav(std::span<const std::byte> bytes, const std::string& name) {
  const FileBytes file(bytes, name, "read_wav");
  const auto word = [&](std::uint64_t at) { return as_text(file.part(at, 4, "name of a chunk")); };
  if (bytes.size() < 12 || word(0) != "RIFF" || word(8) != "WAVE") {
    file.fail(0, "the file does not begin as a WAV file, RIFF and WAVE");
  }
  std::optional<Format> format;
  for (std::uint64_t at = 12; at < bytes.size();) {
    const std::string_view chunk = word(at);
    const std::uint64_t size = file.number<std::uint32_t>(at + 4, "length of a chunk");
    at += 8;
    if (chunk == "fmt ") {
      static_cast<void>(file.part(at, size, "format"));
      format = format_of(file, at, size);
    } else if (chunk == "data") {
      if (!format) file.fail(at, "samples before their format; expected a chunk 'fmt ' first");
      return {samples_of(file, *format, at, size), format->rate};
    }
    at += size + size % 2;
  }
  file.fail(bytes.size(), "the file ends without samples; expected a chunk 'data'");
}

Audio read_wav(const std::filesystem::path& path) {
  const MappedFile file(path, "read_wav");
  return parse_wav(file.bytes(), file.name());
}

}  // namespace lockstep::data
