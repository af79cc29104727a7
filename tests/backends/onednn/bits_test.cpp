#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>
#include <xmmintrin.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"
#include "tests/support/cpu_and_aten.h"
#include "tests/support/dims.h"
#include "tests/support/max_isa.h"
#include "tests/support/page_rules.h"

// Bits are a function of op, shapes and attributes: not of where operands lie, nor of what else runs in the process.
namespace lockstep::tests {

namespace {

struct BitsCase {
  const ir::Primitive* op;
  std::vector<ArrayType> types;
  Attrs attrs;

  std::vector<Memory> operands() const {
    ir::Sample sample;
    for (const ArrayType& type : types) sample.inputs.push_back({type, type.dtype == bool_ ? 0.4 : -1, 2, false});
    return draw_memory(sample, 61);
  }
};

std::vector<BitsCase> bits_cases() {
  const auto dot = [](Shape a, Shape b, std::int64_t of_a, std::int64_t of_b) {
    return BitsCase{&ops::primitives::dot_general(), {{float32, a, {}}, {float32, b, {}}}, contraction(of_a, of_b)};
  };
  const auto conv = [](const ir::Primitive& op, Shape first, Shape second, Attrs attrs) {
    return BitsCase{&op, {{float32, first, {}}, {float32, second, {}}}, std::move(attrs)};
  };
  const auto attention = [](const ir::Primitive& op, std::vector<Shape> rest) {
    std::vector<ArrayType> types;
    for (const Shape& shape : {Shape{2, 70, 4, 24}, Shape{2, 90, 2, 24}, Shape{2, 90, 2, 24}, Shape{1, 4, 1, 90}}) {
      types.push_back({float32, shape, {}});
    }
    types.push_back({bool_, {2, 1, 1, 90}, {}});
    for (const Shape& shape : rest) types.push_back({float32, shape, {}});
    return BitsCase{&op, types, {{"scale", 0.3}, {"window", Dims{-1, 10}}}};
  };
  const Shape q = {2, 70, 4, 24}, lse = {2, 70, 4};
  const Attrs attrs = conv_attrs({1, 2}, {{1, 1}, {0, 1}}, {1, 1}, 1);
  const Attrs tiled = conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1);
  const Attrs pointwise = conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1);
  const Attrs halved = conv_attrs({2, 2}, {{1, 1}, {1, 1}}, {1, 1}, 1);
  const Attrs depthwise = conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 16);
  const Shape x = {4, 9, 10, 16}, kernel = {3, 3, 16, 24}, y = {4, 9, 5, 24};
  return {conv(ops::primitives::conv(), x, kernel, attrs),
          conv(ops::primitives::conv_input_grad(), y, kernel, attrs.with("spatial", Dims{9, 10})),
          conv(ops::primitives::conv_kernel_grad(), x, y, attrs.with("window", Dims{3, 3})),
          conv(ops::primitives::conv(), x, {3, 3, 1, 16}, depthwise),
          conv(ops::primitives::conv(), {4, 9, 10, 40}, {3, 3, 40, 72}, tiled),
          conv(ops::primitives::conv_input_grad(), {4, 9, 10, 72}, {3, 3, 40, 72}, tiled.with("spatial", Dims{9, 10})),
          conv(ops::primitives::conv_kernel_grad(), {4, 9, 10, 40}, {4, 9, 10, 72}, tiled.with("window", Dims{3, 3})),
          conv(ops::primitives::conv(), {4, 4, 4, 33}, {1, 1, 33, 17}, pointwise),
          conv(ops::primitives::conv_input_grad(), {4, 4, 4, 24}, {3, 3, 16, 24}, halved.with("spatial", Dims{8, 8})),
          attention(ops::primitives::attention(), {}),
          attention(ops::primitives::attention_grad(), {q, lse, q, lse}),
          dot({33, 257}, {257, 45}, 1, 0),
          dot({130, 257}, {130, 45}, 0, 0),
          dot({6, 7}, {7, 19}, 1, 0),
          dot({15, 150}, {150, 512}, 1, 0),
          dot({7, 300}, {70, 300}, 1, 1),
          dot({64, 1500}, {70, 1500}, 1, 1)};
}

using ResultBytes = std::vector<std::vector<std::byte>>;

ResultBytes run_moved(const BackendOp& bound, const std::vector<Memory>& operands, std::size_t shift) {
  std::vector<Memory> moved;
  std::vector<ArrayView> views;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::vector<std::byte> bytes = operands[i].bytes();
    moved.emplace_back(bytes.size() + shift);
    std::memcpy(moved.back().data() + shift, bytes.data(), bytes.size());
    views.push_back(contiguous_view(moved.back().data() + shift, bound.inputs[i].dtype, bound.inputs[i].shape));
  }
  return bound.run(std::span<const ArrayView>(views));
}

}  // namespace

