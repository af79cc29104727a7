#include <cstring>
#include <string>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/files/open_file.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t classes = 10;

std::filesystem::path existing(const std::filesystem::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    const std::filesystem::path path = folder / candidate;
    if (const std::string_view kind = files::foreign_kind(path); !kind.empty()) {
      throw DataError("[fashion-mnist] " + path.string() + " is " + std::string(kind) +
                      "; put the file itself in its place");
    }
    if (std::filesystem::exists(path)) return path;
  }
  throw DataError("[fashion-mnist] neither " + name + " nor " + name + ".gz is in " + folder.string() +
                  "; install the Debian package dataset-fashion-mnist, or name the folder of the four IDX files with "
                  "--data-dir");
}

HostTable images(const std::filesystem::path& path) {
  const HostTable raw = read_idx(path);
  const Shape& s = raw.type.shape;
  if (raw.type.dtype != DType::uint8 || s.rank() != 3 || s[1] != 28 || s[2] != 28) {
    throw DataError("[fashion-mnist] " + path.string() + " holds " + to_string(raw.type) +
                    "; expected images u8[N,28,28]");
  }
  HostTable table{{DType::float32, Shape{s[0], 28, 28, 1}, {}}, {}};
  table.bytes.resize(raw.bytes.size() * sizeof(float));
  for (std::size_t i = 0; i < raw.bytes.size(); ++i) {
    const float value = static_cast<float>(std::to_integer<int>(raw.bytes[i])) / 255.0F;
    std::memcpy(table.bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return table;
}

HostTable labels(const std::filesystem::path& path, std::int64_t rows) {
  const HostTable raw = read_idx(path);
  if (raw.type.dtype != DType::uint8 || raw.type.shape.rank() != 1) {
    throw DataError("[fashion-mnist] " + path.string() + " holds " + to_string(raw.type) + "; expected labels u8[N]");
  }
  if (raw.rows() != rows) {
    throw DataError("[fashion-mnist] " + path.string() + " holds " + std::to_string(raw.rows()) + " labels for " +
                    std::to_string(rows) + " images; expected one label an image");
  }
  HostTable table{{DType::int32, raw.type.shape, {}}, {}};
  table.bytes.resize(raw.bytes.size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < raw.bytes.size(); ++i) {
    const auto value = std::to_integer<std::int32_t>(raw.bytes[i]);
    if (value >= classes) {
      throw DataError("[fashion-mnist] " + path.string() + ": label " + std::to_string(value) + " at row " +
                      std::to_string(i) + "; expected 0 to " + std::to_string(classes - 1));
    }
    std::memcpy(table.bytes.data() + i * sizeof(value), &value, sizeof(value));
  }
  return table;
}

Dataset load_split(const std::filesystem::path& folder, const std::string& split) {
  Dataset dataset{.x = images(existing(folder, split + "-images-idx3-ubyte")), .y = {}, .classes = classes};
  dataset.y = labels(existing(folder, split + "-labels-idx1-ubyte"), dataset.rows());
  return dataset;
}

}  // namespace

FashionMnist load_fashion_mnist(const std::filesystem::path& folder) {
  return {.train = load_split(folder, "train"), .test = load_split(folder, "t10k")};
}

}  // namespace lockstep::data
