#include <cstdio>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "engine/trace/array_state.h"
#include "tests/support/bits_of_one.h"
#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"
#include "tests/support/resident_memory.h"

// State that lies cut over launched processes.
namespace lockstep::tests {
namespace {

constexpr std::int64_t rows = 4096, columns = 2048;  // 32 MiB of float32
constexpr std::size_t whole_bytes = rows * columns * 4;

Mesh grid() { return Mesh({{"data", 4}, {"model", 2}}, {Device{}}); }

struct State {
  Array w, m;
};
LOCKSTEP_TREE(State, w, m);

/// Parameters and a slot cut alike, and what each shard's rows say of them.
auto descend() {
  const Layout cut = sharded({"data", "model"});
  return jit(pmap(
      [](const State& s, const Array& x) {
        const Array m = s.m * 0.5 + s.w * x;
        return std::pair(State{s.w - m * 0.125, m}, psum(sum(m), {"data", "model"}));
      },
      {.mesh = grid(), .in = {cut, replicated}, .out = {cut, replicated}, .keep_cut = true}));
}

Array values(std::uint64_t seed, std::int64_t of_rows = rows) {
  return cut_array({DType::float32, Shape{of_rows, columns}, {}}, grid(), sharded({"data", "model"}),
                   [&](const Shape& start, const Shape& shape) {
                     const auto block = static_cast<std::uint64_t>(start[0] / shape[0]);
                     return random::uniform(random::key(seed + block), shape);
                   });
}

std::string run_cut_arrays() {
  const auto step = descend();
  // What the program itself takes when it first draws and steps is no part of the measure.
  static_cast<void>(step(State{values(1, 64), values(2, 64)}, array(0.25F)));
  const auto before = static_cast<std::ptrdiff_t>(resident_bytes());
  State state{values(1), values(100)};
  const backend::Buffer* const memory = state.w.state()->buffer.get();
  for (int i = 0; i < 3; ++i) state = step(std::move(state), array(0.25F)).first;
  const auto grown = static_cast<std::ptrdiff_t>(resident_bytes()) - before;
  CHECK(is_cut(state.w));
  const backend::Buffer* const now = state.w.state()->buffer.get();
  CHECK((now == memory || state.m.state()->buffer.get() == memory));
  // Two arrays, a block that is drawn, and some room.
  const std::size_t share = whole_bytes / static_cast<std::size_t>(world()->size());
  CHECK(now->nbytes() == share);
  CHECK(grown < static_cast<std::ptrdiff_t>(2 * share + whole_bytes / 8 * 3 + (std::size_t{16} << 20)));
  std::printf("share %zu\n", now->nbytes());
  expect_error<MeshError>([&] { state.w.to_vector<float>(); }, "lies cut");
  const Array columnwise = reshard(state.w, grid(), sharded({"model", "data"}, 1));
  CHECK(fingerprint(Tree::dict({{"w", Tree(columnwise)}})) == fingerprint(Tree::dict({{"w", Tree(state.w)}})));
  return fingerprint(to_tree(state));
}

}  // namespace

TEST_CASE("what each launched process has of a cut state" * doctest::skip()) {
  const std::string print = run_cut_arrays();
  say_bits(print);
}

TEST_CASE("a state that lies cut over 2 and 4 processes has the bits of one, and each has its share alone") {
  if (!can_launch()) return skip(no_launcher());
  const std::string expected = run_cut_arrays();
  check_bits_of_one("what each launched process has of a cut state", expected);
}

}  // namespace lockstep::tests
