#pragma once

#include <random>
#include <vector>

#include "engine/compile/compile.h"
#include "engine/eval/eval.h"
#include "engine/runtime/run.h"
#include "tests/support/evaluate.h"

// Compiled functions against `ir::eval`, bit for bit.
namespace lockstep::tests {

using Bytes = std::vector<std::vector<std::byte>>;

/// Arrays of the given types with values from a seed, in [-2, 2).
inline std::vector<eval::HostArray> random_host_arrays(const std::vector<ArrayType>& types, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<eval::HostArray> arrays;
  for (const ArrayType& type : types) {
    Elements elements(static_cast<std::size_t>(type.size()));
    for (double& x : elements) x = uniform(bits);
    arrays.push_back(to_host(type, elements));
  }
  return arrays;
}

inline Bytes bytes_of(const std::vector<eval::HostArray>& arrays) {
  Bytes bytes;
  for (const eval::HostArray& array : arrays) bytes.push_back(eval::host_bytes(array));
  return bytes;
}

inline Bytes evaluated(const ir::FunctionPtr& f, const std::vector<eval::HostArray>& arguments) {
  return bytes_of(eval::eval(*f, arguments, *ops::reference_backend()));
}

/// Options for the laws of compiled functions: one backend, every pass verified.
inline compile::Options verified(const std::shared_ptr<const backend::Backend>& backend, int threads = 2) {
  compile::Options options;
  options.backends = {backend};
  options.threads = threads;
  options.verify = true;
  return options;
}

inline Bytes compiled(const ir::FunctionPtr& f, const std::vector<eval::HostArray>& arguments,
                      const compile::Options& options) {
  const auto executable = compile::lower(f, options);
  INFO(executable->print());
  return bytes_of(runtime::run(*executable, arguments));
}

inline Bytes compiled(const ir::FunctionPtr& f, const std::vector<eval::HostArray>& arguments,
                      const std::shared_ptr<const backend::Backend>& backend, int threads = 2, bool optimize = true) {
  compile::Options options = verified(backend, threads);
  options.optimize = optimize;
  return compiled(f, arguments, options);
}

}  // namespace lockstep::tests
