// A job of root in folders that user nobody has made ready: what nobody plants in them is named, root's own files are neither
// read nor changed, the job ends right, and nobody gets nothing of a job that runs.
#include "tests/support/other_user.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>

#include "tests/cli/program.h"
#include "tests/support/expect_error.h"
#include "tests/support/foreign_entries.h"
#include "tests/support/launcher.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

const std::string training_of_root =
    "train --data synthetic --set data.rows=128 --set data.test_rows=32 --model mlp --set model.units=16 --batch 32 "
    "--log-every 1 --checkpoint-every 2 --trace-bits --run ";
const std::string secret = "the secret of root";

/// A folder that nobody owns, with a run of root's that is done, and a folder of root's that others may reach but not read.
class NobodysFolder {
 public:
  NobodysFolder() {
    static const TemporaryFolder made;
    const fs::path done = made.path() / "run";
    if (!fs::exists(done)) REQUIRE(run_in_child(training_of_root + done.string() + " --steps 4").code == 0);
    for (const TemporaryFolder* folder : {&theirs_, &own_}) ::chmod(folder->path().c_str(), 0711);
    fs::copy(done, run(), fs::copy_options::recursive);
    fs::copy_file(done / "config.toml", own_.path() / "config.toml");
    give_to_nobody(theirs_.path());
    ::chmod(victim().c_str(), 0600);
  }

  fs::path path() const { return theirs_.path(); }
  fs::path run() const { return theirs_.path() / "run"; }
  fs::path own() const { return own_.path(); }
  /// A file of root's.
  const fs::path& victim() const { return victim_; }
  std::string gone_on() const {
    return "train --config " + (own_.path() / "config.toml").string() + " --resume --steps 6 --run " + run().string();
  }
  /// The victim is as it was, and nothing printed has what is in it.
  void check_untouched(const Outcome& outcome) const {
    CHECK(file_text(victim_) == secret);
    for (const auto& lines : {outcome.out, outcome.err}) {
      for (const std::string& line : lines) CHECK_FALSE(contains(line, secret));
    }
    struct stat status {};
    CHECK(::stat(victim_.c_str(), &status) == 0);
    CHECK(status.st_uid == 0);
    CHECK((status.st_mode & 0777) == 0600);
    CHECK(status.st_nlink == 1);
    CHECK(std::distance(fs::directory_iterator(own_.path()), fs::directory_iterator()) == 2);
  }

 private:
  TemporaryFolder theirs_, own_;
  fs::path victim_ = own_.write("victim", secret);
};

/// Nobody plants something at a path, in place of what was there; false where nobody can.
bool is_planted(const fs::path& path, const std::function<bool()>& plant) {
  return as_nobody([&] {
           std::error_code ignored;
           fs::remove_all(path, ignored);
           return plant() ? 0 : 1;
         }) == 0;
}

bool names(const std::vector<std::string>& lines, const fs::path& path, const std::string& kind) {
  for (const std::string& line : lines) {
    if (contains(line, path.string()) && contains(line, kind)) return true;
  }
  return false;
}

/// What root's job does with a planted entry: all refuse it by name.
struct Planted {
  const char* name;
  std::vector<std::string> commands;  ///< With RUN for the run's folder; none: the run goes on.
};
const std::vector<std::string> reading = {"report RUN", "eval RUN", "predict RUN", "verify RUN", "compare RUN RUN"};
const std::vector<Planted> planted_in_run = {
    {"writer.lock", {}},
    {"metrics.csv", {}},
    {"metrics.csv", {"report RUN"}},
    {"speed.csv", {}},
    {"bits.csv", {}},
    {"manifest.json", {}},
    {"manifest.json", reading},
    {"config.toml", reading},
    {"result.json", {}},
    {"result.json", {"verify RUN"}},
    {"accepted_changes.json", {}},
    {"report.html", {}},
    {"report.html", {"report RUN"}},
    {"curves.svg", {"report RUN"}},
    {"predictions.csv", {"predict RUN"}},
    {"events", {}},
    {"checkpoints", {}},
    {"checkpoints/writer.lock", {}},
    {"checkpoints/step-4", {}},
    {"checkpoints/step-4", {"eval RUN"}},
    {"checkpoints/step-4/manifest.json", {}},
    {"checkpoints/step-4/SHA256SUMS", {}},
    {"checkpoints/step-4/arrays.safetensors", {}},
    {"checkpoints/step-4/arrays.safetensors", {"eval RUN", "predict RUN", "compare RUN RUN"}},
    {"checkpoints/step-6", {}},
    {".config.toml.anew", {}},
    {".manifest.json.abc123", {}},
    {".metrics.csv.abc123", {}},
};

