#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::TemporaryFolder;

namespace {

/// An image whose red, green and blue planes begin with these values.
std::string record(const std::string& labels, char red, char green, char blue) {
  std::string planes;
  for (const char value : {red, green, blue}) planes += value + std::string(1023, '\0');
  return labels + planes;
}

void write_cifar10(const TemporaryFolder& folder) {
  for (char i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin",
                 record(std::string(1, i), i, 20, 30) + record(std::string(1, '\0'), 1, 2, i));
  }
  folder.write("test_batch.bin", record("\x09", 7, 8, 9));
}

}  // namespace

TEST_CASE("CIFAR-10 and CIFAR-100 are read with channels last") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  const data::Cifar sets = data::load_cifar10(folder.path());
  CHECK(sets.train.x.type == ArrayType{uint8, {10, 32, 32, 3}, {}});
  CHECK(sets.train.classes == 10);
  CHECK(sets.test.rows() == 1);
  const auto labels = data::elements<std::int32_t>(sets.train.y);
  CHECK(std::vector(labels.begin(), labels.end()) == std::vector<std::int32_t>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0});
  const auto pixels = data::elements<std::uint8_t>(sets.train.x);
  CHECK(std::vector(pixels.begin() + 4 * 3072, pixels.begin() + 4 * 3072 + 4) ==
        std::vector<std::uint8_t>{3, 20, 30, 0});

  const TemporaryFolder hundred;
  hundred.write("train.bin", record("\x13\x63", 1, 2, 3));
  hundred.write("test.bin", record(std::string("\x13\0", 2), 1, 2, 3));
  const data::Cifar fine = data::load_cifar100(hundred.path());
  CHECK(fine.train.classes == 100);
  CHECK(data::elements<std::int32_t>(fine.train.y)[0] == 99);
}

TEST_CASE("T86: CIFAR files that do not fit the form are refused") {
  const std::string good = record("\x01", 1, 2, 3);
  const auto says = [](const std::string& name, const std::string& bytes) {
    const TemporaryFolder folder;
    write_cifar10(folder);
    folder.write(name, bytes);
    const std::string text = tests::error_text<DataError>([&] { data::load_cifar10(folder.path()); });
    const std::string start = "[cifar] " + folder.path().string() + "/" + name;
    CHECK(tests::contains(text, start));
    return text.substr(start.size());
  };
  CHECK(says("data_batch_1.bin", good + "x") ==
        " has 3074 bytes; expected records of 3073 as CIFAR-10 has, at least one; this is CIFAR-100's form");
  CHECK(says("data_batch_2.bin", good.substr(1)) ==
        " has 3072 bytes; expected records of 3073 as CIFAR-10 has, at least one");
  CHECK(says("data_batch_3.bin", "") == " has 0 bytes; expected records of 3073 as CIFAR-10 has, at least one");
  CHECK(says("test_batch.bin", good + record("\xFF", 1, 2, 3)) == ", byte 3073: label 255; expected 0 to 9");
  CHECK(says("data_batch_5.bin", record("\x0A", 1, 2, 3)) == ", byte 0: label 10; expected 0 to 9");
  const TemporaryFolder folder;
  write_cifar10(folder);
  folder.write("data_batch_4.bin", tests::file_text(folder.path() / "data_batch_2.bin"));
  tests::expect_error<DataError>([&] { data::load_cifar10(folder.path()); }, "data_batch_2.bin and ",
                                 "data_batch_4.bin have the same contents; give each batch once");
  std::filesystem::remove(folder.path() / "data_batch_4.bin");
  tests::expect_error<DataError>([&] { data::load_cifar10(folder.path()); },
                                 "data_batch_4.bin: no such file; check the path");
  const TemporaryFolder hundred;
  hundred.write("train.bin", record("\x13\x64", 1, 2, 3));
  tests::expect_error<DataError>([&] { data::load_cifar100(hundred.path()); }, "byte 1: label 100; expected 0 to 99");
}

TEST_CASE("a record beyond 4 GiB is found where it stands") {
  // Holes on disk; the first label that is wrong stops the reader before it takes memory for anything but the table.
  const TemporaryFolder folder;
  write_cifar10(folder);
  const auto path = folder.write("data_batch_1.bin", "");
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 32) + 1);
  tests::expect_error<DataError>([&] { data::load_cifar10(folder.path()); }, "has 4294967297 bytes; expected records");
}
