#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/ops.h>

#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"

// Files that Python's safetensors has written, and that it reads.

namespace lockstep::tests {
namespace {

/// What safetensors_again.py writes, to the bit.
std::map<std::string, Array> written_by_python() {
  return {{"weight", array(std::vector<float>{1, -2, 3.5F, 0, -0.0F, 1e-40F}, {2, 3})},
          {"narrow", convert(array({1.0F, -3.0F, std::numeric_limits<float>::infinity()}), bfloat16)},
          {"count", array(std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), (1LL << 53) + 1}, {2})},
          {"scalar", array(0.25F)},
          {"empty", zeros({0, 3})}};
}

void check_found(const std::map<std::string, Array>& found) {
  const std::map<std::string, Array> expected = written_by_python();
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, values] : expected) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name).type() == values.type());
    CHECK(found.at(name).to_bytes() == values.to_bytes());
  }
}

}  // namespace

TEST_CASE("T84: tensors of three dtypes, a scalar and an empty one come from Python and go back") {
  const std::filesystem::path folder = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "checkpoint";
  check_found(checkpoint::load_safetensors(folder / "samples" / "python.safetensors"));
  const TemporaryFolder own;
  Named<Array> tensors;
  for (const auto& [name, values] : written_by_python()) tensors.emplace(name, values);
  checkpoint::save_safetensors(own.path() / "here", tensors);
  check_found(checkpoint::load_safetensors(own.path() / "here"));
  if (output_of("python3 -c 'import ml_dtypes, safetensors.numpy; print(\"there\")' 2>&1") != "there\n") {
    MESSAGE("no safetensors, numpy and ml_dtypes for python3: what was written here was not read there");
    return;
  }
  const std::string output =
      output_of("python3 '" + (folder / "safetensors_again.py").string() + "' '" + (own.path() / "here").string() +
                "' '" + (own.path() / "there").string() + "' 2>&1");
  CAPTURE(output);
  check_found(checkpoint::load_safetensors(own.path() / "there"));
}

TEST_CASE("a tensor that no reader would find is refused when it is written") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& name, const Array& tensor) {
    const std::string text = error_text<CheckpointError>([&] {
      checkpoint::save_safetensors(folder.path() / "w", Named<Array>::Map{{name, tensor}});
    });
    CHECK(std::filesystem::is_empty(folder.path()));
    return text;
  };
  CHECK(contains(refusal("__metadata__", zeros({2})), "[save] a tensor is called '__metadata__', which readers"));
  CHECK(contains(refusal("", zeros({2})), "[save] a tensor is called '', which readers"));
  CHECK(contains(refusal(std::string("a\0b", 3), zeros({2})), "holds NUL"));
  CHECK(contains(refusal("a\xFF", zeros({2})), "no UTF-8 text"));
  CHECK(contains(refusal("x", zeros({0, 1LL << 49})), "[save] 'x' is f32[0,562949953421312], which has no elements"));
}

}  // namespace lockstep::tests
