// Data folders that come from elsewhere: links, FIFOs, devices and sockets in them are named and not read.
#include "tests/support/foreign_entries.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/class_folders.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("a data set's folder has files and folders of its own only") {
  for (const ForeignKind& kind : foreign_kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder, elsewhere;
    const fs::path target = elsewhere.write("target", "of another");
    fs::create_directories(folder.path() / "classes" / "cat");
    const fs::path in_class = folder.path() / "classes" / "cat" / "1.png";
    const fs::path idx = folder.path() / "train-images-idx3-ubyte";
    if (!kind.make(in_class, target) || !kind.make(idx, target)) continue;
    CHECK(refused_by_name<DataError>(in_class, kind.name, [&] {
            static_cast<void>(data::labelled_files(folder.path() / "classes", "test", {".png"}, "images"));
          }) == 0);
    CHECK(refused_by_name<DataError>(idx, kind.name,
                                     [&] { static_cast<void>(data::load_fashion_mnist(folder.path())); }) == 0);
    if (std::string(kind.name) == "a symbolic link") continue;  // a path that the user has written may be one
    CHECK(refused_by_name<DataError>(idx, "is no regular file", [&] { static_cast<void>(data::read_idx(idx)); }) == 0);
    CHECK(refused_by_name<DataError>(idx, "is no regular file", [&] { static_cast<void>(data::read_csv(idx)); }) == 0);
  }
}

TEST_CASE("tokens are written through no link and onto no device") {
  for (const ForeignKind& kind : foreign_kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder, elsewhere;
    const fs::path target = elsewhere.write("target", "of another"), path = folder.path() / "tokens.bin";
    if (!kind.make(path, target)) continue;
    const std::int32_t tokens[] = {1, 2, 3};
    CHECK(refused_by_name<DataError>(path, kind.name, [&] { data::write_tokens(path, tokens, DType::uint16); }) == 0);
    CHECK(file_text(target) == "of another");
  }
}

}  // namespace lockstep::tests
