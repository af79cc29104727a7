#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cli/program.h"
#include "tests/support/expect_error.h"

using lockstep::tests::contains;
using lockstep::tests::Outcome;
using lockstep::tests::run_in_child;
using lockstep::tests::run_program;
using lockstep::tests::run_shell;
using lockstep::tests::SmallData;
using lockstep::tests::TemporaryFolder;

namespace {

bool line_starts(const std::vector<std::string>& lines, const std::string& start, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.starts_with(start) && contains(line, part); });
}

}  // namespace

TEST_CASE("what cannot be run is told in one line on stderr, with exit code 2") {
  const TemporaryFolder folder;
  const SmallData data;
  const std::string run = " --run " + (folder.path() / "new").string();
  const std::string train = "train --steps 1" + data.option() + run;
  folder.write("taken", "");
  struct Case {
    std::string arguments;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"", "subcommand is required"},
      {"trian", "subcommand is required"},
      {"train", "--run is required"},
      {train + " --frobnicate", "--frobnicate"},
      {train + " --steps", "--steps"},
      {train + " --batch zero", "zero"},
      {train + " --batch 0", "--batch"},
      {train + " --shards 0", "--shards"},
      {train + " --shards 2097152", "--shards: '2097152' is no whole number from 1 to 1048576"},
      {train + " --seed -1", "--seed: '-1' is no whole number from 0 to 18446744073709551615 in decimal digits"},
      {train + " --seed 18446744073709551616", "'18446744073709551616' is no whole number"},
      {train + " --seed ''", "'' is no whole number"},
      {train + " --batch 010", "'010' is no whole number from 1 to 1099511627776 in decimal digits"},
      {train + " --devices 0x2", "'0x2' is no whole number from 1 to 4096"},
      {train + " --shards 1e3", "'1e3' is no whole number"},
      {train + " --collective-timeout nan", "'nan' is no number of seconds above 0 and up to a year"},
      {train + " --collective-timeout 1e400", "'1e400' is no number of seconds"},
      {train + " --epochs 1", "--epochs"},
      {"train --steps 1 --seed=-1" + run, "'-1' is no whole number"},
      {train + " --dtype float16", "float16"},
      {train + " --precision float16", "float16"},
      {train + " --precision mixed_bfloat16 --dtype float64",
       "--precision mixed_bfloat16 is one of float32 models, and --dtype is float64; leave one of the two out"},
      {train + " --precision bfloat16 --dtype float64",
       "--precision bfloat16 is one of float32 models, and --dtype is float64; leave one of the two out"},
      {train + " --learning-rate=-1", "-1"},
      {train + " --learning-rate nan", "nan"},
      {train + " --model perceptron", "no model 'perceptron'; known are autoencoder, cnn, convnext_base, "},
      {train + " --data mnist", "no data set 'mnist'; known are cifar10, cifar100, fashion-mnist, npz, synthetic"},
      {train + " --shards 3", "3"},
      {train + " --shards 8 --devices 3", "3"},
      {train + " --shards 2 --devices 4", "4"},
      {train + " --batch 705", "--batch 705 is more than the 704 rows of the training set; give a smaller one"},
      {"bench --batch 705" + data.option(), "--batch 705 is more than the 704 rows of the training set"},
      {train + " --model resnet20 --set model.filters=16,32,", "model.filters is '16,32,'; expected integers between"},
      {train + " --model resnet20 --set model.filters=", "model.filters is ''; expected integers between commas"},
      {train + " --seeds 1-2 --seed 3", "--seed excludes --seeds"},
      {train + " --optimizer=", "--optimizer= has nothing behind the equals sign; write a value there"},
      {train + " --model mlp --set model.layers=-1", "[mlp] layers is -1; it must be at least 0"},
      {train + " --model vit --set model.depth=-1", "depth is -1; it must be at least 0"},
      {"train --steps 1 --data synthetic --set data.test_rows=0" + run, "data.test_rows is 0; it must be at least 1"},
      {"train --steps 1 --data npz --set data.classes=-2 --data-dir x" + run, "data.classes is -2; it must be"},
      {"train --steps 1 --data-dir /nowhere" + run, "/nowhere"},
      {"train --steps 1" + data.option() + " --run " + folder.path().string(), "exists already"},
      {"train --steps 1" + data.option() + " --run " + (folder.path() / "taken").string(), "exists already"},
      {train + " --resume", "holds no checkpoint to resume"},
      {"train --steps 1 --resume" + data.option() + " --run " + folder.path().string(), "holds no checkpoint"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.arguments);
    const Outcome outcome = run_in_child(c.arguments);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    REQUIRE(outcome.err.size() == 1);
    CAPTURE(outcome.err[0]);
    CHECK(outcome.err[0].starts_with("lockstep: "));
    CHECK(contains(outcome.err[0], c.part));
    CHECK_FALSE(std::filesystem::exists(folder.path() / "new"));
  }
}

TEST_CASE("--help and --version print and succeed") {
  for (const std::string arguments : {"--help", "train --help", "info --help", "--version"}) {
    const Outcome outcome = run_program(arguments);
    CHECK(outcome.code == 0);
    CHECK_FALSE(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
}

TEST_CASE("info names versions, processor, devices, backends, communicators and models, each once") {
  const Outcome outcome = run_program("info");
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(line_starts(outcome.out, "lockstep ", "0."));
  CHECK(line_starts(outcome.out, "backend aten ", "2."));
  CHECK(line_starts(outcome.out, "processor ", ""));
  CHECK(line_starts(outcome.out, "cache_l2 ", ""));
  CHECK(line_starts(outcome.out, "random_stream_version ", "1"));
  CHECK(line_starts(outcome.out, "devices ", "cpu:0-"));
  CHECK(line_starts(outcome.out, "communicators ", "single_process"));
  CHECK_FALSE(line_starts(outcome.out, "communicators ", "single process"));
  CHECK(line_starts(
      outcome.out, "models ",
      "resnet101, resnet101_v2, resnet152, resnet152_v2, resnet18, resnet20, resnet50, resnet50_v2, unet, vae, "
      "vgg16, vgg19, vit, xception"));
}

TEST_CASE("an error whose text cannot be printed ends with its exit code all the same") {
  for (const std::string arguments :
       {"train --modle mlp", "report /nowhere", "train --model mlp --data-dir /nowhere --run r"}) {
    CAPTURE(arguments);
    CHECK(run_shell("sh -c '" LOCKSTEP_PROGRAM " " + arguments + " 2>/dev/full'").code == 2);
  }
}
