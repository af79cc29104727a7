#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>
#include <lockstep/vision.h>

#include "engine/files/folder_entries.h"
#include "engine/files/json_reader.h"
#include "tests/allocations/counted_allocations.h"
#include "tests/bad_inputs/rows.h"
#include "tests/support/forked.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/small_training.h"

// Memory that is not there, at every allocation of a step, of a trace, of what is compiled and of what is saved: an error
// of its caller's, or made good, and the next call gives what it always gives.
namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// What a process writes that may end any moment, and its parent reads.
struct Progress {
  std::atomic<std::int64_t> nth{0};
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::atomic<int> errors{0};
};

/// Whether every allocation is tried, or some; LOCKSTEP_EVERY_ALLOCATION asks for all.
std::int64_t stride_of(std::int64_t stride) { return std::getenv("LOCKSTEP_EVERY_ALLOCATION") == nullptr ? stride : 1; }

/// Work whose text is the same each time it is done; `round` counts.
using Work = std::function<std::string(std::int64_t round)>;

/// One round of `work` whose nth allocation finds no memory, and one that finds all. Whether there is an nth.
bool fail_once(const Work& work, std::int64_t nth, std::int64_t& round, Progress& progress) {
  ++round;
  std::string found;
  bool has_result = false;
  fail_allocation(nth);
  try {
    found = work(round);
    has_result = true;
  } catch (const std::bad_alloc&) {
  } catch (const Error&) {
  }
  const bool is_reached = has_failed();
  fail_allocation(-1);
  if (!has_result) ++progress.errors;
  const std::string expected = work(round);
  if (has_result && found != expected) ++progress.wrong;
  return is_reached;
}

/// Fails every nth allocation of `work`, one in each round, in a process that goes on behind each; where that ends
/// instead, the next one begins behind the allocation that ended it. `prepared` is called in each of the processes.
void check_every_allocation(const std::function<Work()>& prepared, std::int64_t stride) {
  void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto* const progress = new (shared) Progress;
  std::vector<std::int64_t> ended;
  while (!progress->is_over && ended.size() < 100) {
    const int status = forked(
        [&] {
          const Work work = prepared();
          std::int64_t round = 0;
          const std::string expected = work(round);
          for (;;) {
            alarm(20);
            if (!fail_once(work, progress->nth, round, *progress)) break;
            progress->nth += stride;
          }
          progress->is_over = true;
          return 0;
        },
        60);
    if (status == 0) continue;
    ended.push_back(progress->nth);
    progress->nth += stride;
  }
  std::string numbers;
  for (const std::int64_t nth : ended) numbers += std::to_string(nth) + " ";
  MESSAGE(progress->nth.load() << " allocations, each " << stride << "th failed, " << progress->errors.load()
                               << " errors");
  CHECK_MESSAGE(ended.empty(), "processes ended at the allocations " << numbers);
  CHECK(progress->wrong == 0);
  CHECK(progress->nth > 0);
  munmap(shared, sizeof(Progress));
}

