#include <string>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "tests/bad_inputs/rows.h"

namespace lockstep::tests {
namespace {

std::string record(const std::string& labels) { return labels + std::string(3072, 'x'); }

void write_good(const TemporaryFolder& folder) {
  for (char i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin", record(std::string(1, i)) + record("\1"));
  }
  folder.write("test_batch.bin", record("\x09"));
}

void cifar_row(int number, const std::string& name, const std::string& bytes) {
  const TemporaryFolder folder;
  write_good(folder);
  folder.write(name, bytes);
  refused<DataError>(number, [&] { data::load_cifar10(folder.path()); });
}

}  // namespace

TEST_CASE("bad inputs 22 to 28: CIFAR's binary files") {
  cifar_row(22, "data_batch_1.bin", record("\1").substr(1));
  cifar_row(22, "data_batch_1.bin", record("\1") + "x" + record("\2") + "y");
  cifar_row(23, "data_batch_2.bin", record("\1\1"));
  cifar_row(24, "test_batch.bin", record("\1") + record("\xFF"));
  cifar_row(24, "data_batch_5.bin", record("\x0A"));
  cifar_row(27, "data_batch_3.bin", "");
  const TemporaryFolder folder;
  write_good(folder);
  std::filesystem::remove(folder.path() / "data_batch_4.bin");
  refused<DataError>(25, [&] { data::load_cifar10(folder.path()); });
  folder.write("data_batch_4.bin", file_text(folder.path() / "data_batch_2.bin"));
  refused<DataError>(26, [&] { data::load_cifar10(folder.path()); });
  // Holes on disk: a length of more than 32 bits, by one byte no multiple of a record, and a record behind 4 GiB.
  const auto large = folder.write("data_batch_4.bin", "");
  std::filesystem::resize_file(large, (std::uintmax_t{1} << 32) + 1);
  refused<DataError>(28, [&] { data::load_cifar10(folder.path()); });
}

}  // namespace lockstep::tests
