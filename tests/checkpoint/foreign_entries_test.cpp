// Checkpoints in folders that come from elsewhere: nothing in them leads to other files, and nothing is waited for.
#include "tests/support/foreign_entries.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Tree small_state() { return Tree::dict({{"w", Tree(array({1.0F, 2.0F}))}}); }

}  // namespace

TEST_CASE("restoring reads no link, FIFO, device or socket in place of one of a checkpoint's files") {
  for (const ForeignKind& kind : foreign_kinds()) {
    for (const char* name : {"manifest.json", "arrays.safetensors", "SHA256SUMS"}) {
      CAPTURE(kind.name);
      CAPTURE(name);
      const TemporaryFolder folder;
      const fs::path saved = folder.path() / "saved", aside = folder.path() / "aside";
      checkpoint::save(saved, small_state(), {});
      fs::rename(saved / name, aside);
      if (!kind.make(saved / name, aside)) continue;
      CHECK(refused_by_name<CheckpointError>(saved / name, kind.name,
                                             [&] { static_cast<void>(checkpoint::restore(saved)); }) == 0);
    }
  }
}

TEST_CASE("a manager's steps are folders of its own") {
  for (const ForeignKind& kind : foreign_kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder;
    const fs::path elsewhere = folder.path() / "elsewhere", step = folder.path() / "run" / "step-3";
    checkpoint::save(elsewhere, small_state(), {});
    fs::create_directories(step.parent_path());
    if (!kind.make(step, elsewhere)) continue;
    const checkpoint::Manager manager(step.parent_path());
    CHECK(refused_by_name<CheckpointError>(step, kind.name, [&] { static_cast<void>(manager.manifest(3)); }) == 0);
    CHECK(refused_by_name<CheckpointError>(step, kind.name, [&] { static_cast<void>(manager.metrics(3)); }) == 0);
    CHECK(refused_by_name<CheckpointError>(step, kind.name, [&] {
            checkpoint::Manager reader(step.parent_path());
            static_cast<void>(reader.restore(3));
          }) == 0);
    CHECK(refused_by_name<CheckpointError>(step, kind.name, [&] { checkpoint::save(step, small_state(), {}); }) == 0);
  }
}

TEST_CASE("a writer's lock is written through no link") {
  for (const ForeignKind& kind : foreign_kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder, elsewhere;
    const fs::path target = elsewhere.write("target", "of another");
    if (!kind.make(folder.path() / "writer.lock", target)) continue;
    CHECK(refused_by_name<CheckpointError>(folder.path() / "writer.lock", kind.name,
                                           [&] { const checkpoint::WriterLock lock(folder.path()); }) == 0);
    CHECK(file_text(target) == "of another");
  }
  const TemporaryFolder folder;
  fs::create_symlink(folder.path() / "target", folder.path() / "writer.lock");
  expect_error<CheckpointError>([&] { const checkpoint::WriterLock lock(folder.path()); }, "a symbolic link");
  CHECK_FALSE(fs::exists(folder.path() / "target"));
}

TEST_CASE("only a regular file is replaced by tensors: a device stays a device") {
  for (const ForeignKind& kind : foreign_kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder, elsewhere;
    const fs::path path = folder.path() / "tensors.safetensors", target = elsewhere.write("target", "of another");
    if (!kind.make(path, target)) continue;
    const fs::file_type before = fs::symlink_status(path).type();
    CHECK(refused_by_name<CheckpointError>(path, kind.name, [&] {
            checkpoint::save_safetensors(path, {{"w", array({1.0F})}});
          }) == 0);
    CHECK(fs::symlink_status(path).type() == before);
    CHECK(file_text(target) == "of another");
    if (std::string(kind.name) == "a symbolic link") continue;  // the user has named it: it is read through
    CHECK(refused_by_name<CheckpointError>(path, kind.name,
                                           [&] { static_cast<void>(checkpoint::load_safetensors(path)); }) == 0);
  }
}

}  // namespace lockstep::tests
