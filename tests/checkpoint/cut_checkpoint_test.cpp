#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>
#include <lockstep/random.h>

#include "tests/support/array_values.h"
#include "tests/support/checkpoint_sums.h"
#include "tests/support/expect_error.h"
#include "tests/support/full_disk.h"
#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"

// Checkpoints of arrays that lie cut: saved one way, restored any other way.
using namespace lockstep;
using tests::check_same_bits;
using tests::expect_error;
using tests::TemporaryFolder;

namespace {

Tree whole_state() {
  return Tree::dict({{"w", Tree(random::normal(random::key(1), {16, 8}))},
                     {"slots", Tree::list({Tree(arange(std::int64_t{16})), Tree(array<std::int64_t>(7))})},
                     {"__metadata__", Tree(array({true, false}))}});
}

struct Way {
  Mesh mesh;
  Layout w;
  Layout slot;
};

std::vector<Way> ways() {
  const Mesh grid({{"data", 4}, {"model", 2}}, {Device{}});
  const Mesh line({{"batch", 8}}, {Device{}});
  return {{grid, sharded("data"), sharded({"data", "model"})},
          {grid, Layout({{0, "model"}, {1, "data"}}), replicated},
          {grid, sharded({"model", "data"}), sharded("model")},
          {line, sharded("batch", 1), sharded("batch")},
          {grid, replicated, replicated}};
}

Tree state_cut_by(const Way& way) {
  return reshard(whole_state(), way.mesh,
                 {{"w", way.w}, {"slots/0", way.slot}, {"slots/1", replicated}, {"__metadata__", replicated}});
}

void check_like(const Tree& restored, const Tree& like) {
  const Tree expected = whole_state();
  for (const std::string& path : expected.paths()) {
    CAPTURE(path);
    CHECK(is_cut(restored.at(path).array()) == is_cut(like.at(path).array()));
    CHECK(layout_of(restored.at(path).array()) == layout_of(like.at(path).array()));
    check_same_bits(gather(restored.at(path).array()), expected.at(path).array());
  }
}

/// Every way of saving restored in every way; all processes together.
void check_ways(const std::filesystem::path& folder, const std::string& name) {
  for (std::size_t a = 0; a < ways().size(); ++a) {
    const std::filesystem::path saved = folder / (name + std::to_string(a));
    CAPTURE(a);
    checkpoint::save(saved, state_cut_by(ways()[a]), {{"step", "3"}});
    world()->barrier();
    CHECK(checkpoint::restore(saved).manifest.at("step") == "3");
    CHECK(fingerprint(checkpoint::restore(saved).tree) == fingerprint(state_cut_by(ways()[a])));
    for (const Way& way : ways()) check_like(checkpoint::restore(saved, state_cut_by(way)), state_cut_by(way));
    check_like(checkpoint::restore(saved, whole_state()), whole_state());
  }
}

std::string manifest_with(const TemporaryFolder& folder, const std::string& from, const std::string& to) {
  std::string text = tests::file_text(folder.path() / "saved/manifest.json");
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("saved under one layout, restored under another, whole ones too") {
  const TemporaryFolder folder;
  check_ways(folder.path(), "saved");
}

TEST_CASE("what each launched process saves and restores" * doctest::skip()) {
  const std::filesystem::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
  // What another number of processes has saved.
  for (std::size_t a = 0; a < ways().size(); ++a) {
    const std::filesystem::path saved = folder / ("one" + std::to_string(a));
    for (const Way& way : ways()) check_like(checkpoint::restore(saved, state_cut_by(way)), state_cut_by(way));
  }
  check_ways(folder, "by" + std::to_string(world()->size()) + "_");
  const std::filesystem::path there = folder / "one0";
  tests::expect_error<CheckpointError>([&] { checkpoint::save(there, state_cut_by(ways()[0]), {}); },
                                       "[save] process 0", "exists already");
  // A process alone fails: all say so, and nothing is there.
  const std::filesystem::path never = folder / ("never" + std::to_string(world()->size()));
  {
    const tests::FullDisk full(world()->rank() == 1 ? 64 : RLIM_INFINITY);
    tests::expect_error<CheckpointError>([&] { checkpoint::save(never, state_cut_by(ways()[0]), {}); },
                                         "[save] process 1", "File too large");
  }
  CHECK_FALSE(std::filesystem::exists(never));
  world()->barrier();
  if (world()->rank() == 0) std::printf("restored by %d.\n", world()->size());
}

TEST_CASE("checkpoints go from one process to 2 and 4 and back") {
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  const TemporaryFolder folder;
  check_ways(folder.path(), "one");
  for (const int processes : {2, 4}) {
    const std::string output = tests::launched(processes, "what each launched process saves and restores",
                                               "LOCKSTEP_TEST_FOLDER='" + folder.path().string() + "' ");
    CAPTURE(output);
    CHECK(tests::count(output, "restored by " + std::to_string(processes) + ".") == 1);
    CHECK(tests::count(output, "FAILURE") == 0);
    for (std::size_t a = 0; a < ways().size(); ++a) {
      const std::filesystem::path saved = folder.path() / ("by" + std::to_string(processes) + "_" + std::to_string(a));
      for (const Way& way : ways()) check_like(checkpoint::restore(saved, state_cut_by(way)), state_cut_by(way));
    }
  }
}

TEST_CASE("a damaged index or block of what lay cut is refused") {
  const auto damaged = [](const std::function<void(const TemporaryFolder&)>& damage, const std::string& part) {
    const TemporaryFolder folder;
    checkpoint::save(folder.path() / "saved", state_cut_by(ways()[0]), {});
    damage(folder);
    expect_error<CheckpointError>([&] { checkpoint::restore(folder.path() / "saved"); }, part);
  };
  const auto manifest = [](const std::string& from, const std::string& to) {
    return [=](const TemporaryFolder& folder) {
      folder.write("saved/manifest.json", manifest_with(folder, from, to));
      tests::write_sums(folder.path() / "saved");
    };
  };
  damaged(manifest("\"start\"", "\"begin\""), "its index has SHA-256");
  damaged(manifest("\"blocks\"", "\"pieces\""), "expected the lists arrays and blocks");
  damaged(manifest("\"format\": 2", "\"format\": 3"), "this version reads 1 and 2");
  damaged(
      [](const TemporaryFolder& folder) {
        std::string bytes = tests::file_text(folder.path() / "saved/blocks-0.safetensors");
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        folder.write("saved/blocks-0.safetensors", bytes);
      },
      "the file was changed or damaged");
  damaged(
      [](const TemporaryFolder& folder) {
        const std::string bytes = tests::file_text(folder.path() / "saved/blocks-0.safetensors");
        folder.write("saved/blocks-0.safetensors", bytes.substr(0, bytes.size() - 1));
      },
      "blocks-0.safetensors has ");
}
