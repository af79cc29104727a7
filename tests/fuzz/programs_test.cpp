#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ir/backend_chain.h"
#include "tests/fuzz/fused_programs.h"
#include "tests/fuzz/number_from.h"
#include "tests/fuzz/planted_mistakes.h"
#include "tests/fuzz/program_properties.h"

// Random programs with loops, branches and maps inside each other. LOCKSTEP_FUZZ_PROGRAMS says how many,
// LOCKSTEP_FUZZ_SEED the first one's seed; a failing program names its own.

namespace lockstep::tests {

namespace {

const std::uint64_t programs = number_from("LOCKSTEP_FUZZ_PROGRAMS", 1200);

std::shared_ptr<const backend::Backend> backend() { return ir::backend_chain(backend::built_backends()); }

void count_ops(const ir::Function& f, std::map<std::string, int>& counts) {
  for (const ir::Equation& equation : f.equations()) {
    ++counts[equation.primitive->name];
    for (const Attrs::Entry& entry : equation.attrs.entries()) {
      const auto* object = std::get_if<std::shared_ptr<const AttrObject>>(&entry.value);
      if (object == nullptr) continue;
      if (const auto* inner = dynamic_cast<const ir::Function*>(object->get())) count_ops(*inner, counts);
    }
  }
}

}  // namespace

TEST_CASE("random nested programs keep every law") {
  std::map<std::string, int> counts;
  for (std::uint64_t seed = first_seed; seed < first_seed + programs; ++seed) {
    CAPTURE(seed);
    const NestedOptions options = options_of(seed);
    const ir::FunctionPtr f = random_nested_program(seed, options);
    count_ops(*f, counts);
    const Law law = broken_law(f, seed, !options.while_loops, backend());
    CHECK_MESSAGE(!law, "broken: " << law.value_or(""));
  }
  for (const char* op : {"scan", "cond", "while_loop", "pmap", "psum", "pmax", "ppermute", "pvary", "axis_index",
                         "checkpoint", "custom_jvp"}) {
    CHECK_MESSAGE(counts[op] > 10, op);
  }
}

TEST_CASE("random nested programs in float32 have one value: fused, not fused, and equation by equation") {
  const auto on = backend();
  int loops = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + programs; ++seed) {
    CAPTURE(seed);
    const Law law = broken_by_fusion(seed, on, loops);
    CHECK_MESSAGE(!law, "broken: " << law.value_or(""));
  }
  MESSAGE(loops << " fused loops");
  if (on->fuses()) CHECK(loops > static_cast<int>(programs));
}

TEST_CASE("a derivative of a thousand that changes within a step of 1e-4 is no broken law") {
  constexpr std::uint64_t seed = 13041377;
  const Law law = broken_law(random_nested_program(seed, options_of(seed)), seed, true, backend());
  CHECK_MESSAGE(!law, "broken: " << law.value_or(""));
}

TEST_CASE("planted mistakes are found") {
  for (const Mistake& mistake : planted_mistakes()) {
    CAPTURE(mistake.name);
    std::uint64_t found = 2000;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      const NestedOptions options = options_of(seed);
      const ir::FunctionPtr f = with_mistake(random_nested_program(seed, options), mistake);
      if (f == nullptr) continue;
      bool broken = true;
      try {
        broken = broken_law(f, seed, !options.while_loops, backend()).has_value();
      } catch (const Error&) {
      }
      if (!broken) continue;
      found = seed;
      break;
    }
    MESSAGE(mistake.name << ": found by program " << found);
    CHECK(found < 2000);
  }
}

}  // namespace lockstep::tests
