#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/checkpoint_sums.h"
#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"

// A resume that is refused, for whatever reason, leaves the run's folder as it was.

using namespace lockstep::tests;
namespace fs = std::filesystem;

namespace {

const std::string mlp_run =
    "train --data synthetic --set data.rows=128 --set data.test_rows=32 --model mlp --batch 32 ";

/// Every file and folder below one, with what stands in the files.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    contents[name] = entry.is_directory() ? "a folder" : file_text(entry.path());
  }
  return contents;
}

/// A run of 6 steps with a checkpoint behind each second one, stopped as a kill behind step 5 leaves it.
void make_run(const fs::path& run) {
  const Outcome outcome =
      run_program(mlp_run + "--steps 6 --checkpoint-every 2 --log-every 1 --trace-bits --run " + run.string());
  REQUIRE(outcome.code == 0);
  fs::copy_file(run / "config.toml", run.string() + ".toml", fs::copy_options::overwrite_existing);
  fs::remove_all(run / "checkpoints" / "step-6");
  fs::remove(run / "result.json");
  fs::create_directory(run / "checkpoints" / ".step-6.abcdef");
  std::ofstream(run / "checkpoints" / ".step-6.abcdef" / "arrays.safetensors") << "half of";
}

void flip_last_byte(const fs::path& file) {
  std::string bytes = file_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
}

void must_refuse_resume(const fs::path& run, const std::string& command, const std::string& part) {
  CAPTURE(command);
  const std::map<std::string, std::string> before = contents_of(run);
  const std::string program = LOCKSTEP_PROGRAM " ";
  const Outcome outcome =
      command.starts_with(program) ? run_in_child(command.substr(program.size())) : run_shell(command);
  CHECK(outcome.code != 0);
  CHECK(outcome.out.empty());
  REQUIRE(!outcome.err.empty());
  CAPTURE(outcome.err[0]);
  CHECK(std::ranges::any_of(outcome.err, [&](const std::string& line) { return contains(line, part); }));
  const std::map<std::string, std::string> behind = contents_of(run);
  for (const auto& [name, text] : before) {
    CAPTURE(name);
    CHECK(behind.contains(name));
    if (behind.contains(name)) CHECK(behind.at(name) == text);
  }
  for (const auto& [name, text] : behind) {
    CAPTURE(name);
    CHECK(before.contains(name));
  }
}

std::string resume(const fs::path& run, const std::string& more) {
  return LOCKSTEP_PROGRAM " train --config " + run.string() + ".toml --resume --run " + run.string() +
         (contains(more, "--steps") ? " " : " --steps 9 ") + more;
}

}  // namespace

TEST_CASE("a resume that is refused leaves the run's folder byte for byte as it was") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  make_run(run);
  struct Case {
    std::string options;
    std::string part;
  };
  const std::vector<Case> cases = {
      // What fails at the restore, behind everything that was accepted.
      {"--set model.units=7 --accept-change model.units", "'state/"},
      {"--set model.units=7 --accept-change '*'", "'state/"},
      {"--optimizer sgd --accept-change optimizer", "'state/"},
      {"--model autoencoder --accept-change model", ""},
      {"--dtype float64 --accept-change dtype", "f64"},
      {"--precision mixed_float16 --accept-change precision", "loss_scale"},
      // What fails before.
      {"--accept-change modle", "names 'modle', which is no entry of the manifest"},
      {"--optimizer adan", "no optimizer 'adan'"},
      {"--model mlpp", "no model 'mlpp'"},
      {"--data npz --data-dir /nowhere", "/nowhere"},
      {"--data fashion-mnist --data-dir " + folder.path().string() + " --accept-change data", ""},
      {"--shards 3", "3"},
      {"--set data.rows=16", "16 rows"},
      {"--profile " + (run / "none" / "trace.json").string(), "there is no folder"},
  };
  for (const Case& c : cases) must_refuse_resume(run, resume(run, c.options), c.part);
  must_refuse_resume(run, resume(run, "--steps 3"), "stands at step 4");
  // Each entry of the manifest, as it would be of another run.
  const fs::path manifest = run / "checkpoints" / "step-4" / "manifest.json";
  const std::string written = file_text(manifest);
  const auto entries = nlohmann::json::parse(written).at("entries");
  CHECK(entries.size() > 15);
  for (const auto& [name, value] : entries.items()) {
    auto changed = nlohmann::json::parse(written);
    changed["entries"][name] = "another";
    std::ofstream(manifest) << changed;
    write_sums(manifest.parent_path());
    must_refuse_resume(run, resume(run, ""), "'" + name + "' was 'another' when the run was saved");
  }
  std::ofstream(manifest) << written;
  write_sums(manifest.parent_path());
  // And it goes on all the same.
  const Outcome outcome = run_shell(resume(run, ""));
  REQUIRE(outcome.code == 0);
  CHECK_FALSE(fs::exists(run / "checkpoints" / ".step-6.abcdef"));
}

