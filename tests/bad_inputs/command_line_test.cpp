#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bad_inputs/rows.h"
#include "tests/cli/program.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

const TemporaryFolder& folder() {
  static const TemporaryFolder made;
  return made;
}

const std::string data = "--data synthetic --set data.rows=64 --set data.test_rows=16 --model mlp";

/// What a command says on stderr, in one line, is the row's next text.
void check_line(int number, const Outcome& outcome) {
  REQUIRE(outcome.err.size() == 1);
  check_text(number, outcome.err[0], folder().path().string());
}

/// `lockstep <command>` ends with one line on stderr and code 2, prints nothing and makes no run.
void command_row(int number, const std::string& command) {
  CAPTURE(number);
  CAPTURE(command);
  const Outcome outcome = run_program(command);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  check_line(number, outcome);
  CHECK_FALSE(fs::exists(folder().path() / "run"));
}

/// Of a training that would run but for `flags`.
void train_row(int number, const std::string& flags) {
  command_row(number, "train --steps 1 " + data + " --run " + (folder().path() / "run").string() + " " + flags);
}

/// Of a training whose other options stand in a file.
void config_row(int number, const std::string& config) {
  folder().write("config.toml", config);
  train_row(number, "--config " + (folder().path() / "config.toml").string());
}

/// A training that runs under a config file.
void check_runs(const std::string& config, const std::string& name) {
  const fs::path path = folder().write("config.toml", config);
  const Outcome outcome = run_program("train --steps 1 " + data + " --config " + path.string() + " --run " +
                                      (folder().path() / name).string());
  CHECK(outcome.err == std::vector<std::string>{});
  CHECK(outcome.code == 0);
}

}  // namespace

TEST_CASE("bad inputs 81 to 85: flags of the command line") {
  train_row(81, "--bacth 32");
  train_row(81, "--batch");
  train_row(81, "--batch 16 --batch 32");
  train_row(81, "--resume --resume");
  train_row(81, "--set model.widht=3");
  train_row(81, "--set model.width=3 --set model.width=4");
  train_row(81, "--set width=3");
  train_row(81, "--set modle.width=3");
  train_row(81, "leftover");
  command_row(81, "trian");
  command_row(81, "");
  for (const std::string rate : {"nan", "inf", "-1", "1e400", "0,1", "abc", "\"\""}) {
    train_row(82, "--learning-rate=" + rate);
  }
  const std::string epochs = "train " + data + " --run " + (folder().path() / "run").string() + " --epochs=";
  for (const std::string count : {"-1", "0", "9223372036854775808", "1e3", "10x", "1.5", "\"\""}) {
    command_row(83, epochs + count);
    train_row(83, "--batch=" + count);
  }
  for (const std::string seed : {"-1", "18446744073709551616", "\"\"", "1.5", "x"}) {
    train_row(84, "--seed=" + seed);
  }
  train_row(85, "--set optimizer.nesterov=maybe --optimizer sgd");
  train_row(85, "--resume=maybe");
  train_row(85, "--set data.rows=maybe");
  train_row(85, "--set optimizer.momentum=maybe --optimizer sgd");
}

TEST_CASE("bad inputs 144: a rate that would be read as 0, and a standard output that is full") {
  for (const std::string rate : {"1e-400", "0.0001e-330", "-1e-400", "4e-324000"}) {
    train_row(144, "--learning-rate=" + rate);
  }
  train_row(144, "--optimizer adam --set optimizer.epsilon=1e-400");
  row(144, [] {
    for (const std::string command : {"info", "--help", "train --help", "--version"}) {
      CAPTURE(command);
      const Outcome outcome = run_shell(LOCKSTEP_PROGRAM " " + command + " >/dev/full");
      CHECK(outcome.code == 1);
      check_line(144, outcome);
    }
  });
}

TEST_CASE("bad inputs 86 and 87: config files, and options that do not go together") {
  row(86, [] {
    check_runs("", "empty");
    check_runs("batch = 16\r\n[optimizer]\r\nname = \"sgd\"\r\nmomentum = 0.5\r\n", "crlf");
    check_runs(
        "\xEF\xBB\xBF"
        "batch = 16\n",
        "marked");
  });
  train_row(86, "--config " + (folder().path() / "absent.toml").string());
  train_row(86, "--config " + folder().path().string());
  train_row(86, "--config /dev/zero");
  train_row(86, "--config");
  config_row(86, std::string("batch = 1\0"
                             "6\n",
                             12));
  config_row(86, "bacth = 16\n");
  config_row(86, "batch\n");
  config_row(86, "batch = \n");
  config_row(86, "batch = 16\nbatch = 32\n");
  config_row(86, "batch = \"16\n");
  config_row(86, "[model\nwidth = 3\n");
  config_row(86, "[model.inner]\nwidth = 3\n");
  config_row(86, "[modle]\nwidth = 3\n");
  config_row(86, "config = \"config.toml\"\n");
  for (const char* letter : {"\u00E9", "\u3042", "\uFEDF", "\u00A0"}) {
    config_row(86, std::string("batch ") + letter + "= 16\n");
  }
  config_row(86, std::string(100000, '['));
  row(86, [] {
    const fs::path large = folder().path() / "large.toml";
    std::ofstream(large) << "batch = 16\n";
    fs::resize_file(large, std::uintmax_t{1} << 30);
    train_row(86, "--config " + large.string());
    fs::remove(large);
  });
  train_row(87, "--resume");
  train_row(87, "--epochs 1");
  train_row(87, "--precision bfloat16 --dtype float64");
  train_row(87, "--accept-change seed");
  const fs::path taken = folder().path() / "taken";
  fs::create_directory(taken);
  command_row(87, "train --steps 1 " + data + " --run " + taken.string());
  command_row(87, "train --steps 1 " + data + " --resume --run " + (folder().path() / "config.toml").string());
}

TEST_CASE("bad inputs 88: variables of the environment") {
  const fs::path run = folder().path() / "run";
  const std::string train = " " LOCKSTEP_PROGRAM " train " + data + " --run " + run.string();
  for (const std::string variable : {"LOCKSTEP_FUSE=maybe", "LOCKSTEP_VERIFY=2", "LOCKSTEP_SYSTEM_ALIGNMENT=x",
                                     "LOCKSTEP_MAX_ISA=avx3", "LOCKSTEP_COLLECTIVE_TIMEOUT=soon"}) {
    row(88, [&] {
      CAPTURE(variable);
      const Outcome outcome = run_shell(variable + train + " --steps 1");
      CHECK(outcome.code != 0);
      check_line(88, outcome);
      fs::remove_all(run);
    });
  }
  // What libraries read is recorded in the run's manifest, and compared when it is resumed.
  for (const std::string variable : {"OMP_NUM_THREADS=abc", "MKL_NUM_THREADS=-1", "ONEDNN_MAX_CPU_ISA=zzz"}) {
    row(88, [&] {
      CAPTURE(variable);
      CHECK(run_shell(variable + train + " --steps 1").code == 0);
      const Outcome resumed = run_shell(train + " --steps 2 --resume");
      CHECK(resumed.code == 1);
      check_line(88, resumed);
      fs::remove_all(run);
    });
  }
}

}  // namespace lockstep::tests
