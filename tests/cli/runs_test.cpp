#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lockstep/exchange/weight_files.h>
#include <lockstep/ops.h>

#include "tests/cli/program.h"

// What is done with runs once they are there: compared, verified, used, reported. On drawn data, which needs no files.

using namespace lockstep::tests;
namespace fs = std::filesystem;

namespace {

const std::string drawn =
    "train --data synthetic --set data.rows=256 --set data.test_rows=64 --model mlp --batch 32 --run ";

Outcome train_synthetic(const fs::path& run, const std::string& options) {
  return run_program(drawn + run.string() + " " + options);
}

bool has(const Outcome& outcome, const std::string& text) {
  const auto in = [&](const std::vector<std::string>& lines) {
    return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  return in(outcome.out) || in(outcome.err);
}

void must_end_well(const Outcome& outcome) {
  const std::string error = outcome.err.empty() ? "" : outcome.err[0];
  CAPTURE(error);
  REQUIRE(outcome.code == 0);
}

}  // namespace

TEST_CASE("a run is made again from its folder, and what differs between two is named") {
  const TemporaryFolder folder;
  const std::string a = (folder.path() / "a").string(), b = (folder.path() / "b").string(),
                    c = (folder.path() / "c").string();
  must_end_well(
      train_synthetic(a, "--steps 6 --log-every 1 --trace-bits --optimizer sgd --set optimizer.momentum=0.9"));
  const Outcome verified = run_program("verify " + a);
  must_end_well(verified);
  CHECK(has(verified, "verified: recorded "));

  must_end_well(run_program("train --config " + a + "/config.toml --devices 2 --run " + b));
  const Outcome same = run_program("compare " + a + " " + b);
  must_end_well(same);
  CHECK(has(same, "metrics: equal at every step that both have"));
  CHECK(has(same, "bits: equal at each of 6 traced steps"));

  must_end_well(run_program("train --config " + a + "/config.toml --set optimizer.momentum=0.8 --run " + c));
  const Outcome other = run_program("compare " + a + " " + c);
  CHECK(other.code == 1);
  CHECK(has(other, "manifest: optimizer.momentum: 0.9 | 0.8"));
  CHECK(has(other, "metrics: first differ at step 3: "));  // the first update has no momentum yet
  CHECK(has(other, "bits: first differ at step 2 in 'optimizer/"));
}

TEST_CASE("without traced bits checkpoints are compared") {
  const TemporaryFolder folder;
  const std::string a = (folder.path() / "a").string(), b = (folder.path() / "b").string();
  must_end_well(train_synthetic(a, "--steps 4 --checkpoint-every 2"));
  must_end_well(train_synthetic(b, "--steps 4 --checkpoint-every 2 --seed 1"));
  const Outcome other = run_program("compare " + a + " " + b);
  CHECK(other.code == 1);
  CHECK(has(other, "manifest: seed: 0 | 1"));
  CHECK(has(other, "bits: first differ in the checkpoints of step 2 in 'state/optimizer/"));
}

TEST_CASE("a recorded run that was changed is not verified") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  must_end_well(train_synthetic(run, "--steps 2 --trace-bits"));
  auto result = nlohmann::json::parse(file_text(run / "result.json"));
  result["fingerprint"] = std::string(64, '0');
  std::ofstream(run / "result.json") << result;
  auto manifest = nlohmann::json::parse(file_text(run / "manifest.json"));
  manifest["processor"] = "another one";
  std::ofstream(run / "manifest.json") << manifest;
  const Outcome outcome = run_program("verify " + run.string());
  CHECK(outcome.code == 1);
  CHECK(has(outcome, "entry processor: another one when it was made, "));
  CHECK(has(outcome, "NOT verified: recorded 0000"));
  CHECK(has(outcome, "the entries above differ: other bits are to be expected there"));
  std::ofstream(run / "result.json") << "{\"fingerprint\": 3}";
  CHECK(has(run_program("verify " + run.string()), "result.json is damaged: it holds no fingerprint"));
  fs::remove(run / "result.json");
  CHECK(has(run_program("verify " + run.string()), "result.json is not there: the run has not come to its end"));
}

TEST_CASE("a run that is committed is verified where it was made, and elsewhere the entry that differs is named") {
  const Outcome outcome = run_program("verify " LOCKSTEP_TESTS_DIR "/cli/committed_run");
  const bool is_verified = has(outcome, "verified: recorded ") && !has(outcome, "NOT verified");
  const bool is_named = has(outcome, "when it was made, ");
  CHECK((is_verified || is_named));
  CHECK(outcome.code == (is_verified ? 0 : 1));
}

