#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cli/program.h"
#include "tests/support/launcher.h"

// Flags, files and commands that meet.

using namespace lockstep::tests;
namespace fs = std::filesystem;

namespace {

const std::string small = " --data synthetic --set data.rows=128 --set data.test_rows=60 --model mlp --batch 32 ";

Outcome train_small(const fs::path& run, const std::string& options) {
  return run_program("train" + small + "--run " + run.string() + " " + options);
}

/// Of what makes no step.
Outcome refused(const fs::path& run, const std::string& options) {
  return run_in_child("train" + small + "--run " + run.string() + " " + options);
}

/// How many lines of it say that.
std::int64_t lines_with(const Outcome& outcome, const std::string& text) {
  std::int64_t count = 0;
  for (const auto* lines : {&outcome.out, &outcome.err}) {
    count += std::ranges::count_if(*lines, [&](const std::string& line) { return line.find(text) != line.npos; });
  }
  return count;
}

void check_says(const Outcome& outcome, int code, const std::string& text) {
  CAPTURE(outcome.out.empty() ? "" : outcome.out.back());
  CAPTURE(outcome.err.empty() ? "" : outcome.err.back());
  CHECK(outcome.code == code);
  CHECK(lines_with(outcome, text) == 1);
}

void must_print_fingerprint(const Outcome& outcome) { check_says(outcome, 0, "fingerprint "); }

}  // namespace

TEST_CASE(
    "what the command line says goes before a run's file: steps or epochs, and another optimizer with its options") {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", config = a / "config.toml";
  must_print_fingerprint(train_small(
      a, "--steps 2 --optimizer sgd --set optimizer.momentum=0.9 --schedule cosine --set schedule.alpha=0.1"));
  const auto from_file = [&](const char* name, const std::string& options) {
    must_print_fingerprint(
        run_program("train --config " + config.string() + " --run " + (folder.path() / name).string() + " " + options));
    return file_text(folder.path() / name / "config.toml");
  };
  const std::string epochs = from_file("epochs", "--epochs 1");
  CHECK(epochs.find("epochs = 1\n") != std::string::npos);
  CHECK(epochs.find("steps = ") == std::string::npos);
  CHECK(epochs.find("momentum = 0.9\n") != std::string::npos);
  // momentum is an option of rmsprop too, but the file's is that of sgd; linear has no alpha.
  const std::string other = from_file("other", "--optimizer rmsprop --schedule linear --set optimizer.decay=0.8");
  CHECK(other.find("momentum") == std::string::npos);
  CHECK(other.find("[optimizer]\ndecay = 0.8\nname = \"rmsprop\"\n") != std::string::npos);
  CHECK(other.find("schedule = \"linear\"\n") != std::string::npos);
  const std::string same = from_file("same", "--optimizer sgd --schedule=cosine");
  CHECK(same.find("momentum = 0.9\n") != std::string::npos);
  CHECK(same.find("alpha = 0.1\n") != std::string::npos);
  std::ofstream(folder.path() / "set.toml") << "set = [\"optimizer.b1=0.5\"]\n";
  check_says(
      run_program("train --steps 1 --set data.rows=64 --config " + (folder.path() / "set.toml").string() + " --run x"),
      2, "set is none of its entries; write the option into its table");
}

TEST_CASE("options without an effect are refused where the command line itself gives them") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  for (const char* option : {"--profile p.json", "--seeds 0-3", "--epochs 2", "--tensorboard", "--run x", "--resume"}) {
    CAPTURE(option);
    const std::string name = std::string(option).substr(0, std::string(option).find(' '));
    check_says(run_in_child("bench" + small + option), 2, "[bench] " + name + " has no effect here");
    check_says(run_in_child("summary" + small + option), 2, "[summary] " + name + " has no effect here");
  }
  check_says(run_in_child("summary" + small + "--optimizer=adan"), 2, "[summary] --optimizer has no effect here");
  for (const char* option : {"--precision bfloat16", "--precision=bfloat16"}) {
    check_says(run_in_child("summary" + small + option), 2, "[summary] --precision=bfloat16 has no effect here");
  }
  check_says(run_in_child("summary" + small + "--precision mixed_bfloat16 --dtype float64"), 2, "leave one of the two");
  check_says(run_program("summary" + small + "--precision mixed_bfloat16"), 0, "an evaluation call: ");
  check_says(refused(run, "--steps 1 --seeds 0-1 --profile " + (folder.path() / "p.json").string()), 2, "--profile");
  check_says(refused(run, "--steps 1 --seeds 0-1 --resume"), 2, "holds no runs to resume");
  CHECK_FALSE(fs::exists(run));
  must_print_fingerprint(train_small(run, "--steps 1"));
  check_says(run_program("summary --config " + (run / "config.toml").string()), 0, "an evaluation call: ");
}