std::string command_in(const NobodysFolder& folder, std::string command) {
  for (std::size_t at = 0; (at = command.find("RUN")) != std::string::npos;) {
    command.replace(at, 3, folder.run().string());
  }
  return command;
}

/// A process that does something again and again until this goes.
class Repeated {
 public:
  explicit Repeated(const std::function<void()>& work) : process_(::fork()) {
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!become_nobody()) ::_exit(1);
    for (;;) work();
  }
  ~Repeated() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

 private:
  pid_t process_;
};

}  // namespace

TEST_CASE("what nobody plants in a run's folder is named, and no file of root's is read or changed") {
  if (::geteuid() != 0) return skip(only_root);
  int planted = 0, refused = 0;
  for (const Planted& row : planted_in_run) {
    for (const ForeignKind& kind : foreign_kinds()) {
      CAPTURE(row.name);
      CAPTURE(kind.name);
      const NobodysFolder folder;
      const fs::path path = folder.run() / row.name;
      if (!is_planted(path, [&] { return kind.make(path, folder.victim()); })) continue;  // nobody makes no devices
      ++planted;
      for (const std::string& command : row.commands.empty() ? std::vector{folder.gone_on()} : row.commands) {
        CAPTURE(command);
        const Outcome outcome = run_in_child(command_in(folder, command));
        CHECK(outcome.code > 0);
        CHECK(outcome.code < 3);
        CHECK(names(outcome.err, path, kind.name));
        folder.check_untouched(outcome);
        refused += static_cast<int>(outcome.code > 0);
      }
    }
  }
  std::printf("planted by nobody in a run's folder: %d entries, %d commands of root refuse them\n", planted, refused);
  CHECK(planted >= 3 * static_cast<int>(planted_in_run.size()));
}

