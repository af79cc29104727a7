#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "engine/cli/argument_checks.h"
#include "engine/cli/commands.h"
#include "engine/cli/experiment.h"
#include "engine/cli/given_paths.h"
#include "engine/cli/named_options.h"
#include "engine/cli/run_folder.h"
#include "engine/files/folder_entries.h"

// Trainings made several times: a run for each seed, and steps that are timed.
namespace lockstep::cli {
namespace {

/// Of "0-4" and "7".
std::pair<std::uint64_t, std::uint64_t> seeds_in(const std::string& text) {
  const std::size_t dash = text.find('-');
  const auto seed_in = [](std::string_view digits) {
    return is_padded(digits) ? std::nullopt : number_in<std::uint64_t>(digits);
  };
  const auto first = seed_in(std::string_view(text).substr(0, dash));
  const auto last = dash == std::string::npos ? first : seed_in(std::string_view(text).substr(dash + 1));
  if (!first || !last || *last < *first || *last - *first >= 1000) {
    throw ValueError(
        fmt::format("--seeds '{}': expected one number, or two with a dash, the smaller first and at most 1000 in all, "
                    "without zeros before them, such as 0-4",
                    text));
  }
  return {*first, *last};
}

/// Throws ValueError where no run of any seed is in the folder, which may be a run's own.
void check_has_runs(const std::filesystem::path& folder) {
  if (const std::string found = foreign_in(folder); !found.empty()) throw CheckpointError("[train] " + found);
  std::string why = not_a_folder(folder);
  const auto is_run = [](const std::string& name) { return name.starts_with("seed-"); };
  if (why.empty() && std::ranges::none_of(files::names_in(folder), is_run)) {
    why = written_manifest(folder) ? "it is a run's own folder, which goes on with --seed"
                                   : "there is no folder seed-...";
  }
  if (why.empty()) return;
  throw ValueError(
      fmt::format("[train] {} holds no runs to resume: {}; leave --resume out to start them", folder.string(), why));
}

}  // namespace

int train_seeds(const TrainArguments& arguments) {
  const auto [first, last] = seeds_in(arguments.seeds);
  ReportArguments all{{}, arguments.run / "report.html"};
  std::string fingerprints;
  const auto run_of = [&](std::uint64_t seed) { return arguments.run / fmt::format("seed-{}", seed); };
  if (arguments.resume) {
    check_has_runs(arguments.run);
  } else {  // before hours have gone into the runs before it
    world()->run_on_first("looking for the runs' folders", [&] {
      for (std::uint64_t n = 0; n <= last - first; ++n) check_new_run(run_of(first + n));
    });
  }
  for (std::uint64_t n = 0; n <= last - first; ++n) {
    TrainArguments one = arguments;
    one.seed = first + n;
    one.run = run_of(one.seed);
    one.resume = arguments.resume && std::filesystem::exists(one.run);
    if (const int code = train(one, {}, OnSignal::save_and_stop); code != success) return code;
    if (world()->rank() == 0) fingerprints += written_fingerprint(one.run).value_or("none");
    all.runs.push_back(one.run);
  }
  if (world()->rank() != 0) return success;
  write_reports(all);
  fmt::print("fingerprint {}\n", sha256(fingerprints));
  return success;
}

int bench(const TrainArguments& arguments) {
  const DataSets sets = load(arguments);
  const Model<Array, Array> model = model_of(arguments, sets.train);
  const TrainStep step = step_of(arguments, model, 1000, parallel_options(arguments));
  data::Loader loader = training_loader(arguments, std::make_shared<const data::Dataset>(sets.train));
  const Batch batch = loader.next();
  TrainState state = initial_state(model, step, arguments, sets.train);
  using Clock = std::chrono::steady_clock;
  const auto run = [&] {
    const auto begin = Clock::now();
    auto [next, logs] = step(std::move(state), batch);
    state = std::move(next);
    logs.at("loss").item<double>();
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  };
  const double first = run();
  constexpr int warm = 3;
  for (int i = 0; i < warm; ++i) run();
  std::vector<double> times;
  const std::int64_t count = arguments.steps > 0 ? arguments.steps : 50;
  for (std::int64_t i = 0; i < count; ++i) times.push_back(run());
  if (world()->rank() != 0) return success;
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  fmt::print("{} batch {}: first call {:.1f} ms; {} steps: median {:.3f} ms, 10 % {:.3f}, 90 % {:.3f}; {:.0f} rows/s\n",
             arguments.model, arguments.batch, first, count, at(0.5), at(0.1), at(0.9),
             static_cast<double>(arguments.batch) / at(0.5) * 1e3);
  return success;
}

}  // namespace lockstep::cli
