// Runs whose folders come from elsewhere: what in them is a link, a FIFO, a device or a socket is named, nothing behind it
// is read or changed, and no command waits for it.
#include "tests/support/foreign_entries.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cli/program.h"
#include "tests/support/expect_error.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

const std::string small_run =
    "train --data synthetic --set data.rows=128 --set data.test_rows=32 --model mlp --batch 32 --log-every 1 "
    "--checkpoint-every 2 --trace-bits --run ";

bool says(const std::vector<std::string>& lines, const std::string& path, const std::string& kind) {
  for (const std::string& line : lines) {
    if (contains(line, path) && contains(line, kind)) return true;
  }
  return false;
}

/// A run that is done, made once; a copy of it in a folder.
fs::path copied_run(const TemporaryFolder& folder) {
  static const TemporaryFolder made;
  if (!fs::exists(made.path() / "run")) {
    REQUIRE(run_in_child(small_run + (made.path() / "run").string() + " --steps 4").code == 0);
  }
  fs::copy(made.path() / "run", folder.path() / "run", fs::copy_options::recursive);
  return folder.path() / "run";
}

std::string gone_on_with(const fs::path& run) {
  return "train --config " + (run / "config.toml").string() + " --resume --steps 6 --run " + run.string();
}

}  // namespace

TEST_CASE("a resume writes through no link that a run's folder has, and says which one it is") {
  for (const char* name :
       {"writer.lock", ".config.toml.anew", ".manifest.json.anew", ".metrics.csv.anew", ".metrics.csv.abc123",
        "report.html", "curves.svg", "bits.csv", "metrics.csv", "speed.csv", "result.json", "manifest.json",
        "accepted_changes.json", "checkpoints/writer.lock", "checkpoints/step-9", "checkpoints", "events"}) {
    CAPTURE(name);
    const TemporaryFolder folder, elsewhere;
    const fs::path run = copied_run(folder), path = run / name, target = elsewhere.write("target", "of another");
    fs::copy_file(run / "config.toml", folder.path() / "config.toml");
    fs::remove_all(path);
    fs::create_symlink(target, path);
    Outcome outcome = run_in_child("train --config " + (folder.path() / "config.toml").string() +
                                   " --resume --steps 6 --run " + run.string());
    CHECK(outcome.code > 0);
    CHECK(says(outcome.err, path.string(), "a symbolic link"));
    CHECK(file_text(target) == "of another");
    fs::remove(target);  // of which nothing is made either
    outcome = run_in_child("train --config " + (folder.path() / "config.toml").string() + " --resume --steps 6 --run " +
                           run.string());
    CHECK(outcome.code > 0);
    CHECK_FALSE(fs::exists(target));
  }
}

TEST_CASE("no command waits for a FIFO or opens a device in a run's folder") {
  for (const ForeignKind& kind : foreign_kinds()) {
    for (const char* name : {"manifest.json", "metrics.csv", "config.toml", "checkpoints/step-4/arrays.safetensors"}) {
      CAPTURE(kind.name);
      CAPTURE(name);
      const TemporaryFolder folder, other, elsewhere;
      const fs::path run = copied_run(folder), well = copied_run(other), path = run / name;
      fs::rename(path, elsewhere.path() / "target");
      if (!kind.make(path, elsewhere.path() / "target")) continue;
      for (const std::string& command : {"report " + run.string(), "compare " + run.string() + " " + well.string(),
                                         "compare " + well.string() + " " + run.string(), "eval " + run.string(),
                                         "predict " + run.string(), "verify " + run.string()}) {
        CAPTURE(command);
        const Outcome outcome = run_in_child(command);
        CHECK(outcome.code > 0);
        CHECK(says(outcome.err, path.string(), kind.name));
      }
      if (std::string(name) == "config.toml") continue;  // the resume reads it as a path of the user's
      const Outcome outcome = run_in_child(gone_on_with(run));
      CHECK(outcome.code > 0);
      CHECK(says(outcome.err, path.string(), kind.name));
    }
  }
}

TEST_CASE("reports and predictions are written onto regular files only") {
  const TemporaryFolder folder, elsewhere;
  const fs::path run = copied_run(folder), target = elsewhere.write("target", "of another");
  for (const ForeignKind& kind : foreign_kinds()) {
    CAPTURE(kind.name);
    const fs::path out = elsewhere.path() / "out";
    fs::remove(out);
    if (!kind.make(out, target)) continue;
    for (const std::string& command : {"report " + run.string(), "predict " + run.string()}) {
      const Outcome outcome = run_in_child(command + " --out " + out.string());
      CHECK(outcome.code > 0);
      CHECK(says(outcome.err, out.string(), kind.name));
    }
    CHECK(file_text(target) == "of another");
  }
}

TEST_CASE("escape sequences of a run's files do not reach the terminal") {
  const TemporaryFolder folder, other;
  const fs::path run = copied_run(folder), well = copied_run(other);
  const std::string hostile = "\\u001b]0;owned\\u0007\\u009b31m\\r\\u007f";
  std::string manifest = file_text(run / "manifest.json");
  manifest.replace(manifest.find('{'), 1, "{\n  \"a" + hostile + "\": \"b" + hostile + "\",");
  std::ofstream(run / "manifest.json") << manifest;
  std::ofstream(run / "accepted_changes.json")
      << "[{\"step\": 2, \"entry\": \"" << hostile << "\", \"was\": \"" << hostile << "\", \"now\": \"x\"}]";
  std::ofstream(run / "result.json") << "{\"fingerprint\": \"" << hostile << "\", \"steps\": 4}";
  const std::string comparison = "compare " + run.string() + " " + well.string();
  CHECK(says(run_in_child(comparison).out, "manifest: a\\x1b]0;owned\\x07\\x9b31m\\x0d\\x7f", "b\\x1b]0;owned"));
  std::string metrics = file_text(run / "metrics.csv");
  metrics.replace(metrics.rfind(',') + 1, 1, "\x1b[2J");
  std::ofstream(run / "metrics.csv") << metrics;
  CHECK(says(run_in_child(comparison).err, "metrics.csv", "'\\x1b[2J' as step"));
  const auto has_controls = [](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      for (const char c : line) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
      }
      if (contains(line, "\xc2\x9b")) return true;
    }
    return false;
  };
  for (const std::string& command :
       {comparison, "report " + run.string(), "verify " + run.string(), "eval " + run.string(), gone_on_with(run)}) {
    CAPTURE(command);
    const Outcome outcome = run_in_child(command);
    CHECK_FALSE(has_controls(outcome.out));
    CHECK_FALSE(has_controls(outcome.err));
  }
}

}  // namespace lockstep::tests
