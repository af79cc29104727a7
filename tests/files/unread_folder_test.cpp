// Folders and files that are there and cannot be read: never taken for empty ones, or for none.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <lockstep/error.h>

#include "engine/files/folder_entries.h"
#include "engine/files/json_reader.h"
#include "engine/files/open_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

/// 0 where `work` throws an E with that text while no more files can be opened.
template <class E, class Work>
int without_descriptors(const std::string& text, const Work& work) {
  return forked([&] {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 3;
    try {
      work();
    } catch (const E& error) {
      return contains(error.what(), text) ? 0 : 2;
    }
    return 1;
  });
}

}  // namespace

TEST_CASE("a folder or a file that cannot be read is an error, and one that is not there is none") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("a.json", "{}"), nothing = folder.path() / "b.json";
  CHECK(files::names_in(folder.path()).size() == 1);
  CHECK(files::names_in(nothing).empty());
  CHECK(files::names_in(file).empty());
  CHECK(json::parse_file(file).has_value());
  CHECK_FALSE(json::parse_file(nothing).has_value());
  CHECK_FALSE(json::parse_file(file / "c").has_value());
  const std::string why = "Too many open files";
  CHECK(without_descriptors<files::FileError>(folder.path().string() + " cannot be looked through: " + why,
                                              [&] { files::names_in(folder.path()); }) == 0);
  CHECK(without_descriptors<files::FileError>(folder.path().string() + " cannot be looked through: " + why,
                                              [&] { files::foreign_entry(folder.path()); }) == 0);
  CHECK(without_descriptors<DataError>("a.json cannot be opened: " + why, [&] { json::parse_file(file); }) == 0);
}

TEST_CASE("a file that has a second name is read, and not opened to be written") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("file", "text"), other = folder.path() / "other";
  std::filesystem::create_hard_link(file, other);
  CHECK(files::read_text(other) == "text");
  CHECK_THROWS_WITH_AS(
      files::open_or_create(other, O_WRONLY),
      doctest::Contains("other cannot be opened: it has 2 names (hard links), of which each would change"),
      files::FileError);
  files::replace_text(other, "another");  // it gets a file of its own
  CHECK(files::read_text(file) == "text");
  CHECK(files::read_text(other) == "another");
}

}  // namespace lockstep::tests
