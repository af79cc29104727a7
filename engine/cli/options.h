#pragma once

#include <string>
#include <vector>

#include "engine/cli/commands.h"

// Complete in <CLI/CLI.hpp>, which takes seconds to compile.
namespace CLI {
class App;
}  // namespace CLI

namespace lockstep::cli {

/// Arguments as they are declared to the parser, with texts that are read afterwards.
struct TrainOptions {
  TrainArguments arguments;
  std::vector<std::string> settings;
  std::string config;
};

/// Declares the options of a training. What is parsed lies in `of` then; `finished` reads the texts.
void add_train_options(CLI::App* command, TrainOptions& of, bool needs_run);
/// The options of a training that are given or not, without a value: long names without the dashes, sorted.
std::vector<std::string> switch_names();
/// Has each option that takes a value refuse an empty text.
void refuse_empty(CLI::App* command);
/// Throws ValueError for a setting.
TrainArguments finished(const TrainOptions& of);

/// A parser's error in one line.
std::string one_line(std::string text);

}  // namespace lockstep::cli
