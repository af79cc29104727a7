#include "engine/data/files/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"
#include "engine/data/gathered_rows.h"

// The form: numpy.lib.format. "\x93NUMPY", two bytes of version, the header's length (2 bytes in version 1, 4 in 2 and 3),
// the header, a Python dict of 'descr', 'fortran_order' and 'shape', and then the elements.

namespace lockstep::data {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t longest_header = 1 << 16;

struct ElementKind {
  std::string_view code;
  DType dtype;
};
constexpr ElementKind kinds[] = {{"b1", DType::bool_},    {"i1", DType::int8},    {"i2", DType::int16},
                                 {"i4", DType::int32},    {"i8", DType::int64},   {"u1", DType::uint8},
                                 {"u2", DType::uint16},   {"u4", DType::uint32},  {"u8", DType::uint64},
                                 {"f2", DType::float16},  {"f4", DType::float32}, {"f8", DType::float64},
                                 {"c8", DType::complex64}};

/// Reads the dict, which is all of Python that a header may hold: no nesting, so no stack to run out of.
class HeaderParser {
 public:
  HeaderParser(const FileBytes& file, std::string_view text, std::size_t offset, std::uint64_t size)
      : file_(file), text_(text), offset_(offset), size_(size) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        once(descr_.has_value(), key);
        descr_ = descr();
      } else if (key == "fortran_order") {
        once(fortran_.has_value(), key);
        fortran_ = boolean();
      } else if (key == "shape") {
        once(shape_.has_value(), key);
        shape_ = shape();
      } else {
        fail("unknown key " + shown(key) + "; expected 'descr', 'fortran_order' and 'shape'");
      }
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_spaces();
    if (at_ != text_.size()) fail("text follows the dict: " + shown(text_.substr(at_)));
    const char* missing = !descr_ ? "descr" : !fortran_ ? "fortran_order" : !shape_ ? "shape" : nullptr;
    if (missing != nullptr) fail("'" + std::string(missing) + "' is missing");
    return header();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { file_.fail(offset_ + at_, "header: " + what); }
  [[noreturn]] void fail_for_elements(const std::string& what) const {
    try {
      fail(what);
    } catch (const DataError& error) {
      throw OtherElements(error.what());
    }
  }
  void once(bool known, std::string_view key) const {
    if (known) fail("'" + std::string(key) + "' appears twice");
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("'" + std::string(1, c) + "' expected, found " + shown(text_.substr(at_)));
  }
  std::string_view string() {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail_for_elements("elements of several fields; save each field as an array of its own");
    }
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      fail("a quoted text expected, found " + shown(text_.substr(at_)));
    }
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) fail("a quote that does not end");
    const std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return found;
  }
  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("True or False expected, found " + shown(text_.substr(at_)));
  }
  DType descr() {
    const std::string_view found = string();
    const std::string expected =
        "; expected a byte order and an element type such as '<f4', of bool, whole, floating or complex numbers";
    if (found.size() < 2) fail("descr is " + shown(found) + expected);
    const std::string_view code = found.find_first_of("<>|=") == 0 ? found.substr(1) : found;
    if (code == "O")
      fail_for_elements("descr is " + shown(found) + ": Python objects are pickles, which are not read" + expected);
    big_endian_ = found[0] == '>';
    if (code == "c16") return DType::complex128;
    for (const ElementKind& kind : kinds) {
      if (code == kind.code) return kind.dtype;
    }
    // Texts, bytes, raw memory, dates and durations, and floats of more than 64 bits.
    if (std::string_view("USaVMm").find(code[0]) != std::string_view::npos || code == "f16" || code == "c32") {
      fail_for_elements("descr is " + shown(found) + expected);
    }
    fail("descr is " + shown(found) + expected);
  }
  std::vector<std::int64_t> shape() {
    expect('(');
    std::vector<std::int64_t> extents;
    while (!accept(')')) {
      skip_spaces();
      std::int64_t extent = 0;
      const char* first = text_.data() + at_;
      const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) {
        fail("an extent of 0 to 2^63-1 expected, found " + shown(text_.substr(at_)));
      }
      at_ += static_cast<std::size_t>(end - first);
      if (std::ssize(extents) == Shape::max_rank) {
        fail("shape has more than " + std::to_string(Shape::max_rank) + " dimensions");
      }
      extents.push_back(extent);
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return extents;
  }

  /// The elements end where the file does: what a shape needs is compared before it can overflow.
  NpyHeader header() const {
    NpyHeader header;
    header.data = offset_ + text_.size();
    const std::uint64_t there = size_ - header.data;
    const bool is_empty = std::find(shape_->begin(), shape_->end(), 0) != shape_->end();
    std::uint64_t bytes = is_empty ? 0 : size_of(*descr_);
    Shape shape;
    for (const std::int64_t extent : *shape_) {
      shape.append(extent);
      if (!is_empty && bytes > there / static_cast<std::uint64_t>(extent)) {
        file_.fail(header.data, "shape " + said() + " of " + std::string(name(*descr_)) +
                                    " needs more bytes than the " + std::to_string(there) + " that follow the header");
      }
      bytes *= static_cast<std::uint64_t>(is_empty ? 0 : extent);
    }
    if (bytes != there) {
      file_.fail(header.data, "shape " + said() + " of " + std::string(name(*descr_)) + " needs " +
                                  std::to_string(bytes) + " bytes, " + std::to_string(there) + " follow the header");
    }
    std::uint64_t product = 1;
    for (const std::int64_t extent : *shape_) {
      if (extent > 0 && product > static_cast<std::uint64_t>(INT64_MAX) / 16 / static_cast<std::uint64_t>(extent)) {
        file_.fail(header.data, "shape " + said() + ": its extents multiply to more than 63 bits");
      }
      if (extent > 0) product *= static_cast<std::uint64_t>(extent);
    }
    header.type = {*descr_, shape, {}};
    header.is_fortran = *fortran_;
    header.is_big_endian = big_endian_ && size_of(*descr_) > 1;
    return header;
  }
  std::string said() const {
    std::string text;
    for (const std::int64_t extent : *shape_) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "(" + text + ")";
  }

  const FileBytes& file_;
  std::string_view text_;
  std::size_t offset_;
  std::uint64_t size_;  ///< Of the file.
  std::size_t at_ = 0;
  std::optional<DType> descr_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::int64_t>> shape_;
  bool big_endian_ = false;
};

