#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/sources.h>
#include <lockstep/vocabularies.h>

/// Readers of files. None trusts a length: sizes are checked with arithmetic that cannot overflow against what the file
/// has before memory is taken, and compressed contents take memory only as they arrive. All throw DataError naming file,
/// field and offset, what was expected and what was found; for a file that is missing, is no regular file or was cut
/// while it was read, too.
namespace lockstep::data {

/// Reads an IDX file, plain or gzip (told by its first bytes). Header, extents and length are checked, with arithmetic
/// that cannot overflow, before memory is taken; 4-byte and wider elements are big-endian. Throws DataError naming
/// file, field, offset, expected and found.
LOCKSTEP_API HostTable read_idx(const std::filesystem::path& path);

/// Images as float32 in [0, 1], [N, 28, 28, 1], labels int32.
struct FashionMnist {
  Dataset train;
  Dataset test;
};
/// Reads the four IDX files of a folder (each plain or with .gz). Throws DataError where one is missing (naming what to
/// install), where images and labels disagree in number, or a label is not below 10.
LOCKSTEP_API FashionMnist load_fashion_mnist(const std::filesystem::path& folder);

/// Images as uint8 [N, 32, 32, 3], labels int32.
struct Cifar {
  Dataset train;
  Dataset test;
};
/// The binary form of CIFAR-10: data_batch_1.bin to data_batch_5.bin and test_batch.bin, of records of 3073 bytes. Two
/// batches of the same contents are an error.
LOCKSTEP_API Cifar load_cifar10(const std::filesystem::path& folder);
/// CIFAR-100: train.bin and test.bin, of records of 3074 bytes; y is the fine label, of 100.
LOCKSTEP_API Cifar load_cifar100(const std::filesystem::path& folder);

/// A NumPy array file, versions 1 to 3: bool, whole and floating numbers and complex, of either byte order, row-major or
/// Fortran order (the result is row-major). Objects, which are pickles, are refused.
LOCKSTEP_API HostTable read_npy(const std::filesystem::path& path);
/// The arrays of a .npz archive by name, stored or deflated, each checked by its CRC-32.
LOCKSTEP_API std::map<std::string, HostTable> read_npz(const std::filesystem::path& path);
/// Rows of .npy files that stay where they are, mapped into memory: field -> file. They must be row-major and little-endian
/// and have one number of rows.
LOCKSTEP_API SourcePtr npy_rows(const std::map<std::string, std::filesystem::path>& fields);

/// The tensors of a .safetensors file by name.
LOCKSTEP_API std::map<std::string, HostTable> read_safetensors(const std::filesystem::path& path);

/// What a CSV file is made of.
struct CsvOptions {
  char separator = ',';
  bool header = true;  ///< The first line names the columns; otherwise they are "0", "1", ...
};
/// A table of texts. It takes the file's bytes, and 8 for each of its fields.
class LOCKSTEP_API CsvTable {
 public:
  const std::vector<std::string>& columns() const { return columns_; }
  std::int64_t rows() const;
  /// Throws DataError naming the columns there are, or how many rows.
  std::string_view text(std::int64_t row, const std::string& column) const;
  /// float32 [rows, names]. Throws DataError with line and column for what is no number (a decimal point, in every locale).
  HostTable numbers(const std::vector<std::string>& names) const;
  /// int32 [rows]. Throws likewise for what is no whole number of 32 bits.
  HostTable integers(const std::string& name) const;

 private:
  friend CsvTable parse_csv(std::string_view bytes, const std::string& file, const CsvOptions& options);
  std::size_t place_of(const std::string& column) const;
  std::string_view field(std::int64_t row, std::size_t place) const;

