#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/checkpoint_manager.h>
#include <lockstep/error.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>

#include "engine/checkpoint/block_saves.h"
#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/pace.h"
#include "engine/checkpoint/write.h"
#include "engine/core/process_end.h"
#include "engine/files/folder_entries.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

/// The leaf of a saved run, or of a state itself, that counts its steps: one that has this number. Empty: none.
std::string counter_in(const Tree& tree, std::int64_t step) {
  for (const char* path : {"state/step", "step"}) {
    if (!tree.contains(path) || !tree.at(path).is_leaf()) continue;
    const Array& leaf = tree.at(path).array();
    if (!leaf.has_value() || leaf.ndim() != 0 || !is_integer(leaf.dtype()) || is_cut(leaf)) continue;
    if (leaf.item<std::int64_t>() == step) return path;
  }
  return "";
}

/// The thread that writes gives way to those that train. Where they take every core, it gets about 1.5 % of one: with a
/// tenth of it, devices that wait for one another lost a quarter of their time and more while it wrote.
void run_behind_others() {
#ifdef __linux__
  constexpr int politeness = 19;
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), politeness));
#endif
}

void check_manager_options(const ManagerOptions& o) {
  for (const auto& [name, count] : {std::pair{"keep_last", o.keep_last},
                                    {"keep_best", o.keep_best},
                                    {"keep_every", o.keep_every},
                                    {"keep_closest_to_every", o.keep_closest_to_every}}) {
    if (count < 0) throw ValueError(fmt::format("[checkpoint manager] {} is {}; give 0 or more", name, count));
  }
  for (const auto& [name, seconds] :
       {std::pair{"keep_every_seconds", o.keep_every_seconds}, {"keep_seconds", o.keep_seconds}}) {
    if (!(seconds >= 0)) throw ValueError(fmt::format("[checkpoint manager] {} is {}; give 0 or more", name, seconds));
  }
  if (o.keep_best > 0 && o.best_metric.empty()) {
    throw ValueError("[checkpoint manager] keep_best needs a metric; name it in best_metric");
  }
}

/// Why an entry that has a step's name is no checkpoint; empty where it is one, or where that cannot be seen. What reads
/// it then says what is damaged.
std::string why_no_checkpoint(const fs::path& entry) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(entry, error);
  if (error) return "";
  if (fs::is_regular_file(status)) return "is a file, and a checkpoint is a folder";
  if (!fs::is_directory(status)) return "";
  const std::vector<std::string> names = files::names_in(entry, error);
  const bool is_empty = std::ranges::all_of(names, [](const std::string& name) { return name.starts_with('.'); });
  return !error && is_empty ? "is an empty folder" : "";
}

/// Why an entry of a manager's folder only looks like a checkpoint; empty where it is one, or looks like none.
std::string why_stray(const fs::path& folder, const std::string& name) {
  if (step_in(name)) return why_no_checkpoint(folder / name);
  const bool is_number = name.starts_with(step_prefix) && name.size() > step_prefix.size() &&
                         name.find_first_not_of("0123456789", step_prefix.size()) == name.npos;
  return is_number ? "has a number that no step is written as, such as one with zeros in front" : "";
}

void check_there(const std::vector<std::int64_t>& steps, std::int64_t step, const fs::path& folder) {
  if (std::ranges::find(steps, step) != steps.end()) return;
  throw CheckpointError(fmt::format("[checkpoint] {} holds no checkpoint of step {}; it has those of steps [{}]",
                                    folder.string(), step, fmt::join(steps, ", ")));
}

}  // namespace

struct Manager::Impl {
  Impl(fs::path where, ManagerOptions how) : folder(std::move(where)), options(std::move(how)) {}
  ~Impl() { finish(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  fs::path path_of(std::int64_t step) const { return folder / (step_prefix + std::to_string(step)); }

  /// To read from: a folder of its own, no link to elsewhere.
  fs::path own_path_of(std::int64_t step) const {
    refuse_foreign(path_of(step));
    return path_of(step);
  }

  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const std::string& name : names_in(folder)) {
      const auto step = step_in(name);
      if (step && why_no_checkpoint(folder / name).empty()) found.push_back(*step);
    }
    std::ranges::sort(found);
    return found;
  }

