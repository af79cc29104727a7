// Drawn trees, saved and restored.
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// Whatever is saved is restored: drawn trees of all kinds, names, shapes and dtypes. What could not be is refused before a
// file is written.

namespace lockstep::tests {
namespace {

constexpr DType drawn_dtypes[] = {DType::bool_,   DType::int8,      DType::int16,      DType::int32,
                                  DType::int64,   DType::uint8,     DType::uint16,     DType::uint32,
                                  DType::uint64,  DType::float16,   DType::bfloat16,   DType::float32,
                                  DType::float64, DType::complex64, DType::complex128, DType::key};

class DrawnTree {
 public:
  explicit DrawnTree(std::uint64_t seed) : draw_(seed) {}

  Tree tree(int depth) {
    switch (depth == 0 ? 0 : below(5)) {
      case 0:
        return Tree(leaf());
      case 1:
        return below(2) == 0 ? Tree() : Tree(std::int64_t{7});
      case 2: {
        std::vector<Tree> items;
        for (std::uint64_t n = below(12); n > 0; --n) items.push_back(tree(depth - 1));
        return Tree::list(std::move(items));
      }
      default: {
        std::map<std::string, Tree> items;
        for (std::uint64_t n = below(5); n > 0; --n) items.emplace(name(), tree(depth - 1));
        return Tree::dict(std::move(items));
      }
    }
  }

  /// Cut over a mesh where an extent allows it.
  Tree cut(const Tree& tree) {
    const Mesh mesh({{"data", 2}}, {Device{}});
    std::vector<std::pair<std::string, Layout>> layouts;
    const std::vector<std::string> paths = tree.paths();
    const std::vector<Array> leaves = tree.leaves();
    for (std::size_t i = 0; i < paths.size(); ++i) {
      Layout layout = replicated;
      for (int d = 0; d < leaves[i].ndim(); ++d) {
        if (leaves[i].dim(d) % 2 == 0 && below(2) == 0) layout = sharded("data", d);
      }
      layouts.emplace_back(paths[i], layout);
    }
    return reshard(tree, mesh, LeafLayouts(layouts));
  }

 private:
  std::uint64_t below(std::uint64_t n) { return draw_() % n; }

  std::string name() {
    static const char* const parts[] = {".",
                                        "..",
                                        "/",
                                        "~",
                                        "~2",
                                        "0",
                                        "10",
                                        " ",
                                        "\t",
                                        "\n",
                                        "\"",
                                        "\\",
                                        "\x1b",
                                        "\x7f",
                                        "é",
                                        "层",
                                        "\U0001F600",
                                        "__metadata__",
                                        "block00000000",
                                        "w",
                                        "state",
                                        "step",
                                        "-",
                                        "%",
                                        "\xE2\x80\xAE"};
    std::string text;
    for (std::uint64_t n = below(4); n > 0; --n) text += parts[below(std::size(parts))];
    return text;
  }

  Array leaf() {
    const DType dtype = drawn_dtypes[below(std::size(drawn_dtypes))];
    std::vector<std::int64_t> shape;
    for (std::uint64_t d = below(5); d > 0; --d) shape.push_back(static_cast<std::int64_t>(below(4)));
    const Array key = random::fold_in(random::key(5), ++leaves_);
    if (dtype == DType::key) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      return reshape(slice(random::split(key, count + 1), {0}, {count}, {1}), shape);
    }
    const Array values = 40 * random::normal(key, Shape(shape));
    if (!is_complex(dtype)) return convert(values, dtype);
    const DType part = dtype == DType::complex128 ? DType::float64 : DType::float32;
    return complex(convert(values, part), convert(-values, part));
  }

  std::mt19937_64 draw_;
  std::uint32_t leaves_ = 0;
};

void check_restores(const Tree& saved, const Tree& tree) {
  const TemporaryFolder folder;
  const Named<std::string> entries = {{"", ""}, {"a \"b\"\n", "\x1b é"}, {"n", std::string("\0", 1)}};
  checkpoint::save(folder.path() / "saved", saved, entries);
  const checkpoint::Saved whole = checkpoint::restore(folder.path() / "saved");
  CHECK(whole.manifest == entries);
  const Tree like = checkpoint::restore(folder.path() / "saved", tree);
  CHECK(like.same_structure(tree));
  CHECK(whole.tree.size() == tree.size());
  if (tree.size() == 0) return;
  CHECK(fingerprint(whole.tree) == fingerprint(tree));
  CHECK(fingerprint(like) == fingerprint(tree));
}

}  // namespace

TEST_CASE("whatever is saved is restored: drawn trees, names, shapes, dtypes") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    DrawnTree draw(seed);
    const Tree tree = draw.tree(3);
    CAPTURE(to_string(tree));
    check_restores(tree, tree);
    if (tree.size() > 0) check_restores(draw.cut(tree), tree);
  }
}

TEST_CASE("a tree that is one leaf, or empty, is saved and restored") {
  const Tree leaf(arange(std::int64_t{3}));
  check_restores(leaf, leaf);
  const TemporaryFolder folder;
  checkpoint::save(folder.path() / "one", leaf, {});
  CHECK(checkpoint::restore(folder.path() / "one").tree.is_leaf());
  for (const Tree& empty : {Tree(), Tree::dict({}), Tree::list({}), Tree(std::int64_t{7})})
    check_restores(empty, empty);
  for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{3, 0}, Shape{0, 1LL << 48}, Shape{2, 0, 1LL << 47}}) {
    CAPTURE(to_string(shape));
    check_restores(Tree(zeros(shape)), Tree(zeros(shape)));
  }
}

TEST_CASE("what could not be restored is refused when it is saved") {
  const TemporaryFolder folder;
  const auto refusal = [&](const Tree& tree) {
    const std::string text = error_text<CheckpointError>([&] { checkpoint::save(folder.path() / "saved", tree, {}); });
    CHECK(std::filesystem::is_empty(folder.path()));
    return text;
  };
  Array moved = zeros({2});
  const Array taken = std::move(moved);
  CHECK(contains(refusal(Tree::dict({{"x", Tree(moved)}})),
                 "[save] leaf 'x' holds nothing; expected arrays that still have their value"));
  CHECK(contains(refusal(Tree::dict({{std::string("a\0b", 3), Tree(taken)}})),
                 "[save] the path 'a\\x00b' holds NUL, which readers of the file format refuse; name it otherwise"));
  CHECK(contains(refusal(Tree::dict({{"a\xFF", Tree(taken)}})),
                 "[save] a path of the tree is no UTF-8 text, which the file format asks for; name it otherwise"));
  CHECK(contains(refusal(Tree::dict({{"x", Tree(zeros({0, 1LL << 49}))}})),
                 "[save] leaf 'x' is f32[0,562949953421312], which has no elements and extents whose product is above "
                 "2^48; no reader takes it: reshape it"));
  CHECK(contains(refusal(Tree::dict({{"z", Tree(zeros({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, complex64))}})),
                 "[save] 'z' has dtype complex64, which the file format does not know; save its parts (key_data, real "
                 "and imaginary), which checkpoint::save does for arrays of at most 11 dimensions"));
}

}  // namespace lockstep::tests
