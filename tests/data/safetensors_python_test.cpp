#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <lockstep/checkpoint.h>
#include <lockstep/ops.h>

#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;

namespace {

struct Spoken {
  int code = -1;
  std::string text;
};

Spoken spoken_by(const std::string& command) {
  FILE* pipe = popen((command + " </dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Spoken spoken;
  char block[4096];
  for (std::size_t n = 0; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) spoken.text.append(block, n);
  const int status = pclose(pipe);
  spoken.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return spoken;
}

}  // namespace

TEST_CASE("Python's safetensors reads what is written here, and what it writes is read here") {
  const tests::TemporaryFolder folder;
  const Named<Array> tensors = {{"bf16", array({1.5F, -2.0F, 3.140625F}).astype(bfloat16)},
                                {"bf16_none", zeros({0, 4}, bfloat16)},
                                {"empty", zeros({2, 0, 3})},
                                {"f16", array({0.25F}).astype(float16)},
                                {"f32", array({{1.0F, -0.0F}, {3.0F, 1e-40F}})},
                                {"f64", array(1.0 / 3)},
                                {"i64", array(std::vector<std::int64_t>{-1, 1LL << 40})},
                                {"scalar", array(2.0F)},
                                {"truth", array(std::vector<bool>{true, false})},
                                {"u8", array(std::vector<std::uint8_t>{0, 255})}};
  const auto ours = folder.path() / "ours.safetensors", theirs = folder.path() / "theirs.safetensors";
  checkpoint::save_safetensors(ours, tensors);
  const Spoken python =
      spoken_by("python3 " LOCKSTEP_TESTS_DIR "/data/safetensors_python.py " LOCKSTEP_DEPS_DIR "/safetensors " +
                ours.string() + " " + theirs.string());
  if (python.code == 77 || python.code == 127) {
    return tests::skip("there is no python3 with safetensors, and no way to PyPI");
  }
  REQUIRE(python.code == 0);
  CHECK(python.text ==
        "bf16 BF16 [3] c03f00c04940\n"
        "bf16_none BF16 [0,4] \n"
        "empty F32 [2,0,3] \n"
        "f16 F16 [1] 0034\n"
        "f32 F32 [2,2] 0000803f0000008000004040c2160100\n"
        "f64 F64 [] 555555555555d53f\n"
        "i64 I64 [2] ffffffffffffffff0000000000010000\n"
        "scalar F32 [] 00000040\n"
        "truth BOOL [2] 0100\n"
        "u8 U8 [2] 00ff\n");
  const auto back = checkpoint::load_safetensors(theirs);
  REQUIRE(back.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    CHECK(back.at(name).type() == tensor.type());
    CHECK(back.at(name).to_bytes() == tensor.to_bytes());
  }
}
