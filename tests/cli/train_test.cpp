#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "engine/cli/reports.h"
#include "tests/cli/program.h"
#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"

using namespace lockstep::tests;
namespace fs = std::filesystem;

namespace {

const SmallData& small_data() {
  static const SmallData data;
  return data;
}

/// The cnn on the small data set; options are appended.
std::string train_arguments(const fs::path& run, const std::string& options) {
  return "train --model cnn --batch 64 --shards 8" + small_data().option() + " --run " + run.string() + " " + options;
}

Outcome train_cnn(const fs::path& run, const std::string& options) {
  return run_program(train_arguments(run, options));
}

bool is_fingerprint(const std::string& line) {
  const std::string start = "fingerprint ";
  return line.size() == start.size() + 64 && line.starts_with(start) &&
         std::all_of(line.begin() + 12, line.end(),
                     [](char c) { return std::string("0123456789abcdef").find(c) != std::string::npos; });
}

/// The last line of a run that must succeed.
std::string fingerprint_of(const Outcome& outcome) {
  const std::string error = outcome.err.empty() ? "" : outcome.err[0];
  CAPTURE(error);
  REQUIRE(outcome.code == 0);
  REQUIRE_FALSE(outcome.out.empty());
  CHECK(is_fingerprint(outcome.out.back()));
  return outcome.out.back();
}

bool prints_line(const Outcome& outcome, const std::string& line) {
  return std::find(outcome.out.begin(), outcome.out.end(), line) != outcome.out.end();
}

bool has_start(const Outcome& outcome, const std::string& start) {
  return std::any_of(outcome.out.begin(), outcome.out.end(),
                     [&](const std::string& l) { return l.starts_with(start); });
}

}  // namespace

TEST_CASE("a profiled run writes a trace, prints tables by op and layer, and has the same bits") {
  const TemporaryFolder folder;
  const fs::path trace = folder.path() / "trace.json";
  const std::string options = "--steps 4 --devices 2 --seed 4";
  const Outcome profiled = train_cnn(folder.path() / "profiled", options + " --profile " + trace.string());
  CHECK(fingerprint_of(profiled) == fingerprint_of(train_cnn(folder.path() / "plain", options)));
  CHECK(has_start(profiled, "profile: 3 calls on 2 devices: "));
  CHECK(has_start(profiled, "conv "));
  CHECK(has_start(profiled, "barrier "));
  CHECK(has_start(profiled, "layer "));
  std::ifstream in(trace);
  const nlohmann::json events = nlohmann::json::parse(in).at("traceEvents");
  const auto is_convolution = [](const nlohmann::json& e) {
    return e.at("name").get<std::string>().starts_with("conv") && e.at("tid") == 1;
  };
  CHECK(std::ranges::any_of(events, is_convolution));
  const Outcome once = train_cnn(folder.path() / "once", "--steps 1 --profile " + trace.string());
  CHECK(has_start(once, "profile: no call was recorded"));
  const Outcome refused =
      train_cnn(folder.path() / "refused", "--steps 2 --profile " + (folder.path() / "no/t").string());
  CHECK(refused.code == 2);
  CHECK(refused.err[0].find("name another file in --profile") != std::string::npos);
}

