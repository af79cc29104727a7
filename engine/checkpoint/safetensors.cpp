#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <lockstep/error.h>

#include "engine/checkpoint/restorable.h"
#include "engine/files/json_reader.h"

namespace lockstep::checkpoint {
namespace {

using json::Value;

constexpr std::uint64_t largest_header = 100'000'000;
constexpr std::size_t length_bytes = 8;

struct NamedType {
  DType dtype;
  std::string_view name;
};
/// Random keys are stored as their two words; complex numbers have no name in the format.
constexpr std::array<NamedType, 13> type_names = {{{DType::bool_, "BOOL"},
                                                   {DType::int8, "I8"},
                                                   {DType::int16, "I16"},
                                                   {DType::int32, "I32"},
                                                   {DType::int64, "I64"},
                                                   {DType::uint8, "U8"},
                                                   {DType::uint16, "U16"},
                                                   {DType::uint32, "U32"},
                                                   {DType::uint64, "U64"},
                                                   {DType::float16, "F16"},
                                                   {DType::bfloat16, "BF16"},
                                                   {DType::float32, "F32"},
                                                   {DType::float64, "F64"}}};

/// Dtypes without a name, and what their two parts are.
struct DtypeInParts {
  DType dtype;
  DType parts;
};
constexpr std::array<DtypeInParts, 3> dtypes_in_parts = {
    {{DType::key, DType::uint32}, {DType::complex64, DType::float32}, {DType::complex128, DType::float64}}};
const std::string metadata_name = "__metadata__";
const std::string dtype_prefix = "lockstep.dtype ";  // then the tensor's name

[[noreturn]] void fail_in_safetensors(const std::string& file, const std::string& what) {
  throw CheckpointError("[restore] " + file + ": " + what);
}

/// What a file says, for an error: no longer than a line, and cut where a character ends.
std::string brief(std::string text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}
std::string brief(const Value& value) { return brief(value.to_string()); }

[[noreturn]] void fail_in_safetensors(const std::string& file, const std::string& tensor, const std::string& what) {
  fail_in_safetensors(file, "tensor '" + brief(tensor) + "'" + what);
}

std::string_view type_name(const std::string& tensor, DType dtype) {
  for (const NamedType& known : type_names) {
    if (known.dtype == dtype) return known.name;
  }
  throw CheckpointError("[save] '" + brief(tensor) + "' has dtype " + std::string(name(dtype)) +
                        ", which the file format does not know; save its parts (key_data, real and imaginary), which "
                        "checkpoint::save does for arrays of at most " +
                        std::to_string(Shape::max_rank - 1) + " dimensions");
}

/// The type that stands in the file.
ArrayType written_type(const ArrayType& type, Unnamed unnamed) {
  if (unnamed == Unnamed::refused) return type;
  for (const DtypeInParts& known : dtypes_in_parts) {
    if (known.dtype != type.dtype) continue;
    if (type.shape.rank() == Shape::max_rank) return type;  // refused by type_name
    Shape shape = type.shape;
    shape.append(2);
    return {known.parts, shape, {}};
  }
  return type;
}

/// The type of which a tensor holds the parts.
ArrayType joined_type(const std::string& file, const std::string& tensor, const ArrayType& written, const Value& text) {
  for (const DtypeInParts& known : dtypes_in_parts) {
    const int rank = written.shape.rank();
    if (text.text() == nullptr || *text.text() != name(known.dtype)) continue;
    if (written.dtype != known.parts || rank == 0 || written.shape[rank - 1] != 2) break;
    std::vector<std::int64_t> extents = written.shape.to_vector();
    extents.pop_back();
    return {known.dtype, Shape(extents), {}};
  }
  fail_in_safetensors(file, tensor, " is " + to_string(written) + ", which are no parts of a " + brief(text));
}

DType type_of(const std::string& file, const std::string& tensor, const Value& text) {
  if (text.text() != nullptr) {
    for (const NamedType& known : type_names) {
      if (*text.text() == known.name) return known.dtype;
    }
  }
  std::string known;
  for (const NamedType& type : type_names) known += (known.empty() ? "" : ", ") + std::string(type.name);
  fail_in_safetensors(file, tensor, " has the dtype " + brief(text) + ", which is not known; expected one of " + known);
}

std::vector<std::uint64_t> numbers(const std::string& file, const std::string& tensor, const Value& list,
                                   std::string_view field) {
  if (list.items() == nullptr) {
    fail_in_safetensors(file, tensor,
                        ": " + std::string(field) + " is " + brief(list) + "; expected a list of whole numbers >= 0");
  }
  std::vector<std::uint64_t> values;
  for (const Value& item : *list.items()) {
    if (!item.whole()) {
      fail_in_safetensors(
          file, tensor,
          ": " + std::string(field) + " holds " + brief(item) + "; expected whole numbers >= 0 of 64 bits");
    }
    values.push_back(*item.whole());
  }
  return values;
}

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
  ArrayType type;
};

Shape shape_of(const std::string& file, const std::string& tensor, const std::vector<std::uint64_t>& dims,
               std::uint64_t longest) {
  if (dims.size() > static_cast<std::size_t>(Shape::max_rank)) {
    fail_in_safetensors(file, tensor,
                        " has rank " + std::to_string(dims.size()) + "; at most " + std::to_string(Shape::max_rank));
  }
  Shape shape;
  const bool is_empty = std::ranges::find(dims, 0U) != dims.end();
  const std::uint64_t largest = is_empty ? std::max(longest, largest_empty) : longest;
  std::uint64_t count = 1;
  for (const std::uint64_t extent : dims) {
    if (extent != 0 && count > largest / extent) {
      fail_in_safetensors(file, tensor,
                          ": its shape needs more than the " + std::to_string(longest) + " bytes of data in the file");
    }
    count *= extent;
    if (extent > largest) {
      fail_in_safetensors(file, tensor,
                          ": extent " + std::to_string(extent) + " is larger than the " + std::to_string(longest) +
                              " bytes of data in the file");
    }
    shape.append(static_cast<std::int64_t>(extent));
  }
  if (is_empty && !is_empty_shape_readable(shape)) {
    fail_in_safetensors(file, tensor,
                        ": the product of its extents but for zeros is above " + std::to_string(largest_empty));
  }
  return shape;
}

Extent extent_of(const std::string& file, const std::string& tensor, const Value& info, std::uint64_t data_bytes) {
  const Value *written_dtype = info.find("dtype"), *written_shape = info.find("shape"),
              *written_offsets = info.find("data_offsets");
  if (written_dtype == nullptr || written_shape == nullptr || written_offsets == nullptr ||
      info.entries()->size() != 3) {
    fail_in_safetensors(file, tensor,
                        " is " + brief(info) + "; expected an object of exactly dtype, shape and data_offsets");
  }
  const DType dtype = type_of(file, tensor, *written_dtype);
  const Shape shape = shape_of(file, tensor, numbers(file, tensor, *written_shape, "shape"), data_bytes);
  const std::vector<std::uint64_t> offsets = numbers(file, tensor, *written_offsets, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    fail_in_safetensors(file, tensor,
                        ": data_offsets " + brief(*written_offsets) + " are no begin and end in the " +
                            std::to_string(data_bytes) + " bytes of data");
  }
  const std::uint64_t count = static_cast<std::uint64_t>(shape.size());
  if (count > data_bytes || count * size_of(dtype) != offsets[1] - offsets[0]) {
    const ArrayType type{dtype, shape, {}};
    fail_in_safetensors(file, tensor,
                        ": " + std::to_string(offsets[1] - offsets[0]) + " bytes for " + to_string(type) +
                            "; expected " + std::to_string(type.nbytes()));
  }
  return {offsets[0], offsets[1], tensor, {dtype, shape, {}}};
}

/// Refuses what the parser would take: a name that appears twice, which it merges silently, blanks before the object, as
/// other readers of the format do, and lists in lists without end.
Value parse_header(const std::string& file, std::string_view text) {
  constexpr int deepest = 8;
  if (!text.starts_with('{')) fail_in_safetensors(file, "the header is no JSON object; expected it to begin with '{'");
  json::Parsed parsed = json::parse(text, deepest);
  if (parsed.is_too_deep) {
    fail_in_safetensors(
        file, "the header is nested more than " + std::to_string(deepest) + " deep; expected an object of tensors");
  }
  if (!parsed.repeated.empty()) {
    fail_in_safetensors(file, "'" + brief(parsed.repeated) + "' appears twice in the header; expected each name once");
  }
  if (!parsed.value)
    fail_in_safetensors(file, "the header is no JSON object of UTF-8 text; expected {\"tensor\": {...}, ...}");
  return std::move(*parsed.value);
}

void check_cover(const std::string& file, std::vector<Extent>& extents, std::uint64_t data_bytes) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at) {
      fail_in_safetensors(file, extent.name,
                          " begins at " + std::to_string(extent.begin) + ", expected " + std::to_string(at) +
                              ": tensors must follow each other without hole or overlap");
    }
    at = extent.end;
  }
  if (at != data_bytes) {
    fail_in_safetensors(file,
                        std::to_string(data_bytes - at) + " bytes follow the last tensor; the file must end with it");
  }
}

