#include <cstdint>
#include <optional>
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
#include "tests/support/launcher.h"
#include "tests/support/temporary_folder.h"

// Parts of drawn trees, saved and restored as they lie cut, under other names, of every dtype.
using namespace lockstep;
using tests::TemporaryFolder;

namespace {

const DType dtypes[] = {DType::bool_,     DType::int8,       DType::int32,   DType::uint64,
                        DType::float16,   DType::bfloat16,   DType::float32, DType::float64,
                        DType::complex64, DType::complex128, DType::key};

class Draws {
 public:
  explicit Draws(unsigned seed) : draw_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(draw_() % static_cast<unsigned>(n)); }

  Array leaf() {
    const DType dtype = dtypes[below(std::size(dtypes))];
    std::vector<std::int64_t> shape;
    for (std::int64_t d = below(3); d > 0; --d) shape.push_back(below(2) == 0 ? 8 : 3);
    const Array key = random::fold_in(random::key(2), ++leaves_);
    if (dtype == DType::key) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      return reshape(random::split(key, count), shape);
    }
    const Array values = 4 * random::normal(key, Shape(shape));
    if (!is_complex(dtype)) return convert(values, dtype);
    const bool is_wide = dtype == DType::complex128;
    const DType part = is_wide ? DType::float64 : DType::float32;
    return complex(convert(values, part), convert(values * values, part));
  }

  /// As the states of optax' chains: lists of dicts, some of them empty.
  Tree state() {
    std::vector<Tree> chain;
    for (std::int64_t link = 1 + below(3); link > 0; --link) {
      if (below(4) == 0) {
        chain.emplace_back();
      } else {
        chain.push_back(Tree::dict({{"mu", Tree(leaf())}, {"count", Tree(leaf())}, {"a/b~c", Tree(leaf())}}));
      }
    }
    return Tree::dict({{"weights", Tree::dict({{"w", Tree(leaf())}, {"rng", Tree(leaf())}})},
                       {"optimizer", Tree::list(std::move(chain))}});
  }

  /// Cut over the mesh where the extents allow it.
  Tree cut(const Tree& tree) {
    const Mesh mesh({{"data", 4}, {"model", 2}}, {Device{}});
    std::vector<std::pair<std::string, Layout>> layouts;
    const std::vector<std::string> paths = tree.paths();
    const std::vector<Array> leaves = tree.leaves();
    for (std::size_t i = 0; i < paths.size(); ++i) {
      Layout layout = replicated;
      for (int d = 0; d < leaves[i].ndim(); ++d) {
        if (leaves[i].dim(d) != 8 || below(3) == 0) continue;
        const std::int64_t kind = below(3);
        layout = kind == 0 ? sharded("data", d) : kind == 1 ? sharded("model", d) : sharded({"model", "data"}, d);
      }
      layouts.emplace_back(paths[i], layout);
    }
    return reshard(tree, mesh, LeafLayouts(layouts));
  }

 private:
  std::mt19937 draw_;
  std::uint32_t leaves_ = 0;
};

/// Another value of that type.
Array blank(const Array& a) {
  if (a.dtype() != DType::key) return zeros_like(a);
  return reshape(random::split(random::key(0), a.size()), a.shape().to_vector());
}

void check_leaf(const Array& restored, const Array& expected, const Array& like) {
  CHECK(restored.type() == expected.type());
  CHECK(is_cut(restored) == is_cut(like));
  CHECK(layout_of(restored) == layout_of(like));
  CHECK(fingerprint(Tree(restored)) == fingerprint(Tree(expected)));
}

}  // namespace

TEST_CASE("drawn states are restored in part, under other names and as they shall lie") {
  Draws draw(29);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const TemporaryFolder folder;
    const std::filesystem::path saved = folder.path() / "saved";
    const Tree state = draw.state();
    checkpoint::save(saved, draw.below(3) == 0 ? state : draw.cut(state), {});
    // The whole.
    const Tree like = draw.cut(map(blank, state));
    const Tree whole = checkpoint::restore(saved, like);
    CHECK(whole.same_structure(state));
    for (const std::string& path : state.paths()) {
      CAPTURE(path);
      check_leaf(whole.at(path).array(), state.at(path).array(), like.at(path).array());
    }
    // Weights alone, elsewhere, beside what the checkpoint has not.
    const Tree part = Tree::dict({{"encoder", like.at("weights")}, {"head", Tree(ones({3}))}});
    const Tree moved = checkpoint::restore(
        saved, part, {.keep_missing = true, .ignore_surplus = true, .renamed = {{"encoder", "weights"}}});
    for (const char* name : {"w", "rng"}) {
      check_leaf(moved.at("encoder").at(name).array(), state.at("weights").at(name).array(),
                 part.at("encoder").at(name).array());
    }
    CHECK(fingerprint(moved.at("head")) == fingerprint(part.at("head")));
    // The optimizer, whose name is another one, with weights that are not asked for.
    const Tree slots = Tree::dict({{"slots", like.at("optimizer")}});
    const Tree other =
        slots.size() == 0
            ? slots
            : checkpoint::restore(saved, slots, {.ignore_surplus = true, .renamed = {{"slots", "optimizer"}}});
    for (const std::string& path : like.at("optimizer").paths()) {
      CHECK(fingerprint(Tree(other.at("slots").at(path).array())) ==
            fingerprint(Tree(state.at("optimizer").at(path).array())));
    }
  }
}

TEST_CASE("another name that the checkpoint does not have either is an error, missing leaves kept or not") {
  const TemporaryFolder folder;
  const std::filesystem::path saved = folder.path() / "saved";
  checkpoint::save(saved, Tree::dict({{"model", Tree::dict({{"w", Tree(ones({2}))}})}}), {});
  const Tree like = Tree::dict({{"encoder", Tree::dict({{"w", Tree(zeros({2}))}, {"new", Tree(zeros({1}))}})}});
  const Tree found = checkpoint::restore(saved, like, {.keep_missing = true, .renamed = {{"encoder", "model"}}});
  CHECK(found.at("encoder/w").array().to_vector<float>() == std::vector<float>{1, 1});
  for (const bool keeps : {false, true}) {
    tests::expect_error<CheckpointError>(
        [&] {
          static_cast<void>(checkpoint::restore(
              saved, like, {.keep_missing = keeps, .ignore_surplus = true, .renamed = {{"encoder", "modle"}}}));
        },
        "'modle", "encoder");
  }
}
