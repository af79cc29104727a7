#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/compile/program.h"
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
  compile::KernelTable table(options.backends);
  compile::Program program(table, options);
  std::string text = "# " + std::string(lowered.what) + "\n";
  const auto add = [&](std::string_view stage) {
    compile::verify(program, stage);
    text += "== " + std::string(stage) + "\n" + compile::print(program);
  };
  compile::write_out(program, *ir::parse(lowered.text, ops::find_primitive));
  add("write_out");
  for (const compile::Stage& stage : compile::stages(options)) {
    stage.run(program);
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
  Broken() : table({ops::reference_backend()}), program(table, options) {
    compile::write_out(program, *ir::parse(programs[1].text, ops::find_primitive));
    for (const compile::Stage& stage : compile::stages(options)) stage.run(program);
  }

  compile::Options options;
  compile::KernelTable table;
  compile::Program program;
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
    Broken broken;
    compile::verify(broken.program, "place");
    change(broken.program);
    expect_error<IrError>([&] { compile::verify(broken.program, "place"); }, "lowering, behind place: ", why);
  };
  refused([](compile::Program& p) { p.outputs[0] = 1000; }, "result 1000 is no value");
  refused([](compile::Program& p) { p.items.push_back(p.items.back()); }, "is defined twice");
  refused([](compile::Program& p) { std::swap(p.items.front(), p.items.back()); }, "before it is defined");
  refused([](compile::Program& p) { p.units[0].calls[0].kernel = nullptr; }, "has no kernel");
  refused([](compile::Program& p) { p.units[0].writes.clear(); }, "which unit 0 does not say");
  refused([](compile::Program& p) { p.steps.back().units.push_back(0); }, "unit 0 stands in two steps");
  refused([](compile::Program& p) { p.steps.back().units.pop_back(); }, "unit 4 stands in no step");
  refused([](compile::Program& p) { p.arena_bytes = p.scratch_bytes = p.shard_bytes = 0; }, "behind its block");
}

}  // namespace lockstep::tests
