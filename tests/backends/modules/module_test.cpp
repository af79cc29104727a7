// A module is loaded when the first of its kernels is made; where it does not load, that op's error says so.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>
#include <xmmintrin.h>

#include <lockstep/call_site.h>
#include <lockstep/error.h>

#include "backends/aten/backend.h"
#include "backends/cpu/backend.h"
#include "backends/modules/module_backend.h"
#include "backends/modules/shared_object.h"
#include "engine/ops/primitives.h"
#include "tests/start/mapped_libraries.h"
#include "tests/support/backend_op.h"
#include "tests/support/expect_error.h"
#include "tests/support/mapped_program.h"
#include "tests/support/run_compiled.h"
#include "tests/support/samples.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using backend::modules::make_module_backend;
using backend::modules::module_path;

constexpr const char* not_there = "not_there.so";

std::shared_ptr<const backend::Backend> backend_of(const std::string& file) {
  return make_module_backend({"some", "1", file, {{"svd", backend::modules::lapack}}});
}

const std::vector<ArrayType> matrix = {{float32, {3, 3}, {}}};
const std::vector<ArrayType> factors = {{float32, {3, 3}, {}}, {float32, {3}, {}}, {float32, {3, 3}, {}}};
const Attrs with_vectors{{"full_matrices", false}, {"compute_uv", true}};

std::unique_ptr<backend::Kernel> svd_of(const backend::Backend& backend) {
  return backend.make_kernel({"svd", with_vectors, matrix, factors, {}});
}

/// A file in the folder of modules, while it lives.
class ModuleFile {
 public:
  explicit ModuleFile(const std::string& name) : path_(module_path(name)) {}
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;
  ~ModuleFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("a backend knows what its module has before it is loaded") {
  const auto aten = backend::make_aten_backend();
  const std::vector<ArrayType> halves = {{float16, {3, 3}, {}}}, keys = {{DType::key, {2}, {}}};
  CHECK(aten->name() == "aten");
  CHECK(aten->version().starts_with("2."));
  CHECK(aten->supports(DeviceKind::cpu));
  CHECK_FALSE(aten->supports(DeviceKind::cuda));
  CHECK(aten->make_kernel({"fused", {}, matrix, matrix, {}}) == nullptr);
  CHECK(aten->make_kernel({"mul", {}, matrix, matrix, {}}) == nullptr);
  CHECK(aten->make_kernel({"svd", with_vectors, halves, factors, {}}) == nullptr);
  CHECK(aten->make_kernel({"exp", {}, keys, keys, {}}) == nullptr);
  CHECK(aten->make_kernel({"exp", {}, matrix, matrix, {DeviceKind::cuda, 0}}) == nullptr);
  CHECK(aten->allocate(64, {}) == nullptr);
  { const std::shared_ptr<void> entered = aten->enter_thread(); }
  CHECK_FALSE(is_mapped("libtorch_cpu"));
}

TEST_CASE("several threads that ask at once get kernels of one module") {
  const auto aten = backend::make_aten_backend();
  std::vector<int> made(4, 0);
  std::vector<std::thread> threads;
  for (int& count : made) {
    threads.emplace_back([&] { count = svd_of(*aten) != nullptr ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(made == std::vector<int>(4, 1));
  CHECK(is_mapped("libtorch_cpu"));
}

TEST_CASE("loading a module leaves the thread's settings as they are") {
  std::thread([] {
    omp_set_num_threads(3);
    const unsigned control = _mm_getcsr() | 0x8040;
    _mm_setcsr(control);
    CHECK(svd_of(*backend::make_aten_backend()) != nullptr);
    CHECK(omp_get_max_threads() == 3);
    CHECK((_mm_getcsr() & 0xFFC0) == (control & 0xFFC0));
  }).join();
}

TEST_CASE("what the table offers, the module has, and with the loops everything is there") {
  const auto aten = backend::make_aten_backend(), cpu = backend::make_cpu_backend();
  int offered = 0;
  for (const ops::PrimitiveGetter get : ops::all_primitives()) {
    const ir::Primitive& primitive = get();
    for (const ir::Sample& sample : primitive.samples()) {
      if (!sample.axes.empty()) continue;  // collectives are written out before kernels are asked for
      const BackendOp loop(*cpu, primitive, input_types(sample), sample.attrs);
      if (loop.kernel != nullptr) continue;
      offered += BackendOp(*aten, primitive, input_types(sample), sample.attrs).kernel != nullptr ? 1 : 0;
    }
  }
  CHECK(offered > 50);
}

TEST_CASE("a module that is not there is an error of the first op that needs it") {
  const auto backend = backend_of(not_there);
  CHECK(backend->make_kernel({"mul", {}, matrix, matrix, {}}) == nullptr);
  for (int round = 0; round < 2; ++round) {
    expect_error<BackendError>([&] { svd_of(*backend); }, "svd: its kernel is in the module of the some backend",
                               module_path(not_there).string(), "No such file");
  }
}

TEST_CASE("a file that is no module is an error that says why") {
  const ModuleFile text("text.so");
  std::ofstream(text.path()) << "no shared object";
  expect_error<BackendError>([&] { svd_of(*backend_of("text.so")); }, text.path().string(), "does not load: ");
  const ModuleFile other("other.so");
  fs::create_symlink("/proc/self/exe", other.path());
  expect_error<BackendError>([&] { svd_of(*backend_of("other.so")); }, other.path().string(), "does not load: ");
}

TEST_CASE("the error stands at the op's own line, where it is compiled for a call that stands elsewhere") {
  std::string place;
  const ir::FunctionPtr f = make_function(matrix, [&](ir::Builder& builder, std::span<const ir::Value> x) {
    builder.set_provenance({nullptr, false, detail::SourceLocation::current()});
    place = "(at module_test.cpp:" + std::to_string(__LINE__ - 1) + ")";
    return ops::apply(ops::primitives::svd(), x, with_vectors);
  });
  compile::Options options;
  options.backends = {backend::make_cpu_backend(), backend_of(not_there)};
  expect_error<BackendError>(
      [&] {
        const detail::CallSite elsewhere(detail::SourceLocation::current());
        compile::lower(f, options);
      },
      "svd: its kernel is in the module", place);
}

}  // namespace lockstep::tests
