#include <fmt/format.h>

#include <lockstep/attention.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/parallel_layers.h>

#include "engine/nn/parallel/sequence_blocks.h"

namespace lockstep {

Array all_to_all_attention(const Array& query, const Array& key, const Array& value,
                           const SequenceAttentionOptions& options) {
  const nn::SequenceBlocks blocks = nn::sequence_blocks("all_to_all_attention", query, key, value, options);
  const std::int64_t n = axis_size(blocks.axis);
  if (query.dim(2) % n != 0 || key.dim(2) % n != 0) {
    throw ShapeError(
        fmt::format("all_to_all_attention: {} heads of queries and {} of keys cannot be shared equally by "
                    "the {} replicas along \"{}\"; use ring_attention, which cuts no heads",
                    query.dim(2), key.dim(2), n, blocks.axis));
  }
  const auto whole_of_heads = [&](const Array& x) { return all_to_all(x, blocks.axis, 2, 1); };
  AttentionOptions whole{.scale = blocks.scale, .is_causal = blocks.is_causal};
  if (options.key_mask) {
    const Array seen = all_gather(blocks.key_mask, blocks.axis, 1);
    whole.mask = reshape(seen, {seen.dim(0), 1, 1, seen.dim(1)});
  }
  const Array y = dot_product_attention(whole_of_heads(blocks.query), whole_of_heads(blocks.key),
                                        whole_of_heads(blocks.value), whole);
  return convert(all_to_all(y, blocks.axis, 1, 2), query.dtype());
}

}  // namespace lockstep