TEST_CASE("a resume from a damaged checkpoint, or into a folder that cannot be written, changes nothing") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run", whole = folder.path() / "whole";
  make_run(run);
  fs::rename(run, whole);
  const auto made_anew = [&] {
    fs::remove_all(run);
    fs::copy(whole, run, fs::copy_options::recursive);
  };
  const std::string accepted = "--learning-rate 0.5 --accept-change learning_rate";
  made_anew();
  flip_last_byte(run / "checkpoints" / "step-4" / "arrays.safetensors");
  must_refuse_resume(run, resume(run, accepted), "SHA-256");
  made_anew();
  fs::resize_file(run / "checkpoints" / "step-4" / "arrays.safetensors", 1000);
  must_refuse_resume(run, resume(run, accepted), "arrays.safetensors");
  made_anew();
  std::ofstream(run / "checkpoints" / "step-4" / "manifest.json") << "{";
  must_refuse_resume(run, resume(run, accepted), "manifest.json");
  made_anew();
  fs::remove(run / "checkpoints" / "step-4" / "arrays.safetensors");
  must_refuse_resume(run, resume(run, accepted), "arrays.safetensors");
  for (const char* file : {"metrics.csv", "speed.csv", "bits.csv", "config.toml", "manifest.json", "result.json",
                           "accepted_changes.json"}) {
    made_anew();
    fs::remove(run / file);
    fs::create_directory(run / file);
    must_refuse_resume(run, resume(run, accepted), std::string(file) + " cannot be written: it is a folder");
  }
  made_anew();
  std::ofstream lock(run / "writer.lock");
  must_refuse_resume(run, "flock " + (run / "writer.lock").string() + " " + resume(run, accepted),
                     "writes this folder");
  if (run_shell("setpriv --reuid 65534 --clear-groups true").code != 0) {
    return skip("setpriv cannot make this process another user's");
  }
  // Another user may read it.
  made_anew();
  fs::permissions(folder.path(), fs::perms(0755));
  must_refuse_resume(run, "setpriv --reuid 65534 --clear-groups " + resume(run, accepted), "may not write");
  fs::permissions(run, fs::perms(0777));
  must_refuse_resume(run, "setpriv --reuid 65534 --clear-groups " + resume(run, accepted), "may not write");
}

TEST_CASE("a resume that one of two processes refuses changes nothing") {
  if (!can_launch()) return skip(no_launcher());
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  make_run(run);
  const std::string two = mpirun(2);
  must_refuse_resume(run, two + resume(run, "--set model.units=7 --accept-change model.units"), "'state/");
  flip_last_byte(run / "checkpoints" / "step-4" / "arrays.safetensors");
  must_refuse_resume(run, two + resume(run, "--learning-rate 0.5 --accept-change learning_rate"), "SHA-256");
}
