#pragma once

#include <string>

#include "tests/fuzz/program_properties.h"

// The drawn programs in float32, of which element-wise parts become loops: fused and not, compiled and evaluated.
namespace lockstep::tests {

/// The program with every float64 made float32, its constants too.
inline ir::FunctionPtr in_float32(const ir::FunctionPtr& f) {
  std::string text = f->print(0);
  for (std::size_t at = text.find("f64"); at != std::string::npos; at = text.find("f64", at))
    text.replace(at, 3, "f32");
  return ir::parse(text, ops::find_primitive);
}

/// How many kernels are loops of several ops.
inline int fused_loops(const executable::Executable& executable) {
  const std::string text = executable.print();
  int loops = 0;
  for (std::size_t at = text.find(" fused("); at != std::string::npos; at = text.find(" fused(", at + 1)) ++loops;
  return loops;
}

/// Adds what it finds to `loops`.
inline Law fusion_keeps_bits(const ir::FunctionPtr& f, std::uint64_t seed,
                             const std::shared_ptr<const backend::Backend>& backend, int& loops) {
  const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), seed);
  const Bytes expected = bytes_of(eval::eval(*f, arguments, *backend));
  compile::Options options = verified(backend);
  const auto fused = compile::lower(f, options);
  loops += fused_loops(*fused);
  if (bytes_of(runtime::run(*fused, arguments)) != expected) return "fused bits";
  options.fuse = false;
  if (compiled(f, arguments, options) != expected) return "bits without fusion";
  return {};
}

/// The same of a program's backward pass, given its residuals.
inline Law fusion_keeps_gradients(const ir::FunctionPtr& f, std::uint64_t seed,
                                  const std::shared_ptr<const backend::Backend>& backend, int& loops) {
  const auto parts = transform::linearize(f, std::vector<bool>(f->inputs().size(), true));
  if (Law law = fusion_keeps_bits(parts.forward, seed, backend, loops)) return *law + " with residuals";
  if (Law law = fusion_keeps_bits(transform::transpose(parts.linear, parts.residuals), seed, backend, loops)) {
    return *law + " of the backward pass";
  }
  return {};
}

/// The first law that the float32 program of a seed breaks, with 1, 2 or 4 shards.
inline Law broken_by_fusion(std::uint64_t seed, const std::shared_ptr<const backend::Backend>& backend, int& loops) {
  for (const std::int64_t shards : {1, 2, 4}) {
    NestedOptions options = options_of(seed);
    options.shards = shards;
    options.devices = shards > 1 ? 2 : 1;
    const ir::FunctionPtr f = in_float32(random_nested_program(seed, options));
    Law law = fusion_keeps_bits(f, seed, backend, loops);
    if (!law && !options.while_loops && shards == options_of(seed).shards) {
      law = fusion_keeps_gradients(f, seed, backend, loops);
    }
    if (law) return *law + " of " + std::to_string(shards) + " shards";
  }
  return {};
}

}  // namespace lockstep::tests