  std::string file_;
  std::vector<std::string> columns_;
  std::string text_;
  std::vector<std::size_t> ends_;   ///< Of each field in the text, row by row; the header is no row.
  std::vector<std::size_t> lines_;  ///< On which each row begins, counted from 1.
};
/// As RFC 4180 has it, lines ending in CRLF or LF, with quoted fields that may hold separators, quotes ("") and line ends.
/// Lines of other numbers of fields, text behind a closing quote, a quote that never ends, and NUL are errors.
LOCKSTEP_API CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// The same of bytes; `file` is what errors call it.
LOCKSTEP_API CsvTable parse_csv(std::string_view bytes, const std::string& file, const CsvOptions& options = {});

/// The text of a file, which must be UTF-8.
LOCKSTEP_API std::string read_text(const std::filesystem::path& path);
/// The lines of a text file that are not empty as documents, "tokens" int32[any length]. The file stays mapped into memory.
LOCKSTEP_API SourcePtr text_documents(const std::filesystem::path& path, Vocabulary vocabulary);

/// What a token file is made of.
struct TokenFileOptions {
  DType dtype = DType::uint16;  ///< uint16, uint32 or int32, little-endian, without a header.
  std::int64_t length = 1024;   ///< Tokens of a row.
  std::int64_t vocabulary = 0;  ///< Tokens must be below it; 0: any that int32 holds.
};
/// Windows of a token file that stays mapped into memory: x int32[length], and y, the same moved on by one token. Windows
/// follow each other; what is left at the end is in none.
LOCKSTEP_API SourcePtr token_windows(const std::filesystem::path& path, const TokenFileOptions& options);
/// Writes such a file, over one that exists. Throws DataError where it cannot be written or a token does not fit the dtype.
LOCKSTEP_API void write_tokens(const std::filesystem::path& path, std::span<const std::int32_t> tokens,
                               DType dtype = DType::uint16);

/// An image, uint8 [height, width, channels], from PNG or JPEG, told by the first bytes. 1 channel is grey, 3 are red, green
/// and blue; another number than 1 or 3 throws ValueError. Alpha is left out. Throws DataError where Lockstep was built
/// without libpng or libjpeg, too.
LOCKSTEP_API HostTable read_image(const std::filesystem::path& path, int channels = 3);
/// An image of bytes; `file` is what errors call it.
LOCKSTEP_API HostTable decode_image(std::span<const std::byte> bytes, const std::string& file, int channels = 3);
/// The forms of image files: without loss, or small.
enum class ImageForm : std::uint8_t { png, jpeg };
/// The bytes of such a file of an image [height, width, channels], 1 channel (grey) or 3: uint8, or float32 whose white is
/// 1, rounded and held to its range. `quality` is that of JPEG, 1 to 100. Throws ShapeError for another shape, DtypeError
/// for another dtype, ValueError for another quality, DataError where Lockstep was built without the form's library.
LOCKSTEP_API std::vector<std::byte> encode_image(const HostTable& image, ImageForm form, int quality = 75);
/// Writes an image as its path ends, in .png, .jpg or .jpeg, over a file that exists. Throws as encode_image does, and
/// DataError for another ending and where the file cannot be written.
LOCKSTEP_API void write_image(const std::filesystem::path& path, const HostTable& image, int quality = 75);
/// An array [height, width, channels] of numbers as an image of uint8, cut off to whole numbers: with `stretch`, moved
/// and scaled so that its least number is 0 and its largest 255; else held between these. What is no number is 0. Throws
/// ShapeError for another rank or other numbers of channels than 1 and 3. (keras.utils.array_to_img)
LOCKSTEP_API HostTable array_to_image(const Array& x, bool stretch = true);
/// An image as a float32 array of the same numbers. (keras.utils.img_to_array)
LOCKSTEP_API Array image_to_array(const HostTable& image);
/// The images of a folder with one folder for each class: "x" uint8 [height, width, channels], "y" int32[], the class's place
/// among the folders' sorted names. Files ending in .png, .jpg and .jpeg, decoded as they are asked for.
LOCKSTEP_API SourcePtr image_folder(const std::filesystem::path& folder, int channels = 3);
/// Names of these classes.
LOCKSTEP_API std::vector<std::string> image_classes(const std::filesystem::path& folder);

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

/// The records of a TFRecord file that stays mapped into memory: "record" uint8[any length]. Lengths are checked by their
/// CRC-32C here, contents as they are read.
LOCKSTEP_API SourcePtr tfrecord_rows(const std::filesystem::path& path);
/// A tf.train.Example as a row: lists of floats as float32[n], of whole numbers as int64[n]; of byte strings uint8 [length]
/// where there is one, else "<name>/0", "<name>/1" and so on. `record` is what errors call it.
LOCKSTEP_API Row parse_example(std::span<const std::byte> bytes, const std::string& record);

}  // namespace lockstep::data
