#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "engine/trace/array_state.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

// Arrays that lie cut, in one process: all that is said of them holds there too, and in several (backends/mpi).
using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;
using tests::expect_error;

namespace {

Mesh grid(int count = 1) { return Mesh({{"data", 4}, {"model", 2}}, devices("cpu:0-" + std::to_string(count - 1))); }

Array drawn_normal(const Shape& shape, std::uint64_t seed = 1) { return random::normal(random::key(seed), shape); }

const backend::Buffer* buffer_of(const Array& array) { return array.state()->buffer.get(); }

}  // namespace

TEST_CASE("blocks lie where their array does, where that is in one piece, and stay what they were") {
  const Array x = drawn_normal({64, 16});
  const auto rows_of = [&](const ArrayBlock& block) {
    return slice(x, {block.start[0], 0}, {block.start[0] + 16, 16});
  };
  for (const Layout& layout : {Layout({{0, "data"}}), Layout({{1, "data"}}), Layout({{0, "data"}, {1, "model"}})}) {
    Array cut = reshard(x, grid(2), layout);
    const auto* const begin = static_cast<const std::byte*>(buffer_of(cut)->data());
    const std::vector<ArrayBlock> blocks = local_blocks(cut);
    const bool is_whole_rows = blocks[0].values.dim(1) == 16;
    for (const ArrayBlock& block : blocks) {
      const auto* const at = static_cast<const std::byte*>(buffer_of(block.values)->data());
      const bool lies_within = at >= begin && at < begin + x.type().nbytes();
      CHECK(lies_within == is_whole_rows);
      if (is_whole_rows) CHECK(at == begin + block.start[0] * 16 * 4);
    }
    const auto twice = pmap([](const Array& v) { return v * 2.0; },
                            {.mesh = grid(2), .in = {layout}, .out = {layout}, .keep_cut = true});
    const Array after = twice(std::move(cut));
    check_same_bits(gather(after), x * 2.0);
    if (!is_whole_rows) continue;
    for (const ArrayBlock& block : blocks) check_same_bits(block.values, rows_of(block));
    check_same_bits(blocks[1].values * 3.0, rows_of(blocks[1]) * 3.0);
  }
}

TEST_CASE("a result that stays cut is read by maps of its layout, and by all else behind gather") {
  const Layout layout = Layout({{0, "data"}, {1, "model"}});
  const auto twice = pmap([](const Array& x) { return x * 2.0; },
                          {.mesh = grid(2), .in = {layout}, .out = {layout}, .keep_cut = true});
  const Array x = drawn_normal({8, 6});
  const Array y = twice(x);
  CHECK(is_cut(y));
  CHECK_FALSE(is_cut(x));
  CHECK(y.type() == x.type());
  CHECK(layout_of(y) == layout);
  CHECK(layout_of(x) == replicated);
  CHECK(mesh_of(y) == grid(2));
  CHECK(to_string(y) == "f32[8,6] that lies cut (dimension 0 along data, dimension 1 along model)");
  CHECK(repr(y) == "Array(f32[8,6] that lies cut (dimension 0 along data, dimension 1 along model))");
  check_same_bits(gather(twice(y)), x * 4.0);
  check_same_bits(gather(x), x);
  check_same_bits(gather(Tree::dict({{"y", Tree(y)}})).at("y").array(), x * 2.0);

  const std::string lies = "lies cut (dimension 0 along data, dimension 1 along model)";
  expect_error<MeshError>([&] { y + 1.0; }, "add: operand 0, f32[8,6]", lies, "gather(x)");
  expect_error<MeshError>([&] { y.to_vector<float>(); }, "to_vector: f32[8,6] " + lies, "gather(x)", "local_blocks");
  expect_error<MeshError>([&] { y[0]; }, lies);
  expect_error<MeshError>([&] { jit([](const Array& v) { return sin(v); })(y); }, "sin: operand 0", lies);
  expect_error<MeshError>([&] { jit([&] { return sin(y); })(); }, "sin: operand 0", lies);
  expect_error<MeshError>([&] { grad([](const Array& v) { return sum(v); })(y); }, lies);
  const auto rows =
      pmap([](const Array& v) { return v; }, {.mesh = grid(), .in = {sharded("data")}, .out = {sharded("data")}});
  expect_error<MeshError>([&] { rows(y); }, "pmap: argument 0, f32[8,6], " + lies, "dimension 0 along data; expected",
                          "reshard(x, mesh, layout)");
  const Mesh other({{"data", 2}, {"model", 2}}, {Device{}});
  const auto elsewhere = pmap([](const Array& v) { return v; }, {.mesh = other, .in = {layout}, .out = {layout}});
  expect_error<MeshError>([&] { elsewhere(y); }, "over another mesh");
  expect_error<MeshError>([&] { mesh_of(x); }, "mesh_of: f32[8,6] is whole");
  expect_error<MeshError>([&] { local_blocks(x); }, "local_blocks: f32[8,6] is whole");
  expect_error<ValueError>([] { gather(Array()); }, "gather", "holds nothing");
  expect_error<ValueError>([] { reshard(Array(), grid(), replicated); }, "reshard", "holds nothing");
  expect_error<ShapeError>([&] { reshard(drawn_normal({6, 6}), grid(), layout); }, "reshard: f32[6,6]", "pad it to 8");
}