TEST_CASE("a folder of files is refused for data that has none, and in a file it is its data set's") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run", config = folder.path() / "npz.toml";
  const std::string nowhere = " --data-dir " + (folder.path() / "none").string();
  check_says(refused(run, "--steps 1" + nowhere), 2, "has no effect: --data synthetic has no files");
  CHECK_FALSE(fs::exists(run));
  must_print_fingerprint(train_small(run, "--steps 1"));
  for (const char* use : {"eval ", "predict ", "verify "}) {
    CAPTURE(use);
    check_says(run_in_child(use + run.string() + nowhere), 2, "has no effect: --data synthetic has no files");
  }
  std::ofstream(config) << "data = \"npz\"\ndata-dir = \"nowhere\"\n";
  must_print_fingerprint(train_small(folder.path() / "other", "--steps 1 --config " + config.string()));
}

TEST_CASE("true and false in a file are those of what takes no value") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run", config = folder.path() / "config.toml";
  for (const char* line : {"shards = false", "shards = true", "frobnicate = false"}) {
    CAPTURE(line);
    std::ofstream(config) << line << "\n";
    check_says(refused(run, "--steps 1 --config " + config.string()), 2,
               "which is no value of it; true or false are check");
  }
  std::ofstream(config) << "[optimizer]\nname = false\n";
  check_says(refused(run, "--steps 1 --config " + config.string()), 2,
             "optimizer.name is false, which is no value of it");
  std::ofstream(config) << "tensorboard = false\ntrace-bits = true\n";
  must_print_fingerprint(train_small(run, "--steps 1 --config " + config.string()));
  CHECK_FALSE(fs::exists(run / "events"));
  CHECK(fs::exists(run / "bits.csv"));
}

TEST_CASE("a seed whose folder is there is refused before the seeds before it are trained") {
  const TemporaryFolder folder;
  const fs::path runs = folder.path() / "runs";
  fs::create_directories(runs / "seed-2");
  check_says(refused(runs, "--steps 1 --seeds 1-2"), 2, "seed-2 exists already");
  CHECK_FALSE(fs::exists(runs / "seed-1"));
  check_says(refused(runs, "--steps 1 --seeds 0-1000"), 2, "the smaller first and at most 1000 in all");
}

TEST_CASE("a schedule's run is the same, however its steps were asked for") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  must_print_fingerprint(train_small(run, "--schedule cosine"));
  for (const char* same : {"--epochs 1", "--steps 4"}) {
    must_print_fingerprint(train_small(run, std::string("--schedule cosine --resume ") + same));
  }
  check_says(train_small(run, "--schedule cosine --resume --steps 5"), 1,
             "'steps' was '4' when the run was saved and is '5' now");
}

TEST_CASE("a table of a run that is damaged is named, with its line or column") {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b";
  must_print_fingerprint(train_small(a, "--steps 2 --log-every 1 --trace-bits"));
  struct Case {
    const char *file, *bytes, *part;
  };
  for (const Case& c : {Case{"bits.csv", "step\n1\n2\n", "bits.csv is damaged: it has no column 'variable'"},
                        {"bits.csv", "step,variable,sha256\nx,y,z\n", "bits.csv: line 2 has 'x' as step"},
                        {"metrics.csv", "stp,loss\n1,2\n", "metrics.csv is damaged: it has no column 'step'"},
                        {"metrics.csv", "step,loss\n1,2\n1e,2\n", "metrics.csv: line 3 has '1e' as step"}}) {
    CAPTURE(c.bytes);
    fs::remove_all(b);
    fs::copy(a, b, fs::copy_options::recursive);
    std::ofstream(b / c.file) << c.bytes;
    check_says(run_in_child("compare " + a.string() + " " + b.string()), 2, c.part);
  }
}

