#include <complex>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>

#include "tests/support/checkpoint_sums.h"
#include "tests/support/expect_error.h"
#include "tests/support/odd_trees.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::file_text;
using tests::TemporaryFolder;

namespace {

Tree example() {
  return Tree::dict({{"w", Tree(array(std::vector<float>{1, -2, 3.5F, 0}, {2, 2}))},
                     {"slots", Tree::list({Tree(array<std::int64_t>(7)), Tree(array(std::vector<double>{}, {0, 3}))})},
                     {"mask", Tree(array({true, false, true}))},
                     {"rng", Tree(array<std::uint32_t>({1, 0xFFFFFFFFU, 3}))}});
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

/// A saved folder whose arrays file holds these bytes, with a manifest that agrees.
void write_saved(const TemporaryFolder& folder, const std::string& bytes) {
  std::filesystem::create_directories(folder.path() / "saved");
  folder.write("saved/arrays.safetensors", bytes);
  folder.write("saved/manifest.json", "{\"format\": 1, \"sha256\": \"" + sha256(bytes) + "\", \"entries\": {}}");
  tests::write_sums(folder.path() / "saved");
}

}  // namespace

TEST_CASE("sha256 gives the standard's digests") {
  // FIPS 180-4, the examples "abc" and the empty message.
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("a fingerprint sees every path, dtype, shape and bit") {
  const std::string base = fingerprint(example());
  CHECK(base.size() == 64);
  CHECK(base == fingerprint(example()));
  const auto changed = [&](const std::string& path, const Array& leaf) {
    return fingerprint(example().with(path, Tree(leaf)));
  };
  CHECK(base != changed("w", array(std::vector<float>{1, -2, 3.5F, -0.0F}, {2, 2})));
  CHECK(base != changed("w", array(std::vector<float>{1, -2, 3.5F, 0}, {4})));
  CHECK(base != changed("w", array(std::vector<double>{1, -2, 3.5, 0}, {2, 2})));
  CHECK(base != changed("v", array(1.0F)));
}

TEST_CASE("a list of more than ten leaves has one fingerprint, as a list and restored as a dict") {
  std::vector<Tree> items;
  for (int i = 0; i < 12; ++i) items.emplace_back(array(i));
  const Tree tree = Tree::dict({{"layers", Tree::list(items)}});
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", tree, {});
  CHECK(fingerprint(checkpoint::restore(folder.path() / "saved").tree) == fingerprint(tree));
}

TEST_CASE("save and restore keep every bit, structure and manifest") {
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", example(), {{"seed", "7"}});
  const checkpoint::Saved saved = checkpoint::restore(folder.path() / "saved");
  CHECK(saved.manifest.at("seed") == "7");
  const Tree restored = checkpoint::restore(folder.path() / "saved", example());
  CHECK(restored.same_structure(example()));
  CHECK(fingerprint(restored) == fingerprint(example()));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("save refuses a folder that exists and one it cannot write") {
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", example(), {});
  tests::expect_error<CheckpointError>(
      [&] { static_cast<void>(checkpoint::save(folder.path() / "saved", example(), {})); }, "exists already");
  folder.write("file", "");
  tests::expect_error<CheckpointError>([&] { checkpoint::save(folder.path() / "file" / "saved", example(), {}); },
                                       "file", "folder");
}

TEST_CASE("save makes parent folders, and takes away what a killed save of that name has left") {
  const TemporaryFolder folder;
  const std::filesystem::path parent = folder.path() / "runs" / "first";
  for (const char* name : {".saved.a1b2C3", ".saved2.a1b2C3", ".saved.more.names", ".other.a1b2C3"}) {
    std::filesystem::create_directories(parent / name);
  }
  checkpoint::save(parent / "saved", example(), {});
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) left.insert(entry.path().filename());
  CHECK(left == std::set<std::string>{"saved", ".saved2.a1b2C3", ".saved.more.names", ".other.a1b2C3"});
}

TEST_CASE("random keys and complex numbers come back, and their parts are what other programs read") {
  const TemporaryFolder folder;
  const Tree tree = Tree::dict({{"key", Tree(random::key(7))},
                                {"keys", Tree(random::split(random::key(1), 3))},
                                {"z", Tree(array(std::vector<std::complex<float>>{{1, -2}, {0.5F, 3}}))},
                                {"wide", Tree(convert(array(std::vector<double>{1, 2}), complex128))},
                                {"w", Tree(array(1.0F))}});
  checkpoint::save(folder.path() / "saved", tree, {});
  const Tree restored = checkpoint::restore(folder.path() / "saved", tree);
  CHECK(fingerprint(restored) == fingerprint(tree));
  CHECK(fingerprint(checkpoint::restore(folder.path() / "saved").tree) == fingerprint(tree));
  CHECK(restored.at("key").array().dtype() == DType::key);
  const auto parts = checkpoint::load_safetensors(folder.path() / "saved" / "arrays.safetensors");
  CHECK(parts.at("keys").dtype() == uint32);
  CHECK(parts.at("keys").shape() == Shape{3, 2});
  CHECK(parts.at("z").to_vector<float>() == std::vector<float>{1, -2, 0.5F, 3});
  const std::string header =
      R"({"__metadata__":{"lockstep.dtype z":"key"},"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::filesystem::remove_all(folder.path() / "saved");
  write_saved(folder, safetensors(header, "abcd"));
  tests::expect_error<CheckpointError>([&] { static_cast<void>(checkpoint::restore(folder.path() / "saved")); },
                                       "tensor 'z' is f32[1], which are no parts of a \"key\"");
}

TEST_CASE("a part is restored, and under other names") {
  const TemporaryFolder folder;
  const auto saved = folder.path() / "saved";
  checkpoint::save(saved, example(), {});
  const Array w = example().at("w").array(), fresh = array(-1.0F);
  const auto restored = [&](const Tree& like, const checkpoint::RestoreOptions& options) {
    return checkpoint::restore(saved, like, options);
  };
  const Tree some = restored(Tree::dict({{"w", Tree(w * 0)}}), {.ignore_surplus = true});
  CHECK(some.at("w").array().to_vector<float>() == w.to_vector<float>());
  const Tree more = restored(example().with("head/bias", Tree(fresh)), {.keep_missing = true});
  CHECK(more.at("head/bias").array().item<float>() == -1);
  const Tree other = Tree::dict({{"model", Tree::dict({{"kernel", Tree(w * 0)}, {"mask", example().at("mask")}})},
                                 {"optimizer", example().at("slots")},
                                 {"rng", example().at("rng")}});
  const Tree renamed = restored(other, {.renamed = {{"model/kernel", "w"}, {"model", ""}, {"optimizer", "slots"}}});
  CHECK(renamed.at("model/kernel").array().to_vector<float>() == w.to_vector<float>());
  CHECK(renamed.at("optimizer/0").array().item<std::int64_t>() == 7);
  const Tree whole = restored(Tree::dict({{"w", Tree(w)}}), {.ignore_surplus = true, .renamed = {{"", ""}}});
  CHECK(whole.at("w").array().to_vector<float>() == w.to_vector<float>());
  tests::expect_error<CheckpointError>(
      [&] {
        static_cast<void>(restored(other, {.renamed = {{"model/kernel", "v"}}}));
      },
      "holds no array 'v' (for 'model/kernel')", "keep_missing");
  tests::expect_error<CheckpointError>(
      [&] {
        static_cast<void>(restored(example(), {.renamed = {{"layers", "w"}}}));
      },
      "renamed has 'layers' (saved as 'w')");
  tests::expect_error<CheckpointError>(
      [&] {
        static_cast<void>(restored(Tree::dict({{"w", Tree(w)}}), {.keep_missing = true}));
      },
      "ignore_surplus");
}

TEST_CASE("restore names what does not fit") {
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", example(), {});
  const auto restored = [&](const Tree& like) { return checkpoint::restore(folder.path() / "saved", like); };
  tests::expect_error<CheckpointError>([&] { static_cast<void>(restored(example().with("extra", Tree(array(1.0F))))); },
                                       "holds no array 'extra'");
  tests::expect_error<CheckpointError>([&] { static_cast<void>(restored(example().with("w", Tree(array(1.0F))))); },
                                       "'w' is f32[2,2]");
  tests::expect_error<CheckpointError>(
      [&] {
        static_cast<void>(restored(Tree::dict({{"mask", example().at("mask")}})));
      },
      "which is not expected");
}

namespace {

/// Of every file of a saved folder each byte is changed, and each end cut off: all is refused by an error that names a file.
void check_no_damage_passes(const TemporaryFolder& folder) {
  const std::filesystem::path saved = folder.path() / "saved";
  for (const auto& entry : std::filesystem::directory_iterator(saved)) {
    const std::string name = "saved/" + entry.path().filename().string();
    CAPTURE(name);
    const std::string good = file_text(entry.path());
    const auto refused = [&] {
      const std::string text =
          tests::error_text<CheckpointError>([&] { static_cast<void>(checkpoint::restore(saved)); });
      REQUIRE(tests::contains(text, saved.string() + "/"));
    };
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](std::size_t at, int c) {
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(c)).flush();
    };
    for (std::size_t at = 0; at < good.size(); ++at) {
      CAPTURE(at);
      for (const int bit : {1, 32}) {  // 32: the other case of a letter
        put(at, good[at] ^ bit);
        refused();
      }
      put(at, good[at]);
    }
    put(good.size(), ' ');
    refused();
    for (std::size_t size = good.size(); size-- > 0;) {
      std::filesystem::resize_file(entry.path(), size);
      refused();
    }
    std::filesystem::remove(entry.path());
    REQUIRE_THROWS_AS(checkpoint::restore(saved), CheckpointError);
    folder.write(name, good);
  }
  CHECK_NOTHROW(static_cast<void>(checkpoint::restore(saved)));
}

}  // namespace

