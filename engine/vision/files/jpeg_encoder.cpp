#include <string>

#include <lockstep/error.h>

#include "engine/vision/files/image_encoders.h"

#if LOCKSTEP_HAS_JPEG
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#endif

namespace lockstep::data {

#if LOCKSTEP_HAS_JPEG

namespace {

/// libjpeg leaves by longjmp: what has a destructor lives here, outside of the functions that are left so.
class JpegWriter {
 public:
  JpegWriter() {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = on_error;
    errors_.output_message = [](j_common_ptr) {};
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&jpeg_);
    std::free(buffer_);  // libjpeg's, by malloc
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  const char* message() const { return message_; }
  std::vector<std::byte> bytes() const {
    const auto* first = reinterpret_cast<const std::byte*>(buffer_);
    return {first, first + size_};
  }

  bool write(std::span<const std::uint8_t> pixels, const Extents& extents, int quality) {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_compress(&jpeg_);
    jpeg_mem_dest(&jpeg_, &buffer_, &size_);
    jpeg_.image_width = static_cast<JDIMENSION>(extents.width);
    jpeg_.image_height = static_cast<JDIMENSION>(extents.height);
    jpeg_.input_components = static_cast<int>(extents.channels);
    jpeg_.in_color_space = extents.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg_);
    // The exact transform, so that bits do not depend on the processor.
    jpeg_.dct_method = JDCT_ISLOW;
    jpeg_set_quality(&jpeg_, quality, TRUE);
    jpeg_start_compress(&jpeg_, TRUE);
    const std::size_t line = static_cast<std::size_t>(extents.width * extents.channels);
    for (std::size_t at = 0; at < pixels.size(); at += line) {
      auto* row = const_cast<JSAMPROW>(pixels.data() + at);  // which libjpeg only reads
      jpeg_write_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_compress(&jpeg_);
    return true;
  }

 private:
  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    auto& writer = *static_cast<JpegWriter*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, writer.message_);
    std::longjmp(writer.jump_, 1);
  }

  jpeg_compress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  unsigned char* buffer_ = nullptr;
  unsigned long size_ = 0;  // NOLINT(google-runtime-int): libjpeg's type
  char message_[JMSG_LENGTH_MAX] = "it cannot be written";
};

}  // namespace

std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels, const Extents& extents, int quality) {
  JpegWriter writer;
  if (!writer.write(pixels, extents, quality)) {
    throw DataError(std::string("[encode_image] no JPEG file can be made: ") + writer.message());
  }
  return writer.bytes();
}

#else

std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t>, const Extents&, int) {
  throw DataError("[encode_image] Lockstep was built without libjpeg; install it (Debian: libjpeg-dev) and build anew");
}

#endif

}  // namespace lockstep::data
