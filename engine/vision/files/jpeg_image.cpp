#include <lockstep/error.h>

#include "engine/vision/files/image_decoders.h"

#if LOCKSTEP_HAS_JPEG
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>
#endif

namespace lockstep::data {

#if LOCKSTEP_HAS_JPEG

namespace {

/// Blocks without detail: a progressive file has six of them, 768 bytes, in six bits at the least.
constexpr std::uint64_t largest_jpeg_ratio = 2048;
/// Each scan goes over the whole image, however few bytes it has.
constexpr int most_scans = 200;

/// libjpeg leaves by longjmp: what has a destructor lives here, outside of the functions that are left so.
class JpegReader {
 public:
  explicit JpegReader(std::span<const std::byte> bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  const char* message() const { return message_; }
  std::uint64_t height() const { return jpeg_.image_height; }
  std::uint64_t width() const { return jpeg_.image_width; }

  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    return jpeg_read_header(&jpeg_, TRUE) == JPEG_HEADER_OK;
  }
  /// Whether its four channels are inks, as printers take them.
  bool is_cmyk() const { return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK; }
  /// Adobe's programs write how much of an ink is not there.
  bool is_inverted() const { return jpeg_.saw_Adobe_marker != FALSE; }
  bool start(int channels) {
    jpeg_.out_color_space = is_cmyk() ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    row_channels_ = is_cmyk() ? 4 : channels;
    if (setjmp(jump_) != 0) return false;
    // The exact transform, so that bits do not depend on the processor.
    jpeg_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&jpeg_);
    return jpeg_.output_components == row_channels_;
  }
  bool read_row(std::byte* row) {
    if (setjmp(jump_) != 0) return false;
    auto* line = reinterpret_cast<JSAMPROW>(row);
    return jpeg_read_scanlines(&jpeg_, &line, 1) == 1;
  }
  bool finish() {
    if (setjmp(jump_) != 0) return false;
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

 private:
  [[noreturn]] static void leave(j_common_ptr jpeg) {
    auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, reader.message_);
    std::longjmp(reader.jump_, 1);
  }
  static void on_error(j_common_ptr jpeg) { leave(jpeg); }
  /// Where bits are missing, libjpeg would go on with grey.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA && jpeg->err->msg_code != JWRN_ADOBE_XFORM) {
      leave(jpeg);
    }
  }
  static void on_progress(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= most_scans) return;
    auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
    std::snprintf(reader.message_, sizeof reader.message_, "more than %d scans", most_scans);
    std::longjmp(reader.jump_, 1);
  }

  std::span<const std::byte> bytes_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  int row_channels_ = 0;
  char message_[JMSG_LENGTH_MAX] = "it cannot be read";
};

/// The light that is left of each colour: (255 - ink) * (255 - black) / 255, without a colour profile.
void colours_of_inks(const std::byte* inks, bool is_inverted, std::byte* colours) {
  const auto left = [&](int i) {
    const auto ink = std::to_integer<std::uint32_t>(inks[i]);
    return is_inverted ? ink : 255 - ink;
  };
  for (int i = 0; i < 3; ++i) colours[i] = static_cast<std::byte>((left(i) * left(3) + 127) / 255);
}

/// The rows of an image of four inks.
bool read_inks(JpegReader& reader, int channels, HostTable& image) {
  const auto width = static_cast<std::size_t>(reader.width());
  std::vector<std::byte> inks(4 * width);
  for (std::uint64_t row = 0; row < reader.height(); ++row) {
    if (!reader.read_row(inks.data())) return false;
    for (std::size_t x = 0; x < width; ++x) {
      std::byte colours[3];
      colours_of_inks(&inks[4 * x], reader.is_inverted(), colours);
      if (channels == 1) {
        image.bytes.push_back(luma_of(colours));
      } else {
        image.bytes.insert(image.bytes.end(), colours, colours + 3);
      }
    }
  }
  return true;
}

}  // namespace

HostTable decode_jpeg(std::span<const std::byte> bytes, const std::string& file, int channels) {
  JpegReader reader(bytes);
  const auto fail = [&] {
    throw DataError("[read_image] " + file +
                    " is a damaged JPEG file, or of a kind that is not read: " + reader.message());
  };
  if (!reader.read_header()) fail();
  HostTable image = blank_image(reader.height(), reader.width(), channels, bytes.size() * largest_jpeg_ratio, file);
  if (!reader.start(channels)) fail();
  if (reader.is_cmyk()) {
    if (!read_inks(reader, channels, image) || !reader.finish()) fail();
    return image;
  }
  const std::size_t row_bytes = reader.width() * static_cast<std::size_t>(channels);
  for (std::uint64_t row = 0; row < reader.height(); ++row) {
    image.bytes.resize((row + 1) * row_bytes);
    if (!reader.read_row(image.bytes.data() + row * row_bytes)) fail();
  }
  if (!reader.finish()) fail();
  return image;
}

#else

HostTable decode_jpeg(std::span<const std::byte>, const std::string& file, int) {
  throw DataError("[read_image] " + file +
                  " is a JPEG file, and Lockstep was built without libjpeg; install it (Debian: "
                  "libjpeg-dev) and build anew");
}

#endif

}  // namespace lockstep::data
