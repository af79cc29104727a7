#include "safetensors.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

namespace {

at::ScalarType type_named(const std::string& name) {
  if (name == "F32") return at::kFloat;
  if (name == "I32") return at::kInt;
  throw std::runtime_error("a tensor of type " + name + " is not expected");
}

}  // namespace

std::map<std::string, at::Tensor> read_safetensors(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::uint64_t length = 0;  // Little-endian in the file, as here.
  if (!in.read(reinterpret_cast<char*>(&length), sizeof length)) {
    throw std::runtime_error(file.string() + " cannot be read");
  }
  std::string header(length, '\0');
  in.read(header.data(), static_cast<std::streamsize>(length));
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};

  std::map<std::string, at::Tensor> result;
  const nlohmann::json entries = nlohmann::json::parse(header);
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") continue;
    const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
    const auto offsets = entry.at("data_offsets").get<std::vector<std::size_t>>();
    const at::Tensor tensor = at::empty(shape, type_named(entry.at("dtype")));
    if (tensor.nbytes() != offsets.at(1) - offsets.at(0) || offsets.at(1) > bytes.size()) {
      throw std::runtime_error(file.string() + ": " + name + " is cut off");
    }
    std::memcpy(tensor.data_ptr(), bytes.data() + offsets[0], tensor.nbytes());
    result.emplace(name, tensor);
  }
  return result;
}
