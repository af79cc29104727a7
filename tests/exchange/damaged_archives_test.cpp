#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "engine/data/files/zip_archive.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/drawn_cases.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// Of a whole archive each byte is changed and each end cut off: that is refused by an error that names the file, and
// the entry where it is one's, or what is read is what was written. Which bytes say nothing is stated.
namespace lockstep::tests {
namespace {

/// All that a reader finds in the file of that path.
using Read = std::function<std::string(const std::filesystem::path&)>;

std::string text_of(const std::map<std::string, Array>& arrays) {
  std::string text;
  for (const auto& [name, value] : arrays) {
    const std::vector<std::byte> bytes = value.to_bytes();
    text += name + " " + to_string(value.type()) + " ";
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return text;
}

std::string text_of(const exchange::ExportedFunction& function) {
  std::string text = function.written_by() + function.program().to_string();
  std::map<std::string, Array> constants;
  for (const Array& constant : function.constants()) constants.emplace(std::to_string(constants.size()), constant);
  for (const Tree& argument : function.argument_structures()) text += to_string(argument);
  return text + to_string(function.result_structure()) + text_of(constants);
}

std::uint64_t number(const std::string& bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

/// Where the parts of an archive lie, by the rules of the format.
struct Places {
  std::set<std::size_t> saying_nothing;        ///< These alone may be changed.
  std::map<std::size_t, std::string> entries;  ///< Of each byte of an entry's own: its name.
};

/// `is_read`: whether anything depends on that entry.
Places places_of(const std::string& bytes, const std::function<bool(const std::string&)>& is_read) {
  Places places;
  const auto silent = [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) places.saying_nothing.insert(at);
  };
  const std::size_t end = bytes.rfind("PK\x05\x06");
  std::size_t central = number(bytes, end + 16, 4);
  const std::size_t directory = central;
  if (end >= 76 && bytes.compare(end - 20, 4, "PK\x06\x07") == 0) {
    silent(end - 72, end - 44);  // the long end record's own size, versions, numbers of parts
    silent(end - 20, end - 12);  // its locator, without which the short record says the same
    silent(end - 4, end);
    silent(end + 12, end + 20);  // what the long one says instead
  }
  std::set<std::size_t> said;
  for (std::uint64_t i = number(bytes, end + 10, 2); i > 0; --i) {
    const std::size_t name = number(bytes, central + 28, 2), local = number(bytes, central + 42, 4);
    const std::size_t data = local + 30 + name + number(bytes, local + 28, 2), size = number(bytes, central + 20, 4);
    const std::string entry = bytes.substr(central + 46, name);
    silent(central + 4, central + 10);   // versions, flags but for that of a password
    silent(central + 12, central + 16);  // time and day
    silent(central + 34, central + 42);  // number of the part, attributes
    // Behind this entry's elements: sizes that the directory says, too.
    for (std::size_t at = local; at < local + 4; ++at) said.insert(at);
    for (std::size_t at = local + 26; at < local + 30 + name; ++at) said.insert(at);
    for (std::size_t at = data; at < data + size && is_read(entry); ++at) {
      said.insert(at);
      places.entries[at] = entry;
    }
    // Of the last byte of what is deflated some bits may be none of the last symbol's.
    if (number(bytes, central + 10, 2) == 8) silent(data + size - 1, data + size);
    if (!is_read(entry)) {
      silent(central + 10, central + 12);
      silent(central + 16, central + 28);
      silent(central + 42, central + 46);
    }
    if (!is_read(entry) || size == 0) silent(local + 28, local + 30);
    central += 46 + name + number(bytes, central + 30, 2) + number(bytes, central + 32, 2);
  }
  for (std::size_t at = 0; at < directory; ++at) {
    if (!said.contains(at)) silent(at, at + 1);
  }
  return places;
}

/// The values that a byte takes: each one, or one bit changed.
enum class Values : std::uint8_t { all, bits };

void sweep(
    const std::string& good, const Read& read, Values values = Values::all,
    const std::function<bool(const std::string&)>& is_read = [](const std::string&) { return true; }) {
  const std::string expected = read(file_in_memory(good));
  const Places places = places_of(good, is_read);
  const auto check = [&](const std::string& bytes, std::size_t at) {
    const std::string file = file_in_memory(bytes);
    std::string found;
    try {
      found = read(file);
    } catch (const Error& error) {
      if (!contains(error.what(), file)) FAIL("byte " << at << ": " << error.what());
      const auto entry = places.entries.find(at);
      if (entry != places.entries.end() && bytes.size() == good.size() && !contains(error.what(), entry->second)) {
        FAIL("byte " << at << " of " << entry->second << ": " << error.what());
      }
      return;
    }
    if (found != expected || bytes.size() != good.size()) FAIL("byte " << at << ": another value is read");
    if (!places.saying_nothing.contains(at)) FAIL("byte " << at << " of " << good.size() << " may not say nothing");
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    for (int change = 1; change < 256; values == Values::all ? change += 1 : change *= 2) {
      bad[at] = static_cast<char>(good[at] ^ change);
      check(bad, at);
    }
    check(good.substr(0, at), at);
  }
}

const std::filesystem::path tests_folder = LOCKSTEP_TESTS_DIR;

std::string read_npz(const std::filesystem::path& file) { return text_of(exchange::load_npz(file)); }
std::string read_torch(const std::filesystem::path& file) { return text_of(exchange::load_torch(file)); }

}  // namespace

TEST_CASE("every changed byte and every truncation of an .npz file is refused, or says nothing" * drawn_suite) {
  const TemporaryFolder folder;
  exchange::save_npz(folder.path() / "w.npz", {{"w", array({1.0F, 2.0F})}, {"step", array(std::int64_t{3})}});
  sweep(file_text(folder.path() / "w.npz"), read_npz);
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    sweep(file_text(tests_folder / "data" / "samples" / name), read_npz, tries_all() ? Values::all : Values::bits);
  }
}

TEST_CASE("every changed byte and every truncation of an exported function is refused, or says nothing") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "f.function";
  exchange::export_function(
      file, [w = array({1.0F, 2.0F})](const Array& x) { return x * w; }, array({0.0F, 1.0F}));
  sweep(
      file_text(file), [](const auto& path) { return text_of(exchange::load_function(path)); }, Values::bits);
}

TEST_CASE("every changed byte and every truncation of a PyTorch file is refused, or says nothing") {
  // Beside tensors there are entries that no reader needs: the version, and in what torch.save writes some more.
  const auto is_read = [](const std::string& entry) {
    return entry.ends_with("/data.pkl") || entry.ends_with("/byteorder") || contains(entry, "/data/");
  };
  const TemporaryFolder folder;
  exchange::save_torch(folder.path() / "w.pt", {{"w", array({1.0F, 2.0F})}, {"step", array(std::int64_t{3})}});
  sweep(file_text(folder.path() / "w.pt"), read_torch, Values::bits, is_read);
  sweep(file_text(tests_folder / "golden" / "exchange" / "tensors.pt"), read_torch, Values::bits, is_read);
}

}  // namespace lockstep::tests
