#include <cstdint>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "tests/bad_inputs/rows.h"
#include "tests/support/file_bytes.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

std::string gzip(const std::string& plain) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "packed").string();
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, plain.data(), static_cast<unsigned>(plain.size()));
  gzclose(file);
  return file_text(path);
}

void idx_row(int number, const std::string& bytes) {
  refused_file<DataError>(number, bytes, [](const auto& path) { data::read_idx(path); });
}

/// A folder of Fashion-MNIST's four files, each of two rows.
void write_sets(const TemporaryFolder& folder, const std::string& images, const std::string& labels) {
  for (const std::string split : {"train", "t10k"}) {
    folder.write(split + "-images-idx3-ubyte", images);
    folder.write(split + "-labels-idx1-ubyte", labels);
  }
}

void set_row(int number, const std::string& images, const std::string& labels) {
  const TemporaryFolder folder;
  write_sets(folder, images, labels);
  refused<DataError>(number, [&] { data::load_fashion_mnist(folder.path()); });
}

const std::string six = "abcdef";
const std::string two_images = idx(8, {2, 28, 28}, std::string(std::size_t{2} * 28 * 28, 'x'));

}  // namespace

TEST_CASE("bad inputs 1 to 14 and 18: IDX files") {
  idx_row(1, "");
  for (const std::size_t size : {1, 2, 3}) {
    idx_row(2, idx(8, {6}, six).substr(0, size));
  }
  idx_row(3, "\x01" + idx(8, {6}, six).substr(1));
  idx_row(3, std::string("\0\1", 2) + idx(8, {6}, six).substr(2));
  idx_row(4, idx(7, {6}, six));
  idx_row(4, idx(0x0A, {6}, six));
  idx_row(4, idx('\xFF', {6}, six));
  idx_row(5, idx(8, {}, ""));
  idx_row(6, std::string("\0\0\x08\xFF", 4) + std::string(1020, '\1'));
  idx_row(6, idx(8, std::vector<std::uint32_t>(13, 1), "x"));
  idx_row(7, idx(8, {6, 2}, "").substr(0, 9));
  idx_row(7, idx(8, {6, 2}, "").substr(0, 4));
  idx_row(8, idx(8, {0x02000000}, "ab"));
  idx_row(8, std::string("\x08\0\0\1", 4) + big_endian(2) + "ab");
  idx_row(9, idx(8, {0}, ""));
  idx_row(9, idx(8, {3, 0}, ""));
  idx_row(10, idx(8, {0xFFFFFFFF}, six));
  idx_row(11, idx(8, {0x10000, 0x10000}, six));
  idx_row(12, idx(8, std::vector<std::uint32_t>(8, 0xFFFFFFFF), six));
  idx_row(12, idx(0x0E, std::vector<std::uint32_t>(4, 0x8000), six));
  idx_row(13, idx(8, {8}, six + "g"));
  idx_row(13, idx(0x0C, {2}, six + "g"));
  idx_row(14, idx(8, {5}, six));
  idx_row(14, gzip(idx(8, {5}, six)));
  const std::string packed = gzip(idx(8, {6}, six));
  row(18, [&] {
    const TemporaryFolder folder;
    CHECK(data::read_idx(folder.write("packed", packed)).bytes.size() == 6);
  });
  idx_row(18, packed.substr(0, 20));
  idx_row(18, "\x1f");
  idx_row(18, gzip(idx(8, {7}, six)));
  idx_row(18, gzip(packed));
}

TEST_CASE("bad inputs 143: gzip without its trailer, or a part of it") {
  const std::string packed = gzip(idx(8, {6}, six));
  std::string large(3 << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 7);
  const std::string packed_large = gzip(idx(8, {3 << 20}, large));
  for (const std::size_t missing : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    idx_row(143, packed.substr(0, packed.size() - missing));
    idx_row(143, packed_large.substr(0, packed_large.size() - missing));
  }
  std::string wrong = packed;
  wrong[wrong.size() - 1] ^= 1;
  idx_row(143, wrong);
  wrong = packed;
  wrong[wrong.size() - 5] ^= 1;
  idx_row(143, wrong);
}

TEST_CASE("bad inputs 15 to 17: images and labels") {
  set_row(15, two_images, idx(8, {1}, "\1"));
  set_row(15, two_images, idx(8, {3}, "\1\1\1"));
  set_row(16, idx(8, {2}, "\1\1"), idx(8, {2}, "\1\1"));
  set_row(16, two_images, two_images);
  set_row(17, two_images, idx(8, {2}, "\x09\x0A"));
  set_row(17, two_images, idx(8, {2}, "\xFF\x01"));
}

TEST_CASE("bad inputs 19 to 21: paths that are no such file") {
  const TemporaryFolder folder;
  const auto idx_path_row = [](int number, const std::filesystem::path& path) {
    refused<DataError>(number, [&] { data::read_idx(path); });
  };
  const auto fifo = folder.path() / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::filesystem::path& path : {folder.path(), fifo, std::filesystem::path("/dev/zero")}) {
    idx_path_row(19, path);
  }
  std::filesystem::create_symlink("nowhere", folder.path() / "dangling");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  idx_path_row(20, folder.path() / "absent");
  idx_path_row(20, folder.path() / "dangling");
  idx_path_row(20, folder.path() / "loop");
  idx_path_row(20, folder.path() / std::string(300, 'n'));
  idx_path_row(20, folder.write("file", "") / "below");
  if (geteuid() == 0) {
    skip("root may read anything");
  } else {
    const auto closed = folder.write("closed", idx(8, {6}, six));
    std::filesystem::permissions(closed, std::filesystem::perms::none);
    idx_path_row(20, closed);
  }
  // An IDX file is read, not mapped: one that is cut meanwhile is a short one. Files that stay mapped ask for their length.
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }\n";
  const auto npy = folder.write("x.npy", std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) +
                                             std::string(1, '\0') + header + std::string(12, 'x'));
  const data::SourcePtr rows = data::npy_rows({{"x", npy}});
  std::filesystem::resize_file(npy, 72);
  refused<DataError>(21, [&] { static_cast<void>(rows->row(1, data::RowKey(0, 0, 1))); });
}

}  // namespace lockstep::tests
