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
/// The arrays of an .npz archive by name. One of texts, dates, objects or fields, which no HostTable holds, is not among
/// them and is an error only where it is asked for.
class LOCKSTEP_API NpzTables : public std::map<std::string, HostTable> {
 public:
  /// Throws DataError: why the array was not read, or which ones there are.
  HostTable& at(const std::string& name);
  const HostTable& at(const std::string& name) const;
  /// Why those that are not here were not read, by name.
  const std::map<std::string, std::string>& left_out() const { return left_out_; }

 private:
  /// Fills it.
  friend LOCKSTEP_API NpzTables parse_npz(std::span<const std::byte> bytes, const std::string& file);
  [[noreturn]] void fail(const std::string& name) const;

  std::string file_;
  std::map<std::string, std::string> left_out_;
};
/// The arrays of a .npz archive by name, stored or deflated, each checked by its CRC-32.
LOCKSTEP_API NpzTables read_npz(const std::filesystem::path& path);
/// The same of bytes; `file` is what errors call it.
LOCKSTEP_API NpzTables parse_npz(std::span<const std::byte> bytes, const std::string& file);
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
  /// float32 [rows, names]; a number too small for float32 is 0. Throws DataError with line and column for what is no number
  /// (a decimal point, in every locale) or too large.
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
/// As RFC 4180 has it, lines ending in CRLF, LF or CR, with quoted fields that may hold separators, quotes ("") and line ends.
/// Lines of other numbers of fields, text behind a closing quote, a quote that never ends, and NUL are errors.
LOCKSTEP_API CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// The same of bytes; `file` is what errors call it.
LOCKSTEP_API CsvTable parse_csv(std::string_view bytes, const std::string& file, const CsvOptions& options = {});

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

}  // namespace lockstep::data