TEST_CASE("a file of root's that has a second name in a run's folder is not written") {
  for (const char* const name : {"writer.lock", "metrics.csv", "speed.csv", "checkpoints/writer.lock"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const fs::path run = folder.path() / "run", path = run / name, victim = folder.write("victim", secret);
    REQUIRE(run_in_child(training_of_root + run.string() + " --steps 2").code == 0);
    fs::remove(path);
    fs::create_hard_link(victim, path);  // a system may forbid nobody to make one of root's file, or not
    const Outcome outcome = run_in_child(training_of_root + run.string() + " --steps 4 --resume");
    CHECK(outcome.code == 1);
    CHECK(names(outcome.err, path, "it has 2 names (hard links), of which each would change"));
    CHECK(file_text(victim) == secret);
  }
}

TEST_CASE("what nobody plants in a data set's folder is named, and no file of root's is read") {
  if (::geteuid() != 0) return skip(only_root);
  for (const char* const name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"}) {
    for (const ForeignKind& kind : foreign_kinds()) {
      CAPTURE(name);
      CAPTURE(kind.name);
      const NobodysFolder folder;
      const SmallData data;
      const fs::path theirs = folder.path() / "data", path = theirs / name;
      fs::copy(data.option().substr(12), theirs);
      give_to_nobody(theirs);
      if (!is_planted(path, [&] { return kind.make(path, folder.victim()); })) continue;
      const Outcome outcome = run_in_child("train --model mlp --steps 1 --data-dir " + theirs.string() + " --run " +
                                           (folder.path() / "new").string());
      CHECK(outcome.code == 2);
      CHECK(names(outcome.err, path, kind.name));
      folder.check_untouched(outcome);
    }
  }
}

TEST_CASE("while nobody exchanges a run's files for links, root's job writes through none of them") {
  if (::geteuid() != 0) return skip(only_root);
  int went_on = 0, refused = 0;
  for (const char* const name : {"writer.lock", "metrics.csv", "result.json", "report.html", "manifest.json"}) {
    CAPTURE(name);
    const NobodysFolder folder;
    const fs::path path = folder.run() / name, link = folder.run() / "link", file = folder.run() / "file";
    REQUIRE(as_nobody([&] { return ::symlink(folder.victim().c_str(), link.c_str()); }) == 0);
    const Repeated exchanges([&] {
      static_cast<void>(::rename(path.c_str(), file.c_str()));
      static_cast<void>(::symlink(folder.victim().c_str(), path.c_str()));
      static_cast<void>(::unlink(path.c_str()));
      static_cast<void>(::rename(file.c_str(), path.c_str()));
    });
    ::unlink(link.c_str());  // else it is found before the others
    for (int i = 0; i < 4; ++i) {
      const Outcome outcome = run_in_child(i % 2 == 0 ? folder.gone_on() : command_in(folder, "report RUN"));
      CHECK(outcome.code >= 0);
      CHECK(outcome.code < 3);
      folder.check_untouched(outcome);
      ++(outcome.code == 0 ? went_on : refused);
    }
  }
  std::printf("files exchanged for links: %d commands went on, %d were refused\n", went_on, refused);
}

TEST_CASE(
    "a job of root in a temporary folder of all writes through nothing that nobody planted, and nobody reads it") {
  if (::geteuid() != 0) return skip(only_root);
  if (!can_launch()) return skip(no_launcher());
  const NobodysFolder folder;
  const fs::path all = folder.path() / "all";
  fs::create_directory(all);
  ::chmod(all.c_str(), 01777);
  const int next = ::getpid();
  const int planted = as_nobody([&] {
    for (int i = 0; i < 2000; ++i) {
      for (const int rank : {0, 1}) {
        const std::string name = "lockstep-flight-" + std::to_string(rank) + "-" + std::to_string(next + i);
        for (const char* const end : {".txt", ""}) {
          if (::symlink(folder.victim().c_str(), (all / (name + end)).c_str()) != 0) return 1;
        }
      }
    }
    return 0;
  });
  REQUIRE(planted == 0);
  const std::string process = " -n 1 " LOCKSTEP_PROGRAM " " + training_of_root + (folder.own() / "run").string();
  const Outcome outcome = run_shell("TMPDIR=" + all.string() + " mpirun --allow-run-as-root --oversubscribe" + process +
                                    " --steps 1 --seed 1 :" + process + " --steps 1 --seed 2");
  CHECK(outcome.code > 0);
  CHECK(names(outcome.err, "lockstep", "--seed is '1' in process 0, '2' in process 1"));
  folder.check_untouched(outcome);
  int recorded = 0;
  for (const auto& entry : fs::directory_iterator(all)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("lockstep-flight-") || entry.is_symlink()) continue;
    ++recorded;
    CHECK(file_text(entry.path()).size() > 0);
    CHECK(as_nobody([&] { return ::open(entry.path().c_str(), O_RDONLY) >= 0 ? 0 : errno; }) == EACCES);
    CHECK(as_nobody([&] { return ::unlink(entry.path().c_str()) == 0 ? 0 : errno; }) == EPERM);
  }
  CHECK(recorded > 0);
}

TEST_CASE("nobody neither locks a run that root writes, nor reads its lock, nor signals its process") {
  if (::geteuid() != 0) return skip(only_root);
  const TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0755);
  const checkpoint::WriterLock lock(folder.path());
  const fs::path path = folder.path() / "writer.lock";
  struct Attempt {
    const char* what;
    std::function<int()> call;  ///< The system's error; 0: it was done.
    int error;
  };
  const pid_t root = ::getpid();
  const auto opened = [&](int flags) { return ::open(path.c_str(), flags) >= 0 ? 0 : errno; };
  const std::vector<Attempt> attempts = {
      {"reading the lock", [&] { return opened(O_RDONLY); }, EACCES},
      {"writing the lock", [&] { return opened(O_RDWR); }, EACCES},
      {"taking the lock away", [&] { return ::unlink(path.c_str()) == 0 ? 0 : errno; }, EACCES},
      {"SIGTERM", [&] { return ::kill(root, SIGTERM) == 0 ? 0 : errno; }, EPERM},
      {"SIGKILL", [&] { return ::kill(root, SIGKILL) == 0 ? 0 : errno; }, EPERM},
      {"the process's memory",
       [&] { return ::open(("/proc/" + std::to_string(root) + "/mem").c_str(), O_RDONLY) >= 0 ? 0 : errno; }, EACCES},
      {"the process's secret",
       [&] { return ::open(("/proc/" + std::to_string(root) + "/environ").c_str(), O_RDONLY) >= 0 ? 0 : errno; },
       EACCES},
  };
  for (const Attempt& attempt : attempts) {
    CAPTURE(attempt.what);
    CHECK(as_nobody(attempt.call) == attempt.error);
  }
  CHECK_THROWS_AS(checkpoint::WriterLock(folder.path()), CheckpointError);  // it still holds
}

}  // namespace lockstep::tests