TEST_CASE("a run's model is evaluated and predicts") {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  const Outcome trained = train_synthetic(run, "--steps 16 --checkpoint-every 8");
  must_end_well(trained);
  const Outcome evaluated = run_program("eval " + run);
  must_end_well(evaluated);
  CHECK(has(evaluated, "step 16"));
  CHECK(has(evaluated, "accuracy 0."));
  CHECK(has(run_program("eval " + run + " --step 8"), "step 8"));
  CHECK(run_program("eval " + run + " --step 7").code != 0);
  CHECK(has(run_program("eval " + run + " --step -8"), "is no whole number from 1"));
  must_end_well(run_program("predict " + run));
  const std::vector<std::string> rows = lines_of(file_text(fs::path(run) / "predictions.csv"));
  CHECK(rows.size() == 65);
  CHECK(rows[0] == "row,class,label");
  CHECK(rows[1].ends_with(",0"));
}

TEST_CASE("runs of several seeds have folders of their own and one page, which needs nothing else") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const Outcome outcome = train_synthetic(run, "--steps 4 --log-every 1 --seeds 3-4");
  must_end_well(outcome);
  CHECK(outcome.out.back().starts_with("fingerprint "));
  const std::string page = file_text(run / "report.html");
  for (const char* part :
       {"<svg ", "seed-3", "seed-4", "<th>mean</th><th>deviation</th>", "<th>loss</th>", "<th>seed</th>"}) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  }
  CHECK(page.find("http") == page.find("http://www.w3.org/2000/svg"));  // a name, nothing that is fetched
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(file_text(run / "seed-3" / "curves.svg").starts_with("<svg "));
  must_end_well(run_program("report " + (run / "seed-3").string() + " --out " + (folder.path() / "one.html").string()));
  CHECK(file_text(folder.path() / "one.html").find("<th>random_stream_version</th>") != std::string::npos);
}

TEST_CASE("a model's summary and the time of its steps are printed") {
  const Outcome summary = run_program("summary --model cnn --data synthetic");
  must_end_well(summary);
  CHECK(has(summary, "block_0/conv/kernel"));
  CHECK(has(summary, "trained: 421,738 parameters"));
  const Outcome bench = run_program("bench --model mlp --data synthetic --set data.rows=64 --steps 3");
  must_end_well(bench);
  CHECK(has(bench, "mlp batch 64: first call "));
}

TEST_CASE("arrays of NumPy and CIFAR's files are trained on") {
  const TemporaryFolder folder;
  const std::string at = " --data-dir " + folder.path().string() + " --model mlp --steps 2 --batch 4 --run ";
  if (is_installed("python3") && run_shell("python3 -c 'import numpy'").code == 0) {
    run_shell("cd " + folder.path().string() +
              " && python3 -c 'import numpy as n; [n.savez(f, x=n.ones((8, 3), n.float32), y=n.arange(8) % 2) for f in "
              "(\"train\", \"test\")]'");
    must_end_well(run_program("train --data npz --set data.classes=2" + at + (folder.path() / "npz").string()));
  }
  std::string record(3073, '\1');
  for (int i = 1; i <= 6; ++i) {
    record[1] = static_cast<char>(i);  // two batches of the same contents are refused
    const std::string name = i == 6 ? "test_batch.bin" : "data_batch_" + std::to_string(i) + ".bin";
    std::ofstream(folder.path() / name, std::ios::binary) << record << record << record << record;
  }
  const Outcome outcome = run_program("train --data cifar10" + at + (folder.path() / "cifar").string());
  CAPTURE(outcome.err.empty() ? "" : outcome.err[0]);
  CHECK(outcome.code == 0);
  CHECK(has(run_program("train --data cifar10 --steps 1 --run " + (folder.path() / "none").string()),
            "--data cifar10 needs --data-dir"));
}