/// Each number's bytes the other way round; a complex one is two.
void swap_bytes(std::vector<std::byte>& bytes, DType dtype) {
  const bool is_pair = dtype == DType::complex64 || dtype == DType::complex128;
  const std::size_t width = size_of(dtype) / (is_pair ? 2 : 1);
  for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + width));
  }
}

/// From first index fastest to last index fastest.
std::vector<std::byte> row_major(std::span<const std::byte> bytes, const ArrayType& type) {
  const int rank = type.shape.rank();
  std::vector<std::byte> result(bytes.size());
  const std::size_t width = size_of(type.dtype);
  std::vector<std::size_t> strides;
  std::size_t stride = width;
  for (const std::int64_t extent : type.shape) {
    strides.push_back(stride);
    stride *= static_cast<std::size_t>(extent);
  }
  std::vector<std::int64_t> index(static_cast<std::size_t>(rank), 0);
  std::size_t from = 0;
  for (std::size_t to = 0; to < result.size(); to += width) {
    std::memcpy(result.data() + to, bytes.data() + from, width);
    for (int d = rank - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      from += strides[k];
      if (++index[k] < type.shape[d]) break;
      from -= strides[k] * static_cast<std::size_t>(type.shape[d]);
      index[k] = 0;
    }
  }
  return result;
}

/// Numbers of bool other than 0 and 1 would be neither true nor false.
void check_bools(const FileBytes& file, std::span<const std::byte> body, const NpyHeader& header) {
  if (header.type.dtype != DType::bool_) return;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] > std::byte{1}) {
      file.fail(header.data + i, "a bool is " + std::to_string(std::to_integer<int>(body[i])) + "; expected 0 or 1");
    }
  }
}

/// Returns parse(). Throws DataError in place of OtherElements: readers of one file tell them from no other error.
template <class F>
auto of_numbers(const F& parse) {
  try {
    return parse();
  } catch (const OtherElements& error) {
    throw DataError(error.what());
  }
}

