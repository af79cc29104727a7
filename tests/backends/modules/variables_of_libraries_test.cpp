// Holds the table of variables against what the libraries ask for, and the names in them.
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "engine/api/processes/library_variables.h"
#include "tests/support/temporary_folder.h"

// Every variable of the environment that a library below reads is known: it is compared, or there is a reason why it changes
// no bit. Seen in two ways: what is asked for while kernels of all kinds run, and what stands in the libraries.

namespace {

/// Names that were asked for, from before main on: libraries ask when they are loaded.
constexpr std::size_t longest_name = 64, most_names = 4096;
std::array<std::array<char, longest_name>, most_names> asked;
std::atomic<std::size_t> asked_count{0};

}  // namespace

// In place of the C library's, for all libraries of this program.
extern "C" char* getenv(const char* name) noexcept {
  const std::size_t length = std::strlen(name);
  const std::size_t at = asked_count++;
  if (at < most_names && length < longest_name) std::memcpy(asked[at].data(), name, length + 1);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return nullptr;
}

namespace lockstep::tests {
namespace {

bool is_compared(std::string_view name) {
  const auto known = bit_changing_variables();
  return std::ranges::find(known, name) != known.end();
}

bool is_harmless(std::string_view name) {
  return std::ranges::any_of(harmless_variables(), [&](const HarmlessVariable& variable) {
    return variable.name.ends_with('*') ? name.starts_with(variable.name.substr(0, variable.name.size() - 1))
                                        : name == variable.name;
  });
}

/// Whether a name is one of the libraries that compute: others read variables as well, which say nothing of kernels.
bool is_of_kernels(std::string_view name) {
  constexpr std::string_view prefixes[] = {"ACC_",     "ATEN_",   "BLIS_",  "CAFFE2_", "DNNL_",   "FBGEMM_",
                                           "GLIBC_",   "GOMP_",   "GOTO_",  "INTEL_",  "KINETO_", "KMP_",
                                           "LIBXSMM_", "MKLDNN_", "MKL_",   "OMP_",    "ONEDNN_", "OPENBLAS_",
                                           "PYTORCH_", "TBB_",    "TORCH_", "XNNPACK_"};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// Kernels of every library: products, convolutions, element-wise loops, sums, factorizations, transforms, attention.
void run_kernels() {
  const Array key = random::key(1), x = random::normal(key, {64, 128}), w = random::normal(key, {128, 96});
  const Array image = random::normal(key, {2, 16, 16, 8}), kernel = random::normal(key, {3, 3, 8, 16});
  const Array square = matmul(transpose(w), w) + 96.0F * eye(96);
  for (const Array& result :
       {matmul(x, w), matmul(convert(x, bfloat16), convert(w, bfloat16)), conv(image, kernel), sum(exp(x)), tanh(x),
        linalg::svd(square).s, linalg::cholesky(square), linalg::eigh(square).eigenvalues, cumsum(x, 1), sort(x),
        real(fft::fft(x)), grad([&](const Array& v) { return sum(sin(matmul(v, w))); })(x)}) {
    static_cast<void>(result.to_bytes());
  }
}

std::set<std::string> asked_names() {
  std::set<std::string> names;
  for (std::size_t i = 0; i < std::min(asked_count.load(), most_names); ++i) names.insert(asked[i].data());
  return names;
}

/// The files of the libraries that compute, as they are mapped into this process.
std::set<std::string> libraries() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');
    if (at == std::string::npos) continue;
    const std::string file = line.substr(at), name = file.substr(file.rfind('/') + 1);
    for (const char* part : {"libdnnl", "libtorch_cpu", "libc10", "libgomp", "libmkl", "libopenblas", "libiomp"}) {
      if (name.starts_with(part)) found.insert(file);
    }
  }
  return found;
}

/// Texts in a file that may be names of variables.
std::set<std::string> names_in(const std::string& file) {
  std::set<std::string> names;
  const std::string bytes = file_text(file);
  const auto is_part = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  for (std::size_t at = 0; at < bytes.size();) {
    if (!is_part(bytes[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < bytes.size() && is_part(bytes[end])) ++end;
    const bool is_text = (at == 0 || bytes[at - 1] == '\0') && end < bytes.size() && bytes[end] == '\0';
    if (is_text && is_of_kernels({bytes.data() + at, end - at})) names.insert(bytes.substr(at, end - at));
    at = end;
  }
  return names;
}

}  // namespace

TEST_CASE("every variable that libraries ask for while kernels run is compared, or known to change no bit") {
  run_kernels();
  const std::set<std::string> names = asked_names();
  for (const char* known : {"ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "OMP_NUM_THREADS"}) {
    CAPTURE(known);
    CHECK(names.contains(known));  // else this test would see nothing
  }
  for (const std::string& name : names) {
    if (!is_of_kernels(name)) continue;
    CAPTURE(name);
    CHECK((is_compared(name) || is_harmless(name)));
  }
}

TEST_CASE("every name of a variable in the libraries is compared, or known to change no bit") {
  run_kernels();
  const std::set<std::string> files = libraries();
  CHECK(files.size() >= 4);
  for (const std::string& file : files) {
    CAPTURE(file);
    const std::set<std::string> names = names_in(file);
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK((is_compared(name) || is_harmless(name)));
    }
  }
}

TEST_CASE("variables by both names of oneDNN, and those of all libraries, are entries of the machine's description") {
  for (const std::string_view name : bit_changing_variables()) {
    CAPTURE(name);
    const std::string entry(name);
    const char* before = std::getenv(entry.c_str());
    const std::string kept = before == nullptr ? "" : before;
    ::setenv(entry.c_str(), "a value", 1);
    CHECK(machine_description().at("env " + entry) == "a value");
    before == nullptr ? ::unsetenv(entry.c_str()) : ::setenv(entry.c_str(), kept.c_str(), 1);
  }
  CHECK(is_compared("DNNL_MAX_CPU_ISA"));
}

}  // namespace lockstep::tests
