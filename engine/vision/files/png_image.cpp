#include <lockstep/error.h>

#include "engine/vision/files/image_decoders.h"

#if LOCKSTEP_HAS_PNG
#include <csetjmp>
#include <cstring>

#include <png.h>
#endif

namespace lockstep::data {

#if LOCKSTEP_HAS_PNG

namespace {

/// Deflate turns one byte into at most 1032, and a pixel of one bit becomes at most three bytes.
constexpr std::uint64_t largest_png_ratio = 1032 * 24;

/// libpng leaves by longjmp: what has a destructor lives here, outside of the functions that are left so.
class PngReader {
 public:
  PngReader(std::span<const std::byte> bytes, int channels) : bytes_(bytes), channels_(channels) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  const std::string& message() const { return message_; }
  std::uint64_t height() const { return height_; }
  std::uint64_t width() const { return width_; }
  /// Channels of the rows that are read: three of a colour image, from which `grey_of` makes one.
  int channels() const { return channels_; }

  bool read_header() {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_user_limits(png_, 1 << 20, 1 << 20);
    png_set_chunk_malloc_max(png_, bytes_.size() + (1 << 20));
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    width_ = png_get_image_width(png_, info_);
    height_ = png_get_image_height(png_, info_);
    const bool is_colour = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    if (channels_ == 3 && !is_colour) png_set_gray_to_rgb(png_);
    if (is_colour) channels_ = 3;  // libpng's own grey depends on the file's gamma
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return png_get_rowbytes(png_, info_) == width_ * static_cast<std::uint64_t>(channels_);
  }
  /// A row of the image; of an interlaced one, what this pass has of it.
  bool read_row(std::byte* row) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_row(png_, reinterpret_cast<png_bytep>(row), nullptr);
    return true;
  }
  bool read_end() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_end(png_, nullptr);
    return true;
  }
  int passes() const { return passes_; }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    static_cast<PngReader*>(png_get_error_ptr(png))->message_ = text;
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep to, png_size_t size) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > reader.bytes_.size() - reader.at_) png_error(png, "the file ends too early");
    std::memcpy(to, reader.bytes_.data() + reader.at_, size);
    reader.at_ += size;
  }

  std::span<const std::byte> bytes_;
  int channels_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::size_t at_ = 0;
  std::uint64_t height_ = 0;
  std::uint64_t width_ = 0;
  int passes_ = 1;
  std::string message_ = "it cannot be read";
};

}  // namespace

HostTable decode_png(std::span<const std::byte> bytes, const std::string& file, int channels) {
  PngReader reader(bytes, channels);
  const auto fail = [&] { throw DataError("[read_image] " + file + " is a damaged PNG file: " + reader.message()); };
  if (!reader.read_header()) fail();
  HostTable image =
      blank_image(reader.height(), reader.width(), reader.channels(), bytes.size() * largest_png_ratio + 1024, file);
  const std::size_t row_bytes = reader.width() * static_cast<std::size_t>(reader.channels());
  // An interlaced image is gone over several times; of others, memory grows with the rows that arrive.
  if (reader.passes() > 1) image.bytes.resize(reader.height() * row_bytes);
  for (int pass = 0; pass < reader.passes(); ++pass) {
    for (std::uint64_t row = 0; row < reader.height(); ++row) {
      if (reader.passes() == 1) image.bytes.resize((row + 1) * row_bytes);
      if (!reader.read_row(image.bytes.data() + row * row_bytes)) fail();
    }
  }
  if (!reader.read_end()) fail();
  return channels == reader.channels() ? image : grey_of(image);
}

#else

HostTable decode_png(std::span<const std::byte>, const std::string& file, int) {
  throw DataError(
      "[read_image] " + file +
      " is a PNG file, and Lockstep was built without libpng; install it (Debian: libpng-dev) and build anew");
}

#endif

}  // namespace lockstep::data
