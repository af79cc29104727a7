#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/rows.h"
#include "tests/support/checkpoint_sums.h"
#include "tests/support/skip.h"
#include "tests/trainer/small_training.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Tree state_of(float first) {
  return Tree::dict({{"w", Tree(array(std::vector<float>{first, 2, 3, 4, 5, 6}, {2, 3}))}, {"b", Tree(zeros({2}))}});
}

/// A checkpoint of state_of, and of the same cut in two.
class Saved {
 public:
  explicit Saved(float first = 1) {
    const Mesh mesh({{"data", 2}}, {Device{}});
    checkpoint::save(whole(), state_of(first), {{"seed", "7"}});
    checkpoint::save(cut(), reshard(state_of(first), mesh, {{"w", sharded("data")}, {"b", replicated}}), {});
  }
  fs::path whole() const { return folder_.path() / "whole"; }
  fs::path cut() const { return folder_.path() / "cut"; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

/// Restoring `folder` (as `like`) is row `number`.
void restore_row(int number, const fs::path& folder, const Tree& like = {}) {
  refused<CheckpointError>(number, [&] {
    if (like.size() == 0) {
      checkpoint::restore(folder);
    } else {
      static_cast<void>(checkpoint::restore(folder, like));
    }
  });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void rewrite(const fs::path& file, const std::string& from, const std::string& to) {
  const std::string text = replaced(file_text(file), from, to);
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("bad inputs 67 to 70: files of a checkpoint") {
  {
    const Saved saved;
    fs::remove(saved.whole() / "manifest.json");
    restore_row(67, saved.whole());
    fs::remove(saved.cut() / "manifest.json");
    restore_row(67, saved.cut());
    restore_row(67, saved.folder().path() / "absent");
  }
  for (const std::string version : {"0", "3", "-1", "1.5", "\"1\"", "null"}) {
    const Saved saved;
    rewrite(saved.whole() / "manifest.json", "\"format\": 1", "\"format\": " + version);
    restore_row(67, saved.whole());
    write_sums(saved.whole());
    restore_row(67, saved.whole());
  }
  {
    const Saved saved, other(9);
    fs::remove(saved.whole() / "arrays.safetensors");
    restore_row(68, saved.whole());
    fs::copy(saved.cut() / "blocks-0.safetensors", saved.cut() / "blocks-1.safetensors");
    restore_row(68, saved.cut());
    fs::remove(saved.cut() / "blocks-1.safetensors");
    fs::remove(saved.cut() / "blocks-0.safetensors");
    restore_row(68, saved.cut());
    fs::copy(other.cut() / "blocks-0.safetensors", saved.cut() / "blocks-0.safetensors");
    restore_row(68, saved.cut());
  }
  {
    const Saved saved;
    std::string bytes = file_text(saved.whole() / "arrays.safetensors");
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    saved.folder().write("whole/arrays.safetensors", bytes);
    restore_row(69, saved.whole());
    bytes = file_text(saved.cut() / "blocks-0.safetensors");
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    saved.folder().write("cut/blocks-0.safetensors", bytes);
    restore_row(69, saved.cut());
    rewrite(saved.cut() / "SHA256SUMS", "manifest", "manifesto");
    restore_row(69, saved.cut());
  }
  const Saved saved, other(9);  // of another step
  fs::copy(other.whole() / "arrays.safetensors", saved.whole() / "arrays.safetensors",
           fs::copy_options::overwrite_existing);
  restore_row(70, saved.whole());
  fs::copy(other.cut() / "manifest.json", saved.cut() / "manifest.json", fs::copy_options::overwrite_existing);
  restore_row(70, saved.cut());
}

TEST_CASE("bad inputs 71 to 74: checkpoints of another model") {
  const Saved saved;
  for (const fs::path& folder : {saved.whole(), saved.cut()}) {
    const Tree good = state_of(1);
    restore_row(71, folder, good.with("extra", Tree(zeros({1}))));
    restore_row(71, folder, Tree::dict({{"w", good.at("w")}}));
    restore_row(71, folder, Tree::dict({{"w", good.at("w")}, {"bias", good.at("b")}}));
    restore_row(71, folder, good.with("w", Tree(zeros({3, 2}))));
    restore_row(72, folder, good.with("w", Tree(zeros({2, 3}, float64))));
  }
  const auto state_with = [](const optim::GradientTransformation& optimizer) {
    const TrainStep step = data_parallel(StepLoss(line_loss), optimizer, {.shards = 1});
    return to_tree(step.init(Tree::dict({{"w", Tree(ones({3, 1}))}, {"b", Tree(zeros({1}))}}), Tree()));
  };
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "sgd", state_with(optim::sgd(0.1)), {});
  restore_row(73, folder.path() / "sgd", state_with(optim::adam(0.1)));
  checkpoint::save(folder.path() / "adam", state_with(optim::adam(0.1)), {});
  restore_row(73, folder.path() / "adam", state_with(optim::sgd(0.1)));
  const Model<Array, Array> dropping([](Scope& s, const Array& x) { return dropout(s["drop"], x, 0.5F); });
  const auto [trainable, random] = dropping.init(random::key(0), zeros({1, 2}));
  checkpoint::save(folder.path() / "fixed", Tree::dict({{"w", Tree(ones({1}))}}), {});
  restore_row(74, folder.path() / "fixed", Tree::dict({{"w", Tree(ones({1}))}, {"non_trainable", random}}));
}

TEST_CASE("bad inputs 75 and 76: runs that go on with another data set, or under what changes bits") {
  const TemporaryFolder folder;
  const auto run = [&](std::int64_t rows, const Named<std::string>& manifest, std::int64_t steps) {
    const TrainStep step = line_step();
    data::TreeLoader loader = line_loader(rows, 4);
    fit(step, line_start(step), loader,
        {.steps = steps,
         .checkpoints = std::make_shared<checkpoint::Manager>(folder.path()),
         .resume = true,
         .manifest = manifest});
  };
  const Named<std::string>::Map entries = {{"seed", "3"},       {"shards", "4"},
                                           {"batch", "4"},      {"training_sha256", "a"},
                                           {"lockstep", "0.1"}, {"processor", "p"}};
  run(20, entries, 4);
  refused<DataError>(75, [&] { run(12, entries, 5); });
  for (const auto& [name, value] : entries) {
    Named<std::string>::Map other = entries;
    other[name] = "another";
    refused<CheckpointError>(76, [&] { run(20, other, 5); });
    if (name == "batch" || name == "seed" || name == "shards") continue;  // left out, the loader and the step say them
    other.erase(name);
    refused<CheckpointError>(76, [&] { run(20, other, 5); });
  }
}

TEST_CASE("bad inputs 77 to 80: folders that are no place for a checkpoint") {
  const TemporaryFolder folder;
  row(77, [&] {
    fs::create_directories(folder.path() / ".step-3.aB1cD2");
    checkpoint::Manager manager(folder.path());
    manager.save(4, state_of(1));
    manager.wait();
    CHECK_FALSE(fs::exists(folder.path() / ".step-3.aB1cD2"));
    CHECK(manager.steps() == std::vector<std::int64_t>{4});
    checkpoint::Manager second(folder.path());
    const std::string lock = file_text(folder.path() / "writer.lock");
    refused<CheckpointError>(
        78, [&] { second.save(5, state_of(1)); }, lock.substr(0, lock.find('\n')));
  });
  refused<CheckpointError>(78, [&] { checkpoint::save(folder.path() / "step-4", state_of(1), {}); });
  refused<CheckpointError>(79, [&] { checkpoint::save("/proc/checkpoint", state_of(1), {}); });
  folder.write("file", "");
  refused<CheckpointError>(79, [&] { checkpoint::save(folder.path() / "file" / "saved", state_of(1), {}); });
  if (geteuid() == 0) {
    skip("root may write anywhere");
  } else {
    fs::create_directory(folder.path() / "closed");
    fs::permissions(folder.path() / "closed", fs::perms::owner_read | fs::perms::owner_exec);
    refused<CheckpointError>(79, [&] { checkpoint::save(folder.path() / "closed" / "saved", state_of(1), {}); });
  }
  const std::string longest(300, 'n');
  refused<CheckpointError>(80, [&] { checkpoint::save(folder.path() / longest, state_of(1), {}); });
  row(80, [&] {  // a name on a disk is bytes
    checkpoint::save(folder.path() / "\xFF", state_of(1), {});
    CHECK(fingerprint(checkpoint::restore(folder.path() / "\xFF").tree) == fingerprint(state_of(1)));
  });
  refused<CheckpointError>(80, [&] { checkpoint::save(folder.path() / "b", state_of(1), {{"k", "\xFF"}}); });
  refused<CheckpointError>(80, [&] {
    checkpoint::save(folder.path() / "b", Tree::dict({{"\xFF", Tree(array(1))}}), {});
  });
  // A link in place of a file is not read through.
  const Saved saved, other(9);
  fs::remove(saved.whole() / "arrays.safetensors");
  fs::create_symlink(other.whole() / "arrays.safetensors", saved.whole() / "arrays.safetensors");
  restore_row(80, saved.whole());
  fs::create_symlink(folder.path() / "elsewhere", folder.path() / "linked");
  refused<CheckpointError>(80, [&] { checkpoint::save(folder.path() / "linked", state_of(1), {}); });
}

}  // namespace lockstep::tests