  /// Writes to stderr, once, what looks like a checkpoint and is left out.
  void tell_of_strays() {
    if (std::exchange(has_told, true)) return;
    for (const std::string& name : names_in(folder)) {
      const std::string why = why_stray(folder, name);
      if (why.empty()) continue;
      static_cast<void>(std::fputs(
          fmt::format("[checkpoint] {} is left out: it {}; take it away\n", (folder / name).string(), why).c_str(),
          stderr));
    }
  }

  /// The value to choose by, smaller is better; nothing where a step has none.
  std::optional<double> rank_of(std::int64_t step) {
    const auto known = ranks.find(step);
    if (known != ranks.end()) return known->second;
    const Named<double> metrics = read_manifest(own_path_of(step)).description.metrics;
    const auto found = metrics.find(options.best_metric);
    std::optional<double> rank;
    if (found != metrics.end() && !std::isnan(found->second)) {
      rank = options.best == Best::smallest ? found->second : -found->second;
    }
    return ranks.emplace(step, rank).first->second;
  }

  /// The best first.
  std::vector<std::int64_t> by_rank() {
    std::vector<std::pair<double, std::int64_t>> ranked;
    for (const std::int64_t step : steps()) {
      if (const auto rank = rank_of(step)) ranked.emplace_back(*rank, step);
    }
    std::ranges::sort(ranked);
    std::vector<std::int64_t> best;
    for (const auto& [rank, step] : ranked) best.push_back(step);
    return best;
  }

  /// The step of each multiple of `interval` that is closest to it, of equally close ones the later.
  static void keep_closest(const std::vector<std::int64_t>& all, std::int64_t interval, std::set<std::int64_t>& kept) {
    std::map<std::int64_t, std::int64_t> closest;  // of the multiples
    for (const std::int64_t step : all) {
      const auto apart = [&](std::int64_t other, std::int64_t to) { return std::abs(other - to * interval); };
      const auto nearest =
          static_cast<std::int64_t>(std::nearbyint(static_cast<double>(step) / static_cast<double>(interval)));
      const auto [at, is_new] = closest.emplace(nearest, step);
      if (!is_new && apart(step, nearest) <= apart(at->second, nearest)) at->second = step;
    }
    for (const auto& [multiple, step] : closest) kept.insert(step);
  }

  void keep_by_time(const std::vector<std::int64_t>& all, std::set<std::int64_t>& kept) const {
    using Seconds = std::chrono::duration<double>;
    const fs::file_time_type now = fs::file_time_type::clock::now();
    std::optional<fs::file_time_type> last;
    for (const std::int64_t step : all) {
      std::error_code error;
      const fs::file_time_type saved = fs::last_write_time(path_of(step), error);
      if (error) continue;
      if (options.keep_seconds > 0 && Seconds(now - saved).count() <= options.keep_seconds) kept.insert(step);
      if (options.keep_every_seconds == 0) continue;
      if (last && Seconds(saved - *last).count() < options.keep_every_seconds) continue;
      kept.insert(step);
      last = saved;
    }
  }

  bool has_rules() const {
    const ManagerOptions& o = options;
    return o.keep_last > 0 || o.keep_best > 0 || o.keep_every > 0 || o.keep_closest_to_every > 0 ||
           o.keep_every_seconds > 0 || o.keep_seconds > 0 || !o.keep_steps.empty();
  }

  void remove_what_no_rule_keeps(std::int64_t saved) {
    if (!has_rules()) return;
    const std::vector<std::int64_t> all = steps();
    if (all.empty()) return;
    const auto last = static_cast<std::size_t>(options.keep_last);
    std::set<std::int64_t> kept(all.end() - static_cast<std::ptrdiff_t>(std::min(last, all.size())), all.end());
    kept.insert({all.back(), saved});
    if (options.keep_best > 0) {
      const std::vector<std::int64_t> best = by_rank();
      const auto count = std::min(static_cast<std::size_t>(options.keep_best), best.size());
      kept.insert(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(count));
    }
    if (options.keep_closest_to_every > 0) keep_closest(all, options.keep_closest_to_every, kept);
    keep_by_time(all, kept);
    kept.insert(options.keep_steps.begin(), options.keep_steps.end());
    for (const std::int64_t step : all) {
      if (kept.contains(step) || (options.keep_every > 0 && step % options.keep_every == 0)) continue;
      remove_folder(path_of(step));
      ranks.erase(step);
    }
  }