TEST_CASE("drawn layouts: gathered, resharded, cut again and mapped, values are those of whole arrays") {
  const std::vector<Layout> layouts = {replicated,
                                       sharded("data"),
                                       sharded("model", 1),
                                       sharded({"data", "model"}),
                                       sharded({"model", "data"}, 1),
                                       Layout({{0, "model"}, {1, "data"}})};
  const Array x = drawn_normal({16, 24});
  for (const int count : {1, 2, 4, 8}) {
    CAPTURE(count);
    for (std::size_t a = 0; a < layouts.size(); ++a) {
      CAPTURE(a);
      const Array cut = reshard(x, grid(count), layouts[a]);
      CHECK(is_cut(cut) == (layouts[a] != replicated));
      check_same_bits(gather(cut), x);
      CHECK(fingerprint(Tree::dict({{"x", Tree(cut)}})) == fingerprint(Tree::dict({{"x", Tree(x)}})));
      const Layout& to = layouts[(a + static_cast<std::size_t>(count)) % layouts.size()];
      check_same_bits(gather(reshard(cut, grid(count), to)), x);
      const auto waves = pmap([](const Array& v) { return sin(v) * 2.0; },
                              {.mesh = grid(count), .in = {layouts[a]}, .out = {layouts[a]}, .keep_cut = true});
      check_same_bits(gather(waves(cut)), gather(waves(x)));
      if (!is_cut(cut)) continue;
      const auto list = local_blocks(cut);
      const Array again = cut_array(x.type(), grid(count), layouts[a], [&](const Shape& start, const Shape& shape) {
        for (const ArrayBlock& block : list) {
          if (block.start == start && block.values.shape() == shape) return block.values;
        }
        FAIL("a block is missing");
        return Array();
      });
      check_same_bits(gather(again), x);
    }
  }
  expect_error<ShapeError>(
      [&] { cut_array(x.type(), grid(), sharded("data"), [](const Shape&, const Shape&) {
              return ones({2, 2});
            }); },
      "cut_array: f32[16,24]", "[0,0] is f32[2,2]", "expected f32[4,24]");
}

TEST_CASE("cut state goes through jit step by step, in place, and its first trace serves all steps") {
  const Layout layout = sharded({"data", "model"});
  const auto step = jit(pmap([](const Array& w, const Array& g) { return w - g * 0.5; },
                             {.mesh = grid(2), .in = {layout, layout}, .out = {layout}, .keep_cut = true}));
  const Array g = reshard(drawn_normal({16, 32}, 2), grid(2), layout);
  Array w = cut_array(g.type(), grid(2), layout, [](const Shape&, const Shape& shape) { return ones(shape); });
  const backend::Buffer* const memory = buffer_of(w);
  Array expected = ones({16, 32});
  for (int i = 0; i < 4; ++i) {
    w = step(std::move(w), g);
    expected = expected - gather(g) * 0.5;
    CHECK(buffer_of(w) == memory);
  }
  CHECK(is_cut(w));
  check_same_bits(gather(w), expected);
  CHECK(step.traces() == 1);
  static_cast<void>(step(gather(w), g));
  REQUIRE(step.traces() == 2);
  CHECK(step.retrace_reasons()[1] ==
        "argument 0: f32[16,32] that lies cut (dimension 0 along data,model) became f32[16,32]");
}

