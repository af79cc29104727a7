// The work of readers for twice as much to read.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>
#include <lockstep/text.h>

#include "engine/exchange/zip_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/work_ratio.h"

// Twice as much to read takes about twice the work: of each reader and what is made of what it read.

namespace lockstep::tests {
namespace {

constexpr double most = 2.6;  // 2 is linear, 4 quadratic

std::string chain_of_adds(int ops) {
  std::string text = "module @m {\n  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n";
  std::string last = "%arg0";
  for (int i = 0; i < ops; ++i) {
    const std::string next = "%" + std::to_string(i);
    text += "    " + next + " = stablehlo.add " + last + ", " + last + " : tensor<4xf32>\n";
    last = next;
  }
  return text + "    return " + last + " : tensor<4xf32>\n  }\n}\n";
}

Tree leaves(int count, const Array& leaf) {
  std::map<std::string, Tree> items;
  for (int i = 0; i < count; ++i) items.emplace("w" + std::to_string(i), Tree(leaf));
  return Tree::dict(std::move(items));
}

Model<Array, Array> wide_model(int parameters) {
  return Model<Array, Array>([parameters](const Scope& scope, const Array& x) {
    for (int i = 0; i < parameters; ++i) {
      static_cast<void>(scope.trainable("w" + std::to_string(i), {.shape = {1}, .initializer = initializers::zeros()}));
    }
    return x;
  });
}

}  // namespace

TEST_CASE("from_stablehlo of twice the ops takes twice the work") {
  const auto run = [](int n) {
    return [text = chain_of_adds(n)] { static_cast<void>(exchange::from_stablehlo(text)); };
  };
  CHECK(work_ratio(run, 2000) < most);
}

TEST_CASE("restore of twice the leaves, whatever they hold, takes twice the work") {
  const TemporaryFolder folder;
  for (const Array& leaf : {array(1.0F), zeros({0})}) {
    const auto run = [&](int n) {
      const std::filesystem::path saved = folder.path() / (std::to_string(n) + "_" + std::to_string(leaf.ndim()));
      checkpoint::save(saved, leaves(n, leaf), {});
      return [saved] { static_cast<void>(checkpoint::restore(saved)); };
    };
    CHECK(work_ratio(run, 2500) < most);
  }
}

TEST_CASE("save of twice the leaves takes twice the work") {
  const auto run = [&](int n) {
    const auto folder = std::make_shared<TemporaryFolder>();
    return [folder, tree = leaves(n, array(1.0F)), i = std::make_shared<int>(0)] {
      checkpoint::save(folder->path() / std::to_string((*i)++), tree, {});
    };
  };
  CHECK(work_ratio(run, 2500) < most);
}

TEST_CASE("import_weights of twice the names, none of which fits, takes twice the work") {
  const auto run = [](int n) {
    std::map<std::string, Array> tensors;
    for (int i = 0; i < n; ++i) tensors.emplace("module.layers." + std::to_string(i) + ".weight", array(1.0F));
    return [tensors, model = leaves(n, array(1.0F))] {
      static_cast<void>(error_text<StateError>([&] {
        static_cast<void>(exchange::import_weights(model, Tree(), tensors, {{"(.*)", "other/$1"}}));
      }));
    };
  };
  CHECK(work_ratio(run, 500) < most);
}

TEST_CASE("Model::init of twice the parameters takes twice the work") {
  const auto run = [](int n) {
    return [model = wide_model(n)] { static_cast<void>(model.init(random::key(0), zeros({1}))); };
  };
  CHECK(work_ratio(run, 500) < most);
}

TEST_CASE("a token list's encoder takes twice the work for twice the text and the longest token, whatever they are") {
  const TemporaryFolder folder;
  const auto run = [&](int n) {
    const auto size = static_cast<std::size_t>(n);
    // Each place of the text looks like the beginning of the long token, which it never is.
    const auto file = folder.write("tokens" + std::to_string(n), std::string(size, 'a') + "b\na\n");
    return [vocabulary = data::read_token_list(file), text = std::string(2 * size, 'a')] {
      CHECK(vocabulary.encode(text).size() == text.size());
    };
  };
  CHECK(work_ratio(run, 20000) < most);
}

TEST_CASE("a byte pair encoder takes twice the work for a word of twice the length") {
  const TemporaryFolder folder;
  // Every character of a byte is a token of its own, then 'aa', 'aaaa', ... up to 2^12 letters.
  std::string tokens = "{", merges;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const unsigned character = prints ? byte : next++;
    tokens += (byte == 0 ? "" : ", ") + fmt::format("\"\\u{:04x}\": {}", character, byte);
  }
  std::string word = "a";
  for (int number = 256; word.size() < 4096; ++number, word += word) {
    merges += word + " " + word + "\n";
    tokens += fmt::format(", \"{}\": {}", word + word, number);
  }
  const auto vocab = folder.write("vocab.json", tokens + "}");
  const auto vocabulary = data::read_bpe_vocabulary(vocab, folder.write("merges.txt", merges));
  const auto run = [&](int n) {
    return [&vocabulary, text = std::string(static_cast<std::size_t>(n) * 4096, 'a')] {
      CHECK(vocabulary.encode(text).size() == text.size() / 4096);
    };
  };
  CHECK(work_ratio(run, 40) < most);
}

TEST_CASE("a pickle whose dicts share dicts is refused before it grows without end") {
  const TemporaryFolder folder;
  // Level k is {"a": level k - 1, "b": level k - 1}, by the memo.
  std::string pickle("\x80\x02}q\x00", 5);
  const auto key = [&](char name) { pickle += std::string("X\x01\x00\x00\x00", 5) + name; };
  for (char level = 1; level < 31; ++level) {
    pickle += "}(";
    key('a');
    pickle += std::string("h") + static_cast<char>(level - 1);
    key('b');
    pickle += std::string("h") + static_cast<char>(level - 1);
    pickle += std::string("uq") + level;
  }
  pickle += '.';
  exchange::ZipWriter zip("a test", "shared.pt");
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/byteorder", "little");
  const std::vector<std::byte> bytes = std::move(zip).finish();
  const auto file = folder.write("shared.pt", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  expect_error<DataError>([&] { static_cast<void>(exchange::load_torch(file)); },
                          "[load_torch] " + file.string() +
                              ": its dicts share dicts so often that they would hold more than 64 times what the "
                              "pickle does");
}

}  // namespace lockstep::tests
