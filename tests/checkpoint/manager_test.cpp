#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/checkpoint_manager.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>
#include <lockstep/train.h>

#include "tests/checkpoint/faulty_disk.h"
#include "tests/support/expect_error.h"
#include "tests/support/full_disk.h"
#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using checkpoint::Choice;
using checkpoint::Manager;
using tests::expect_error;
using tests::FaultyDisk;
using tests::TemporaryFolder;
using Steps = std::vector<std::int64_t>;

namespace {

Tree state_of(std::int64_t step) {
  return Tree::dict({{"step", Tree(array(step))}, {"w", Tree(full({100}, static_cast<double>(step), float32))}});
}

std::set<std::string> names_below(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

std::int64_t restored_step(Manager& manager, Choice choice) {
  return manager.restore(choice, state_of(0)).at("step").array().item<std::int64_t>();
}

}  // namespace

TEST_CASE("a manager saves, lists, restores the latest, the best and any, with what was saved beside them") {
  for (const bool background : {false, true}) {
    const TemporaryFolder folder;
    Manager manager(folder.path() / "run" / "checkpoints", {.best_metric = "val_loss", .background = background});
    CHECK(manager.steps().empty());
    CHECK_FALSE(manager.latest().has_value());
    expect_error<CheckpointError>([&] { static_cast<void>(manager.restore(Choice::latest)); }, "holds no checkpoint");
    manager.save(10, state_of(10), {{"val_loss", 0.1}}, {{"seed", "7"}});
    manager.save(2, state_of(2), {{"val_loss", 0.25}});
    manager.save(30, state_of(30), {{"val_loss", std::numeric_limits<double>::quiet_NaN()}});
    CHECK(manager.steps() == Steps{2, 10, 30});
    CHECK(manager.latest() == 30);
    CHECK(manager.best() == 10);
    CHECK(manager.metrics(10).at("val_loss") == 0.1);
    CHECK(std::isnan(manager.metrics(30).at("val_loss")));
    CHECK(manager.manifest(10).at("seed") == "7");
    CHECK(restored_step(manager, Choice::latest) == 30);
    CHECK(restored_step(manager, Choice::best) == 10);
    CHECK(manager.restore(2).metrics.at("val_loss") == 0.25);
    CHECK(fingerprint(manager.restore(2, state_of(0))) == fingerprint(state_of(2)));
    expect_error<CheckpointError>([&] { static_cast<void>(manager.restore(3)); }, "no checkpoint of step 3",
                                  "[2, 10, 30]");
    expect_error<CheckpointError>([&] { manager.save(10, state_of(10)); }, "step-10 exists already");
    expect_error<ValueError>([&] { manager.save(-1, state_of(10)); }, "step is -1");
  }
  expect_error<ValueError>([] { Manager("x", {.keep_last = -1}); }, "keep_last is -1");
  expect_error<ValueError>([] { Manager("x", {.keep_best = 1, .best_metric = ""}); }, "keep_best needs a metric");
  const TemporaryFolder folder;
  Manager manager(folder.path(), {.best_metric = "accuracy"});
  manager.save(1, state_of(1));
  expect_error<CheckpointError>([&] { static_cast<void>(manager.restore(Choice::best)); }, "the metric 'accuracy'");
}

TEST_CASE("a checkpoint is replaced at once, and stands where that fails") {
  const Mesh mesh({{"data", 4}}, {Device{}});
  const auto cut = [&](std::int64_t step) {
    return reshard(state_of(step), mesh, {{"w", sharded("data")}, {"step", replicated}});
  };
  for (const bool background : {false, true}) {
    CAPTURE(background);
    const TemporaryFolder folder;
    Manager manager(folder.path(), {.best_metric = "m", .background = background});
    expect_error<CheckpointError>([&] { manager.replace(1, state_of(1)); }, "no checkpoint of step 1");
    manager.save(1, state_of(1), {{"m", 1}}, {{"seed", "7"}});
    manager.save(2, state_of(2), {{"m", 2}});
    CHECK(manager.best() == 1);
    manager.replace(1, state_of(10), {{"m", 3}}, {{"seed", "8"}});
    manager.wait();
    CHECK(manager.best() == 2);
    CHECK(manager.manifest(1).at("seed") == "8");
    CHECK(fingerprint(manager.restore(1, state_of(0))) == fingerprint(state_of(10)));
    CHECK(names_below(folder.path()) == std::set<std::string>{"step-1", "step-2", "writer.lock"});
    manager.replace(2, cut(20));
    CHECK(fingerprint(manager.restore(2, state_of(0))) == fingerprint(state_of(20)));
    {
      const FaultyDisk faulty(FaultyDisk::Call::exchange, 0, EINVAL);  // a file system that cannot
      manager.replace(1, state_of(11));
      manager.wait();
      CHECK(FaultyDisk::has_failed());
    }
    CHECK(fingerprint(manager.restore(1, state_of(0))) == fingerprint(state_of(11)));
    const auto fails = [&] {
      expect_error<CheckpointError>(
          [&] {
            manager.replace(1, state_of(12));
            manager.wait();
          },
          "step-1");
      CHECK(fingerprint(manager.restore(1, state_of(0))) == fingerprint(state_of(11)));
    };
    {
      const FaultyDisk faulty(FaultyDisk::Call::exchange, 0, EIO);
      fails();
    }
    {
      const FaultyDisk faulty(FaultyDisk::Call::write, 1, ENOSPC);
      fails();
    }
    CHECK(names_below(folder.path()) == std::set<std::string>{"step-1", "step-2", "writer.lock"});
  }
}

TEST_CASE("who is killed while it replaces a checkpoint gets the old one, where a file system cannot exchange names") {
  const TemporaryFolder folder;
  {
    Manager manager(folder.path());
    manager.save(3, state_of(3));
    manager.wait();
  }
  const std::filesystem::path hidden = folder.path() / ".step-3.before";
  std::filesystem::rename(folder.path() / "step-3", hidden);  // and then it was killed
  {
    Manager manager(folder.path());
    {
      const FaultyDisk faulty(FaultyDisk::Call::rename, 0, EIO);
      expect_error<CheckpointError>([&] { manager.open(); }, "step-3 cannot be restored: Input/output error");
    }
    manager.open();  // which is tried again
    CHECK(fingerprint(manager.restore(Choice::latest, state_of(0))) == fingerprint(state_of(3)));
  }
  std::filesystem::copy(folder.path() / "step-3", hidden, std::filesystem::copy_options::recursive);
  Manager manager(folder.path());  // killed behind that, the new one in its place
  manager.clean();
  CHECK(manager.steps() == Steps{3});
  CHECK_FALSE(std::filesystem::exists(hidden));
}

TEST_CASE("the last, the best and every nth stay") {
  struct Case {
    checkpoint::ManagerOptions options;
    Steps left;
  };
  const std::vector<double> metric = {5, 1, 3, 1, 4, 2};  // of steps 1 to 6
  for (const Case& c : {Case{{}, {1, 2, 3, 4, 5, 6}}, Case{{.keep_last = 2}, {5, 6}},
                        Case{{.keep_best = 1, .best_metric = "m"}, {2, 6}},
                        Case{{.keep_best = 2, .best_metric = "m", .best = checkpoint::Best::largest}, {1, 5, 6}},
                        Case{{.keep_last = 1, .keep_every = 3}, {3, 6}}, Case{{.keep_closest_to_every = 3}, {1, 3, 6}},
                        Case{{.keep_steps = {2, 5}}, {2, 5, 6}}, Case{{.keep_seconds = 3600}, {1, 2, 3, 4, 5, 6}},
                        Case{{.keep_every_seconds = 3600}, {1, 6}},
                        Case{{.keep_last = 1, .keep_best = 2, .keep_every = 5, .best_metric = "m"}, {2, 4, 5, 6}}}) {
    CAPTURE(c.left.size());
    const TemporaryFolder folder;
    {
      Manager manager(folder.path(), c.options);
      for (std::size_t i = 0; i < 4; ++i)
        manager.save(static_cast<std::int64_t>(i) + 1, state_of(1), {{"m", metric[i]}});
    }
    Manager manager(folder.path(), c.options);  // what an earlier one has saved counts
    for (std::size_t i = 4; i < 6; ++i) manager.save(static_cast<std::int64_t>(i) + 1, state_of(1), {{"m", metric[i]}});
    manager.wait();
    CHECK(manager.steps() == c.left);
    CHECK(names_below(folder.path()).size() == c.left.size() + 1);  // and the lock
  }
}

TEST_CASE("what was just saved stays, also where its step is not the highest") {
  for (const bool background : {true, false}) {
    const TemporaryFolder folder;
    Manager manager(folder.path(), {.keep_last = 1, .background = background});
    for (const std::int64_t step : {10, 5}) {
      manager.save(step, state_of(static_cast<int>(step)));
      manager.wait();
    }
    CHECK(manager.steps() == Steps{5, 10});
    manager.save(7, state_of(7));
    manager.wait();
    CHECK(manager.steps() == Steps{7, 10});
  }
}

TEST_CASE("what only looks like a checkpoint blocks nothing") {
  const TemporaryFolder folder;
  Manager manager(folder.path());
  manager.save(3, state_of(3));
  manager.wait();
  std::filesystem::create_directories(folder.path() / "step-4");
  std::filesystem::create_directories(folder.path() / "step-5");
  folder.write("step-5/.DS_Store", "");
  folder.write("step-6", "");
  checkpoint::save(folder.path() / "step-0009", state_of(9), {});
  CHECK(manager.steps() == Steps{3});
  CHECK(manager.latest() == 3);
  CHECK(manager.step_of(checkpoint::Choice::latest) == 3);
  static_cast<void>(manager.restore(checkpoint::Choice::latest));
  manager.save(4, state_of(4));  // in the place of the empty folder
  manager.wait();
  CHECK(manager.steps() == Steps{3, 4});
  expect_error<CheckpointError>([&] { manager.save(5, state_of(5)); }, "step-5 is in the way", "is an empty folder");
  expect_error<CheckpointError>([&] { manager.save(6, state_of(6)); }, "step-6 is in the way", "is a file");
  expect_error<CheckpointError>([&] { manager.save(3, state_of(3)); }, "exists already");
  CHECK(std::filesystem::exists(folder.path() / "step-0009" / "manifest.json"));
}

TEST_CASE("checkpoints stay by when they were saved") {
  const auto left = [](const checkpoint::ManagerOptions& options) {
    const TemporaryFolder folder;
    {
      Manager manager(folder.path());
      const auto now = std::filesystem::file_time_type::clock::now();
      for (const std::int64_t step : {1, 2, 3, 4}) {
        manager.save(step, state_of(1));
        manager.wait();
        std::filesystem::last_write_time(manager.folder_of(step), now - std::chrono::seconds(60 * (5 - step)));
      }
    }
    Manager(folder.path(), options).save(5, state_of(1));
    return Manager(folder.path()).steps();
  };
  CHECK(left({.keep_seconds = 150}) == Steps{3, 4, 5});  // 4, 3, 2 and 1 minutes before
  CHECK(left({.keep_every_seconds = 110}) == Steps{1, 3, 5});
  expect_error<ValueError>([] { Manager("x", {.keep_seconds = -1}); }, "keep_seconds is -1; give 0 or more");
  expect_error<ValueError>([] { Manager("x", {.keep_every_seconds = std::nan("")}); }, "keep_every_seconds is nan");
}

TEST_CASE("what killed saves have left goes with the first save, or when it is asked to; one process alone saves") {
  const std::set<std::string> remains = {".step-3.aB1cD2", ".step-4.remove", ".notes.aB1cD2"};
  const auto leave = [&](const TemporaryFolder& folder) {
    for (const std::string& name : remains) std::filesystem::create_directories(folder.path() / name);
  };
  const TemporaryFolder cleaned;
  leave(cleaned);
  {
    Manager manager(cleaned.path());
    manager.open();
    CHECK(names_below(cleaned.path()).size() == remains.size() + 1);  // and the lock
    manager.clean();
    CHECK(names_below(cleaned.path()) == std::set<std::string>{".notes.aB1cD2", "writer.lock"});
  }
  const TemporaryFolder folder;
  leave(folder);
  folder.write("step-x", "");
  Manager manager(folder.path());
  CHECK(manager.steps().empty());
  CHECK(names_below(folder.path()).contains(".step-3.aB1cD2"));
  manager.save(5, state_of(5));
  manager.wait();
  CHECK(names_below(folder.path()) == std::set<std::string>{".notes.aB1cD2", "step-5", "step-x", "writer.lock"});
  Manager second(folder.path());
  CHECK(second.steps() == Steps{5});
  expect_error<CheckpointError>([&] { second.save(6, state_of(6)); }, "writes this folder");
}

TEST_CASE("a snapshot is what was saved, whatever the training does meanwhile") {
  const TemporaryFolder folder;
  Manager manager(folder.path());
  const TrainStep step = data_parallel(
      [](const Tree& w, const Tree& state, const Batch& b) {
        return WithAux{mean_squared_error(matmul(b.x, w.at("w").array()), b.y, b.weight), state, {}};
      },
      optim::adam(0.1), {.shards = 1});
  TrainState state = step.init(Tree::dict({{"w", Tree(ones({64, 64}))}}), Tree());
  const Batch batch{ones({8, 64}), zeros({8, 64}), ones({8})};
  std::vector<std::string> expected;
  for (int i = 0; i < 5; ++i) {
    state = step(std::move(state), batch).first;
    expected.push_back(fingerprint(to_tree(state)));
    manager.save(i, state);
    static_cast<void>(manager.is_saving());
  }
  for (int i = 0; i < 5; ++i) CHECK(fingerprint(manager.restore(i).tree) == expected[static_cast<std::size_t>(i)]);
  CHECK_FALSE(manager.is_saving());
}

TEST_CASE("a disk that fails leaves the checkpoints before, and the error is thrown by the next save or wait") {
  const TemporaryFolder folder;
  Manager manager(folder.path(), {.keep_last = 2});
  manager.save(1, state_of(1));
  manager.save(2, state_of(2));
  manager.wait();
  const auto unharmed = [&] {
    CHECK(manager.steps() == Steps{1, 2});
    CHECK(names_below(folder.path()) == std::set<std::string>{"step-1", "step-2", "writer.lock"});
    CHECK(restored_step(manager, Choice::latest) == 2);
  };
  {
    const tests::FullDisk full(100);
    manager.save(3, state_of(3));
    expect_error<CheckpointError>([&] { manager.wait(); }, "arrays.safetensors cannot be written: File too large");
    unharmed();
    manager.save(3, state_of(3));
    expect_error<CheckpointError>([&] { manager.save(4, state_of(4)); }, "File too large");
    unharmed();
  }
  for (int nth = 0; nth < 5; ++nth) {  // three files, their folder and that above
    CAPTURE(nth);
    const FaultyDisk faulty(FaultyDisk::Call::fsync, nth, EIO);
    manager.save(3, state_of(3));
    expect_error<CheckpointError>([&] { manager.wait(); }, "cannot be synced: Input/output error");
    unharmed();
  }
  {
    const FaultyDisk faulty(FaultyDisk::Call::rename, 0, ENOSPC);
    manager.save(3, state_of(3));
    expect_error<CheckpointError>([&] { manager.wait(); }, "step-3 cannot be put in place: No space left");
    unharmed();
  }
  manager.save(3, state_of(3));  // and then it works again
  manager.wait();
  CHECK(manager.steps() == Steps{2, 3});
}

TEST_CASE("a folder that may not be written is an error that names it") {
  const TemporaryFolder folder;
  folder.write("file", "");
  Manager below(folder.path() / "file" / "checkpoints");
  expect_error<CheckpointError>([&] { below.save(1, state_of(1)); }, "file");
  if (geteuid() == 0) return tests::skip("root may write anywhere");
  chmod(folder.path().c_str(), 0500);
  Manager closed(folder.path());
  expect_error<CheckpointError>([&] { closed.save(1, state_of(1)); }, "Permission denied");
  chmod(folder.path().c_str(), 0700);
}

TEST_CASE("arrays that lie cut are saved by a manager, too") {
  const TemporaryFolder folder;
  const Mesh mesh({{"data", 4}}, {Device{}});
  const Tree cut = reshard(Tree::dict({{"w", Tree(arange(std::int64_t{8}))}}), mesh, {{"w", sharded("data")}});
  Manager manager(folder.path(), {.keep_last = 1});
  manager.save(1, cut, {{"val_loss", 2}});
  manager.save(2, cut, {{"val_loss", 3}});
  CHECK(manager.steps() == Steps{2});
  CHECK(manager.metrics(2).at("val_loss") == 3);
  CHECK(is_cut(manager.restore(Choice::latest, cut).at("w").array()));
}

TEST_CASE("what each launched process saves by a manager" * doctest::skip()) {
  const std::filesystem::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
  Manager manager(folder, {.keep_last = 1, .best_metric = "m"});
  for (const std::int64_t step : {1, 2, 3}) manager.save(step, state_of(step), {{"m", 1.0}});
  CHECK(restored_step(manager, Choice::latest) == 3);
  CHECK(restored_step(manager, Choice::best) == 3);
  {
    const tests::FullDisk full(world()->rank() == 0 ? 100 : RLIM_INFINITY);
    manager.save(4, state_of(4));
    expect_error<CheckpointError>([&] { manager.wait(); }, "File too large");  // in all processes
  }
  expect_error<CheckpointError>([&] { manager.save(3, state_of(3)); }, "step-3 exists already");
  CHECK(restored_step(manager, Choice::latest) == 3);
  if (world()->rank() == 0) std::printf("saved by %d.\n", world()->size());
}

TEST_CASE("a manager of two processes, of which one writes and both see errors") {
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  const TemporaryFolder folder;
  const std::string output = tests::launched(2, "what each launched process saves by a manager",
                                             "LOCKSTEP_TEST_FOLDER='" + folder.path().string() + "' ");
  CAPTURE(output);
  CHECK(tests::count(output, "saved by 2.") == 1);
  CHECK(tests::count(output, "FAILURE") == 0);
  CHECK(names_below(folder.path()) == std::set<std::string>{"step-3"});
}
