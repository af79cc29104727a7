#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend/backend.h>

// Attention of one query for each head and example, as when tokens are generated with a cache: bound by memory, so it
// reads keys and values once, in the order they lie, and none behind the last one that the mask shows.
namespace lockstep::backend::cpu {

/// Whether `attention` of float32 is such.
bool has_one_query(const KernelRequest& request);
/// A product of query and key goes on in 16 parts, which are added by pairs; weights are as attention's else; the sum
/// over keys is a chain of fused multiply-adds in ascending order. So bits depend neither on what is not seen nor on
/// other examples.
std::unique_ptr<Kernel> make_attention_of_one_query(const KernelRequest& request);
/// Some heads of some examples each. Empty where there is little.
std::vector<std::unique_ptr<Kernel>> make_attention_of_one_query_parts(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
