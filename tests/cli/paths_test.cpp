#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cli/program.h"
#include "tests/support/expect_error.h"

// Paths and other values as they may be given: empty, a file for a folder, a folder for a file, not to be written, with
// "..", and of bytes that are no text.

using namespace lockstep::tests;
namespace fs = std::filesystem;

namespace {

const std::string one_step =
    "train --data synthetic --set data.rows=64 --set data.test_rows=32 --model mlp --batch 32 --steps 1 ";

void must_refuse_paths(const std::string& arguments, const std::vector<std::string>& parts) {
  CAPTURE(arguments);
  const Outcome outcome = run_in_child(arguments);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  REQUIRE(outcome.err.size() == 1);
  CAPTURE(outcome.err[0]);
  CHECK(outcome.err[0].starts_with("lockstep: "));
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(outcome.err[0], part));
  }
}

}  // namespace

TEST_CASE("no option takes an empty text for one that was left out") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const std::string train = one_step + "--resume --run " + run.string();
  for (const char* option : {"--model", "--data", "--data-dir", "--optimizer", "--schedule", "--set", "--dtype",
                             "--precision", "--accept-change", "--seeds", "--profile", "--devices", "--shards",
                             "--log-every", "--checkpoint-every", "--collective-timeout", "--keep-last"}) {
    must_refuse_paths(train + " " + option + " ''", {option});
  }
  for (const char* option : {"--data-dir", "--seeds", "--profile", "--optimizer", "--accept-change", "--set"}) {
    must_refuse_paths(train + " " + option + " ''",
                      {std::string(option) + ": it is an empty text; write a value behind it, or leave it out"});
  }
  must_refuse_paths(one_step + "--run ''", {"--run: it is an empty text"});
  must_refuse_paths(train + " --config ''", {"--config '': it is an empty text; give the path of a TOML file"});
  for (const char* command : {"eval", "predict", "verify", "report"}) {
    must_refuse_paths(std::string(command) + " ''", {"it is an empty text"});
  }
  must_refuse_paths("compare '' ''", {"it is an empty text"});
  must_refuse_paths("predict " + run.string() + " --out ''", {"--out: it is an empty text"});
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("a path that leads to something else says what is there and what to write") {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  folder.write("file", "text");
  const std::string run = here + "/run";
  must_refuse_paths(one_step + "--run " + here + "/file",
                    {"--run " + here + "/file exists already and is a file; name a new"});
  must_refuse_paths(one_step + "--run " + here + "/file/run",
                    {"--run " + here + "/file/run: " + here + "/file is a file, in which no folder can be made"});
  must_refuse_paths(one_step + "--run " + here + "/file/more/run",
                    {here + "/file is a file, in which no folder can be made"});
  must_refuse_paths(one_step + "--run " + here,
                    {"the run folder " + here + " exists already; name a new one, or give --resume"});
  must_refuse_paths(one_step + "--run " + here + "/gone/..//../" + folder.path().filename().string(),
                    {"exists already"});
  must_refuse_paths(one_step + "--resume --run " + here + "/file",
                    {here + "/file holds no checkpoint to resume: it is a file; give the folder that it lies in"});
  must_refuse_paths(one_step + "--resume --run " + here + "/none",
                    {"holds no checkpoint to resume: there is no such folder"});
  must_refuse_paths(one_step + "--run " + run + " --config " + here,
                    {"--config " + here + ": it is no file; give the path of a TOML file"});
  must_refuse_paths(one_step + "--run " + run + " --config " + here + "/none",
                    {"there is no such file; give the path"});
  must_refuse_paths(one_step + "--run " + run + " --profile " + here,
                    {here + " cannot be written: it is a folder; name another file in --profile"});
  must_refuse_paths(one_step + "--run " + run + " --profile " + here + "/none/trace",
                    {"there is no folder " + here + "/none; name another file in --profile"});
  for (const std::string data : {"fashion-mnist", "npz", "cifar10", "cifar100"}) {
    const std::string train = "train --steps 1 --data " + data + " --run " + run + " --data-dir ";
    must_refuse_paths(train + here + "/file",
                      {"--data-dir " + here + "/file: it is a file; give the folder that it lies in"});
    must_refuse_paths(train + here + "/none",
                      {"--data-dir " + here + "/none: there is no such folder; check the path"});
  }
  must_refuse_paths(one_step + "--run " + run + " --data-dir '\xFF\xFE'", {"--data-dir", "no UTF-8 text"});
  CHECK_FALSE(fs::exists(run));
  const Outcome outcome = run_program(one_step + "--run /proc/none");
  CHECK(outcome.code == 1);
  REQUIRE(outcome.err.size() == 1);
  CHECK(contains(outcome.err[0], "the run folder /proc/none cannot be made: "));
  CHECK(contains(outcome.err[0], "name another one in --run"));
}

TEST_CASE("a run may lie anywhere, and what is written of it goes where it can") {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  folder.write("file", "text");
  fs::create_directory(folder.path() / "there");
  for (const std::string& run : {here + "/there/../with space", here + "/deep/er/run", here + "/\xC3\xA4 \xFF"}) {
    CAPTURE(run);
    REQUIRE(run_program(one_step + "--run '" + run + "'").code == 0);
    CHECK(run_program("verify '" + run + "'").code == 0);
    CHECK(run_program("eval '" + run + "'").code == 0);
    CHECK(run_program("report '" + run + "'").code == 0);
    CHECK(run_program("compare '" + run + "' '" + run + "'").code == 0);
    CHECK(run_program("train --config '" + run + "/config.toml' --steps 2 --resume --run '" + run + "'").code == 0);
  }
  const std::string run = here + "/deep/er/run";
  for (const std::string command : {"predict ", "report "}) {
    must_refuse_paths(command + run + " --out " + here,
                      {here + " cannot be written: it is a folder; name another file in --out"});
    must_refuse_paths(command + run + " --out " + here + "/none/out",
                      {"there is no folder " + here + "/none; name another"});
    must_refuse_paths(command + run + " --out " + here + "/file/out",
                      {here + "/file is a file; name another file in --out"});
    must_refuse_paths(command + here + "/file", {here + "/file is no run's folder"});
    must_refuse_paths(command + here + "/none", {here + "/none is no run's folder"});
  }
  must_refuse_paths("verify " + here + "/file", {here + "/file is no run's folder"});
  must_refuse_paths("compare " + run + " " + here + "/file", {here + "/file is no run's folder"});
}
