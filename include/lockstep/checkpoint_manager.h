#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/checkpoint.h>
#include <lockstep/export.h>
#include <lockstep/named.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/tree.h>

namespace lockstep::checkpoint {

/// Which of a metric's values is the best one.
enum class Best : std::uint8_t { smallest, largest };

/// Which checkpoints of a folder stay. One stays that any of the rules keeps, as do the one of the highest step and the
/// one that was just saved; where all are 0, all stay. When one was saved is the time of its folder.
struct ManagerOptions {
  std::int64_t keep_last = 0;              ///< The latest so many.
  std::int64_t keep_best = 0;              ///< The best so many by `best_metric`; of equal ones the earlier.
  std::int64_t keep_every = 0;             ///< Those of steps that this divides, for good.
  std::int64_t keep_closest_to_every = 0;  ///< To each multiple of this the closest, of equally close the later.
  double keep_every_seconds = 0;           ///< The first, and each saved so long after the last that this keeps.
  double keep_seconds = 0;                 ///< Those saved in the last so many seconds.
  lockstep::detail::OutOfLine<std::vector<std::int64_t>> keep_steps = {};  ///< Those of these steps.
  std::string best_metric = "val_loss";
  Best best = Best::smallest;
  /// Files are written by a thread beside the training, from a snapshot; of arrays that lie cut by one in each process, which
  /// communicates with the others in the folder alone.
  bool background = true;
};

/// Which checkpoint of a folder is meant: a step's, or one of these.
enum class Choice : std::uint8_t { latest, best };

/// A folder of checkpoints, "step-<number>" each (Orbax' CheckpointManager). An empty folder or a file of such a name, and a
/// number with zeros in front ("step-0009"), are no checkpoints: they are left out, which a line on stderr says. Every process makes the same calls; process
/// 0 writes. A snapshot is taken by holding the arrays: what is saved does not change, and costs no copy; the next step
/// of a training writes its new state elsewhere while the old one is being saved. `open`, or the first save, makes the
/// folder, takes its WriterLock and puts back what a killed process had only moved aside; `clean`, or the first save,
/// removes what killed saves have left. A save in the background takes about a sixteenth of a core until somebody waits for
/// it. An error of it is thrown by the next save, by `wait` or by a restore; the checkpoints before it are as they were.
class LOCKSTEP_API Manager {
 public:
  /// Throws ValueError for counts and seconds below 0, and for keep_best without a metric. Nothing is read or written yet.
  explicit Manager(std::filesystem::path folder, ManagerOptions options = {});
  /// Waits for the save that runs; an error that nobody has asked for is lost, so call `wait` before.
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// To be written by this process from now on, so that what stands in the way is an error before a training and not in its
  /// middle. Throws CheckpointError naming folder and system error, or the process that writes it already.
  void open();
  /// Opens it, and removes what killed saves have left in it, as the first save does: for a run that may not save. Throws
  /// CheckpointError likewise.
  void clean();
  /// Saves a tree, or a C++ type that is one (a TrainState), under a step >= 0, with numbers to choose the best by and words
  /// of what it depends on. Waits for the save before, and throws what that has thrown. Throws ValueError for a step below
  /// 0, CheckpointError for one that is saved already or a folder that another process writes.
  void save(std::int64_t step, const Tree& tree, const Named<double>& metrics = {},
            const Named<std::string>& manifest = {});
  template <class S>
  void save(std::int64_t step, const S& state, const Named<double>& metrics = {},
            const Named<std::string>& manifest = {}) {
    save(step, to_tree(state), metrics, manifest);
  }
  /// Saves likewise in the place of that step's checkpoint, which stands until the new one is whole. (Where the file system
  /// cannot exchange two names, as NFS cannot, there is neither for a moment.) Throws CheckpointError where there is none.
  void replace(std::int64_t step, const Tree& tree, const Named<double>& metrics = {},
               const Named<std::string>& manifest = {});
  /// Until what was saved is durable. Throws what the save has thrown.
  void wait();

  /// Whether a save still runs in this process. Where it has ended, what it held is given back.
  bool is_saving();

  /// Those that are there, in order.
  std::vector<std::int64_t> steps() const;
  std::optional<std::int64_t> latest() const;
  /// The best by `best_metric`; nothing where no checkpoint has it.
  std::optional<std::int64_t> best() const;
  /// What was saved beside a step's arrays.
  Named<double> metrics(std::int64_t step) const;
  Named<std::string> manifest(std::int64_t step) const;

  /// A checkpoint in the structure of `like`, as checkpoint::restore; of a TrainState: from_tree<TrainState>(...). Throws
  /// CheckpointError listing the steps there are where there is no such one.
  Tree restore(std::int64_t step, const Tree& like, const RestoreOptions& options = {});
  Tree restore(Choice choice, const Tree& like, const RestoreOptions& options = {});
  /// As it was saved, dicts of arrays.
  Saved restore(std::int64_t step);
  Saved restore(Choice choice);
  /// The step that is meant, the same in all processes.
  std::int64_t step_of(Choice choice);

  std::filesystem::path folder_of(std::int64_t step) const;
  const ManagerOptions& options() const;

 private:
  struct Impl;
  detail::Owned<Impl> impl_;
};

}  // namespace lockstep::checkpoint