TEST_CASE("a run prints its placement, progress, table and fingerprint, and leaves metrics, manifest, checkpoints") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const Outcome outcome = train_cnn(run, "--steps 13 --devices 2 --log-every 5 --checkpoint-every 6 --seed 4 --check");
  const std::string fingerprint = fingerprint_of(outcome);
  CHECK(outcome.err.empty());
  CHECK(prints_line(outcome, "model cnn data fashion-mnist seed 4 batch 64 shards 8 steps 13"));
  CHECK(prints_line(outcome, "device cpu:0 runs shards 0-3"));
  CHECK(prints_line(outcome, "device cpu:1 runs shards 4-7"));
  CHECK(prints_line(outcome, "check: loss, gradients and state are those of one shard with 8, too"));
  CHECK(prints_line(outcome, "check: no gradient was found that becomes NaN where the loss is finite"));
  CHECK(has_start(outcome, "epoch 1 step 5/13 loss "));
  CHECK(has_start(outcome, "epoch 1 validation loss "));
  CHECK(has_start(outcome, "epoch 2 validation loss "));
  CHECK(has_start(outcome, "training time "));

  const std::vector<std::string> metrics = lines_of(file_text(run / "metrics.csv"));
  REQUIRE(metrics.size() == 5);
  CHECK(metrics[0] == "accuracy,epoch,grad_norm,loss,step");
  CHECK(lines_of(file_text(run / "speed.csv"))[0] == "images_per_second,step");
  for (const auto& [row, step] : {std::pair{1, ",5"}, {2, ",10"}, {3, ",11"}, {4, ",13"}}) {
    CHECK(metrics[static_cast<std::size_t>(row)].ends_with(step));
  }

  const auto manifest = nlohmann::json::parse(file_text(run / "manifest.json"));
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"model", "cnn"},
                                                                                   {"data", "fashion-mnist"},
                                                                                   {"seed", "4"},
                                                                                   {"shards", "8"},
                                                                                   {"batch", "64"},
                                                                                   {"dtype", "float32"},
                                                                                   {"precision", "float32"},
                                                                                   {"learning_rate", "0.001"},
                                                                                   {"random_stream_version", "1"}}) {
    CHECK(manifest.at(key) == value);
  }
  CHECK(manifest.at("processor").get<std::string>().find(", family ") != std::string::npos);
  for (const std::string key : {"lockstep", "backend aten", "processor", "cache_l1", "cache_l2", "cache_l3"}) {
    CAPTURE(key);
    CHECK_FALSE(manifest.at(key).get<std::string>().empty());
  }

  std::vector<std::string> checkpoints;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) checkpoints.push_back(entry.path().filename());
  std::sort(checkpoints.begin(), checkpoints.end());
  CHECK(checkpoints == std::vector<std::string>{"step-12", "step-13", "step-6"});

  if (is_installed("python3")) {
    const Outcome script =
        run_shell("python3 " LOCKSTEP_TESTS_DIR "/cli/fingerprint.py " + (run / "checkpoints" / "step-13").string());
    CHECK(script.code == 0);
    REQUIRE(script.out.size() == 1);
    CHECK(script.out[0] == fingerprint);
  } else {
    MESSAGE("no python3: the fingerprint was not recomputed");
  }
}

TEST_CASE("a check prints what it compared and each place that makes a NaN") {
  using lockstep::cli::check_lines;
  const std::vector<std::string> alone = check_lines(1, {});
  REQUIRE(alone.size() == 2);
  CHECK(alone[0] == "check: one shard, with which no other is to be compared");
  const std::vector<std::string> two = check_lines(4, {"select: log of 0", "select in layer 'norm': sqrt of 0"});
  REQUIRE(two.size() == 3);
  CHECK(two[0] == "check: loss, gradients and state are those of one shard with 4, too");
  CHECK(two[1] == "check: select: log of 0");
  CHECK(two[2] == "check: select in layer 'norm': sqrt of 0");
}

TEST_CASE("one fingerprint for 1, 2, 4 and 8 devices and for a second run; another for another seed or V") {
  const TemporaryFolder folder;
  std::string expected;
  for (const std::string devices : {"1", "2", "4", "8", "2"}) {
    CAPTURE(devices);
    const fs::path run = folder.path() / ("run" + devices);
    fs::remove_all(run);
    const std::string found = fingerprint_of(train_cnn(run, "--steps 6 --devices " + devices));
    if (expected.empty()) expected = found;
    CHECK(found == expected);
  }
  CHECK(fingerprint_of(train_cnn(folder.path() / "seed", "--steps 6 --devices 2 --seed 1")) != expected);
  const std::string four = " train --model cnn --batch 64 --shards 4 --steps 6 --devices 2" + small_data().option();
  CHECK(fingerprint_of(run_program(four + " --run " + (folder.path() / "four").string())) != expected);
}

TEST_CASE("a run in bfloat16 has one fingerprint on 1 and 2 devices, another than in float32") {
  const TemporaryFolder folder;
  const std::string narrow =
      fingerprint_of(train_cnn(folder.path() / "one", "--steps 3 --devices 1 --precision bfloat16"));
  CHECK(fingerprint_of(train_cnn(folder.path() / "two", "--steps 3 --devices 2 --precision bfloat16")) == narrow);
  CHECK(fingerprint_of(train_cnn(folder.path() / "wide", "--steps 3 --devices 2")) != narrow);
}