TEST_CASE("bits do not depend on where operands lie, nor on the kernel's making") {
  if (!offers()) return skip(not_offered);
  const std::shared_ptr<void> settings = onednn().enter_thread();
  for (const BitsCase& c : bits_cases()) {
    const BackendOp bound(onednn(), *c.op, c.types, c.attrs);
    const std::vector<Memory> operands = c.operands();
    const ResultBytes expected = bound.run(operands);
    for (const std::size_t shift : {4U, 20U, 64U, 4096U}) {
      CHECK_MESSAGE(run_moved(bound, operands, shift) == expected, bound.op << " moved by " << shift);
    }
    CHECK(BackendOp(onednn(), *c.op, c.types, c.attrs).run(operands) == expected);
  }
}

TEST_CASE("a kernel made and run without one thread being asked for has the same bits") {
  if (!offers()) return skip(not_offered);
  const int threads = omp_get_max_threads();
  for (const BitsCase& c : bits_cases()) {
    omp_set_num_threads(4);
    const BackendOp bound(onednn(), *c.op, c.types, c.attrs);
    CHECK(omp_get_max_threads() == 4);
    const std::shared_ptr<void> settings = onednn().enter_thread();
    CHECK(omp_get_max_threads() == 1);
    const BackendOp alone(onednn(), *c.op, c.types, c.attrs);
    CHECK(bound.run(c.operands()) == alone.run(c.operands()));
  }
  omp_set_num_threads(threads);
}

TEST_CASE("entering a thread is undone") {
  const int threads = omp_get_max_threads();
  const unsigned control = _mm_getcsr();
  {
    const std::shared_ptr<void> settings = onednn().enter_thread();
    CHECK(omp_get_max_threads() == 1);
    _mm_setcsr(control | 0x8000U);
  }
  CHECK(omp_get_max_threads() == threads);
  CHECK(_mm_getcsr() == control);
}

TEST_CASE("four threads run oneDNN's and ATen's kernels in turn and all have the same bits") {
  if (!offers()) return skip(not_offered);
  const auto aten = std::make_shared<const CpuAndAten>();
  const std::vector<BitsCase> all = bits_cases();
  std::vector<BackendOp> ops;
  std::vector<std::vector<Memory>> operands;
  for (const BitsCase& c : all) {
    for (const backend::Backend* backend : std::initializer_list<const backend::Backend*>{&onednn(), aten.get()}) {
      ops.emplace_back(*backend, *c.op, c.types, c.attrs);
      operands.push_back(c.operands());
    }
  }
  std::vector<ResultBytes> expected;
  {
    const std::shared_ptr<void> settings = onednn().enter_thread();
    for (std::size_t i = 0; i < ops.size(); ++i) expected.push_back(ops[i].run(operands[i]));
  }
  std::vector<std::size_t> same(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t& count : same) {
    threads.emplace_back([&] {
      const std::shared_ptr<void> ours = onednn().enter_thread();
      const std::shared_ptr<void> theirs = aten->enter_thread();
      for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < ops.size(); ++i) count += ops[i].run(operands[i]) == expected[i] ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::vector<std::size_t>(4, 20 * ops.size()));
}

TEST_CASE("without vector instructions, or without leave to use them, nothing is offered") {
  CHECK(onednn().supports(DeviceKind::cpu) == offers());
  CHECK_FALSE(onednn().supports(DeviceKind::cuda));
  CHECK(onednn().allocate(64, {}) == nullptr);
  CHECK(onednn().name() == "onednn");
  CHECK(onednn().version().starts_with("3."));
  for (const BitsCase& c : bits_cases()) {
    CHECK((BackendOp(onednn(), *c.op, c.types, c.attrs).kernel != nullptr) == offers());
  }
  const MaxIsa none("none");
  const std::shared_ptr<const backend::Backend> held = backend::make_onednn_backend();
  CHECK_FALSE(held->supports(DeviceKind::cpu));
  for (const BitsCase& c : bits_cases()) CHECK(BackendOp(*held, *c.op, c.types, c.attrs).kernel == nullptr);
}

#ifdef LOCKSTEP_HAS_PAGE_RULES
TEST_CASE("where nothing that was written may be executed, nothing is offered, and the backend says why") {
  if (!offers()) return skip(not_offered);
  CHECK(onednn().notice().empty());
  const auto work = [] {
    const auto refused = backend::make_onednn_backend();
    if (refused->supports(DeviceKind::cpu)) return 1;
    if (!refused->version().ends_with(" (no executable pages)")) return 2;
    return refused->notice().starts_with("the system lets no page be executed that was written") ? 0 : 3;
  };
  CHECK(under_page_rules(PROT_EXEC, work) == 0);
}
#endif

}  // namespace lockstep::tests