TEST_CASE("inside a traced function, what is kept cut may be mapped on, gathered or cut otherwise") {
  const Layout rows = sharded("data"), columns = sharded("data", 1);
  const auto sums =
      pmap([](const Array& v) { return v * 3.0; }, {.mesh = grid(), .in = {rows}, .out = {rows}, .keep_cut = true});
  const auto turned = pmap([](const Array& v) { return transpose(v); },
                           {.mesh = grid(), .in = {columns}, .out = {rows}, .keep_cut = true});
  const auto both = jit([&](const Array& x) {
    const Array y = sums(x);
    return std::pair(turned(reshard(y, grid(), columns)), gather(y) + 1.0);
  });
  const Array x = drawn_normal({8, 12});
  const auto [t, g] = both(x);
  CHECK(is_cut(t));
  CHECK_FALSE(is_cut(g));
  check_same_bits(gather(t), transpose(x * 3.0));
  check_same_bits(g, x * 3.0 + 1.0);
  check_same_bits(gather(both(reshard(x, grid(), rows)).first), transpose(x * 3.0));
  expect_error<MeshError>([&] { jit([&](const Array& v) { return sums(v) + 1.0; })(x); }, "add: operand 0", "lies cut");
  const Layout all = sharded({"data", "model"});
  const auto tripled =
      pmap([](const Array& v) { return v * 3.0; }, {.mesh = grid(), .in = {all}, .out = {all}, .keep_cut = true});
  const Function traced =
      trace_function([&](const Array& v) { return tripled(tripled(v)); }, reshard(drawn_normal({8, 16}), grid(), all));
  CHECK(traced.plan().text.find("copy") == std::string::npos);
}

TEST_CASE("gradients of maps and in maps, and a batch of them, with what lies cut") {
  const Layout rows = sharded({"data", "model"}), split = sharded({"model", "data"}, 1);
  const Array w = drawn_normal({8, 4}, 3), x = drawn_normal({6, 8}, 4);
  const auto loss = pmap(
      [](const Array& v, const Array& u) {
        return psum(sum(square(matmul(u, v))), {"data", "model"});
      },
      {.mesh = grid(2), .in = {rows, split}, .out = {replicated}});
  const auto whole = pmap(
      [](const Array& v, const Array& u) {
        return psum(sum(square(matmul(u, v))), {"data", "model"});
      },
      {.mesh = grid(2), .in = {rows, split}, .out = {replicated}, .keep_cut = true});
  // Along model,data the columns of x stand in another order than the rows of w: turn w's rows into it.
  const Array cut_w = reshard(w, grid(2), rows), cut_x = reshard(x, grid(2), split);
  check_same_bits(whole(cut_w, cut_x), loss(w, x));
  const Array expected = grad(loss)(w, x);
  check_same_bits(grad(loss)(cut_w, cut_x), expected);
  check_same_bits(jit([&](const Array& v, const Array& u) { return grad(loss)(v, u); })(cut_w, cut_x), expected);
  const auto inside = pmap(
      [](const Array& v, const Array& u) { return grad([&](const Array& a) { return sum(square(matmul(u, a))); })(v); },
      {.mesh = grid(2), .in = {rows, split}, .out = {rows}, .keep_cut = true});
  CHECK(is_cut(inside(cut_w, cut_x)));
  tests::check_equal(gather(inside(cut_w, cut_x)), expected, 1e-5);

  const Array many = drawn_normal({3, 8, 4}, 5);
  const Array losses = vmap([&](const Array& v) { return loss(v, x); })(many);
  for (std::int64_t i = 0; i < 3; ++i) check_close(losses[i], {}, {loss(many[i], x).item<float>()}, 1e-5);
}