TEST_CASE("a model of 16 bits by the command line: recorded, one fingerprint on any devices, resumed and verified") {
  for (const std::string precision : {"mixed_bfloat16", "mixed_float16"}) {
    CAPTURE(precision);
    const TemporaryFolder folder;
    const std::string option = " --precision " + precision;
    const std::string one = fingerprint_of(train_cnn(folder.path() / "one", "--steps 4 --devices 1" + option));
    CHECK(fingerprint_of(train_cnn(folder.path() / "wide", "--steps 4 --devices 1")) != one);
    const fs::path run = folder.path() / "two";
    static_cast<void>(fingerprint_of(train_cnn(run, "--steps 2 --devices 2" + option)));
    CHECK(fingerprint_of(train_cnn(run, "--steps 4 --devices 2 --resume" + option)) == one);
    CHECK(nlohmann::json::parse(std::ifstream(run / "manifest.json")).at("precision") == precision);
    CHECK(run_program("eval " + run.string()).code == 0);
    CHECK(run_program("verify " + run.string()).code == 0);
  }
}

TEST_CASE("two processes of one device equal one process of two") {
  if (!can_launch()) return skip(no_launcher());
  if (!has_start(run_program("info"), "communicators            shared_memory")) {
    return skip("a build without shared memory");
  }
  const TemporaryFolder folder;
  const std::string one = fingerprint_of(train_cnn(folder.path() / "one", "--steps 6 --devices 2"));
  const Outcome two =
      run_shell(mpirun(2) + LOCKSTEP_PROGRAM " " + train_arguments(folder.path() / "two", "--steps 6 --devices 1"));
  CHECK(fingerprint_of(two) == one);
  CHECK(std::count_if(two.out.begin(), two.out.end(), is_fingerprint) == 1);
}

TEST_CASE("ten steps, resumed on other devices to twenty, equal twenty; other arguments are refused by name") {
  const TemporaryFolder folder;
  const std::string whole = fingerprint_of(train_cnn(folder.path() / "whole", "--steps 20 --devices 2"));
  const fs::path run = folder.path() / "run";
  const std::string half = fingerprint_of(train_cnn(run, "--steps 10 --devices 1"));
  CHECK(half != whole);

  struct Case {
    std::string options;
    std::string entry;
  };
  for (const Case& c :
       {Case{"--seed 9", "'seed' was '0' when the run was saved and is '9' now"},
        Case{"--batch 32", "'batch' was '64' when the run was saved and is '32' now"},
        Case{"--shards 4", "'shards' was '8'"}, Case{"--dtype float64", "'dtype' was 'float32'"},
        Case{"--precision bfloat16", "'precision' was 'float32'"},
        Case{"--learning-rate 0.01", "'learning_rate' was '0.001'"}, Case{"--model mlp", "'model' was 'cnn'"}}) {
    CAPTURE(c.options);
    const std::string arguments = "train --steps 20 --resume" + small_data().option() + " --run " + run.string();
    const std::string with_default_shards = contains(c.options, "--shards") ? " " : " --shards 8 ";
    const Outcome outcome = run_program(arguments + with_default_shards + c.options);
    CHECK(outcome.code == 1);
    REQUIRE(outcome.err.size() == 1);
    CAPTURE(outcome.err[0]);
    CHECK(contains(outcome.err[0], c.entry));
  }

  CHECK(fingerprint_of(train_cnn(run, "--steps 20 --devices 4 --resume")) == whole);
  CHECK(fingerprint_of(train_cnn(run, "--steps 20 --devices 1 --resume")) == whole);  // nothing is left to do
  const Outcome beyond = train_cnn(run, "--steps 19 --resume");
  CHECK(beyond.code == 2);
  CHECK(beyond.err.at(0).find("stands at step 20, and the run would end with step 19; give --steps 20 or more") !=
        std::string::npos);
  CHECK(file_text(run / "result.json").find("\"steps\": 20") != std::string::npos);
}

