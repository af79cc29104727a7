#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/data_files.h>
#include <lockstep/error.h>
#include <lockstep/exchange/weight_files.h>

#include "engine/checkpoint/committed_folder.h"
#include "engine/exchange/zip_writer.h"

// The form of each entry: numpy.lib.format, version 1.0.

namespace lockstep::exchange {
namespace {

struct ElementCode {
  DType dtype;
  std::string_view code;
};
constexpr std::array<ElementCode, 14> codes = {{{DType::bool_, "|b1"},
                                                {DType::int8, "|i1"},
                                                {DType::int16, "<i2"},
                                                {DType::int32, "<i4"},
                                                {DType::int64, "<i8"},
                                                {DType::uint8, "|u1"},
                                                {DType::uint16, "<u2"},
                                                {DType::uint32, "<u4"},
                                                {DType::uint64, "<u8"},
                                                {DType::float16, "<f2"},
                                                {DType::float32, "<f4"},
                                                {DType::float64, "<f8"},
                                                {DType::complex64, "<c8"},
                                                {DType::complex128, "<c16"}}};

std::string_view code_of(const std::filesystem::path& file, const std::string& tensor, DType dtype) {
  for (const ElementCode& known : codes) {
    if (known.dtype == dtype) return known.code;
  }
  throw DataError("[save_npz] " + file.string() + ": '" + tensor + "' has dtype " + std::string(name(dtype)) +
                  ", which NumPy does not know; convert it, or save to a .safetensors file");
}

/// Magic, version, length and dict, padded so that the elements begin at a multiple of 64.
std::string npy_header(std::string_view code, const Shape& shape) {
  std::string dict = "{'descr': '" + std::string(code) + "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < shape.rank(); ++i)
    dict += std::to_string(shape[i]) + (shape.rank() == 1 || i + 1 < shape.rank() ? "," : "");
  dict += "), }";
  constexpr std::size_t fixed = 10;
  dict.resize((fixed + dict.size() + 1 + 63) / 64 * 64 - fixed - 1, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

std::map<std::string, Array> load_npz(const std::filesystem::path& file) {
  std::map<std::string, Array> tensors;
  for (const auto& [name, table] : data::read_npz(file)) tensors.emplace(name, from_bytes(table.type, table.bytes));
  return tensors;
}

void save_npz(const std::filesystem::path& file, const Named<Array>& tensors) {
  ZipWriter zip("save_npz", file.string());
  for (const auto& [name, tensor] : tensors) {
    const std::string header = npy_header(code_of(file, name, tensor.dtype()), tensor.shape());
    const std::vector<std::byte> elements = tensor.to_bytes();
    std::vector<std::byte> entry(header.size());
    std::memcpy(entry.data(), header.data(), header.size());
    entry.insert(entry.end(), elements.begin(), elements.end());
    zip.add(name + ".npy", entry);
  }
  checkpoint::replace_file(file, std::move(zip).finish());
}

}  // namespace lockstep::exchange
