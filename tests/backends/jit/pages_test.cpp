#include "tests/support/page_rules.h"

#ifdef LOCKSTEP_HAS_PAGE_RULES

#include <array>
#include <vector>

#include "engine/ir/backend_chain.h"
#include "engine/ops/values.h"
#include "tests/backends/jit/loops.h"
#include "tests/support/cpu_and_aten.h"
#include "tests/support/mapped_program.h"
#include "tests/support/run_compiled.h"

// The modes of the pages that machine code lies in, on systems with rules for them.
namespace lockstep::tests {
namespace {

/// Whether the backend computes x + x.
bool doubles(const backend::Backend& backend) {
  const ArrayType type{DType::float32, Shape{3}, {}};
  const std::array inputs = {type, type};
  const auto kernel = backend.make_kernel({"add", {}, inputs, {&type, 1}, {}});
  if (kernel == nullptr) return false;
  std::array<float, 3> x = {1, 2.5F, -3}, y{};
  const ArrayView from = contiguous_view(x.data(), DType::float32, type.shape);
  const ArrayView to = contiguous_view(y.data(), DType::float32, type.shape);
  const std::array views = {from, from};
  kernel->run({views, {&to, 1}, nullptr});
  return y == std::array{2.0F, 5.0F, -6.0F};
}

ir::FunctionPtr chain() {
  const ArrayType type{DType::float32, Shape{40, 50}, {}};
  ir::Builder builder;
  const ir::Value x(builder, builder.input(type));
  const ir::Value y = ops::exp(ops::neg(x * x)) + ops::tanh(x);
  return builder.finish({y.var(), ops::mul(y, x).var()});
}

Bytes run_fused(const ir::FunctionPtr& f, const std::vector<eval::HostArray>& arguments,
                std::vector<std::shared_ptr<const backend::Backend>> backends) {
  compile::Options options;
  options.backends = std::move(backends);
  options.fuse = true;
  return bytes_of(runtime::run(*compile::lower(f, options), arguments));
}

}  // namespace

TEST_CASE("no page of code is ever writable and executable at once") {
  for (const backend::Isa isa : usable_sets()) {
    const auto work = [&] { return doubles(*backend::jit::make_backend(isa)) ? 0 : 1; };
    CHECK(under_page_rules(PROT_WRITE | PROT_EXEC, work) == 0);
  }
}

TEST_CASE("where nothing that was written may be executed, ATen computes, and the backend says why") {
  const ir::FunctionPtr f = chain();
  const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), 1);
  const auto aten = std::make_shared<const CpuAndAten>();
  const Bytes expected = run_fused(f, arguments, {aten});
  for (const backend::Isa isa : usable_sets()) {
    CHECK(backend::jit::make_backend(isa)->notice().empty());
    const auto work = [&] {
      const auto refused = backend::jit::make_backend(isa);
      if (doubles(*refused) || refused->fuses()) return 1;
      if (refused->version() != "4 (no executable pages)") return 2;
      if (!refused->notice().starts_with("the system lets no page be executed that was written")) return 3;
      return run_fused(f, arguments, {refused, aten}) == expected ? 0 : 4;
    };
    CHECK(under_page_rules(PROT_EXEC, work) == 0);
  }
}

}  // namespace lockstep::tests

#endif
