#include "engine/cli/options.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/cli/argument_checks.h"
#include "engine/cli/choices.h"
#include "engine/cli/experiment.h"
#include "engine/cli/given_paths.h"
#include "engine/cli/settings.h"

namespace lockstep::cli {
namespace {

void add_what(CLI::App* train, TrainOptions& of) {
  TrainArguments& a = of.arguments;
  const CLI::Validator positive = whole_number(1);
  train->add_option("--model", a.model, fmt::format("{}", fmt::join(model_names(), ", ")))->capture_default_str();
  train->add_option("--data", a.data, fmt::format("{}", fmt::join(data_names(), ", ")))->capture_default_str();
  train->add_option("--data-dir", a.data_dir, "Folder of the data set's files; synthetic has none");
  train->add_option("--devices", a.devices, "Devices (worker threads) of this process")->check(whole_number(1, 4096));
  train->add_option("--shards", a.shards, "Logical shards V, a power of two")->check(whole_number(1, 1 << 20));
  train->add_option("--seed", a.seed, "Seed of parameters, data order and dropout")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  train->add_option("--batch", a.batch, "Rows a step, over all devices")->check(positive)->capture_default_str();
  auto* steps = train->add_option("--steps", a.steps, "Steps in all")->check(positive);
  train->add_option("--epochs", a.epochs, "Epochs in all")->check(positive)->excludes(steps);
  train->add_option("--optimizer", a.optimizer, fmt::format("{}", fmt::join(optimizer_names(), ", ")))
      ->capture_default_str();
  train->add_option("--learning-rate", a.learning_rate, "The optimizer's rate")
      ->check(not_vanishing())
      ->capture_default_str();
  train->add_option("--schedule", a.schedule, fmt::format("Of the rate: {}", fmt::join(schedule_names(), ", ")))
      ->capture_default_str();
  train->add_option("--set", of.settings, "An option of the model, optimizer, schedule or data: model.dropout=0.5")
      ->type_name("THING.NAME=VALUE")
      ->allow_extra_args(false);
  train->add_option("--config", of.config,
                    "A TOML file with any of these, and tables [model], [optimizer], [schedule], [data]");
  train->add_option("--dtype", a.dtype, "float32 or float64")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->capture_default_str();
  train
      ->add_option(
          "--precision", a.precision,
          "float32, bfloat16 (of products and convolutions alone), or mixed_bfloat16, mixed_float16 (the model "
          "computes in it, from float32 weights)")
      ->check(CLI::IsMember({"float32", "bfloat16", "mixed_bfloat16", "mixed_float16"}))
      ->capture_default_str();
}

void add_how(CLI::App* train, TrainArguments& a) {
  const CLI::Validator positive = whole_number(1);
  train->add_option("--log-every", a.log_every, "Steps between log lines")->check(positive)->capture_default_str();
  train->add_option("--checkpoint-every", a.checkpoint_every, "Steps between checkpoints; default: each epoch")
      ->check(positive);
  train
      ->add_option("--collective-timeout", a.collective_timeout,
                   "Seconds that a process waits for the others, ten times as long for those at work; default: "
                   "LOCKSTEP_COLLECTIVE_TIMEOUT, or 30")
      ->check(seconds());
  train->add_option("--check-replicas", a.check_replicas, "Steps between comparisons of the processes' states")
      ->check(positive);
  train->add_option("--keep-last", a.keep_last, "Checkpoints that stay, the latest ones; default: all")
      ->check(positive);
  auto* resume = train->add_flag("--resume", a.resume, "Go on from the run folder's latest checkpoint");
  train
      ->add_option("--accept-change", a.accept_changes,
                   "With --resume: an entry of the manifest that may be another one now, such as processor")
      ->allow_extra_args(false)
      ->needs(resume);
  auto* seeds = train
                    ->add_option("--seeds", a.seeds,
                                 "A run for each seed, such as 0-4, in folders of their own, and a report of all")
                    ->excludes(train->get_option("--seed"));
  train->add_flag("--trace-bits", a.trace_bits,
                  "Write a hash of each variable behind each step, for `lockstep compare`");
  train->add_flag("--tensorboard", a.tensorboard, "Write event files for TensorBoard into the run folder, too");
  train->add_flag("--debug-nans", a.debug_nans, "Stop at the first NaN and say which op of which layer made it");
  train->add_flag(
      "--check", a.check,
      "Before the first step, compare 1 shard with all of them in float64, and look for gradients that will "
      "be NaN");
  train
      ->add_option(
          "--profile", a.profile,
          "Of one run: record 10 steps after the first, write them for chrome://tracing or Perfetto, and print "
          "what they were spent on")
      ->excludes(seeds);
}

}  // namespace

void add_train_options(CLI::App* command, TrainOptions& of, bool needs_run) {
  add_what(command, of);
  auto* run =
      command->add_option("--run", of.arguments.run, "Folder for metrics, manifest and checkpoints; must not exist");
  if (needs_run) run->required();
  add_how(command, of.arguments);
}

std::vector<std::string> switch_names() {
  CLI::App app;
  app.set_help_flag();
  TrainOptions of;
  add_train_options(&app, of, false);
  std::vector<std::string> names;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return o->get_items_expected_max() == 0; })) {
    names.push_back(option->get_lnames().front());
  }
  std::ranges::sort(names);
  return names;
}

void refuse_empty(CLI::App* command) {
  for (CLI::Option* option :
       command->get_options([](const CLI::Option* o) { return o->get_items_expected_max() > 0; })) {
    option->check(not_empty());
  }
}

TrainArguments finished(const TrainOptions& of) {
  TrainArguments arguments = of.arguments;
  arguments.settings = parse_settings(of.settings);
  return arguments;
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  constexpr std::size_t longest = 500;
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

TrainArguments parse_train(const std::vector<std::string>& words) {
  CLI::App app("lockstep train");
  TrainOptions of;
  add_train_options(&app, of, true);
  refuse_empty(&app);
  std::vector<std::string> all = with_config(words);
  std::ranges::reverse(all);
  try {
    app.parse(all);
  } catch (const CLI::ParseError& error) {
    throw ValueError(one_line(error.what()));
  }
  return finished(of);
}

}  // namespace lockstep::cli