TEST_CASE("arrays of NumPy that are no rows with their classes are refused before the first step") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const lockstep::Array& x, const std::vector<std::int64_t>& y) {
    lockstep::exchange::save_npz(folder.path() / name, {{"x", x}, {"y", lockstep::array(y)}});
  };
  const auto refused = [&](const std::string& part) {
    const Outcome outcome =
        run_in_child("train --data npz --set data.classes=3 --model mlp --steps 1 --batch 2 --run " +
                     (folder.path() / "run").string() + " --data-dir " + folder.path().string());
    CAPTURE(outcome.err.empty() ? "" : outcome.err[0]);
    CHECK(outcome.code == 2);
    CHECK(has(outcome, part));
    CHECK_FALSE(fs::exists(folder.path() / "run"));
  };
  const lockstep::Array x = lockstep::ones({4, 5});
  write("test.npz", x, {0, 1, 2, 0});
  for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{3}, (std::int64_t{1} << 32) + 1}) {
    write("train.npz", x, {0, 1, label, 2});
    refused("train.npz: y[2] is " + std::to_string(label) +
            "; expected classes from 0 to 2; give --set data.classes=N");
  }
  write("train.npz", x, {0, 1, 2});
  refused("train.npz: x is f32[4,5], y i32[3]; expected rows, at least one, and the class of each in y, [rows]");
  write("train.npz", x, {0, 1, 2, 0});
  write("test.npz", lockstep::ones({4, 6}), {0, 1, 2, 0});
  refused("x is f32[4,5] in train.npz and f32[4,6] in test.npz; expected rows of one shape in both");
  write("test.npz", lockstep::ones({0, 5}), {});
  refused("test.npz: x is f32[0,5], y i32[0]; expected rows, at least one");
}

TEST_CASE("a configuration is TOML, whose numbers and tables mean what they mean there") {
  const TemporaryFolder folder;
  const fs::path config = folder.path() / "config.toml", run = folder.path() / "run", files = folder.path() / "5 # x";
  fs::create_directory(files);
  for (const char* const name : {"train.npz", "test.npz"}) {
    lockstep::exchange::save_npz(files / name,
                                 {{"x", lockstep::ones({32, 5})}, {"y", lockstep::zeros({32}, lockstep::int32)}});
  }
  std::ofstream(config) << "batch = 0x1_0 # sixteen\nsteps = 2\noptimizer = {name = 'sgd', momentum = 5e-1}\n"
                           "model = 'mlp'\ndata.classes = 3\n\"data\".name = \"\"\"npz\"\"\"\n";
  must_end_well(
      run_program("train --config " + config.string() + " --data-dir '" + files.string() + "' --run " + run.string()));
  const std::string kept = file_text(run / "config.toml");
  CHECK(kept.find("batch = 16\n") != std::string::npos);
  CHECK(kept.find("/5 # x\"\n") != std::string::npos);
  CHECK(kept.find("[data]\nclasses = 3\nname = \"npz\"\n") != std::string::npos);
  CHECK(kept.find("[optimizer]\nmomentum = 0.5\nname = \"sgd\"\n") != std::string::npos);
  must_end_well(run_program("verify " + run.string()));
  // Its seed is one of a run alone.
  must_end_well(run_program("train --config " + (run / "config.toml").string() + " --seeds 1-1 --run " +
                            (folder.path() / "seeds").string()));
  std::ofstream(config) << "[optimizer]\nname = ''\n";
  const Outcome empty = run_program("train --steps 1 --config " + config.string() + " --run x");
  CHECK(empty.code == 2);
  CHECK(has(empty, "optimizer.name is an empty text; give it a value, or leave it out"));
}

