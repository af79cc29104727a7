#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/checkpoint/faulty_disk.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"
#include "tests/support/temporary_folder.h"

// A state that lies cut over processes, on a disk that fails at any call of any of them: all of them have an error, what was
// saved before is there, and nothing else; then it is saved.

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using checkpoint::Choice;
using checkpoint::Manager;
using Call = FaultyDisk::Call;

/// What goes wrong, and what is said of it.
struct Fault {
  Call call;
  int error;
  std::string text;
};

std::vector<Fault> faults() {
  return {{Call::fsync, EIO, "Input/output error"},         {Call::rename, ENOSPC, "No space left on device"},
          {Call::open, EROFS, "Read-only file system"},     {Call::open, EACCES, "Permission denied"},
          {Call::write, ENOSPC, "No space left on device"}, {Call::write, EDQUOT, "Disk quota exceeded"},
          {Call::close, EIO, "Input/output error"},         {Call::mkdtemp, EROFS, "Read-only file system"}};
}

Tree state_in_rows() {
  const Mesh mesh({{"data", 4}}, {Device{}});
  return reshard(Tree::dict({{"w", Tree(arange(std::int64_t{64}))}, {"b", Tree(array(2.0F))}}), mesh,
                 {{"w", sharded("data")}, {"b", replicated}});
}

/// In order, each behind a space.
std::string names_text(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  std::string text;
  for (const std::string& name : names) text += " " + name;
  return text;
}

/// In any process.
bool anywhere(bool here) {
  for (const std::string& text : world()->all_gather_text(here ? "x" : "")) {
    if (!text.empty()) return true;
  }
  return false;
}

/// Fails `save`, which makes `saved` in `folder`, at every call of that kind in process `rank`, one after the other;
/// how many there were.
int fail_each(const Fault& fault, int rank, const fs::path& folder, const std::string& saved,
              const std::function<void()>& save) {
  const bool is_faulty = world()->rank() == rank;
  const std::string before = names_text(folder);
  world()->barrier();
  for (int nth = 0;; ++nth) {
    CAPTURE(nth);
    std::string text;
    {
      const FaultyDisk faulty(fault.call, is_faulty ? nth : -1, fault.error);
      try {
        save();
      } catch (const CheckpointError& error) {
        text = error.what();
      }
    }
    const bool is_reached = anywhere(is_faulty && FaultyDisk::has_failed());
    if (is_reached) {
      CHECK_MESSAGE((contains(text, fault.text) || contains(text, "cannot write its blocks")), text);
      if (is_faulty) CHECK_MESSAGE(contains(text, fault.text), text);
    } else {
      CHECK_MESSAGE(text.empty(), text);
    }
    world()->barrier();
    CHECK(contains(names_text(folder), " " + saved) == !is_reached);
    if (is_reached) CHECK(names_text(folder) == before);
    world()->barrier();
    if (is_reached) continue;
    if (world()->rank() == 0) fs::remove_all(folder / saved);
    world()->barrier();
    return nth;
  }
}

}  // namespace

TEST_CASE("what each launched process sees of a disk that fails while a cut state is saved" * doctest::skip()) {
  announce_process();
  const fs::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
  const Tree state = state_in_rows();
  Manager manager(folder / "run");
  manager.save(1, state);
  manager.wait();
  int failures = 0;
  for (const Fault& fault : faults()) {
    for (int rank = 0; rank < world()->size(); ++rank) {
      CAPTURE(fault.text);
      CAPTURE(static_cast<int>(fault.call));
      CAPTURE(rank);
      const int beside = fail_each(fault, rank, folder / "run", "step-2", [&] {
        manager.save(2, state);
        manager.wait();
      });
      const int at_once = fail_each(fault, rank, folder / "run", "alone",
                                    [&] { checkpoint::save(folder / "run" / "alone", state, {}); });
      CHECK(manager.step_of(Choice::latest) == 1);
      if (fault.call != Call::mkdtemp || rank == 0) CHECK((beside > 0 && (at_once > 0 || fault.call == Call::rename)));
      failures += beside + at_once;
    }
    CHECK(fingerprint(manager.restore(1, state)) == fingerprint(state));
  }
  // Who cannot write a file cannot say so in one: process 0 waits for it as for any that is at work.
  world()->set_time_limit(0.5);
  {
    const FaultyDisk faulty(Call::open, world()->rank() == 1 ? 0 : -1, EROFS, FaultyDisk::Lasts::from_then_on);
    manager.save(2, state);
    const std::string text = error_text<CheckpointError>([&] { manager.wait(); });
    CHECK_MESSAGE(contains(text, world()->rank() == 1 ? "Read-only file system" : "process 1 has not written"), text);
  }
  world()->set_time_limit(20);
  CHECK(manager.step_of(Choice::latest) == 1);
  manager.save(3, state);
  CHECK(fingerprint(manager.restore(Choice::latest, state)) == fingerprint(state));
  std::printf("process %d saw %d failures.\n", world()->rank(), failures);
}

TEST_CASE("fault: a disk that fails at any call of any process that saves a cut state") {
  if (!can_launch()) return skip(no_launcher());
  for (const std::string communicator : {"shared_memory", "mpi"}) {
    CAPTURE(communicator);
    const TemporaryFolder folder;
    const JobEnd end =
        end_of_job("LOCKSTEP_COMMUNICATOR=" + communicator + " LOCKSTEP_COLLECTIVE_TIMEOUT=20 " +
                   "LOCKSTEP_TEST_FOLDER='" + folder.path().string() + "' " + mpirun(2) +
                   run_of_case("what each launched process sees of a disk that fails while a cut state is saved"));
    CAPTURE(end.output);
    CHECK(end.succeeded);
    CHECK_FALSE(end.hung);
    CHECK(count(end.output, "FAILURE") == 0);
    CHECK(count(end.output, "failures.") == 2);
    CHECK(names_text(folder.path() / "run") == " step-1 step-3");
  }
}

}  // namespace lockstep::tests
