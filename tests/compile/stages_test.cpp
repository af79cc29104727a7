#include "engine/compile/stages.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ir/text/parse.h"
#include "engine/ops/primitives.h"
#include "engine/ops/reference_backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/temporary_folder.h"

// What each stage of lowering makes of a program, against tests/compile/stages.txt.
namespace lockstep::tests {
namespace {

struct Lowered {
  const char* what;
  const char* text;
};

const Lowered programs[] = {
    {"a step over four shards of two devices: a product, its gradient's, a sum over the shards, an update",
     R"({ lambda a:f32[3,2] b:f32[8,3].
        let c:f32[3,2] = pmap[axes=batch body={ lambda [batch=4]; d:f32[3,2] e:f32[2,3]{batch}.
              let f:f32[3,2]{batch} = pvary[axes=batch] d
                  g:f32[2,2]{batch} = dot_general[batch=([],[]) contract=([1],[0])] e f
                  h:f32[2,2]{batch} = tanh g
                  i:f32[3,2]{batch} = dot_general[batch=([],[]) contract=([0],[0])] e h
                  j:f32[3,2] = psum[axes=batch] i
                  k:f32[3,2] = sub d j
              in (k) } devices={"cpu:0","cpu:1"} in=({"",""},{batch,""}) out=({"",""}) sizes=[4]] a b
        in (c) })"},
    {"outside of maps: a view, a value that two read, one in another's place",
     R"({ lambda a:f32[4,3] b:f32[4].
        let c:f32[3,4] = transpose[permutation=[1,0]] a
            d:f32[3,4] = exp c
            e:f32[4] = reduce_sum[axes=[0]] d
            f:f32[4] = mul e b
            g:f32[4] = add f e
        in (g, e) })"},
};

/// The text behind each stage.
std::string staged(const Lowered& lowered) {
  compile::Options options;
  options.backends = {permissive_backend()};
  compile::KernelPool kernels(options.backends);
  compile::Program program(kernels, options);
  compile::Decided decided;
  std::string text = "# " + std::string(lowered.what) + "\n";
  const auto add = [&](std::string_view stage) {
    text += "== " + std::string(stage) + "\n" + compile::print(program, decided);
  };
  compile::write_out(program, *ir::parse(lowered.text, ops::find_primitive));
  compile::verify(program, "write_out");
  add("write_out");
  for (const compile::Stage& stage : compile::stages(options)) {
    stage.run(program, decided);
    stage.verify(program, decided, stage.name);
    add(stage.name);
  }
  return text + "\n";
}

std::string all_staged() {
  std::string text;
  for (const Lowered& lowered : programs) text += staged(lowered);
  return text;
}

const std::filesystem::path golden = std::filesystem::path(LOCKSTEP_TESTS_DIR) / "compile/stages.txt";

/// A program behind its last stage, for mistakes to be made in.
struct Broken {
  Broken(const char* text, std::shared_ptr<const backend::Backend> backend)
      : kernels({std::move(backend)}), program(kernels, options) {
    compile::write_out(program, *ir::parse(text, ops::find_primitive));
    for (const compile::Stage& stage : compile::stages(options)) stage.run(program, decided);
  }

  void verify() const {
    compile::verify(program, "a stage");
    for (const compile::Stage& stage : compile::stages(options)) stage.verify(program, decided, "a stage");
  }

  compile::Options options;
  compile::KernelPool kernels;
  compile::Program program;
  compile::Decided decided;
};

}  // namespace

TEST_CASE("what each stage of lowering makes of a program") {
  const bool same = file_text(golden) == all_staged();
  CHECK_MESSAGE(same,
                "tests/compile/stages.txt has other stages: tests_compile --no-skip -tc=\"write the stages*\" writes "
                "it again; look at what git diff says");
}

TEST_CASE("write the stages of lowering to tests/compile/stages.txt" * doctest::skip()) {
  std::ofstream file(golden);
  file << all_staged();
  REQUIRE(file.good());
}