TEST_CASE("every changed byte and every truncation of a checkpoint is refused") {
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", example().with("key", Tree(random::key(3))), {{"seed", "7"}});
  check_no_damage_passes(folder);
  const std::string good = file_text(folder.path() / "saved" / "arrays.safetensors");
  std::string bad = good;
  bad.back() = static_cast<char>(bad.back() ^ 1);
  folder.write("saved/arrays.safetensors", bad);
  tests::expect_error<CheckpointError>([&] { static_cast<void>(checkpoint::restore(folder.path() / "saved")); },
                                       "arrays.safetensors has SHA-256", "array 'w' in it");
}

TEST_CASE("every changed byte and every truncation of a checkpoint of blocks is refused") {
  const TemporaryFolder folder;
  const Mesh mesh({{"data", 2}}, {Device{}});
  const Tree tree = reshard(Tree::dict({{"w", Tree(arange(std::int64_t{4}))}, {"b", Tree(array(2.0F))}}), mesh,
                            {{"w", sharded("data")}, {"b", replicated}});
  checkpoint::save(folder.path() / "saved", tree, {});
  check_no_damage_passes(folder);
}

TEST_CASE("hostile safetensors files are refused, whatever their manifest says") {
  const std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  struct Bad {
    std::string bytes;
    std::string says;
  };
  const std::vector<Bad> table = {
      {"1234567", "begins with 8 bytes"},
      {safetensors(one, "abcd").replace(0, 8, std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8)), "header length"},
      {safetensors(one, "").replace(0, 1, "\x7F"), "header length"},
      {safetensors("[1]", ""), "no JSON object"},
      {safetensors("\xFF\xFE{}", ""), "no JSON object"},
      {safetensors(one, "abc"), "are no begin and end in"},
      {safetensors(one, "abcde"), "1 bytes follow the last tensor"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", "abcde"), "expected 0"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd"), "are no begin and end in"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"), "whole numbers"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "abcd"), "whole numbers"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"), "4 bytes for f32[2]"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,4]}})", "abcd"),
       "needs more than the 4 bytes of data in the file"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", ""),
       "is larger than the 0 bytes of data"},
      {safetensors(R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", "abcd"),
       "which is not known; expected one of BOOL, I8"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", "abcd"), "exactly"},
      {safetensors(R"({"__metadata__":{"n":1},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"),
       R"('__metadata__' is {"n":1}; expected an object with a text for each name)"},
      {safetensors(R"({"__metadata__":{"n":{"m":"x"}},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"),
       R"('__metadata__' is {"n":{"m":"x"}}; expected)"},
      {safetensors(R"({"__metadata__":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"),
       "'__metadata__' is {"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", "abcd"), "are no begin and end in"},
      {safetensors(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
           "abcd"),
       "without hole or overlap"},
      {safetensors(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
           "abcd"),
       "appears twice"},
  };
  for (const Bad& bad : table) {
    const TemporaryFolder folder;
    write_saved(folder, bad.bytes);
    tests::expect_error<CheckpointError>([&] { static_cast<void>(checkpoint::restore(folder.path() / "saved")); },
                                         bad.says);
  }
}

TEST_CASE("tensors come from a file that another program wrote, and go to one") {
  const TemporaryFolder folder;
  // As Python's safetensors.torch.save_file writes {"fc.weight": [[1, 2], [3, 4]], "fc.bias": [-1, 0.5]} in float32: with
  // metadata, the header padded with spaces to a multiple of 8.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("fc.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]}})";
  const std::vector<float> numbers = {-1, 0.5F, 1, 2, 3, 4};
  const std::string data(reinterpret_cast<const char*>(numbers.data()), 24);
  const auto file =
      folder.write("torch.safetensors", safetensors(header + std::string((8 - header.size() % 8) % 8, ' '), data));
  const std::map<std::string, Array> tensors = checkpoint::load_safetensors(file);
  CHECK(tensors.size() == 2);
  CHECK(tensors.at("fc.bias").to_vector<float>() == std::vector<float>{-1, 0.5F});
  CHECK(tensors.at("fc.weight").shape() == Shape{2, 2});
  CHECK(tensors.at("fc.weight").to_vector<float>() == std::vector<float>{1, 2, 3, 4});

  checkpoint::save_safetensors(file, {{"w", transpose(tensors.at("fc.weight"))}, {"n", array<std::int64_t>(7)}});
  const std::map<std::string, Array> written = checkpoint::load_safetensors(file);
  CHECK(written.size() == 2);
  CHECK(written.at("w").to_vector<float>() == std::vector<float>{1, 3, 2, 4});
  CHECK(written.at("n").item<std::int64_t>() == 7);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  CHECK(files == 1);

  tests::expect_error<CheckpointError>(
      [&] { static_cast<void>(checkpoint::load_safetensors(folder.path() / "absent")); }, "absent");
  tests::expect_error<CheckpointError>(
      [&] { static_cast<void>(checkpoint::save_safetensors(folder.path() / "no folder" / "x", {})); }, "no folder");
  tests::expect_error<CheckpointError>(
      [&] {
        static_cast<void>(checkpoint::save_safetensors(file, {{"z", zeros({2}, complex64)}}));
      },
      "'z'");
  CHECK(checkpoint::load_safetensors(file).size() == 2);  // What was there stays.
}

TEST_CASE("a manifest that is none is refused") {
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", example(), {});
  folder.write("saved/manifest.json", "{");
  tests::write_sums(folder.path() / "saved");
  tests::expect_error<CheckpointError>([&] { static_cast<void>(checkpoint::restore(folder.path() / "saved")); },
                                       "is no manifest");
  folder.write("saved/manifest.json", R"({"format": 3, "sha256": "", "entries": {}})");
  tests::write_sums(folder.path() / "saved");
  tests::expect_error<CheckpointError>([&] { static_cast<void>(checkpoint::restore(folder.path() / "saved")); },
                                       "has format 3; this version reads 1 and 2");
  tests::expect_error<CheckpointError>([&] { static_cast<void>(checkpoint::restore(folder.path() / "absent")); },
                                       "No such file");
}

TEST_CASE("trees of any keys are saved and restored as they are") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const TemporaryFolder folder;
    const Tree tree = tests::random_tree(seed);
    CAPTURE(to_string(tree));
    checkpoint::save(folder.path() / "saved", tree, {});
    const Tree restored = checkpoint::restore(folder.path() / "saved").tree;
    CHECK(restored.same_structure(tree));
    CHECK(fingerprint(restored) == fingerprint(tree));
    CHECK(fingerprint(checkpoint::restore(folder.path() / "saved", tree)) == fingerprint(tree));
  }
  const auto leaf = [](int i) { return Tree(array(i)); };
  const Tree both = Tree::dict({{"a/b", leaf(1)}, {"a", Tree::dict({{"b", leaf(2)}})}, {"__metadata__", leaf(3)}});
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", both, {});
  const Tree restored = checkpoint::restore(folder.path() / "saved").tree;
  CHECK(restored.same_structure(both));
  CHECK(restored.at("a/b").array().item<int>() == 2);
  CHECK(restored.at("a~1b").array().item<int>() == 1);
  CHECK(restored.at("__metadata__").array().item<int>() == 3);
}

