#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/callbacks.h>
#include <lockstep/ops.h>

// EarlyStopping and ReduceLROnPlateau beside Keras' own, on metrics that keras_callbacks.py has drawn.

using namespace lockstep;

namespace {

std::vector<std::vector<std::string>> recorded(const std::string& callback) {
  std::ifstream file(LOCKSTEP_TESTS_DIR "/trainer/keras_callbacks.txt");
  std::vector<std::vector<std::string>> runs;
  for (std::string line; std::getline(file, line);) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words[0] == callback) runs.push_back(words);
  }
  REQUIRE(runs.size() == 40);
  return runs;
}

callbacks::Mode mode_of(const std::string& word) { return word == "max" ? callbacks::Mode::max : callbacks::Mode::min; }

struct Epoch {
  double metric = 0;
  std::string after;
};
Epoch epoch_of(const std::string& word) {
  const std::size_t slash = word.find('/');
  return {std::stod(word.substr(0, slash)), word.substr(slash + 1)};
}

StepReport report_of(std::size_t epoch, double metric) {
  return {
      .step = static_cast<std::int64_t>(epoch) + 1, .epoch = static_cast<std::int64_t>(epoch), .logs = {{"m", metric}}};
}

/// Weights that are the number of the epoch.
Tree state_of(std::size_t epoch) {
  return Tree::dict({{"trainable", Tree(array(static_cast<std::int64_t>(epoch)))}, {"step", Tree(array(1))}});
}

}  // namespace

TEST_CASE("EarlyStopping stops, and restores weights, where Keras' does; saved and restored in the middle, too") {
  for (const auto& words : recorded("early_stopping")) {
    callbacks::EarlyStoppingOptions options{.monitor = "m",
                                            .min_delta = std::stod(words[2]),
                                            .patience = std::stoll(words[1]),
                                            .mode = mode_of(words[3]),
                                            .restore_best_weights = words[5] == "true",
                                            .start_from_epoch = std::stoll(words[6])};
    if (words[4] != "none") options.baseline = std::stod(words[4]);
    callbacks::EarlyStopping callback(options);
    const std::size_t epochs = words.size() - 8;
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
      CAPTURE(epoch);
      const Epoch expected = epoch_of(words[7 + epoch]);
      Requests requests;
      callback.on_epoch(report_of(epoch, expected.metric), state_of(epoch), requests);
      CHECK(requests.stop_reason().has_value() == (expected.after == "stop"));
      if (expected.after == "best") CHECK(callback.best() == expected.metric);
      callbacks::EarlyStopping restored(options);
      restored.restore(callback.saved_state(state_of(epoch)));
      callback = restored;
    }
    Requests end;
    callback.on_end(report_of(epochs - 1, 0), state_of(epochs - 1), end);
    const auto replaced = end.replaced().find("trainable");
    const std::int64_t weights = replaced == end.replaced().end() ? static_cast<std::int64_t>(epochs) - 1
                                                                  : replaced->second.array().item<std::int64_t>();
    CHECK(weights == std::stoll(words.back()));
  }
}

TEST_CASE("ReduceLROnPlateau has the learning rates of Keras'; saved and restored in the middle, too") {
  for (const auto& words : recorded("reduce_lr_on_plateau")) {
    const callbacks::ReduceLROnPlateauOptions options{.monitor = "m",
                                                      .factor = std::stod(words[1]),
                                                      .patience = std::stoll(words[2]),
                                                      .mode = mode_of(words[4]),
                                                      .min_delta = std::stod(words[3]),
                                                      .cooldown = std::stoll(words[5]),
                                                      .min_lr = std::stod(words[6])};
    callbacks::ReduceLROnPlateau callback(options);
    double rate = 1;
    for (std::size_t epoch = 0; epoch + 7 < words.size(); ++epoch) {
      CAPTURE(epoch);
      const Epoch expected = epoch_of(words[7 + epoch]);
      const Tree state = Tree::dict({{"count", Tree(array(1))},
                                     {"inner", Tree()},
                                     {"values", Tree::dict({{"learning_rate", Tree(array(rate))}})}});
      Requests requests;
      callback.on_epoch(report_of(epoch, expected.metric), state, requests);
      for (const auto& [name, value] : requests.hyperparameters()) rate = value;
      CHECK(rate == std::stod(expected.after));
      callbacks::ReduceLROnPlateau restored(options);
      restored.restore(callback.saved_state(state));
      callback = restored;
    }
  }
}
