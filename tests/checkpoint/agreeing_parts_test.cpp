// Checkpoints whose parts do not agree.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lockstep/checkpoint.h>
#include <lockstep/checkpoint_manager.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "tests/support/checkpoint_sums.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// The step of a checkpoint's folder, its manifest and its state are one, and its sums are there.

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Tree run_at(std::int64_t step) {
  return Tree::dict({{"state", Tree::dict({{"step", Tree(array(step))}, {"w", Tree(arange(std::int64_t{4}))}})}});
}

/// The same, of which an array lies cut.
Tree cut_run_at(std::int64_t step) {
  const Mesh mesh({{"data", 2}}, {Device{}});
  return reshard(run_at(step), mesh, {{"state/w", sharded("data")}, {"state/step", replicated}});
}

/// Saves a step by a manager, and gives the folder of its checkpoint.
fs::path saved_at(const TemporaryFolder& folder, std::int64_t step, const Tree& run) {
  checkpoint::Manager manager(folder.path());
  manager.save(step, run);
  manager.wait();
  return manager.folder_of(step);
}

std::string refusal(const fs::path& saved) {
  const std::string text = error_text<CheckpointError>([&] { checkpoint::restore(saved); });
  CHECK(error_text<CheckpointError>([&] { static_cast<void>(checkpoint::restore(saved, run_at(0))); }) == text);
  return text;
}

/// Writes another value into the manifest, and sums that agree with it.
void set_in_manifest(const fs::path& saved, const std::string& field, const nlohmann::json& value) {
  auto manifest = nlohmann::json::parse(file_text(saved / "manifest.json"));
  manifest[field] = value;
  std::ofstream(saved / "manifest.json") << manifest;
  write_sums(saved);
}

}  // namespace

TEST_CASE("a checkpoint whose folder is named after another step is refused") {
  for (const bool cut : {false, true}) {
    const TemporaryFolder folder;
    const fs::path saved = saved_at(folder, 4, cut ? cut_run_at(4) : run_at(4));
    const fs::path renamed = folder.path() / "step-8";
    fs::rename(saved, renamed);
    const std::string text =
        "[restore] " + renamed.string() +
        " is named after step 8, but its manifest is of step 4; it was renamed or copied: give it the name step-4 "
        "again, or take another checkpoint";
    CHECK(refusal(renamed) == text);
    checkpoint::Manager manager(folder.path());
    CHECK(error_text<CheckpointError>([&] { manager.restore(checkpoint::Choice::latest); }) == text);
    CHECK(error_text<CheckpointError>([&] { static_cast<void>(manager.metrics(8)); }) == text);
    fs::rename(renamed, folder.path() / "kept");  // which is the name of no step
    CHECK(fingerprint(checkpoint::restore(folder.path() / "kept").tree) == fingerprint(run_at(4)));
  }
}

TEST_CASE("a checkpoint whose manifest is of another step than its state is refused") {
  for (const bool cut : {false, true}) {
    const TemporaryFolder folder;
    const fs::path saved = saved_at(folder, 4, cut ? cut_run_at(4) : run_at(4)), renamed = folder.path() / "step-8";
    fs::rename(saved, renamed);
    set_in_manifest(renamed, "step", 8);
    CHECK(refusal(renamed) == "[restore] " + renamed.string() +
                                  ": its manifest is of step 8, but 'state/step' in it is 4; its files are of "
                                  "different checkpoints or were changed: take another checkpoint");
    set_in_manifest(renamed, "step_leaf", "state/w");
    CHECK(contains(refusal(renamed), "but 'state/w' in it is no number"));
    set_in_manifest(renamed, "step_leaf", 7);
    CHECK(contains(refusal(renamed), "its step_leaf must be the path of a leaf, beside a step"));
    set_in_manifest(renamed, "step", -1);
    CHECK(contains(refusal(renamed), "is no manifest: its step is -1, which is no number of steps"));
  }
}

TEST_CASE("a tree that counts something else by 'step' is saved and restored") {
  const TemporaryFolder folder;
  const fs::path saved = saved_at(folder, 3, run_at(3000));  // an epoch
  CHECK(fingerprint(checkpoint::restore(saved).tree) == fingerprint(run_at(3000)));
}

TEST_CASE("a checkpoint without SHA256SUMS is refused, and sha256sum writes it again") {
  for (const bool cut : {false, true}) {
    const TemporaryFolder folder;
    const fs::path saved = saved_at(folder, 4, cut ? cut_run_at(4) : run_at(4));
    fs::remove(saved / "SHA256SUMS");
    const std::string name = saved.string();
    const std::string text = refusal(saved);
    CHECK(text == "[restore] " + name +
                      " has no SHA256SUMS, which says what its files are; they may have been changed: take another "
                      "checkpoint, or, where you trust them, write it by (cd " +
                      name + " && sha256sum $(ls arrays.safetensors manifest.json 2>/dev/null) > SHA256SUMS)");
    REQUIRE(std::system(text.substr(text.find("(cd ")).c_str()) == 0);
    CHECK(fingerprint(checkpoint::restore(saved).tree) == fingerprint(run_at(4)));
  }
}

}  // namespace lockstep::tests
