#include <string>

#include <lockstep/error.h>

#include "engine/vision/files/image_encoders.h"

#if LOCKSTEP_HAS_PNG
#include <csetjmp>

#include <png.h>
#endif

namespace lockstep::data {

#if LOCKSTEP_HAS_PNG

namespace {

/// libpng leaves by longjmp: what has a destructor lives here, outside of the functions that are left so.
class PngWriter {
 public:
  PngWriter() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  const std::string& message() const { return message_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

  bool write(std::span<const std::uint8_t> pixels, const Extents& extents) {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_user_limits(png_, 1 << 20, 1 << 20);
    png_set_write_fn(png_, this, on_write, [](png_structp) {});
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(extents.width), static_cast<png_uint_32>(extents.height), 8,
                 extents.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    const std::size_t line = static_cast<std::size_t>(extents.width * extents.channels);
    for (std::size_t at = 0; at < pixels.size(); at += line) png_write_row(png_, pixels.data() + at);
    png_write_end(png_, info_);
    return true;
  }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    static_cast<PngWriter*>(png_get_error_ptr(png))->message_ = text;
    png_longjmp(png, 1);
  }
  static void on_write(png_structp png, png_bytep from, png_size_t size) {
    auto& bytes = static_cast<PngWriter*>(png_get_io_ptr(png))->bytes_;
    const auto* first = reinterpret_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + size);
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<std::byte> bytes_;
  std::string message_ = "libpng has no memory";
};

}  // namespace

std::vector<std::byte> encode_png(std::span<const std::uint8_t> pixels, const Extents& extents) {
  PngWriter writer;
  if (!writer.write(pixels, extents)) throw DataError("[encode_image] no PNG file can be made: " + writer.message());
  return writer.take();
}

#else

std::vector<std::byte> encode_png(std::span<const std::uint8_t>, const Extents&) {
  throw DataError("[encode_image] Lockstep was built without libpng; install it (Debian: libpng-dev) and build anew");
}

#endif

}  // namespace lockstep::data