TEST_CASE("what cannot be meant is said") {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  const fs::path config = folder.path() / "config.toml";
  const auto refused = [&](const std::string& options, const std::string& text) {
    CAPTURE(options);
    const Outcome outcome = run_in_child(drawn + run + " --steps 1 " + options);
    CHECK(outcome.code == 2);
    CHECK(has(outcome, text));
    CHECK_FALSE(fs::exists(run));
  };
  refused("--optimizer adan", "no optimizer 'adan'; known are adafactor, ");
  refused("--schedule step", "no schedule 'step'; known are constant, ");
  refused("--set optimizer.b3=1", "the optimizer 'adamw' has no option 'b3'; it has b1, b2, epsilon, weight_decay");
  refused("--set optimizer.b1=x", "optimizer.b1 is 'x'; expected a number");
  refused("--set model.width=1", "the model 'mlp' has no option 'width'; it has layers, units");
  refused("--set width=1", "expected <thing>.<name>=<value>, such as model.width=128");
  refused("--set layer.width=1", "'layer' has no options; model, optimizer, schedule and data have");
  refused("--set optimizer.b1=0.8 --set optimizer.b1=0.7", "--set optimizer.b1 is given twice");
  refused("--seeds 4-3", "--seeds '4-3': expected one number, or two with a dash, the smaller first");
  refused("--config " + (folder.path() / "none.toml").string(), "there is no such file");
  const std::vector<std::pair<std::string, std::string>> configs = {
      {"modle = \"mlp\"", "--modle"},
      {"[optimizer]\nb1 = 0.5\n[optimizer.more]\nb2 = 1", "line 3: optimizer.more is a table in a table"},
      {"log-every = 1\nbatch 16", "config.toml: line 2: "},
      {"batch = \"16", "line 1: "},
      {"batch = 16\nbatch = 17", "line 2: "},
      {"[model", "line 1: "},
      {"; batch = 16", "line 1: "},
      {"optimizer = \"adam\"\n[optimizer]\nb1 = 0.5", "as table; in a table, the thing's own name is its entry 'name'"},
      {"batch = 010", "line 1: "},
      {"batch = []", "line 1: batch is an empty array; leave it out"},
      {"batch = 2024-01-01", "line 1: batch is no text, number, true or false"},
      {"[[optimizer]]\nb1 = 0.5", "optimizer is a table in a table"},
      {"[\nmodel]\nname = 'mlp'",
       "it is no TOML; expected a name = value on each line, and tables whose header is one"},
      {"seed = -1", "'-1' is no whole number"}};
  for (const auto& [text, part] : configs) {
    CAPTURE(text);
    std::ofstream(config) << text << "\n";
    refused("--config " + config.string(), part);
  }
  CHECK(has(run_in_child("compare " + folder.path().string() + " " + folder.path().string()), "is no run's folder"));
  CHECK(has(run_in_child("eval " + run), "is no run's folder"));
}

TEST_CASE("a run goes on, is evaluated and verified from another folder, and with other rows it says both") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const lockstep::Shape& shape) {
    fs::create_directory(folder.path() / name);
    for (const char* part : {"train.npz", "test.npz"}) {
      lockstep::exchange::save_npz(folder.path() / name / part,
                                   {{"x", lockstep::ones(shape)}, {"y", lockstep::array({0, 1, 2, 0})}});
    }
  };
  write("data", {4, 5});
  write("other", {4, 6});
  const std::string program = LOCKSTEP_PROGRAM, here = "cd " + folder.path().string() + " && " + program + " ";
  const std::string run = (folder.path() / "run").string();
  must_end_well(run_shell(here +
                          "train --data npz --set data.classes=3 --model mlp --steps 1 --batch 2 --data-dir data "
                          "--run run"));
  const std::string config = file_text(folder.path() / "run" / "config.toml");
  CHECK(config.find("data-dir = \"" + (folder.path() / "data").string() + "\"") != std::string::npos);
  must_end_well(run_program("eval " + run));
  must_end_well(run_program("verify " + run));
  must_end_well(run_program("train --resume --steps 2 --run " + run + " --config " + run + "/config.toml"));
  const std::string other = " --data-dir " + (folder.path() / "other").string();
  for (const char* use : {"eval ", "predict ", "verify "}) {
    CAPTURE(use);
    const Outcome outcome = run_in_child(use + run + other);
    CHECK(outcome.code == 2);
    CHECK(
        has(outcome, "the run was trained on rows of [5] of 3 classes, and" + other + " has rows of [6] of 3 classes"));
  }
}

TEST_CASE("a training of one step has each schedule, and phases that are longer than it are named as they are given") {
  const TemporaryFolder folder;
  const std::string train = "train --data synthetic --set data.rows=64 --model mlp --batch 32 --steps ";
  int count = 0;
  for (const char* schedule : {"constant", "cosine", "exponential", "linear", "one_cycle", "polynomial",
                               "warmup_cosine", "warmup_stable_decay"}) {
    CAPTURE(schedule);
    must_end_well(run_program(train + "1 --schedule " + schedule + " --run " +
                              (folder.path() / std::to_string(++count)).string()));
  }
  const Outcome outcome = run_program(train + "4 --schedule warmup_stable_decay --set schedule.warmup_steps=4 --run " +
                                      (folder.path() / "long").string());
  CHECK(outcome.code == 2);
  CHECK(has(outcome, "schedule.warmup_steps 4 and schedule.decay_steps 1 are more than the 4 steps of the training"));
  for (const char* seeds : {"01-02", "1-02", "00", "01"}) {
    CAPTURE(seeds);
    CHECK(has(run_in_child(train + "1 --seeds " + seeds + " --run " + (folder.path() / "seeds").string()),
              "without zeros before them, such as 0-4"));
  }
}