TEST_CASE("files of usual keys are what they were") {
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "saved", Tree::dict({{"a~b", Tree::dict({{"w", Tree(array<std::uint8_t>(7))}})}}),
                   {});
  const std::string header = R"({"a~b/w":{"data_offsets":[0,1],"dtype":"U8","shape":[]}})";
  CHECK(file_text(folder.path() / "saved/arrays.safetensors").find(header) == 8);
}

TEST_CASE("text that is not UTF-8 is refused when it is saved") {
  const TemporaryFolder folder;
  tests::expect_error<CheckpointError>(
      [&] {
        static_cast<void>(checkpoint::save(folder.path() / "a", Tree::dict({{"\xFF", Tree(array(1))}}), {}));
      },
      "UTF-8");
  tests::expect_error<CheckpointError>(
      [&] {
        static_cast<void>(checkpoint::save(folder.path() / "b", Tree(array(1)), {{"k", "\xFF"}}));
      },
      "UTF-8");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what was moved away, and what never held anything, has no fingerprint") {
  Tree tree = example();
  const Tree moved = std::move(tree);
  CHECK(fingerprint(moved) == fingerprint(example()));
  tests::expect_error<StateError>([&] { static_cast<void>(fingerprint(tree)); }, "has no leaf");
  tests::expect_error<StateError>([&] { static_cast<void>(fingerprint(Tree())); }, "has no leaf");
  tests::expect_error<StateError>([&] { static_cast<void>(fingerprint(Tree::dict({}))); }, "has no leaf");
  tests::expect_error<StateError>([&] { static_cast<void>(fingerprint(Tree(Array()))); }, "leaf '' holds nothing");
  Array x = array(1.0F);
  const Array taken = std::move(x);
  tests::expect_error<StateError>(
      [&] {
        static_cast<void>(fingerprint(Tree::dict({{"x", Tree(x)}})));
      },
      "leaf 'x' holds nothing");
}