TEST_CASE("a program that a stage has left in disorder is refused") {
  const auto refused = [](const auto& change, const char* why) {
    Broken broken(programs[1].text, ops::reference_backend());
    broken.verify();
    change(broken);
    expect_error<IrError>([&] { broken.verify(); }, "lowering, behind a stage: ", why);
  };
  refused([](Broken& b) { b.program.outputs[0] = 1000; }, "result 1000 is no value");
  refused([](Broken& b) { b.program.items.add(b.program.items.back()); }, "is defined twice");
  refused([](Broken& b) { std::swap(b.program.items[0], b.program.items.back()); }, "before it is defined");
  refused([](Broken& b) { b.program.items[0].mesh = 3; }, "transpose stands in no map");
  refused([](Broken& b) { b.program.items[0].fence = 3; }, "transpose waits for a fence that is not there");
  refused([](Broken& b) { b.program.fences.add({1000}); }, "a fence waits for 1000, which is no value");

  refused([](Broken& b) { (*b.decided.choices)[1].kernel = nullptr; }, "exp (1) has no kernel");
  refused([](Broken& b) { (*b.decided.choices)[1].is_view = true; }, "exp (1) has a kernel that it does not need");
  refused([](Broken& b) { (*b.decided.choices)[1].tiled = 100; }, "exp has 100 elements in its last tile, and no");
  refused([](Broken& b) { (*b.decided.grouped)[1].product = 1000; }, "exp sums a product that is not there");
  refused([](Broken& b) { (*b.decided.grouped)[1].window = 1000; }, "exp reads a window that is not there");
  refused([](Broken& b) { (*b.decided.grouped)[1].window = 0; }, "exp has a kernel for several shards of nothing");
  refused([](Broken& b) { (*b.decided.grouped)[1].is_in_sum = true; }, "exp stands in 0 sums of products");
  refused([](Broken& b) { b.decided.epilogues->of_item[1] = 2; }, "exp is computed by an item that is not there");
  refused([](Broken& b) { b.decided.epilogues->fused.add({0, b.program.items[0], nullptr}); }, "is made of 0 items");

  refused([](Broken& b) { b.decided.units->outputs[0] = 1000; }, "result 1000 is no value");
  refused([](Broken& b) { b.decided.units->values[3].root = 4, b.decided.units->values[4].root = 5; },
          "value 3 lies in 4, which lies in another one");
  refused([](Broken& b) { b.decided.units->values[3].offset = -4; }, "value 3 begins before its root");
  refused([](Broken& b) { b.decided.units->values[3].cut = 0; }, "value 3 is cut by offsets that are not there");
  refused([](Broken& b) { b.decided.units->units[0].calls[0].kernel = nullptr; }, "in unit 0 has no kernel");
  refused([](Broken& b) { b.decided.units->units[0].reads.clear(); }, "which unit 0 does not say");
  refused([](Broken& b) { b.decided.units->units[0].writes.clear(); }, "which unit 0 does not say");

  refused([](Broken& b) { b.decided.schedule->steps.back().units.push_back(0); }, "unit 0 stands in two steps");
  refused([](Broken& b) { b.decided.schedule->steps.back().units.pop_back(); }, "stands in no step");
  refused([](Broken& b) { b.decided.schedule->steps.add({}); }, "does nothing");

  refused([](Broken& b) { b.decided.placements->scratch_bytes = 0; }, "bytes behind its block");
  refused([](Broken& b) { ++b.decided.placements->of_value[3].offset; }, "value 3 lies askew");
}

TEST_CASE("values that share bytes while both are wanted are refused, but for one that is written over another") {
  // c lives to the end; of d and e, which follow each other, each may be written over what it reads.
  Broken broken(R"({ lambda a:f32[100].
      let b:f32[100] = exp a
          c:f32[100] = tanh a
          d:f32[100] = neg b
          e:f32[100] = exp d
          f:f32[100] = add e c
          g:f32[] = reduce_sum[axes=[0]] f
      in (g) })",
                permissive_backend());
  broken.verify();
  auto& places = broken.decided.placements->of_value;
  constexpr int b = 1, c = 2, d = 3, e = 4;
  REQUIRE(places[c].base <= executable::base::scratch);
  const auto shares = [&](int v, int with, std::uint64_t bytes_on) {
    auto changed = broken.decided;
    auto& of_value = changed.placements->of_value;
    of_value[v] = of_value[with];
    of_value[v].offset += bytes_on;
    changed.placements->arena_bytes = changed.placements->scratch_bytes = 10000;
    const auto& stage = compile::stages(broken.options).back();
    stage.verify(broken.program, changed, "a stage");
  };
  const auto refused = [&](int v, int with, std::uint64_t bytes_on) {
    expect_error<IrError>([&] { shares(v, with, bytes_on); },
                          "lowering, behind a stage: ", "share bytes of memory while both are wanted");
  };
  for (const int v : {b, d, e}) refused(v, c, 0);
  for (const int v : {b, d, e}) refused(v, c, 4);
  REQUIRE(places[d].base == places[b].base);
  CHECK_NOTHROW(shares(d, b, 0));
  refused(d, b, 4);
}

}  // namespace lockstep::tests
