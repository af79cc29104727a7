#include "tests/fuzz/readers.h"

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "engine/checkpoint/safetensors.h"
#include "engine/data/files/zip_archive.h"
#include "tests/fuzz/mutations.h"
#include "tests/support/temporary_folder.h"

// Damaged inputs end in a typed error or in a value, never in a crash, a hang or another exception. A failing case names
// its seed.

using namespace lockstep;
using tests::mutated;

namespace {

constexpr std::uint64_t cases = 20000;

/// Runs `read` on damaged copies; whatever is no lockstep::Error escapes and fails the test under its seed.
template <class Read>
void damage(const std::string& good, Read&& read) {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    try {
      read(mutated(good, seed));
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 0);
}

const std::filesystem::path corpus = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "fuzz" / "corpus";

std::vector<tests::Reader> all_readers() {
  std::vector<tests::Reader> readers = tests::data_readers();
  readers.insert(readers.end(), tests::engine_readers().begin(), tests::engine_readers().end());
  return readers;
}

}  // namespace

TEST_CASE("damaged files of every reader") {
  for (const tests::Reader& reader : all_readers()) {
    CAPTURE(reader.name);
    std::uint64_t seed = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus / reader.name)) {
      const std::string good = tests::file_text(entry.path());
      reader.read(good);
      for (std::uint64_t last = seed + cases / 4; seed < last; ++seed) {
        CAPTURE(entry.path().string());
        CAPTURE(seed);
        try {
          reader.read(mutated(good, seed));
        } catch (const Error&) {
        }
      }
    }
    CHECK(seed > 0);
  }
}

TEST_CASE("corpus: what coverage-guided fuzzing found worth keeping ends in a value or a typed error") {
  int inputs = 0;
  for (const tests::Reader& reader : all_readers()) {
    const std::filesystem::path file = corpus / (std::string(reader.name) + ".zip");
    if (!std::filesystem::exists(file)) continue;
    const std::string archive = tests::file_text(file);
    const auto bytes = std::as_bytes(std::span(archive.data(), archive.size()));
    for (const data::ZipEntry& entry : data::zip_entries(bytes, file.string(), "corpus")) {
      const std::vector<std::byte> input = data::unpack(bytes, entry, file.string(), "corpus");
      CAPTURE(file);
      CAPTURE(entry.name);
      ++inputs;
      try {
        reader.read({reinterpret_cast<const char*>(input.data()), input.size()});
      } catch (const Error&) {
      }
    }
  }
  CHECK(inputs > 1000);
}

TEST_CASE("damaged safetensors files") {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})";
  std::string good(8, '\0');
  good[0] = static_cast<char>(header.size());
  good += header + std::string(32, 'd');
  REQUIRE(checkpoint::read_safetensors(std::as_bytes(std::span(good.data(), good.size())), "good").size() == 2);
  damage(good, [](const std::string& bytes) {
    checkpoint::read_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size())), "damaged");
  });
}

TEST_CASE("damaged programs") {
  const auto program = trace_function(
      [](const Array& x, const Array& w) {
        return value_and_grad([](const Array& a, const Array& b) { return sum(tanh(matmul(a, b))); })(x, w);
      },
      zeros({2, 3}), zeros({3, 4}));
  damage(program.to_string(), [](const std::string& text) { parse_function(text); });
}
