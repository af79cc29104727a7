#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <wordexp.h>

#include <lockstep/data.h>
#include <lockstep/random.h>

#include "engine/cli/program.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

struct Outcome {
  int code = -1;
  std::vector<std::string> out;  ///< Lines.
  std::vector<std::string> err;
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline Outcome run_shell(const std::string& command) {
  const TemporaryFolder folder;
  const std::filesystem::path errors = folder.path() / "stderr";
  FILE* pipe = popen((command + " 2>" + errors.string() + " </dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char block[4096];
  for (std::size_t n = 0; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, lines_of(text), lines_of(file_text(errors))};
}

inline Outcome run_program(const std::string& arguments) { return run_shell(LOCKSTEP_PROGRAM " " + arguments); }

/// The same in a child of this process, which has loaded LibTorch already: it takes most of a refusal's time. Words are
/// split as a shell does.
inline Outcome run_in_child(const std::string& arguments) {
  static const Array drawn = random::normal(random::key(0), {2});
  const TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "stdout", errors = folder.path() / "stderr";
  std::fflush(nullptr);
  const int code = forked([&] {
    if (std::freopen("/dev/null", "r", stdin) == nullptr || std::freopen(out.c_str(), "w", stdout) == nullptr ||
        std::freopen(errors.c_str(), "w", stderr) == nullptr) {
      return 255;
    }
    wordexp_t words{};
    if (wordexp(("lockstep " + arguments).c_str(), &words, WRDE_NOCMD | WRDE_UNDEF) != 0) return 255;
    const int ended = cli::run_program(static_cast<int>(words.we_wordc), words.we_wordv);
    std::fflush(nullptr);
    return ended;
  });
  return {code, lines_of(file_text(out)), lines_of(file_text(errors))};
}

inline bool is_installed(const std::string& command) { return run_shell("command -v " + command).code == 0; }

/// The first rows of Fashion-MNIST as four IDX files: 11 batches of 64 to train on, two to validate.
class SmallData {
 public:
  static constexpr std::int64_t train_rows = 704;
  static constexpr std::int64_t test_rows = 128;

  SmallData() {
    cut("train", train_rows);
    cut("t10k", test_rows);
  }
  std::string option() const { return " --data-dir " + folder_.path().string(); }

 private:
  void cut(const std::string& split, std::int64_t rows) const {
    for (const char* part : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
      // Unpacked once for all test cases.
      static std::map<std::string, std::string> files;
      std::string& bytes = files[split + part];
      if (bytes.empty()) bytes = first_rows(split + part, rows);
      folder_.write(split + part, bytes);
    }
  }

  static std::string first_rows(const std::string& name, std::int64_t rows) {
    const data::HostTable all = data::read_idx(std::filesystem::path(LOCKSTEP_FASHION_MNIST_DIR) / (name + ".gz"));
    const Shape shape = all.type.shape.with(0, rows);
    std::string bytes{'\0', '\0', '\x08', static_cast<char>(shape.rank())};
    for (const std::int64_t extent : shape) {
      for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((extent >> shift) & 0xFF);
    }
    return bytes.append(reinterpret_cast<const char*>(all.bytes.data()), static_cast<std::size_t>(shape.size()));
  }

  TemporaryFolder folder_;
};

}  // namespace lockstep::tests
