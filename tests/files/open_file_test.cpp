// What is no regular file is neither read nor written nor replaced, and nobody waits for it; a replacement is whole or not
// there at all.
#include "engine/files/open_file.h"

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/files/folder_entries.h"
#include "tests/support/expect_error.h"
#include "tests/support/foreign_entries.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using files::FileError;

/// What code does with a path.
struct Use {
  const char* name;
  std::function<void(const fs::path&)> of;
};

const std::vector<Use>& uses() {
  static const std::vector<Use> all = {
      {"reading", [](const fs::path& path) { static_cast<void>(files::read_text(path)); }},
      {"making", [](const fs::path& path) { static_cast<void>(files::create_file(path)); }},
      {"appending", [](const fs::path& path) { static_cast<void>(files::open_or_create(path, O_WRONLY | O_APPEND)); }},
      {"locking", [](const fs::path& path) { static_cast<void>(files::open_or_create(path, O_RDWR)); }},
      {"replacing", [](const fs::path& path) { files::replace_text(path, "new"); }},
  };
  return all;
}

}  // namespace

TEST_CASE("a link, a FIFO, a device and a socket are refused by name, at once, and stay as they are") {
  for (const ForeignKind& kind : foreign_kinds()) {
    for (const Use& use : uses()) {
      CAPTURE(kind.name);
      CAPTURE(use.name);
      const TemporaryFolder folder, elsewhere;
      const fs::path path = folder.path() / "file";
      if (!kind.make(path, elsewhere.write("target", "of another"))) continue;  // of devices only root makes one
      const int code = forked([&] {
        try {
          use.of(path);
        } catch (const FileError& error) {
          const std::string text = error.what();
          return contains(text, path.string()) && contains(text, std::string("it is ") + kind.name) &&
                         error.error() == 0
                     ? 0
                     : 2;
        }
        return 1;
      });
      CHECK(code == 0);
      CHECK(files::foreign_kind(path) == kind.name);
      CHECK(file_text(elsewhere.path() / "target") == "of another");
      CHECK(files::names_in(folder.path()).size() == 1);
    }
  }
}

TEST_CASE("a link to nothing makes nothing") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "target", link = folder.path() / "link";
  fs::create_symlink(target, link);
  for (const Use& use : uses()) {
    CAPTURE(use.name);
    expect_error<FileError>([&] { use.of(link); }, "it is a symbolic link, no regular file");
    CHECK_FALSE(fs::exists(target));
  }
}

TEST_CASE("a link that the user has named is read through, and what it leads to is a regular file") {
  const TemporaryFolder folder;
  const fs::path target = folder.write("target", "text"), link = folder.path() / "link";
  fs::create_symlink(target, link);
  CHECK(files::read_text(link, files::Links::followed) == "text");
  const fs::path fifo = folder.path() / "fifo", to_fifo = folder.path() / "to_fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  fs::create_symlink(fifo, to_fifo);
  CHECK(forked([&] {
          expect_error<FileError>([&] { files::read_text(to_fifo, files::Links::followed); }, "it is a FIFO");
          return 0;
        }) == 0);
  expect_error<FileError>([&] { files::read_text(folder.path()); }, "it is a folder, no regular file");
  expect_error<FileError>([&] { files::read_text(folder.path() / "none"); }, "No such file or directory");
}

TEST_CASE("the first foreign entry of a folder and the folders in it") {
  const TemporaryFolder folder, elsewhere;
  CHECK_FALSE(files::foreign_entry(folder.path()).has_value());
  fs::create_directories(folder.path() / "a" / "b");
  folder.write("a/b/file", "text");
  CHECK_FALSE(files::foreign_entry(folder.path()).has_value());
  fs::create_symlink(elsewhere.path(), folder.path() / "a" / "b" / "link");
  const auto found = files::foreign_entry(folder.path());
  REQUIRE(found.has_value());
  CHECK(found->first == folder.path() / "a" / "b" / "link");
  CHECK(found->second == "a symbolic link");
}

TEST_CASE("a replacement takes the file's place when it is committed, with who may read it, and leaves nothing else") {
  const TemporaryFolder folder;
  const fs::path path = folder.write("file", "old");
  fs::permissions(path, fs::perms(0600));
  {
    files::Replacement never(path);
    never.write(std::as_bytes(std::span("half", 4)));
  }
  CHECK(file_text(path) == "old");
  CHECK(files::names_in(folder.path()).size() == 1);
  folder.write(".file.abc123", "what a killed process has left");
  folder.write(".file.abc", "no hidden name of it");
  files::replace_text(path, "new");
  CHECK(file_text(path) == "new");
  CHECK(fs::status(path).permissions() == fs::perms(0600));
  CHECK(files::names_in(folder.path()).size() == 2);
  files::replace_text(folder.path() / "another", "text");
  CHECK(file_text(folder.path() / "another") == "text");
  expect_error<FileError>([&] { files::replace_text(folder.path(), "x"); }, "Is a directory");
  expect_error<FileError>([&] { files::replace_text(path / "below", "x"); }, "Not a directory");
}

TEST_CASE("a link that comes while a file is replaced is not replaced either") {
  const TemporaryFolder folder, elsewhere;
  const fs::path path = folder.path() / "file";
  files::Replacement replacement(path);
  replacement.write(std::as_bytes(std::span("new", 3)));
  fs::create_symlink(elsewhere.write("target", "old"), path);
  expect_error<FileError>([&] { replacement.commit(); }, "it is a symbolic link");
  CHECK(file_text(elsewhere.path() / "target") == "old");
}

TEST_CASE("names that nobody can tell before are new each time and read by this user only") {
  const TemporaryFolder folder;
  const auto [one, first] = files::create_unforeseen(folder.path(), "record-", ".txt");
  const auto [two, second] = files::create_unforeseen(folder.path(), "record-", ".txt");
  CHECK(first != second);
  CHECK(first.filename().string().starts_with("record-"));
  CHECK(first.extension() == ".txt");
  CHECK(fs::status(first).permissions() == fs::perms(0600));
}

}  // namespace lockstep::tests