/// Refuses at writing what no reader of the format takes.
void check_writable(const std::string& tensor, const ArrayType& type) {
  if (tensor.empty() || tensor == metadata_name) {
    throw CheckpointError("[save] a tensor is called '" + tensor +
                          "', which readers of the file format do not take for a tensor's name; name it otherwise");
  }
  if (tensor.find('\0') != std::string::npos) {
    throw CheckpointError("[save] '" + tensor + "' holds NUL, which the file's readers refuse; name it otherwise");
  }
  if (type.shape.size() > 0 || is_empty_shape_readable(type.shape)) return;
  throw CheckpointError(
      "[save] '" + brief(tensor) + "' is " + to_string(type) +
      ", which has no elements and extents whose product is above 2^48; no reader takes it: reshape it");
}

std::string header_text(const Value& header) {
  try {
    return header.to_string();
  } catch (const DataError&) {
    throw CheckpointError(
        "[save] a path of the tree is no UTF-8 text, which the file format asks for; name it otherwise");
  }
}

}  // namespace

std::vector<std::byte> safetensors_header(const std::map<std::string, ArrayType>& arrays, Unnamed unnamed) {
  Value header = Value::object();
  std::size_t total = 0;
  for (const auto& [name, given] : arrays) {
    check_writable(name, given);
    const ArrayType type = written_type(given, unnamed);
    const auto bytes = static_cast<std::size_t>(type.nbytes());
    Value& info = header[name];
    info["dtype"] = type_name(name, type.dtype);
    info["shape"] = type.shape.to_vector();
    info["data_offsets"] = std::vector{total, total + bytes};
    if (type.dtype != given.dtype) {
      header[metadata_name][dtype_prefix + name] = std::string(lockstep::name(given.dtype));
    }
    total += bytes;
  }
  std::string text = header_text(header);
  if (text.size() > largest_header - length_bytes) {
    throw CheckpointError("[save] the names and shapes of " + std::to_string(arrays.size()) + " arrays take " +
                          std::to_string(text.size()) + " bytes; readers of the file format take at most " +
                          std::to_string(largest_header) + ": give shorter names, or save them in several files");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::vector<std::byte> bytes(length_bytes + text.size());
  for (std::size_t i = 0; i < length_bytes; ++i) bytes[i] = static_cast<std::byte>(text.size() >> (8 * i));
  std::memcpy(bytes.data() + length_bytes, text.data(), text.size());
  return bytes;
}

std::vector<std::byte> write_safetensors(const std::map<std::string, Array>& arrays, Unnamed unnamed) {
  std::map<std::string, ArrayType> types;
  for (const auto& [name, array] : arrays) types.emplace(name, array.type());
  std::vector<std::byte> file = safetensors_header(types, unnamed);
  for (const auto& [name, array] : arrays) {
    const std::vector<std::byte> bytes = array.to_bytes();
    file.insert(file.end(), bytes.begin(), bytes.end());
  }
  return file;
}

std::map<std::string, Array> read_safetensors(std::span<const std::byte> bytes, const std::string& file,
                                              Unnamed unnamed) {
  if (bytes.size() < length_bytes) {
    fail_in_safetensors(
        file, std::to_string(bytes.size()) + " bytes; a safetensors file begins with 8 bytes, its header's length");
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) header_bytes |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (header_bytes > largest_header || header_bytes > bytes.size() - length_bytes) {
    fail_in_safetensors(
        file, "header length " + std::to_string(header_bytes) + " in a file of " + std::to_string(bytes.size()) +
                  " bytes; expected at most what follows the length, and at most " + std::to_string(largest_header));
  }
  const auto text = bytes.subspan(length_bytes, static_cast<std::size_t>(header_bytes));
  const auto data = bytes.subspan(length_bytes + static_cast<std::size_t>(header_bytes));
  const Value header = parse_header(file, {reinterpret_cast<const char*>(text.data()), text.size()});
  const Value none = Value::object();
  const Value* written_metadata = header.find(metadata_name);
  const Value& metadata = written_metadata == nullptr ? none : *written_metadata;
  const bool are_texts =
      metadata.entries() != nullptr &&
      std::ranges::all_of(*metadata.entries(), [](const auto& entry) { return entry.second.text() != nullptr; });
  if (!are_texts)
    fail_in_safetensors(file,
                        "'__metadata__' is " + brief(metadata) + "; expected an object with a text for each name");
  std::vector<Extent> extents;
  for (const auto& [name, info] : *header.entries()) {
    if (name == metadata_name) continue;
    if (name.empty() || name.find('\0') != std::string::npos) {
      fail_in_safetensors(file, "a tensor's name is empty or holds NUL; expected a text for each");
    }
    extents.push_back(extent_of(file, name, info, data.size()));
  }
  check_cover(file, extents, data.size());
  std::map<std::string, Array> arrays;
  for (const Extent& extent : extents) {
    const Value* joined = unnamed == Unnamed::in_parts ? metadata.find(dtype_prefix + extent.name) : nullptr;
    const ArrayType type = joined == nullptr ? extent.type : joined_type(file, extent.name, extent.type, *joined);
    const auto elements =
        data.subspan(static_cast<std::size_t>(extent.begin), static_cast<std::size_t>(extent.end - extent.begin));
    const auto is_truth = [](std::byte byte) { return byte <= std::byte{1}; };
    if (type.dtype == bool_ && !std::ranges::all_of(elements, is_truth)) {
      fail_in_safetensors(file, extent.name, " is BOOL and has a byte that is neither 0 nor 1");
    }
    arrays.emplace(extent.name, from_bytes(type, elements));
  }
  return arrays;
}

}  // namespace lockstep::checkpoint