  /// Of process 0, before its first save.
  void open() {
    if (lock) return;
    make_folder(folder);
    WriterLock taken(folder);
    restore_replaced(folder, step_prefix);  // where that fails, it is not open
    tell_of_strays();
    lock.emplace(std::move(taken));
  }
  void clean() {
    open();
    if (!std::exchange(has_remains, false)) return;
    try {
      remove_remains(folder, step_prefix);
    } catch (...) {
      has_remains = true;
      throw;
    }
  }

  void refuse_saved(std::int64_t step) const {
    std::error_code ignored;
    if (!fs::exists(path_of(step), ignored)) return;
    if (const std::string why = why_no_checkpoint(path_of(step)); !why.empty()) {
      if (rmdir(path_of(step).c_str()) == 0) return;
      throw CheckpointError(fmt::format("[checkpoint] {} is in the way of a checkpoint: it {}; take it away",
                                        path_of(step).string(), why));
    }
    throw CheckpointError(fmt::format(
        "[checkpoint] {} exists already; a step is saved once: go on from the latest checkpoint, or use another folder",
        path_of(step).string()));
  }

  /// Joins the thread; its error stays. What it held is let go here and not there: whether an array has one owner is asked
  /// by the thread that steps.
  void finish() {
    pace.hurry();
    if (writer.joinable()) {
      const AtWork at_work(*world());
      writer.join();
    }
    held = Tree();
  }
  void throw_if_failed() {
    finish();
    if (const std::exception_ptr error = std::exchange(failure, nullptr)) std::rethrow_exception(error);
  }
  /// In all processes. Where process 0 tells of this one, it knows better what it was.
  void settle(const std::function<void()>& then) {
    const int rank = world()->rank();
    if (rank != 0) finish();
    const std::exception_ptr own = rank != 0 ? std::exchange(failure, nullptr) : nullptr;
    try {
      world()->run_on_first(
          "checkpoint::Manager of " + folder.string(),
          [&] {
            throw_if_failed();
            then();
          },
          std::exchange(seconds, 0));
    } catch (const CheckpointError& error) {
      const std::string_view text = error.what();
      const bool tells_of_this = text.find(fmt::format("process {}: ", rank)) != text.npos ||
                                 text.find(fmt::format("process {} has not written", rank)) != text.npos;
      if (!own || !tells_of_this) throw;
      std::rethrow_exception(own);
    }
    if (own) std::rethrow_exception(own);
  }

  /// `write` runs beside the training, on a snapshot of the tree.
  void start(std::int64_t step, const Tree& tree, std::function<void(const Tree&)> write) {
    held = tree;
    const auto save = [this, step, write = std::move(write)] {
      try {
        write(held);
        if (world()->rank() == 0) remove_what_no_rule_keeps(step);
      } catch (...) {
        failure = std::current_exception();
      }
      has_ended = true;
    };
    watch_process_end();
    has_ended = false;
    pace.begin();
    try {
      writer = std::thread([save] {
        run_behind_others();
        save();
      });
    } catch (const std::exception&) {
      pace.hurry();
      save();  // the system has no thread or no memory for one: the training waits
    }
  }

  void save(Target is, std::int64_t step, const Tree& tree, const Named<double>& metrics,
            const Named<std::string>& manifest) {
    if (step < 0) throw ValueError(fmt::format("[checkpoint] step is {}; give 0 or more", step));
    settle([&] {
      clean();
      is == Target::free ? refuse_saved(step) : check_there(steps(), step, folder);
    });
    ranks.erase(step);
    const fs::path target = path_of(step);
    const Description description{manifest, metrics, step, counter_in(tree, step)};
    if (!options.background) {
      save_together(target, tree, description, is);
      settle([&] { remove_what_no_rule_keeps(step); });
      return;
    }
    seconds = writing_seconds(tree);
    if (has_cut_leaves(tree)) {
      seconds += world()->patience();
      const auto blocks = std::make_shared<BlockSave>(target, description, is);
      start(step, tree,
            [this, blocks, wait = seconds](const Tree& snapshot) { blocks->write_alone(snapshot, wait, pace); });
    } else if (world()->rank() == 0) {
      start(step, tree, [=, this](const Tree& snapshot) { write_whole(target, snapshot, description, is, &pace); });
    }
  }

