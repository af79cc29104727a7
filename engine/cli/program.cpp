#include "engine/cli/program.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/backend/backend.h>
#include <lockstep/error.h>
#include <lockstep/processes.h>
#include <lockstep/version.h>

#include "engine/cli/argument_checks.h"
#include "engine/cli/commands.h"
#include "engine/cli/options.h"
#include "engine/cli/settings.h"
#include "engine/core/quoting.h"

namespace lockstep::cli {
namespace {

/// Prints a line about an error. Where standard error takes none, the exit code says it alone: fmt::print would throw.
void print_error(std::string_view text) {
  static_cast<void>(std::fputs(fmt::format("lockstep: {}\n", text).c_str(), stderr));
}

/// Tells the user where backends offer less than elsewhere.
void print_notices() {
  for (const auto& backend : backend::built_backends()) {
    const std::string notice = backend->notice();
    if (!notice.empty()) print_error(fmt::format("{} backend: {}", backend->name(), notice));
  }
}

/// What trainings alone look at, and what neither a summary nor a timing does.
constexpr std::string_view of_runs[] = {"--run",
                                        "--log-every",
                                        "--checkpoint-every",
                                        "--check-replicas",
                                        "--keep-last",
                                        "--resume",
                                        "--accept-change",
                                        "--seeds",
                                        "--trace-bits",
                                        "--tensorboard",
                                        "--check",
                                        "--profile",
                                        "--epochs",
                                        "--collective-timeout"};
constexpr std::string_view of_steps[] = {"--steps",     "--devices",       "--shards",   "--seed",
                                         "--optimizer", "--learning-rate", "--schedule", "--debug-nans"};

/// A command, and what it does once its words are read.
struct Command {
  const CLI::App* app = nullptr;
  std::function<int()> run;
  bool is_alone = false;  ///< Process 0 does it, whoever else was started.
  /// Options that it takes for the sake of `--config` alone, or such values of them: "--precision=bfloat16".
  std::vector<std::string_view> without_effect = {};
};

/// Throws ValueError where the command line itself says what has no effect; a run's file says all that the run was.
void check_has_effect(const Command& command, const std::vector<std::string>& words) {
  const auto is_listed = [&](std::string_view text) {
    return std::ranges::find(command.without_effect, text) != command.without_effect.end();
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const std::string with_value = name == words[i] && i + 1 < words.size() ? name + "=" + words[i + 1] : words[i];
    if (!is_listed(name) && !is_listed(with_value)) continue;
    throw ValueError(fmt::format("[{}] {} has no effect here; leave it out, or give it to train",
                                 command.app->get_name(), is_listed(name) ? name : with_value));
  }
}

class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {
    add_trainings();
    add_uses_of_runs();
    add("info", "Versions, processor, devices, backends", info);
    commands_.back().is_alone = true;
    for (CLI::App* command : app.get_subcommands({})) refuse_empty(command);
  }
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// `words`: those of the command line, without a file's.
  int run(const std::vector<std::string>& words) const {
    for (const Command& command : commands_) {
      if (!command.app->parsed()) continue;
      check_has_effect(command, words);
      return command.is_alone && world()->rank() != 0 ? success : command.run();
    }
    return usage_error;
  }

 private:
  CLI::App* add(const char* name, const char* what, std::function<int()> run) {
    CLI::App* command = app_.add_subcommand(name, what);
    commands_.push_back({command, std::move(run)});
    return command;
  }

  void add_trainings() {
    add_train_options(add("train", "Train a model on a data set, sharded over devices",
                          [this] {
                            const TrainArguments arguments = finished(train_);
                            return arguments.seeds.empty() ? train(arguments, {}, OnSignal::save_and_stop)
                                                           : train_seeds(arguments);
                          }),
                      train_, true);
    add_train_options(add("summary", "A model's variables", [this] { return summarize(finished(train_)); }), train_,
                      false);
    commands_.back().is_alone = true;
    commands_.back().without_effect.assign(std::begin(of_runs), std::end(of_runs));
    commands_.back().without_effect.insert(commands_.back().without_effect.end(), std::begin(of_steps),
                                           std::end(of_steps));
    commands_.back().without_effect.emplace_back("--precision=bfloat16");  // of a step's products alone
    add_train_options(add("bench", "Time a training's steps", [this] { return bench(finished(train_)); }), train_,
                      false);
    commands_.back().without_effect.assign(std::begin(of_runs), std::end(of_runs));
  }

  void add_uses_of_runs() {
    const auto add_use = [this](const char* name, const char* what, int (*run)(const UseArguments&)) {
      CLI::App* command = add(name, what, [this, run] { return run(use_); });
      command->add_option("run", use_.run, "The run's folder")->required();
      command->add_option("--step", use_.step, "Of a checkpoint; default: the latest")->check(whole_number(1));
      command->add_option("--data-dir", use_.data_dir, "Where the data lies now");
      return command;
    };
    add_use("eval", "Loss and metrics of a run's model on the validation set", evaluate_run);
    add_use("predict", "A run's classes for the validation set, as CSV", predict_run)
        ->add_option("--out", use_.out, "The file; default: predictions.csv in the run's folder");
    CLI::App* verify = add("verify", "Make a run again from what its folder says, and compare",
                           [this] { return verify_run(use_.run, use_.data_dir); });
    verify->add_option("run", use_.run, "The run's folder")->required();
    verify->add_option("--data-dir", use_.data_dir, "Where the data lies now");
    add("compare", "Where two runs differ: manifests, first step, first variable",
        [this] { return compare_runs(runs_.at(0), runs_.at(1)); })
        ->add_option("runs", runs_, "Two folders")
        ->required()
        ->expected(2);
    commands_.back().is_alone = true;
    CLI::App* page = add("report", "Write report.html of runs, and curves.svg of each", [this] {
      return report({runs_, use_.out});
    });
    commands_.back().is_alone = true;
    page->add_option("runs", runs_, "Folders")->required();
    page->add_option("--out", use_.out, "The page; default: report.html in the first run's folder");
  }

  CLI::App& app_;
  std::vector<Command> commands_;
  TrainOptions train_;
  UseArguments use_;
  std::vector<std::filesystem::path> runs_;
};

int parsed_and_run(int argc, char** argv) {
  CLI::App app("Lockstep: training with one meaning on any number of devices", "lockstep");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  const Commands commands(app);
  const std::vector<std::string> given(argv + 1, argv + argc);
  std::vector<std::string> words = with_config(given);
  std::ranges::reverse(words);  // as the parser takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    print_error(one_line(error.what()) + " (see lockstep --help)");
    return usage_error;
  }
  print_notices();
  return commands.run(given);
}

/// Prints it, tells the other processes, and returns the exit code.
int ended(int code, const char* text) {
  print_error(printable(text, Lines::kept));
  abort_processes(text);
  return code;
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    const int code = parsed_and_run(argc, argv);
    // What stands in the buffer is written here, where it can still be said that it was not.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return ended(
          failure,
          "standard output cannot be written, so what was printed is not whole; give it a file or disk with room");
    }
    return code;
  } catch (const ValueError& error) {
    return ended(usage_error, error.what());
  } catch (const MeshError& error) {
    return ended(usage_error, error.what());
  } catch (const DataError& error) {
    return ended(usage_error, error.what());
  } catch (const std::bad_alloc&) {
    return ended(
        failure,
        "the system gives no more memory; end other programs, raise this process's limit (ulimit -v), or train "
        "a smaller model or batch");
  } catch (const std::exception& error) {
    return ended(failure, error.what());
  } catch (...) {
    return ended(failure, "an error of no known kind");
  }
}

}  // namespace lockstep::cli
