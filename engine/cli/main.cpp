#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/backend/backend.h>
#include <lockstep/error.h>
#include <lockstep/models.h>
#include <lockstep/processes.h>
#include <lockstep/version.h>

#include "engine/cli/commands.h"

namespace lockstep::cli {
namespace {

/// CLI11 would wrap a negative number around.
std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? text + " is negative; give 0 to 18446744073709551615" : "";
}

CLI::App* add_train(CLI::App& app, TrainArguments& a) {
  CLI::App* train = app.add_subcommand("train", "Train a model on a data set, sharded over devices");
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  train->add_option("--model", a.model, fmt::format("{}", fmt::join(models::names(), ", ")))->capture_default_str();
  train->add_option("--data", a.data, "fashion-mnist")->capture_default_str();
  train->add_option("--data-dir", a.data_dir, "Folder of the four IDX files");
  train->add_option("--devices", a.devices, "Devices (worker threads) of this process")->check(CLI::Range(1, 4096));
  train->add_option("--shards", a.shards, "Logical shards V, a power of two")->check(positive);
  train->add_option("--seed", a.seed, "Seed of parameters, data order and dropout")
      ->check(CLI::Validator(not_negative, ""))
      ->capture_default_str();
  train->add_option("--batch", a.batch, "Rows a step, over all devices")->check(positive)->capture_default_str();
  auto* steps = train->add_option("--steps", a.steps, "Steps in all")->check(positive);
  train->add_option("--epochs", a.epochs, "Epochs in all")->check(positive)->excludes(steps);
  train->add_option("--learning-rate", a.learning_rate, "AdamW's rate")->capture_default_str();
  train->add_option("--dtype", a.dtype, "float32 or float64")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->capture_default_str();
  train->add_option("--precision", a.precision, "Of products and convolutions: float32 or bfloat16")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  train->add_option("--run", a.run, "Folder for metrics, manifest and checkpoints; must not exist")->required();
  train->add_option("--log-every", a.log_every, "Steps between log lines")->check(positive)->capture_default_str();
  train->add_option("--checkpoint-every", a.checkpoint_every, "Steps between checkpoints; default: each epoch")
      ->check(positive);
  train
      ->add_option("--collective-timeout", a.collective_timeout,
                   "Seconds that a process waits for the others; default: LOCKSTEP_COLLECTIVE_TIMEOUT, or 30")
      ->check(CLI::PositiveNumber);
  train->add_option("--check-replicas", a.check_replicas, "Steps between comparisons of the processes' states")
      ->check(positive);
  train->add_option("--keep-last", a.keep_last, "Checkpoints that stay, the latest ones; default: all")
      ->check(positive);
  train->add_flag("--resume", a.resume, "Go on from the run folder's latest checkpoint");
  train->add_option("--accept-change", a.accept_changes,
                    "With --resume: an entry of the manifest that may be another one now, such as processor");
  train->add_flag("--tensorboard", a.tensorboard, "Write event files for TensorBoard into the run folder, too");
  train->add_flag("--debug-nans", a.debug_nans, "Stop at the first NaN and say which op of which layer made it");
  train->add_flag(
      "--check", a.check,
      "Before the first step, compare 1 shard with all of them in float64, and look for gradients that will "
      "be NaN");
  train->add_option("--profile", a.profile,
                    "Record 10 steps after the first, write them for chrome://tracing or Perfetto, and print what they "
                    "were spent on");
  return train;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

/// Tells the user where backends offer less than elsewhere.
void print_notices() {
  for (const auto& backend : backend::built_backends()) {
    const std::string notice = backend->notice();
    if (!notice.empty()) fmt::print(stderr, "lockstep: {} backend: {}\n", backend->name(), notice);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Lockstep: training with one meaning on any number of devices", "lockstep");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  TrainArguments arguments;
  const CLI::App* train_command = add_train(app, arguments);
  app.add_subcommand("info", "Versions, processor, devices, backends");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "lockstep: {} (see lockstep --help)\n", one_line(error.what()));
    return usage_error;
  }
  print_notices();
  return train_command->parsed() ? train(arguments) : info();
}

}  // namespace
}  // namespace lockstep::cli

namespace {

/// Prints it, tells the other processes, and returns the exit code.
int ended(int code, const char* text) {
  fmt::print(stderr, "lockstep: {}\n", text);
  lockstep::abort_processes(text);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep;
  try {
    return cli::run(argc, argv);
  } catch (const ValueError& error) {
    return ended(cli::usage_error, error.what());
  } catch (const MeshError& error) {
    return ended(cli::usage_error, error.what());
  } catch (const DataError& error) {
    return ended(cli::usage_error, error.what());
  } catch (const std::exception& error) {
    return ended(cli::failure, error.what());
  } catch (...) {
    return ended(cli::failure, "an error of no known kind");
  }
}