TEST_CASE("a run that is killed, before its first checkpoint and later, goes on to the same bits and metrics") {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole", run = folder.path() / "run";
  const std::string options = "--steps 40 --log-every 1 --checkpoint-every 3 --keep-last 2 --trace-bits --devices ";
  const std::string expected = fingerprint_of(train_cnn(whole, options + "2"));
  const auto killed_when = [&](const std::string& there, const std::string& more) {
    run_shell("sh -c 'trap \"\" TERM; " LOCKSTEP_PROGRAM " " + train_arguments(run, options + more) +
              " >/dev/null & while [ ! -e " + there + " ] && kill -0 $!; do :; done; kill -9 $!; wait $!'");
  };
  killed_when((run / "manifest.json").string(), "1");
  CHECK_FALSE(fs::exists(run / "checkpoints" / "step-3"));
  killed_when((run / "checkpoints" / "step-9").string(), "4 --resume");
  killed_when((run / "checkpoints" / "step-24").string(), "1 --resume");
  CHECK(fingerprint_of(train_cnn(run, options + "2 --resume")) == expected);
  CHECK(file_text(run / "metrics.csv") == file_text(whole / "metrics.csv"));
  for (const char* table : {"metrics.csv", "speed.csv"}) CHECK(lines_of(file_text(run / table)).size() == 41);
  CHECK(file_text(run / "bits.csv") == file_text(whole / "bits.csv"));  // each step once
  CHECK(std::distance(fs::directory_iterator(run / "checkpoints"), {}) == 2);
}

TEST_CASE("what bits depend on may be another one where that is accepted, and events are written for TensorBoard") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  fingerprint_of(train_cnn(run, "--steps 2 --tensorboard"));
  const Outcome refused = train_cnn(run, "--steps 4 --learning-rate 0.01 --resume");
  CHECK(refused.code == 1);
  REQUIRE(refused.err.size() == 1);
  CHECK(contains(refused.err[0], "'learning_rate' was '0.001'"));
  CHECK(contains(refused.err[0], "--accept-change 'learning_rate' goes on all the same"));
  fingerprint_of(train_cnn(run, "--steps 4 --learning-rate 0.01 --resume --accept-change learning_rate --tensorboard"));
  fingerprint_of(train_cnn(run, "--steps 5 --learning-rate 0.01 --resume"));
  // The last one has no points: it says from where on those before it are none of the run's.
  CHECK(std::distance(fs::directory_iterator(run / "events"), {}) == 3);
  const SmallData other;
  const std::string images = other.option().substr(12) + "/train-images-idx3-ubyte";
  std::string bytes = file_text(images);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(images, std::ios::binary) << bytes;
  const Outcome changed =
      run_program("train --model cnn --batch 64 --shards 8 --steps 6 --learning-rate 0.01 --resume" + other.option() +
                  " --run " + run.string());
  REQUIRE(changed.err.size() == 1);
  CHECK(contains(changed.err[0], "'training_sha256' was '"));
}

TEST_CASE("metrics that cannot be written end the run in one line") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  fingerprint_of(train_cnn(run, "--steps 1"));
  fs::remove(run / "metrics.csv");
  fs::create_directory(run / "metrics.csv");
  const Outcome outcome = train_cnn(run, "--steps 2 --resume");
  CHECK(outcome.code == 1);
  REQUIRE(outcome.err.size() == 1);
  CHECK(contains(outcome.err[0], "metrics.csv cannot be written"));
}

TEST_CASE("the mlp trains in float64 on the data set itself") {
  const TemporaryFolder folder;
  const std::string arguments = "train --model mlp --batch 64 --steps 3 --dtype float64 --log-every 1 --run ";
  const Outcome outcome = run_program(arguments + (folder.path() / "run").string());
  fingerprint_of(outcome);
  CHECK(has_start(outcome, "epoch 1 step 3/3 loss "));
  CHECK(contains(file_text(folder.path() / "run" / "manifest.json"), "\"dtype\": \"float64\""));
}

TEST_CASE("an error in the middle of a run leaves on a piped stdout what stood there before it") {
  const TemporaryFolder folder;
  const SmallData data;
  const Outcome outcome = run_program("train --model mlp --steps 9 --log-every 1 --learning-rate 1e30 --debug-nans" +
                                      data.option() + " --run " + (folder.path() / "run").string());
  CHECK(outcome.code == 1);
  CHECK(has_start(outcome, "model mlp data fashion-mnist"));
  CHECK(has_start(outcome, "device cpu:0 runs shards 0-"));
  REQUIRE_FALSE(outcome.err.empty());
  CHECK(outcome.err.back().starts_with("lockstep: "));
}
