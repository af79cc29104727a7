#include <cstring>
#include <optional>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"

namespace lockstep::data {
namespace {

constexpr std::size_t side = 32;
constexpr std::size_t channels = 3;
constexpr std::size_t image_bytes = side * side * channels;

struct Form {
  std::string_view name;
  std::size_t labels;  ///< Bytes before an image; the last of them is the label.
  std::int64_t classes;
};
constexpr Form cifar10{"CIFAR-10", 1, 10};
constexpr Form cifar100{"CIFAR-100", 2, 100};

/// How many records a file has.
std::size_t records_of(const MappedFile& file, const Form& form) {
  const std::size_t record = form.labels + image_bytes;
  if (file.size() > 0 && file.size() % record == 0) return file.size() / record;
  const Form& other = form.labels == 1 ? cifar100 : cifar10;
  const bool is_other = file.size() > 0 && file.size() % (other.labels + image_bytes) == 0;
  throw DataError("[cifar] " + file.name() + " has " + std::to_string(file.size()) + " bytes; expected records of " +
                  std::to_string(record) + " as " + std::string(form.name) + " has, at least one" +
                  (is_other ? "; this is " + std::string(other.name) + "'s form" : ""));
}

/// Images of all files, channels moved from first to last.
Dataset load_batches(const std::vector<std::filesystem::path>& paths, const Form& form) {
  std::vector<std::unique_ptr<MappedFile>> files;
  std::size_t rows = 0;
  for (const std::filesystem::path& path : paths) {
    files.push_back(std::make_unique<MappedFile>(path, "cifar"));
    rows += records_of(*files.back(), form);
    for (std::size_t i = 0; i + 1 < files.size(); ++i) {
      if (files[i]->size() != files.back()->size() ||
          std::memcmp(files[i]->bytes().data(), files.back()->bytes().data(), files[i]->size()) != 0) {
        continue;
      }
      throw DataError("[cifar] " + files[i]->name() + " and " + files.back()->name() +
                      " have the same contents; give each batch once");
    }
  }
  const auto count = static_cast<std::int64_t>(rows);
  Dataset set{.x = {{DType::uint8, {count, side, side, channels}, {}}, std::vector<std::byte>(rows * image_bytes)},
              .y = {{DType::int32, {count}, {}}, std::vector<std::byte>(rows * sizeof(std::int32_t))},
              .classes = form.classes};
  std::size_t row = 0;
  for (const auto& file : files) {
    const FileBytes bytes(file->bytes(), file->name(), "cifar");
    for (std::size_t at = 0; at < bytes.size(); at += form.labels + image_bytes, ++row) {
      const std::int32_t label = bytes.number<std::uint8_t>(at + form.labels - 1, "label");
      if (label >= form.classes) {
        bytes.fail(at + form.labels - 1,
                   "label " + std::to_string(label) + "; expected 0 to " + std::to_string(form.classes - 1));
      }
      std::memcpy(set.y.bytes.data() + row * sizeof label, &label, sizeof label);
      const auto planes = bytes.part(at + form.labels, image_bytes, "image");
      std::byte* image = set.x.bytes.data() + row * image_bytes;
      for (std::size_t i = 0; i < side * side; ++i) {
        for (std::size_t c = 0; c < channels; ++c) image[i * channels + c] = planes[c * side * side + i];
      }
    }
  }
  return set;
}

}  // namespace

Cifar load_cifar10(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> batches;
  for (int i = 1; i <= 5; ++i) batches.push_back(folder / ("data_batch_" + std::to_string(i) + ".bin"));
  return {.train = load_batches(batches, cifar10), .test = load_batches({folder / "test_batch.bin"}, cifar10)};
}

Cifar load_cifar100(const std::filesystem::path& folder) {
  return {.train = load_batches({folder / "train.bin"}, cifar100),
          .test = load_batches({folder / "test.bin"}, cifar100)};
}

}  // namespace lockstep::data