  fs::path folder;
  ManagerOptions options;
  std::optional<WriterLock> lock;
  bool has_remains = true;
  bool has_told = false;  // of strays
  std::map<std::int64_t, std::optional<double>> ranks;
  Tree held;  // the snapshot that the thread writes
  Pace pace;
  std::thread writer;
  std::atomic<bool> has_ended = true;
  std::exception_ptr failure;  // of the thread, read when it is joined
  double seconds = 0;          // that the others wait longer for the save that runs
  /// Waits for the save that runs, in the process that began it.
  const AtProcessEnd at_end{[this, process = ::getpid()] {
    if (process != ::getpid() || !writer.joinable()) return true;
    if (writer.get_id() == std::this_thread::get_id()) return false;
    pace.hurry();
    writer.join();
    return true;
  }};
};

Manager::Manager(fs::path folder, ManagerOptions options) {
  check_manager_options(options);
  impl_ = detail::Owned<Impl>::make(std::move(folder), std::move(options));
}
Manager::~Manager() = default;

void Manager::open() {
  impl_->settle([&] { impl_->open(); });
}

void Manager::clean() {
  impl_->settle([&] { impl_->clean(); });
}

void Manager::save(std::int64_t step, const Tree& tree, const Named<double>& metrics,
                   const Named<std::string>& manifest) {
  impl_->save(Target::free, step, tree, metrics, manifest);
}

void Manager::replace(std::int64_t step, const Tree& tree, const Named<double>& metrics,
                      const Named<std::string>& manifest) {
  impl_->save(Target::taken, step, tree, metrics, manifest);
}

bool Manager::is_saving() {
  if (!impl_->has_ended) return true;
  impl_->finish();
  return false;
}

void Manager::wait() {
  impl_->settle([] {});
}

std::vector<std::int64_t> Manager::steps() const {
  impl_->finish();
  return impl_->steps();
}

std::optional<std::int64_t> Manager::latest() const {
  const std::vector<std::int64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

std::optional<std::int64_t> Manager::best() const {
  impl_->finish();
  const std::vector<std::int64_t> best = impl_->by_rank();
  return best.empty() ? std::nullopt : std::optional(best.front());
}

Named<double> Manager::metrics(std::int64_t step) const {
  impl_->finish();
  return read_manifest(impl_->own_path_of(step)).description.metrics;
}

Named<std::string> Manager::manifest(std::int64_t step) const {
  impl_->finish();
  return read_manifest(impl_->own_path_of(step)).description.entries;
}

fs::path Manager::folder_of(std::int64_t step) const { return impl_->path_of(step); }
const ManagerOptions& Manager::options() const { return impl_->options; }

std::int64_t Manager::step_of(Choice choice) {
  std::string found;
  impl_->settle([&] {
    impl_->tell_of_strays();
    const std::optional<std::int64_t> step = choice == Choice::latest ? latest() : best();
    if (step) found = std::to_string(*step);
  });
  found = world()->all_gather_text(found).front();
  if (!found.empty()) return std::stoll(found);
  throw CheckpointError(choice == Choice::latest
                            ? fmt::format("[checkpoint] {} holds no checkpoint; save one first", impl_->folder.string())
                            : fmt::format("[checkpoint] no checkpoint of {} has the metric '{}'; save it with one, or "
                                          "name another in best_metric",
                                          impl_->folder.string(), impl_->options.best_metric));
}

Tree Manager::restore(Choice choice, const Tree& like, const RestoreOptions& options) {
  return restore(step_of(choice), like, options);
}
Saved Manager::restore(Choice choice) { return restore(step_of(choice)); }

Tree Manager::restore(std::int64_t step, const Tree& like, const RestoreOptions& options) {
  wait();
  check_there(impl_->steps(), step, impl_->folder);
  const AtWork at_work(*world());
  return checkpoint::restore(impl_->own_path_of(step), like, options);
}

Saved Manager::restore(std::int64_t step) {
  wait();
  check_there(impl_->steps(), step, impl_->folder);
  const AtWork at_work(*world());
  return checkpoint::restore(impl_->own_path_of(step));
}

}  // namespace lockstep::checkpoint