TEST_CASE("a config.toml that is not the run's is named, with the entry") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  must_print_fingerprint(train_small(run, "--steps 1 --optimizer sgd --set optimizer.momentum=0.5"));
  const std::string config = file_text(run / "config.toml");
  const auto uses_refuse = [&](const std::string& text, const std::string& part) {
    CAPTURE(text);
    std::ofstream(run / "config.toml") << text;
    for (const char* use : {"eval ", "predict ", "verify "}) check_says(run_in_child(use + run.string()), 2, part);
  };
  uses_refuse("batch = 32\n",
              "config.toml is not what the run was made with: data is 'fashion-mnist' there and 'synthetic'");
  uses_refuse(config.substr(0, config.find("momentum")) + "name = \"sgd\"\n",
              "optimizer.momentum is absent there and '0.5' in manifest.json");
  std::ofstream(run / "config.toml") << config;
  check_says(run_program("verify " + run.string()), 0, "verified: recorded ");
}

TEST_CASE("a run that has ended within an epoch and is made longer has the metrics of a run that was that long") {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole", parts = folder.path() / "parts";
  must_print_fingerprint(train_small(whole, "--steps 8 --log-every 2"));
  must_print_fingerprint(train_small(parts, "--steps 3 --log-every 2"));
  must_print_fingerprint(train_small(parts, "--steps 5 --log-every 2 --resume"));
  must_print_fingerprint(train_small(parts, "--steps 5 --log-every 2 --resume"));
  CHECK(file_text(parts / "metrics.csv").find(",5\n") != std::string::npos);
  must_print_fingerprint(train_small(parts, "--steps 8 --log-every 2 --resume"));
  CHECK(file_text(parts / "metrics.csv") == file_text(whole / "metrics.csv"));
}

TEST_CASE("runs that have no step in common are not called equal") {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b";
  must_print_fingerprint(train_small(a, "--steps 3 --log-every 3"));
  must_print_fingerprint(train_small(b, "--steps 2 --log-every 2"));
  const Outcome outcome = run_program("compare " + a.string() + " " + b.string());
  check_says(outcome, 1, "nothing was compared: the runs have logged and saved no step in common");
  check_says(outcome, 1, "metrics: no step is in both runs");
}

TEST_CASE("a run that is made longer has no result until it has come to its end again") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  must_print_fingerprint(train_small(run, "--steps 2 --log-every 1"));
  // A longer run, killed once it has made a step.
  const std::string longer = LOCKSTEP_PROGRAM " train" + small + "--run " + run.string() +
                             " --steps 1000000 --log-every 1 --checkpoint-every 1000000 --resume";
  run_shell("(" + longer + " >/dev/null & p=$!; for i in $(seq 600); do grep -q ',3$' " +
            (run / "metrics.csv").string() + " && break; sleep 0.1; done; kill -9 $p)");
  check_says(run_program("verify " + run.string()), 2, "the run has not come to its end; go on with --resume first");
  must_print_fingerprint(train_small(run, "--steps 6 --log-every 1 --resume"));
  check_says(run_program("verify " + run.string()), 0, "verified: recorded ");
}

TEST_CASE("what is done with a run in several processes is said and written once") {
  if (!can_launch()) return skip(no_launcher());
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  must_print_fingerprint(train_small(run, "--steps 4 --log-every 1 --devices 1"));
  const auto two = [](const std::string& words) { return run_shell(mpirun(2) + LOCKSTEP_PROGRAM " " + words); };
  const Outcome alone = run_program("eval " + run), together = two("eval " + run);
  CHECK(alone.out.size() == 3);
  CHECK(together.out == alone.out);
  check_says(run_program("predict " + run), 0, "predictions.csv");
  const std::string classes = file_text(fs::path(run) / "predictions.csv");
  check_says(two("predict " + run), 0, "predictions.csv");
  CHECK(file_text(fs::path(run) / "predictions.csv") == classes);
  check_says(two("verify " + run), 0, "verified: recorded ");
  check_says(two("compare " + run + " " + run), 0, "the runs are equal");
  check_says(two("report " + run), 0, "report.html");
  check_says(two("summary" + small), 0, "an evaluation call: ");
  check_says(two("bench" + small + "--devices 1 --steps 2"), 0, "mlp batch 32: first call ");
  check_says(two("info"), 0, "processor");
  const std::string checked = (folder.path() / "checked").string();
  const std::string options = "--steps 2 --shards 2 --devices 1 --check";
  const Outcome refused = two("train" + small + options + " --run " + checked);
  CHECK(refused.code == 2);
  CHECK(lines_with(refused, "--check compares with 1 shard, which 2 processes cannot divide; check in one process") >
        0);
  CHECK_FALSE(fs::exists(checked));
  must_print_fingerprint(train_small(checked, options));
  check_says(two("verify " + checked), 0, "verified: recorded ");
}