class NpyRows final : public Source {
 public:
  explicit NpyRows(const std::map<std::string, std::filesystem::path>& fields) {
    for (const auto& [name, path] : fields) {
      Field field{name, std::make_unique<MappedFile>(path, "npy_rows"), {}, {}};
      field.header = of_numbers([&] { return parse_npy_header(field.file->bytes(), field.file->name(), "npy_rows"); });
      const Shape& shape = field.header.type.shape;
      if (field.header.is_fortran || field.header.is_big_endian || field.header.type.dtype == DType::bool_ ||
          shape.rank() == 0 || shape[0] == 0) {
        throw DataError(
            "[npy_rows] " + field.file->name() + " holds " + to_string(field.header.type) +
            (field.header.is_fortran      ? " in Fortran order"
             : field.header.is_big_endian ? " in big-endian order"
                                          : "") +
            "; expected rows (dimension 0) of little-endian numbers in row-major order: read_npy takes others");
      }
      Shape row;
      for (int d = 1; d < shape.rank(); ++d) row.append(shape[d]);
      field.row = {field.header.type.dtype, row, {}};
      fields_.push_back(std::move(field));
      if (shape[0] == fields_[0].header.type.shape[0]) continue;
      throw DataError("[npy_rows] " + fields_.back().file->name() + " has " + std::to_string(shape[0]) + " rows, " +
                      fields_[0].file->name() + " has " + std::to_string(rows()) +
                      "; give files of one number of rows");
    }
    if (fields_.empty()) throw DataError("[npy_rows] no file is given; give at least one");
  }
  std::int64_t rows() const override { return fields_[0].header.type.shape[0]; }
  Row row(std::int64_t i, const RowKey&) const override {
    if (i < 0 || i >= rows()) {
      throw DataError("[npy_rows] row " + std::to_string(i) + " of " + std::to_string(rows()) + " rows");
    }
    Row row;
    for (const Field& field : fields_) {
      const auto bytes = field.file->bytes(field.begin(i), field.bytes());
      row.emplace_hint(row.end(), field.name, HostTable{field.row, {bytes.begin(), bytes.end()}});
    }
    return row;
  }
  void expect(std::int64_t i) const override {
    if (i < 0 || i >= rows()) return;
    for (const Field& field : fields_) field.file->expect(field.begin(i), field.bytes());
  }

 private:
  struct Field {
    std::string name;
    std::unique_ptr<MappedFile> file;
    NpyHeader header;
    ArrayType row;

    std::size_t bytes() const { return static_cast<std::size_t>(row.nbytes()); }
    std::size_t begin(std::int64_t i) const { return header.data + static_cast<std::size_t>(i) * bytes(); }
  };
  std::vector<Field> fields_;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name, const std::string& who,
                           std::optional<std::uint64_t> size) {
  const FileBytes file(bytes, name, who);
  if (as_text(file.part(0, magic.size(), "magic text")) != magic) {
    file.fail(0, "the first 6 bytes are not \\x93NUMPY; this is no .npy file");
  }
  const auto version = file.number<std::uint8_t>(6, "version");
  const auto minor = file.number<std::uint8_t>(7, "version");
  if (version < 1 || version > 3 || minor != 0) {
    file.fail(6, "version " + std::to_string(version) + "." + std::to_string(minor) + "; expected 1.0, 2.0 or 3.0");
  }
  const std::uint64_t begin = version == 1 ? 10 : 12;
  const std::uint64_t length = version == 1 ? file.number<std::uint16_t>(8, "length of the header")
                                            : file.number<std::uint32_t>(8, "length of the header");
  if (length > longest_header) {
    file.fail(8, "a header of " + std::to_string(length) + " bytes; at most " + std::to_string(longest_header));
  }
  const std::string_view text = as_text(file.part(begin, length, "header"));
  return HeaderParser(file, text, static_cast<std::size_t>(begin), size.value_or(bytes.size())).parse();
}

HostTable parse_npy(std::span<const std::byte> bytes, const std::string& name, const std::string& who) {
  const NpyHeader header = parse_npy_header(bytes, name, who);
  const auto body = bytes.subspan(header.data);
  HostTable table{header.type, {}};
  table.bytes = header.is_fortran ? row_major(body, header.type) : std::vector<std::byte>(body.begin(), body.end());
  check_bools(FileBytes(bytes, name, who), body, header);
  if (header.is_big_endian) swap_bytes(table.bytes, table.type.dtype);
  return table;
}

HostTable read_npy(const std::filesystem::path& path) {
  const MappedFile file(path, "read_npy");
  return of_numbers([&] { return parse_npy(file.bytes(), file.name(), "read_npy"); });
}

SourcePtr npy_rows(const std::map<std::string, std::filesystem::path>& fields) {
  return std::make_shared<NpyRows>(fields);
}

}  // namespace lockstep::data
