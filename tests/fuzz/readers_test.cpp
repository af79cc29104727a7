#include "tests/fuzz/readers.h"

#include <chrono>
#include <filesystem>
#include <span>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "engine/checkpoint/safetensors.h"
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

}  // namespace

TEST_CASE("damaged files of every reader of data") {
  for (const tests::Reader& reader : tests::data_readers()) {
    CAPTURE(reader.name);
    std::uint64_t seed = 0;
    const auto folder = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "fuzz" / "corpus" / reader.name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
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
