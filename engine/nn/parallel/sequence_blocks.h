#pragma once

#include <string>
#include <string_view>

#include <lockstep/array.h>
#include <lockstep/parallel_layers.h>

namespace lockstep::nn {

/// This replica's blocks of a cut sequence, checked, in the dtype of the sums; a mask of keys in any case.
struct SequenceBlocks {
  Array query;
  Array key;
  Array value;
  Array key_mask;
  std::string axis;
  double scale = 1;
  bool is_causal = false;
};
SequenceBlocks sequence_blocks(std::string_view op, const Array& query, const Array& key, const Array& value,
                               const SequenceAttentionOptions& options);

/// Throws MeshError where `x` is the same on all replicas of the axis.
void check_cut(std::string_view op, std::string_view what, const Array& x, const std::string& axis);

}  // namespace lockstep::nn