std::string text_of(const Array& array) {
  const std::vector<std::byte> bytes = array.to_bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("bad inputs 116: memory that is not there, at every allocation of a step") {
  if (!counts_allocations()) return skip(not_counted);
  row(116, [] {
    check_every_allocation(
        [] {
          const auto step = std::make_shared<TrainStep>(line_step());
          const Batch batch{ones({4096, 3}), ones({4096, 1}), {}};
          return [step, batch](std::int64_t) { return fingerprint(to_tree((*step)(line_start(*step), batch).first)); };
        },
        1);
  });
}

TEST_CASE("memory that is not there, at every allocation of a step on two devices") {
  if (!counts_allocations()) return skip(not_counted);
  check_every_allocation(
      [] {
        const auto step = std::make_shared<TrainStep>(line_step(2));
        const Batch batch{ones({64, 3}), ones({64, 1}), {}};
        return [step, batch](std::int64_t) { return fingerprint(to_tree((*step)(line_start(*step), batch).first)); };
      },
      1);
}

TEST_CASE("memory that is not there, at allocations of a trace") {
  if (!counts_allocations()) return skip(not_counted);
  check_every_allocation(
      [] {
        return [](std::int64_t) {
          return trace_function(
                     [](const Array& x, const Array& w) {
                       return value_and_grad([](const Array& a, const Array& b) { return sum(tanh(matmul(a, b))); })(x,
                                                                                                                     w);
                     },
                     zeros({2, 3}), zeros({3, 4}))
              .to_string();
        };
      },
      stride_of(7));
}

TEST_CASE("memory that is not there, at allocations of what is traced and compiled for the first time") {
  if (!counts_allocations()) return skip(not_counted);
  check_every_allocation(
      [] {
        // Rows that no call had before are compiled for.
        return [](std::int64_t round) {
          const auto f = jit(value_and_grad(
              [](const Array& w, const Array& x) { return sum(square(matmul(x, w)) + maximum(matmul(x, w), 0.5F)); }));
          const auto [value, gradient] = f(ones({3, 2}), ones({round + 2, 3}));
          return text_of(value) + text_of(gradient);
        };
      },
      stride_of(23));
}

namespace {

/// Of a state that is saved there and restored.
void check_saves(const fs::path& saved, const Tree& state) {
  check_every_allocation(
      [&] {
        return [&](std::int64_t) {
          static_cast<void>(files::remove_tree(saved));
          checkpoint::save(saved, state, {{"seed", "7"}});
          return fingerprint(checkpoint::restore(saved, state));
        };
      },
      1);
}

}  // namespace

TEST_CASE("memory that is not there, at allocations of what is saved and restored") {
  if (!counts_allocations()) return skip(not_counted);
  const TemporaryFolder folder;
  const Tree state = Tree::dict({{"w", Tree(arange(std::int64_t{600}))}, {"b", Tree(array(2.0F))}});
  checkpoint::save(folder.path() / "before", state, {});
  const std::string expected = fingerprint(state);
  check_saves(folder.path() / "saved", state);
  CHECK(fingerprint(checkpoint::restore(folder.path() / "before", state)) == expected);
  fs::remove_all(folder.path() / "saved");
  checkpoint::save(folder.path() / "saved", state, {});  // takes away what is left of those before
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("memory that is not there, at allocations of what a manager saves beside the training") {
  if (!counts_allocations()) return skip(not_counted);
  const TemporaryFolder folder;
  const Tree state = Tree::dict({{"w", Tree(arange(std::int64_t{600}))}, {"b", Tree(array(2.0F))}});
  check_every_allocation(
      [&] {
        const auto manager = std::make_shared<checkpoint::Manager>(folder.path(), checkpoint::ManagerOptions{});
        return [&folder, &state, manager](std::int64_t) {
          try {
            manager->wait();  // for a save that goes on where the round before found no memory to wait
          } catch (const Error&) {
          } catch (const std::bad_alloc&) {
          }
          static_cast<void>(files::remove_tree(folder.path() / "step-1"));
          manager->save(1, state);
          manager->wait();
          return fingerprint(manager->restore(1, state));
        };
      },
      1);
}

TEST_CASE("memory that is not there, at allocations of a function that goes to a file and back") {
  if (!counts_allocations()) return skip(not_counted);
  const TemporaryFolder folder;
  check_every_allocation(
      [&] {
        const Array w = ones({2});
        return [&folder, w](std::int64_t) {
          const fs::path file = folder.path() / "f.function";
          exchange::export_function(
              file, [w](const Array& x) { return x * w; }, w);
          return text_of(exchange::load_function(file)(w));
        };
      },
      1);
}

TEST_CASE("memory that is not there, at allocations of what is saved of arrays that lie cut") {
  if (!counts_allocations()) return skip(not_counted);
  const TemporaryFolder folder;
  const Tree whole = Tree::dict({{"w", Tree(arange(std::int64_t{600}))}, {"b", Tree(array(2.0F))}});
  const Tree state = reshard(whole, Mesh({{"data", 2}}, {Device{}}), {{"w", sharded("data")}, {"b", replicated}});
  check_saves(folder.path() / "saved", state);
}

TEST_CASE("memory that is not there, at allocations of a folder of images") {
  if (!counts_allocations()) return skip(not_counted);
  const TemporaryFolder folder;
  for (const char* file : {"cats/a.png", "cats/b.PNG", "dogs/c.jpg"}) {
    fs::create_directories((folder.path() / file).parent_path());
    std::ofstream(folder.path() / file) << file;
  }
  check_every_allocation(
      [&] { return [&](std::int64_t) { return std::to_string(data::image_folder(folder.path())->rows()); }; }, 1);
}

TEST_CASE("JSON is taken apart without memory") {
  if (!counts_allocations()) return skip(not_counted);
  std::optional<json::Value> value =
      json::parse(R"({"a": [[1, 2, [{"b": {"c": []}}]], {"d": {"e": "f"}}], "g": {}})").value;
  REQUIRE(value);
  CHECK(allocations_during([&] { value.reset(); }) == 0);
  const std::string nested = std::string(60, '[') + std::string(60, ']');
  value = json::parse(nested).value;
  REQUIRE(value);
  CHECK(allocations_during([&] { *value = json::Value(); }) == 0);
}

}  // namespace lockstep::tests