TEST_CASE("what a resumed run writes no more is taken back to the step that it goes on from") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run", whole = folder.path() / "whole";
  const std::string options = "--checkpoint-every 2 --log-every 1 --steps ";
  must_print_fingerprint(train_small(whole, options + "4 --trace-bits --tensorboard"));
  must_print_fingerprint(train_small(run, options + "4 --trace-bits --tensorboard"));
  fs::remove_all(run / "checkpoints" / "step-4");  // as a kill behind step 4 leaves it
  must_print_fingerprint(train_small(run, options + "4 --resume --learning-rate 0.5 --accept-change learning_rate"));
  const std::string bits = file_text(run / "bits.csv");
  CHECK(bits.find("\n2,") != std::string::npos);
  CHECK(bits.find("\n3,") == std::string::npos);
  CHECK(std::distance(fs::directory_iterator(run / "events"), {}) == 2);  // the second one says from where on
  check_says(run_program("compare " + whole.string() + " " + run.string()), 1, "the runs differ");
  // What was accepted is why it is no run made again, until it goes on from before that.
  const std::string verify = "verify " + run.string(), why = "it was resumed from step 2 with --accept-change ";
  check_says(run_program(verify), 1, why + "learning_rate: 0.001 up to there, 0.5 since then; ");
  must_print_fingerprint(train_small(run, options + "6 --resume --learning-rate 0.5"));
  check_says(run_program(verify), 1, why + "learning_rate: ");
  for (const char* step : {"step-4", "step-6"}) fs::remove_all(run / "checkpoints" / step);
  must_print_fingerprint(train_small(run, options + "4 --resume"));
  CHECK_FALSE(fs::exists(run / "accepted_changes.json"));
  check_says(run_program(verify), 0, "verified: recorded ");
}

TEST_CASE("what has no meaning among the options of schedules and optimizers is refused by its name") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  struct Case {
    const char *options, *part;
  };
  for (const Case& c : {Case{"--schedule cosine --set schedule.alpha=nan", "schedule.alpha is nan"},
                        {"--schedule linear --set schedule.end=inf", "schedule.end is inf"},
                        {"--schedule polynomial --set schedule.end=-1", "schedule.end is -1"},
                        {"--schedule warmup_cosine --set schedule.initial=nan", "schedule.initial is nan"},
                        {"--schedule one_cycle --learning-rate nan", "[learning rate] nan was given"},
                        {"--schedule cosine --learning-rate=-1", "[learning rate] -1 was given"},
                        {"--optimizer sgd --set optimizer.nesterov=true", "nesterov has no effect without momentum"}}) {
    CAPTURE(c.options);
    check_says(refused(run, std::string("--steps 1 ") + c.options), 2, c.part);
    CHECK_FALSE(fs::exists(run));
  }
}

TEST_CASE("runs of seeds are resumed where one of them is, and not in the folder of a single run") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run", runs = folder.path() / "runs";
  must_print_fingerprint(train_small(run, "--steps 1"));
  check_says(refused(run, "--steps 1 --seeds 0-1 --resume"), 2, "it is a run's own folder");
  CHECK_FALSE(fs::exists(run / "seed-0"));
  fs::create_directory(runs);
  check_says(refused(runs, "--steps 1 --seeds 0-1 --resume"), 2, "there is no folder seed-");
  CHECK(fs::is_empty(runs));
}
